// Source: hicann/pypto@r0.2.0 passes/tile_graph_pass (GenerateMoveOp).
#include "npu_core/lowering/moves.h"

#include <algorithm>

#include "npu_core/lowering/leaf.h"

namespace npu::lowering {
namespace {

Opcode move_for_view(Mem from, Mem to, bool transpose) {
    if (from == Mem::GM && is_local(to)) return Opcode::COPY_IN;
    if (from == Mem::L1 && to == Mem::L0A) return transpose ? Opcode::L1_TO_L0At : Opcode::L1_TO_L0A;
    if (from == Mem::L1 && to == Mem::L0B) return transpose ? Opcode::L1_TO_L0Bt : Opcode::L1_TO_L0B;
    if (from == Mem::L1 && to == Mem::BT) return Opcode::L1_TO_BT;
    if (from == Mem::L1 && to == Mem::FIX) return Opcode::FIX_COPY_IN_QUANT_PRE;
    if (from == Mem::L0C && to == Mem::L1) return Opcode::L0C_COPY_L1;
    return Opcode::VIEW;
}

// A reshape's result in global memory that is assembled into a larger tensor passes through UB.
void split_global_assemble(Graph& g, int32_t id) {
    const int32_t from = g.ops[id].in[0], to = g.ops[id].out[0];
    const Tensor t = g.tensors[from];
    const int32_t sub_graph = g.ops[id].sub_graph, latency = g.ops[id].latency, source = g.ops[id].source;
    const Offset at = g.ops[id].at;
    const int32_t local = g.add_fresh(t.shape, t.dtype, Mem::UB);
    const int32_t in = g.add_op(Opcode::COPY_IN, {from}, {local});
    g.ops[in].sub_graph = sub_graph;
    g.ops[in].source = source;
    g.ops[in].at = zero_offset(t.shape.rank);
    g.kill(id);
    const int32_t out = g.add_op(Opcode::COPY_OUT, {local}, {to});
    g.ops[out].sub_graph = sub_graph;
    g.ops[out].source = source;
    g.ops[out].latency = latency;
    g.ops[out].at = at;
}

bool made_by(const Graph& g, int32_t tensor, Opcode code) {
    for (int32_t p : g.tensors[tensor].producers)
        if (g.ops[p].code == code) return true;
    return false;
}

}  // namespace

void generate_moves(Graph& g) {
    sort_if_stale(g);
    for (int32_t id : std::vector<int32_t>(g.order)) {
        Op& op = g.ops[id];
        if (op.code == Opcode::DUPLICATE) {
            op.code = Opcode::COPY_OUT;
            continue;
        }
        if (op.code != Opcode::VIEW && op.code != Opcode::ASSEMBLE) continue;
        const Mem from = g.tensors[op.in[0]].mem, to = g.tensors[op.out[0]].mem;
        if (op.code == Opcode::VIEW) {
            op.code = move_for_view(from, to, op.transpose);
            if (op.code != Opcode::VIEW) op.transpose = false;
            continue;
        }
        if (is_local(from) && to == Mem::GM) op.code = Opcode::COPY_OUT;
        else if (from == Mem::L0C && to == Mem::L1) op.code = Opcode::L0C_COPY_L1;
        else if (from == Mem::GM && to == Mem::GM && made_by(g, op.in[0], Opcode::RESHAPE)) split_global_assemble(g, id);
    }
    g.drop_dead();
}

void count_moved_bytes(Graph& g) {
    // Elements of a local tile that lie inside the global tensor it is a window of.
    auto elements = [&](int32_t local, int32_t global, const Offset& at) {
        const Shape &part = g.tensors[local].shape, &whole = g.tensors[global].shape;
        if (part.rank != whole.rank || at.rank != whole.rank) return part.count();
        int64_t n = 1;
        for (int d = 0; d < part.rank; ++d)
            n *= at.d[d].symbol ? part[d] : std::max<int64_t>(0, std::min(part[d], whole[d] - at.d[d].at));
        return n;
    };
    auto size = [&](int32_t t) { return int64_t(dtype_size_bytes(g.tensors[t].dtype)); };
    for (int32_t id : g.order) {
        Op& op = g.ops[id];
        switch (op.code) {
            case Opcode::COPY_IN: case Opcode::TRANSPOSE_MOVEIN:
                op.gm_bytes = elements(op.out[0], op.in[0], op.at) * size(op.in[0]);
                break;
            case Opcode::COPY_OUT: case Opcode::TRANSPOSE_MOVEOUT:
                op.gm_bytes = elements(op.in[0], op.out[0], op.at) * size(op.out[0]);
                break;
            case Opcode::GATHER:
                op.gm_bytes = g.tensors[op.out[0]].shape.count() * size(op.out[0]) + g.tensors[op.in[1]].shape.count() * size(op.in[1]);
                break;
            case Opcode::INDEX_OUTCAST: case Opcode::INDEX_PUT:
                op.gm_bytes = g.tensors[op.in[0]].shape.count() * size(op.in[0]);
                break;
            default: break;
        }
    }
}

}  // namespace npu::lowering
