// Source: hicann/pypto@r0.2.0 passes/tile_graph_pass (SplitRawTensor, SplitLargeFanoutTensor).
#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "npu_core/lowering/cleanup.h"
#include "npu_core/lowering/window_grid.h"

namespace npu::lowering {
namespace {

struct Box {
    Shape shape;
    std::vector<int64_t> at;
    int32_t op;
};

bool inside(const Box& part, const std::vector<int64_t>& at, const Shape& whole) {
    for (int d = 0; d < whole.rank; ++d)
        if (part.at[d] < at[d] || part.at[d] + part.shape[d] > at[d] + whole[d]) return false;
    return true;
}

bool overlap(const Box& a, const Box& b) {
    for (int d = 0; d < a.shape.rank; ++d)
        if (a.at[d] + a.shape[d] <= b.at[d] || b.at[d] + b.shape[d] <= a.at[d]) return false;
    return true;
}

class Splitter {
public:
    explicit Splitter(Graph& g) : g_(g) {}

    bool run() {
        bool any = false;
        std::set<int32_t> seen;
        for (int32_t id : std::vector<int32_t>(g_.order)) {
            if (g_.ops[id].code != Opcode::ASSEMBLE) continue;
            const int32_t t = g_.ops[id].out[0];
            if (seen.insert(t).second) any |= split(t);
        }
        return any;
    }

private:
    // Calls use(i) for the first `count` boxes that may touch the window, ascending.
    template <class F> void each(const WindowGrid& grid, int32_t count, const std::vector<int64_t>& at, const Shape& size, F&& use) {
        if (grid.candidates(at.data(), size, near_))
            for (int32_t i : near_) use(i);
        else
            for (int32_t i = 0; i < count; ++i) use(i);
    }

    bool collect(int32_t t) {
        writers_.clear();
        readers_.clear();
        disjoint_ = true;
        const Tensor& x = g_.tensors[t];
        auto box = [&](int32_t op, int32_t part) {
            Box b{g_.tensors[part].shape, {}, op};
            for (int d = 0; d < x.shape.rank; ++d) b.at.push_back(g_.ops[op].at.d[d].at);
            return b;
        };
        for (int32_t p : x.producers) {
            const Op& op = g_.ops[p];
            if (op.code != Opcode::ASSEMBLE || !op.at.is_static() || op.at.rank != x.shape.rank) return false;
            writers_.push_back(box(p, op.in[0]));
        }
        for (int32_t c : x.consumers) {
            const Op& op = g_.ops[c];
            if (op.code != Opcode::VIEW || !op.at.is_static() || op.at.rank != x.shape.rank) continue;
            readers_.push_back(box(c, op.out[0]));
        }
        if (readers_.empty() || writers_.size() < 2) return false;
        writer_grid_.emplace(writers_[0].shape);
        for (size_t i = 0; i < writers_.size(); ++i) {
            each(*writer_grid_, int32_t(i), writers_[i].at, writers_[i].shape, [&](int32_t j) { disjoint_ &= !overlap(writers_[i], writers_[j]); });
            if (!disjoint_) return false;
            writer_grid_->add(writers_[i].at.data(), writers_[i].shape, int32_t(i));
        }
        reader_grid_.emplace(readers_[0].shape);
        for (size_t i = 0; i < readers_.size(); ++i) reader_grid_->add(readers_[i].at.data(), readers_[i].shape, int32_t(i));
        return true;
    }

    bool split(int32_t t) {
        if (!collect(t)) return false;
        const Shape whole = g_.tensors[t].shape;
        std::vector<Shape> lcm_shapes;
        Shape largest = writers_[0].shape;
        const std::vector<Shape> read_shapes = shapes_of(readers_);
        for (const Shape& w : shapes_of(writers_)) {
            if (w.count() > largest.count()) largest = w;
            for (const Shape& r : read_shapes) {
                Shape s = w;
                for (int d = 0; d < s.rank; ++d) s[d] = std::min(whole[d], std::lcm(w[d], r[d]));
                if (s == whole || std::find(lcm_shapes.begin(), lcm_shapes.end(), s) != lcm_shapes.end()) continue;
                lcm_shapes.push_back(s);
            }
        }
        bool any = false;
        done_.clear();
        for (const Shape& s : lcm_shapes) {
            std::set<std::vector<int64_t>> places;
            for (const Shape* grid : {static_cast<const Shape*>(&largest), &s}) add_grid(*grid, whole, places);
            for (const auto& at : places) any |= split_tile(t, at, s, whole);
        }
        return any;
    }

    // Each once, in order of first appearance.
    static std::vector<Shape> shapes_of(const std::vector<Box>& boxes) {
        std::vector<Shape> shapes;
        for (const Box& b : boxes)
            if (std::find(shapes.begin(), shapes.end(), b.shape) == shapes.end()) shapes.push_back(b.shape);
        return shapes;
    }

    void add_grid(const Shape& step, const Shape& whole, std::set<std::vector<int64_t>>& places) {
        std::vector<int64_t> at(whole.rank, 0);
        while (true) {
            places.insert(at);
            int d = whole.rank - 1;
            while (d >= 0 && (at[d] += step[d]) >= whole[d]) at[d--] = 0;
            if (d < 0) return;
        }
    }

    bool split_tile(int32_t t, const std::vector<int64_t>& at, const Shape& lcm, const Shape& whole) {
        Shape size = lcm;
        for (int d = 0; d < size.rank; ++d) size[d] = std::min(lcm[d], whole[d] - at[d]);
        std::vector<const Box*> from, to;
        int64_t filled = 0;
        each(*writer_grid_, int32_t(writers_.size()), at, size, [&](int32_t i) {
            const Box& w = writers_[i];
            if (!inside(w, at, size)) return;
            from.push_back(&w);
            filled += w.shape.count();
        });
        if (from.empty() || filled != size.count()) return false;
        each(*reader_grid_, int32_t(readers_.size()), at, size, [&](int32_t i) {
            const Box& r = readers_[i];
            if (!done_.count(r.op) && inside(r, at, size)) to.push_back(&r);
        });
        if (to.empty()) return false;
        int32_t part = -1;
        for (const Box* r : to) {
            done_.insert(r->op);
            if (part < 0 || from.size() == 1) part = new_part(t, at, size, from);
            g_.replace_input(r->op, t, part);
            for (int d = 0; d < size.rank; ++d) g_.ops[r->op].at.d[d].at -= at[d];
        }
        return true;
    }

    int32_t new_part(int32_t t, const std::vector<int64_t>& at, const Shape& size, const std::vector<const Box*>& from) {
        const int32_t part = g_.add_fresh(size, g_.tensors[t].dtype, g_.tensors[t].mem);
        for (const Box* w : from) {
            const int32_t id = g_.clone_op(w->op, {g_.ops[w->op].in[0]}, {part});
            for (int d = 0; d < size.rank; ++d) g_.ops[id].at.d[d].at -= at[d];
        }
        return part;
    }

    Graph& g_;
    std::vector<Box> writers_, readers_;
    std::optional<WindowGrid> writer_grid_, reader_grid_;
    bool disjoint_ = true;                 // no two writers overlap
    std::vector<int32_t> near_;
    std::set<int32_t> done_;
};

// An assemble that only renames its input.
void drop_plain_assembles(Graph& g) {
    for (int32_t id : g.order) {
        const Op& op = g.ops[id];
        if (op.dead || op.code != Opcode::ASSEMBLE) continue;
        const int32_t from = op.in[0], to = op.out[0];
        const Tensor& out = g.tensors[to];
        if (g.is_output(to)) continue;
        if (out.consumers.empty()) {
            g.kill(id);
            continue;
        }
        if (out.producers.size() != 1 || out.consumers.size() != 1 || !(out.shape == g.tensors[from].shape)) continue;
        if (out.mem != g.tensors[from].mem) continue;
        const int32_t reader = out.consumers[0];
        g.kill(id);
        g.replace_input(reader, to, from);
    }
    g.drop_dead();
}

}  // namespace

void split_raw_tensors(Graph& g) {
    std::vector<char> fixed(g.tensors.size(), 0);
    for (int32_t t : g.inputs) fixed[t] = 1;
    for (int32_t t : g.outputs) fixed[t] = 1;
    for (size_t i = g.order.size(); i-- > 0;)
        for (int32_t t : g.ops[g.order[i]].out) {
            Tensor& x = g.tensors[t];
            if (fixed[t] || g.raws[x.raw].shape == x.shape) continue;
            for (int32_t c : x.consumers) {   // window offsets of views count from the storage
                Op& reader = g.ops[c];
                if (reader.code != Opcode::VIEW || reader.at.rank != x.offset.rank) continue;
                for (int d = 0; d < x.offset.rank; ++d) reader.at.d[d].at -= x.offset.d[d].at;
            }
            x.raw = g.add_raw(x.shape, x.dtype);
            x.offset = zero_offset(x.shape.rank);
        }
}

void split_large_fanout(Graph& g) {
    split_raw_tensors(g);
    if (Splitter(g).run()) {
        drop_plain_assembles(g);
        erase_dead_ops(g);
    }
    sort_ops(g);
}

}  // namespace npu::lowering
