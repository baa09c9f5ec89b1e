// Graph clean-up before the partition: chains of views and assembles, large fan-outs, shared views, redundant moves.
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "npu_core/plan/stages.h"

namespace npu::plan {

namespace {

void remove_dead(Graph& g) {
    bool changed = true;
    while (changed) {
        changed = false;
        for (auto it = g.order.rbegin(); it != g.order.rend(); ++it) {
            Op& op = g.ops[*it];
            if (op.dead) continue;
            bool used = op.out.empty();
            for (Id t : op.out) used = used || g.tensors[t].fn_out || !g.tensors[t].consumers.empty();
            if (used) continue;
            g.kill(*it);
            changed = true;
        }
        g.drop_dead();
    }
}

struct Chain { Id from, to; Shape at; Id dyn; Mem target; bool keep; Id src; Id last; Id valid; };

}  // namespace

void merge_view_assemble(Graph& g) {
    g.sort();
    std::vector<Chain> views, assembles;
    std::vector<char> visited(g.ops.size(), 0);

    auto follow = [&](auto&& self, Id id, Code code, Id from, Shape at, Id dyn, Id valid, int depth, std::vector<Chain>& found) -> void {
        const Op& op = g.ops[id];
        visited[id] = 1;
        at = plus(at, op.at);
        dyn = g.dyn_sum(dyn, op.dyn);
        const Tensor& mid = g.tensors[op.out[0]];
        bool end = mid.fn_out || mid.consumers.empty();
        for (Id next : mid.consumers) {
            const Op& n = g.ops[next];
            const bool chains = n.code == code && (code == Code::ASSEMBLE || op.to == Mem::NONE || op.to == n.to);
            if (chains) self(self, next, code, from, at, dyn, valid, depth + 1, found);
            else end = true;
        }
        if (end && depth > 1) found.push_back({from, op.out[0], at, dyn, op.to, op.keep, op.src, id, valid});
    };
    for (Id id : std::vector<Id>(g.order))
        if (g.ops[id].code == Code::VIEW && !visited[id])
            follow(follow, id, Code::VIEW, g.ops[id].in[0], zeros(g.ops[id].at.rank), NONE, NONE, 1, views);
    for (Id id : std::vector<Id>(g.order))
        if (g.ops[id].code == Code::ASSEMBLE && !visited[id])
            follow(follow, id, Code::ASSEMBLE, g.ops[id].in[0], zeros(g.ops[id].at.rank), NONE, g.ops[id].valid, 1, assembles);

    std::vector<Id> dropped;
    for (const std::vector<Chain>* list : {&views, &assembles})
        for (const Chain& c : *list) dropped.push_back(c.last);
    g.kill_all(dropped);
    for (const std::vector<Chain>* list : {&views, &assembles})
        for (const Chain& c : *list) {
            Id id = g.add_op(list == &views ? Code::VIEW : Code::ASSEMBLE, {c.from}, {c.to}, c.src);
            Op& op = g.ops[id];
            op.at = c.at;
            op.dyn = c.dyn;
            op.to = c.target;
            op.keep = c.keep;
            op.valid = c.valid;
        }
    for (Id id : g.order) {
        const Op& op = g.ops[id];
        if (op.dead || op.code != Code::ASSEMBLE) continue;
        const Tensor& t = g.tensors[op.in[0]];
        if (t.producers.empty() && !t.fn_in) g.kill(id);
    }
    g.drop_dead();
    remove_dead(g);
    g.sort();
}

namespace {

struct Part { Id op; Shape at, shape; bool done = false; };   // a writer or reader of a tensor and its window

// Parts by the cell that their offset lies in.
class PartGrid {
public:
    PartGrid(const std::vector<Part>& parts, const Shape& box) : parts_(parts), cell_(box), cells_(box) {
        for (int d = 0; d < box.rank; ++d) {
            cell_[d] = 1;
            for (const Part& p : parts) cell_[d] = std::max(cell_[d], p.shape[d]);
            cells_[d] = ceil_div(std::max<int64_t>(box[d], 1), cell_[d]);
        }
        while (cells_.count() > 4 * static_cast<int64_t>(parts.size())) {   // small parts far apart
            int most = 0;
            for (int d = 1; d < box.rank; ++d)
                if (cells_[d] > cells_[most]) most = d;
            cell_[most] *= 2;
            cells_[most] = ceil_div(cells_[most], 2);
        }
        begin_.assign(static_cast<size_t>(cells_.count()) + 1, 0);
        for (const Part& p : parts) ++begin_[cell_of(p.at) + 1];
        for (size_t c = 1; c < begin_.size(); ++c) begin_[c] += begin_[c - 1];
        items_.resize(parts.size());
        std::vector<int32_t> next(begin_.begin(), begin_.end() - 1);
        for (size_t i = 0; i < parts.size(); ++i) items_[next[cell_of(parts[i].at)]++] = static_cast<int32_t>(i);
    }
    // Numbers of the parts that lie in the window, ascending.
    void inside(const Shape& at, const Shape& extent, std::vector<int32_t>& found) const {
        found.clear();
        Shape from = at, to = at;
        for (int d = 0; d < at.rank; ++d) {
            from[d] = at[d] / cell_[d];
            to[d] = std::min(cells_[d], (at[d] + std::max<int64_t>(extent[d], 1) - 1) / cell_[d] + 1);
        }
        for (Shape c = from;;) {
            const size_t cell = index_of(c);
            for (int32_t k = begin_[cell]; k < begin_[cell + 1]; ++k)
                if (contains(at, extent, parts_[items_[k]].at, parts_[items_[k]].shape)) found.push_back(items_[k]);
            int d = at.rank - 1;
            for (; d >= 0; --d) {
                if (++c[d] < to[d]) break;
                c[d] = from[d];
            }
            if (d < 0) break;
        }
        std::sort(found.begin(), found.end());
    }

private:
    const std::vector<Part>& parts_;
    Shape cell_, cells_;
    std::vector<int32_t> begin_, items_;

    size_t index_of(const Shape& cell) const {
        int64_t i = 0;
        for (int d = 0; d < cell.rank; ++d) i = i * cells_[d] + cell[d];
        return static_cast<size_t>(i);
    }
    size_t cell_of(const Shape& at) const {
        Shape c = at;
        for (int d = 0; d < at.rank; ++d) c[d] = std::min(at[d] / cell_[d], cells_[d] - 1);
        return index_of(c);
    }
};

// Origins of both grids over the box, in order of their coordinates.
std::vector<Shape> origins_of(const Shape& box, const Shape& largest, const Shape& lcm) {
    std::vector<Shape> origins;
    for (const Shape* grid : {&largest, &lcm}) {
        Shape at = zeros(box.rank);
        while (true) {
            origins.push_back(at);
            int d = box.rank - 1;
            for (; d >= 0; --d) {
                at[d] += (*grid)[d];
                if (at[d] < box[d]) break;
                at[d] = 0;
            }
            if (d < 0) break;
        }
    }
    std::sort(origins.begin(), origins.end(), [](const Shape& a, const Shape& b) { return a.d < b.d; });
    origins.erase(std::unique(origins.begin(), origins.end()), origins.end());
    return origins;
}

}  // namespace

void split_large_fanout(Graph& g) {
    const size_t count = g.tensors.size();
    std::vector<Part> writers, readers;
    std::vector<int32_t> covered, served;
    for (size_t i = 0; i < count; ++i) {
        {
            const Tensor& t = g.tensors[i];
            if (t.fn_in || t.fn_out || t.producers.size() < 2 || t.consumers.empty()) continue;
            writers.clear();
            readers.clear();
            bool fits = true;
            for (Id id : t.producers) {
                const Op& op = g.ops[id];
                fits = fits && op.code == Code::ASSEMBLE && op.dyn == NONE;
                if (!fits) break;
                writers.push_back({id, op.at, g.tensors[op.in[0]].shape});
            }
            if (!fits) continue;
            for (Id id : t.consumers) {
                const Op& op = g.ops[id];
                if (op.code == Code::VIEW && op.dyn == NONE) readers.push_back({id, op.at, g.tensors[op.out[0]].shape});
            }
            if (readers.empty()) continue;
        }
        const Shape box = g.tensors[i].shape;
        const DType dtype = g.tensors[i].dtype;
        const bool tail = g.tensors[i].valid != NONE;
        std::vector<Shape> write_shapes, read_shapes, boxes;
        auto add_unique = [](std::vector<Shape>& v, const Shape& s) {
            if (std::find(v.begin(), v.end(), s) == v.end()) v.push_back(s);
        };
        for (const Part& w : writers) add_unique(write_shapes, w.shape);
        for (const Part& r : readers) add_unique(read_shapes, r.shape);
        Shape largest = write_shapes[0];
        for (const Shape& w : write_shapes)
            if (w.count() > largest.count()) largest = w;
        for (const Shape& w : write_shapes)
            for (const Shape& r : read_shapes) {
                Shape s = w;
                for (int d = 0; d < box.rank; ++d) s[d] = std::min(std::lcm(w[d], r[d]), box[d]);
                if (!(s == box)) add_unique(boxes, s);
            }
        if (boxes.empty()) continue;
        const PartGrid write_grid(writers, box), read_grid(readers, box);
        for (const Shape& lcm : boxes)
            for (const Shape& at : origins_of(box, largest, lcm)) {
                Shape extent = lcm;
                for (int d = 0; d < box.rank; ++d) extent[d] = std::min(lcm[d], box[d] - at[d]);
                write_grid.inside(at, extent, covered);
                int64_t filled = 0;
                for (int32_t w : covered) filled += writers[w].shape.count();
                if (filled != extent.count()) continue;
                read_grid.inside(at, extent, served);
                std::erase_if(served, [&](int32_t r) { return readers[r].done; });
                if (served.empty()) continue;
                const bool shared = covered.size() > 1;
                Id small = NONE;
                for (int32_t reader : served) {
                    Part& r = readers[reader];
                    if (small == NONE || !shared) {
                        small = g.add_fresh(extent, dtype);
                        if (tail) g.set_valid(small, within(g.valid_of(static_cast<Id>(i)), at, extent));
                        for (int32_t w : covered) {
                            const Id id = g.add_op(Code::ASSEMBLE, {g.ops[writers[w].op].in[0]}, {small}, g.ops[writers[w].op].src);
                            g.ops[id].at = minus(writers[w].at, at);
                        }
                    }
                    g.lead_input(r.op, static_cast<Id>(i), small);
                    g.ops[r.op].at = minus(r.at, at);
                    r.done = true;
                    if (shared) continue;
                    // one writer, one reader: the view reads the tile itself
                    const Id assemble = g.tensors[small].producers[0];
                    const Id tile = g.ops[assemble].in[0];
                    const Shape inside = g.ops[assemble].at;
                    g.kill(assemble);
                    g.replace_input(r.op, small, tile);
                    g.ops[r.op].at = minus(g.ops[r.op].at, inside);
                }
            }
        g.forget_consumers(static_cast<Id>(i));
        if (g.tensors[i].consumers.empty()) {
            std::vector<Id> gone;
            for (const Part& w : writers) gone.push_back(w.op);
            g.kill_all(gone);
        }
    }
    g.drop_dead();
    remove_dead(g);
    g.sort();
}

void duplicate_views(Graph& g) {
    bool cloned = false;
    std::vector<Id> gone;
    for (Id id : std::vector<Id>(g.order)) {
        const Op op = g.ops[id];
        if (op.code != Code::VIEW || op.to == Mem::L1 || op.to == Mem::BT || op.to == Mem::FB) continue;
        std::vector<Id> users;
        bool view_user = false;
        for (Id c : g.tensors[op.out[0]].consumers) {
            if (g.ops[c].code == Code::VIEW) view_user = true;
            else users.push_back(c);
        }
        if (users.size() < 2) continue;
        cloned = true;
        for (Id user : users) {
            Id copy = g.add_like(op.out[0]);
            Id view = g.add_op(Code::VIEW, {op.in[0]}, {copy}, op.src);
            g.ops[view].at = op.at;
            g.ops[view].dyn = op.dyn;
            g.ops[view].to = op.to;
            g.ops[view].keep = op.keep;
            g.ops[view].latency = op.latency;
            g.lead_input(user, op.out[0], copy);
        }
        g.forget_consumers(op.out[0]);
        if (!view_user && !g.tensors[op.out[0]].fn_out) gone.push_back(id);
    }
    g.kill_all(gone);
    g.sort();
    if (cloned) g.sort();
}

void remove_redundant(Graph& g) {
    bool changed = false, again = true;
    while (again) {
        again = false;
        for (Id id : g.order) {
            Op& op = g.ops[id];
            if (op.dead || op.keep || op.dyn != NONE) continue;
            const bool candidate = op.code == Code::VIEW || op.code == Code::ASSEMBLE || op.code == Code::RESHAPE ||
                                   op.code == Code::REGISTER_COPY || op.code == Code::EXPAND;
            if (!candidate) continue;
            const Id in = op.in[0], out = op.out[0];
            const Tensor &a = g.tensors[in], &b = g.tensors[out];
            if (!(a.shape == b.shape) || a.mem != b.mem) continue;
            if (op.code == Code::ASSEMBLE && b.producers.size() != 1) continue;
            if (b.fn_out) {
                if (a.fn_in || a.fn_out || a.producers.size() != 1) continue;
                const Id producer = a.producers[0];
                g.kill(id);
                g.move_consumers(in, out);
                for (size_t o = 0; o < g.ops[producer].out.size(); ++o)
                    if (g.ops[producer].out[o] == in) g.replace_output(producer, o, out);
            } else {
                g.kill(id);
                if (const Shape valid = g.valid_of(out); !(valid == g.valid_of(in)))
                    for (Id c : g.tensors[out].consumers) {
                        if (g.ops[c].code != Code::ASSEMBLE || g.ops[c].valid != NONE) continue;
                        g.ops[c].valid = static_cast<Id>(g.valid_shapes.size());
                        g.valid_shapes.push_back(valid);
                    }
                g.move_consumers(out, in);
            }
            changed = again = true;
        }
        g.drop_dead();
    }
    if (!changed) return;
    remove_dead(g);
    merge_view_assemble(g);
}

void detour_view_assemble(Graph& g) {
    auto view_of = [&](const Op& assemble) -> Id {   // VIEW feeding the assemble, all three tensors in one memory
        const Tensor& mid = g.tensors[assemble.in[0]];
        if (mid.producers.size() != 1 || g.ops[mid.producers[0]].code != Code::VIEW) return NONE;
        const Mem m = mid.mem;
        if (g.tensors[g.ops[mid.producers[0]].in[0]].mem != m || g.tensors[assemble.out[0]].mem != m) return NONE;
        return mid.producers[0];
    };
    std::unordered_map<Id, bool> in_place;   // every producer of the tensor rebuilds the source where it was
    for (Id id : std::vector<Id>(g.order)) {
        const Op op = g.ops[id];
        if (op.dead || op.code != Code::ASSEMBLE) continue;
        const Id view = view_of(op);
        if (view == NONE) continue;
        auto [known, first] = in_place.try_emplace(op.out[0], true);   // it stays as it is found at the first producer
        if (first)
            for (Id p : g.tensors[op.out[0]].producers) {
                const Op& other = g.ops[p];
                const Id v = other.code == Code::ASSEMBLE ? view_of(other) : NONE;
                known->second = known->second && v != NONE && g.ops[v].at == other.at && g.ops[v].dyn == NONE && other.dyn == NONE &&
                                g.tensors[g.ops[v].in[0]].shape == g.tensors[other.out[0]].shape;
            }
        if (known->second) continue;
        const Id mid = op.in[0];
        if (g.tensors[mid].mem == Mem::GM) {
            if (g.tensors[mid].consumers.size() == 1) g.tensors[mid].mem = Mem::UB;
            continue;
        }
        Id gm = g.add_like(mid), back = g.add_like(mid);
        g.tensors[gm].mem = Mem::GM;
        g.tensors[back].mem = g.tensors[mid].mem;
        g.ops[g.add_op(Code::ASSEMBLE, {mid}, {gm}, op.src)].at = zeros(g.tensors[mid].shape.rank);
        g.ops[g.add_op(Code::VIEW, {gm}, {back}, op.src)].at = zeros(g.tensors[mid].shape.rank);
        g.replace_input(id, mid, back);
    }
    if (g.stale) g.sort();
}

}  // namespace npu::plan
