// Graph clean-up before the partition: chains of views and assembles, large fan-outs, shared views, redundant moves.
#include <algorithm>
#include <numeric>
#include <set>

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
    std::set<Id> dropped;
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

    for (const std::vector<Chain>* list : {&views, &assembles})
        for (const Chain& c : *list) {
            if (dropped.insert(c.last).second) g.kill(c.last);
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

void split_large_fanout(Graph& g) {
    const size_t count = g.tensors.size();
    for (size_t i = 0; i < count; ++i) {
        const Tensor box = g.tensors[i];
        if (box.fn_in || box.fn_out || box.producers.empty() || box.consumers.empty()) continue;
        struct Part { Id op; Shape at, shape; bool done = false; };
        std::vector<Part> writers, readers;
        bool fits = true;
        for (Id id : box.producers) {
            const Op& op = g.ops[id];
            fits = fits && op.code == Code::ASSEMBLE && op.dyn == NONE;
            if (fits) writers.push_back({id, op.at, g.tensors[op.in[0]].shape});
        }
        for (Id id : box.consumers) {
            const Op& op = g.ops[id];
            if (op.code == Code::VIEW && op.dyn == NONE) readers.push_back({id, op.at, g.tensors[op.out[0]].shape});
        }
        if (!fits || readers.empty() || writers.size() < 2) continue;
        const int rank = box.shape.rank;
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
                for (int d = 0; d < rank; ++d) s[d] = std::min(std::lcm(w[d], r[d]), box.shape[d]);
                if (!(s == box.shape)) add_unique(boxes, s);
            }
        if (boxes.empty()) continue;
        for (const Shape& lcm : boxes) {
            std::set<std::vector<int64_t>> origins;
            for (const Shape* grid : {static_cast<const Shape*>(&largest), static_cast<const Shape*>(&lcm)}) {
                std::vector<int64_t> at(rank, 0);
                while (true) {
                    origins.insert(at);
                    int d = rank - 1;
                    for (; d >= 0; --d) {
                        at[d] += (*grid)[d];
                        if (at[d] < box.shape[d]) break;
                        at[d] = 0;
                    }
                    if (d < 0) break;
                }
            }
            for (const std::vector<int64_t>& origin : origins) {
                Shape at = zeros(rank), extent = lcm;
                for (int d = 0; d < rank; ++d) {
                    at[d] = origin[d];
                    extent[d] = std::min(lcm[d], box.shape[d] - origin[d]);
                }
                std::vector<const Part*> covered;
                std::vector<Part*> served;
                int64_t filled = 0;
                for (const Part& w : writers)
                    if (contains(at, extent, w.at, w.shape)) { covered.push_back(&w); filled += w.shape.count(); }
                if (filled != extent.count()) continue;
                for (Part& r : readers)
                    if (!r.done && contains(at, extent, r.at, r.shape)) served.push_back(&r);
                if (served.empty()) continue;
                const bool shared = covered.size() > 1;
                Id small = NONE;
                for (Part* r : served) {
                    if (small == NONE || !shared) {
                        small = g.add_fresh(extent, box.dtype);
                        if (box.valid != NONE) g.set_valid(small, within(g.valid_of(static_cast<Id>(i)), at, extent));
                        for (const Part* w : covered) {
                            const Op from = g.ops[w->op];
                            Id id = g.add_op(Code::ASSEMBLE, {from.in[0]}, {small}, from.src);
                            g.ops[id].at = minus(w->at, at);
                        }
                    }
                    g.replace_input(r->op, static_cast<Id>(i), small);
                    g.ops[r->op].at = minus(r->at, at);
                    r->done = true;
                    if (shared) continue;
                    // one writer, one reader: the view reads the tile itself
                    const Id assemble = g.tensors[small].producers[0];
                    const Op a = g.ops[assemble];
                    g.kill(assemble);
                    g.replace_input(r->op, small, a.in[0]);
                    g.ops[r->op].at = minus(g.ops[r->op].at, a.at);
                }
            }
        }
        if (g.tensors[i].consumers.empty())
            for (const Part& w : writers) g.kill(w.op);
    }
    g.drop_dead();
    remove_dead(g);
    g.sort();
}

void duplicate_views(Graph& g) {
    bool cloned = false;
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
            g.replace_input(user, op.out[0], copy);
        }
        if (!view_user && !g.tensors[op.out[0]].fn_out) g.kill(id);
    }
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
                for (Id c : Ids(g.tensors[in].consumers)) g.replace_input(c, in, out);
                for (size_t o = 0; o < g.ops[producer].out.size(); ++o)
                    if (g.ops[producer].out[o] == in) g.replace_output(producer, o, out);
            } else {
                g.kill(id);
                const Shape valid = g.valid_of(out);
                const bool differs = !(valid == g.valid_of(in));
                for (Id c : Ids(g.tensors[out].consumers)) {
                    g.replace_input(c, out, in);
                    if (!differs || g.ops[c].code != Code::ASSEMBLE || g.ops[c].valid != NONE) continue;
                    g.ops[c].valid = static_cast<Id>(g.valid_shapes.size());
                    g.valid_shapes.push_back(valid);
                }
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
    for (Id id : std::vector<Id>(g.order)) {
        const Op op = g.ops[id];
        if (op.dead || op.code != Code::ASSEMBLE) continue;
        const Id view = view_of(op);
        if (view == NONE) continue;
        bool in_place = true;   // every producer rebuilds the source where it was
        for (Id p : g.tensors[op.out[0]].producers) {
            const Op& other = g.ops[p];
            const Id v = other.code == Code::ASSEMBLE ? view_of(other) : NONE;
            in_place = in_place && v != NONE && g.ops[v].at == other.at && g.ops[v].dyn == NONE && other.dyn == NONE &&
                       g.tensors[g.ops[v].in[0]].shape == g.tensors[other.out[0]].shape;
        }
        if (in_place) continue;
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
