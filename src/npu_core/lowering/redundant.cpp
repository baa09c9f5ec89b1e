// Operations that change nothing, and views assembled again. Source: hicann/pypto@r0.2.0 passes/tile_graph_pass
// (RemoveRedundantOp, InsertOpForViewAssemble).
#include <algorithm>

#include "npu_core/lowering/cleanup.h"
#include "npu_core/lowering/leaf.h"

namespace npu::lowering {
namespace {

bool may_be_redundant(const Graph& g, const Op& op) {
    switch (op.code) {
        case Opcode::VIEW: return !op.keep;
        case Opcode::ASSEMBLE: return g.tensors[op.out[0]].producers.size() == 1;
        case Opcode::RESHAPE: case Opcode::REGISTER_COPY: case Opcode::EXPAND: return true;
        default: return false;
    }
}

class Redundant {
public:
    explicit Redundant(Graph& g) : g_(g) {}

    bool run() {
        bool any = false;
        while (pass()) any = true;
        return any;
    }

private:
    bool pass() {
        bool any = false;
        for (int32_t id : g_.order) {
            const Op& op = g_.ops[id];
            if (op.dead) continue;
            if (may_be_redundant(g_, op)) any |= drop(id);
            else if (op.code == Opcode::ASSEMBLE) any |= drop_rebuild(op.out[0]);
        }
        g_.drop_dead();
        return any;
    }

    bool drop(int32_t id) {
        const int32_t in = g_.ops[id].in[0], out = g_.ops[id].out[0];
        const Tensor& a = g_.tensors[in];
        const Tensor& b = g_.tensors[out];
        if (!(a.shape == b.shape) || a.mem != b.mem || a.valid != b.valid || a.dtype != b.dtype) return false;
        if (g_.is_output(out)) {
            if (g_.is_input(in) || g_.is_output(in) || a.producers.empty()) return false;
            g_.kill(id);
            for (int32_t p : Ids(g_.tensors[in].producers)) g_.replace_output(p, in, out);
            for (int32_t c : Ids(g_.tensors[in].consumers)) g_.replace_input(c, in, out);
            return true;
        }
        g_.kill(id);
        for (int32_t c : Ids(g_.tensors[out].consumers)) g_.replace_input(c, out, in);
        return true;
    }

    // Views of one tensor assembled at the places they came from.
    bool drop_rebuild(int32_t out) {
        int32_t whole = -1;
        int64_t filled = 0;
        const Tensor& b = g_.tensors[out];
        if (g_.is_output(out)) return false;
        for (int32_t p : b.producers) {
            const Op& op = g_.ops[p];
            if (op.code != Opcode::ASSEMBLE) return false;
            const Ids& makers = g_.tensors[op.in[0]].producers;
            if (makers.size() != 1 || g_.ops[makers[0]].code != Opcode::VIEW) return false;
            const Op& view = g_.ops[makers[0]];
            if (!(view.at == op.at) || (whole >= 0 && view.in[0] != whole)) return false;
            whole = view.in[0];
            filled += g_.tensors[op.in[0]].shape.count();
        }
        if (whole < 0) return false;
        const Tensor& a = g_.tensors[whole];
        if (!(a.shape == b.shape) || a.mem != b.mem || a.valid != b.valid || filled != b.shape.count()) return false;
        for (int32_t p : Ids(b.producers)) g_.kill(p);
        for (int32_t c : Ids(g_.tensors[out].consumers)) g_.replace_input(c, out, whole);
        return true;
    }

    Graph& g_;
};

struct Pair {
    int32_t view, assemble;
};

bool view_assemble_pair(const Graph& g, int32_t assemble, Pair& pair) {
    const Op& op = g.ops[assemble];
    const int32_t middle = op.in[0];
    const Ids& makers = g.tensors[middle].producers;
    if (makers.size() != 1 || g.ops[makers[0]].code != Opcode::VIEW) return false;
    const Mem m = g.tensors[middle].mem;
    if (g.tensors[op.out[0]].mem != m || g.tensors[g.ops[makers[0]].in[0]].mem != m) return false;
    pair = {makers[0], assemble};
    return true;
}

bool in_place(const Graph& g, const Pair& p) {
    const Op& view = g.ops[p.view];
    const Op& assemble = g.ops[p.assemble];
    return view.at == assemble.at && g.tensors[view.in[0]].shape == g.tensors[assemble.out[0]].shape;
}

void detour(Graph& g, const Pair& p) {
    const int32_t middle = g.ops[p.view].out[0];
    const Tensor t = g.tensors[middle];
    if (t.mem == Mem::GM) {
        g.tensors[middle].mem = Mem::UB;
        return;
    }
    const int32_t global = g.add_fresh(t.shape, t.dtype, Mem::GM), back = g.add_fresh(t.shape, t.dtype, t.mem);
    const int32_t out = g.add_op(Opcode::ASSEMBLE, {middle}, {global});
    const int32_t in = g.add_op(Opcode::VIEW, {global}, {back});
    g.ops[out].at = g.ops[in].at = zero_offset(t.shape.rank);
    g.ops[out].scope = g.ops[in].scope = g.ops[p.assemble].scope;
    g.ops[out].source = g.ops[in].source = g.ops[p.assemble].source;
    g.replace_input(p.assemble, middle, back);
}

}  // namespace

void remove_redundant_ops(Graph& g) {
    sort_if_stale(g);
    if (!Redundant(g).run()) return;
    erase_dead_ops(g);
    merge_view_assemble(g);
}

void insert_ops_for_view_assemble(Graph& g) {
    sort_if_stale(g);
    std::vector<char> seen(g.tensors.size(), 0);
    for (int32_t id : std::vector<int32_t>(g.order)) {
        if (g.ops[id].code != Opcode::ASSEMBLE) continue;
        const int32_t out = g.ops[id].out[0];
        if (seen[out]) continue;
        seen[out] = 1;
        std::vector<Pair> pairs;
        bool all_in_place = true;
        for (int32_t p : g.tensors[out].producers) {
            Pair pair;
            if (g.ops[p].code == Opcode::ASSEMBLE && view_assemble_pair(g, p, pair)) {
                pairs.push_back(pair);
                all_in_place &= in_place(g, pair);
            } else {
                all_in_place = false;
            }
        }
        if (pairs.empty() || all_in_place) continue;
        for (const Pair& p : pairs) detour(g, p);
    }
}

}  // namespace npu::lowering
