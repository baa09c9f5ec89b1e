// Windows of one local buffer share its storage; L0C tiles get the accumulator's dtype; sub-graphs are renumbered.
// Source: hicann/pypto@r0.2.0 passes/tile_graph_pass (ReplaceTensor, PreGraphProcess).
#include "npu_core/lowering/leaf.h"
#include "npu_core/lowering/moves.h"
#include "npu_core/lowering/partition.h"

namespace npu::lowering {
namespace {

void place_in(Graph& g, int32_t part, int32_t whole, const Offset& at) {
    const Tensor& w = g.tensors[whole];
    Tensor& p = g.tensors[part];
    p.raw = w.raw;
    p.offset = w.offset.rank == at.rank ? g.add(w.offset, at) : at;
}

bool both_local(const Graph& g, const Op& op) {
    const Mem from = g.tensors[op.in[0]].mem, to = g.tensors[op.out[0]].mem;
    return from == to && is_local(from);
}

}  // namespace

void replace_tensors(Graph& g) {
    sort_if_stale(g);
    for (size_t i = g.order.size(); i-- > 0;) {
        const Op& op = g.ops[g.order[i]];
        if (op.code == Opcode::ASSEMBLE && both_local(g, op)) place_in(g, op.in[0], op.out[0], op.at);
    }
    for (int32_t id : g.order) {
        const Op& op = g.ops[id];
        if (op.code == Opcode::VIEW && both_local(g, op)) place_in(g, op.out[0], op.in[0], op.at);
        else if (op.code == Opcode::RESHAPE && both_local(g, op)) g.tensors[op.out[0]].raw = g.tensors[op.in[0]].raw;
        else if ((op.code == Opcode::A_MULACC_B || op.code == Opcode::A_MULACC_Bt) && op.in.size() > 2)
            g.tensors[op.out[0]].raw = g.tensors[op.in[2]].raw;
    }
}

void pre_graph_process(Graph& g) {
    for (int32_t id : g.order)
        for (int32_t t : g.ops[id].out) {
            Tensor& x = g.tensors[t];
            if (x.mem != Mem::L0C) continue;
            bool integer = x.dtype == DType::I32;
            for (int32_t i : g.ops[id].in) integer |= g.tensors[i].dtype == DType::I8;
            x.dtype = integer ? DType::I32 : DType::F32;
            g.raws[x.raw].dtype = x.dtype;
        }
    renumber_depth_first(g);
}

}  // namespace npu::lowering
