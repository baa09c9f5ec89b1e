// A view with several readers is repeated per reader. Source: hicann/pypto@r0.2.0 passes/tile_graph_pass (DuplicateOp).
#include "npu_core/lowering/cleanup.h"

namespace npu::lowering {

void duplicate_ops(Graph& g) {
    sort_ops(g);
    bool any = false;
    for (int32_t id : std::vector<int32_t>(g.order)) {
        const Op& op = g.ops[id];
        if (op.code != Opcode::VIEW || op.to == Mem::L1 || op.to == Mem::BT || op.to == Mem::FIX) continue;
        const int32_t out = op.out[0], in = op.in[0];
        std::vector<int32_t> readers;
        for (int32_t c : g.tensors[out].consumers)
            if (g.ops[c].code != Opcode::VIEW) readers.push_back(c);
        if (readers.size() < 2) continue;
        any = true;
        for (int32_t reader : readers) {
            const Tensor t = g.tensors[out];
            const int32_t copy = g.add_fresh(t.shape, t.dtype, t.mem);
            g.tensors[copy].valid = t.valid;
            g.clone_op(id, {in}, {copy});
            g.replace_input(reader, out, copy);
        }
        if (g.tensors[out].consumers.empty()) g.kill(id);
    }
    if (!any) return;
    g.drop_dead();
    sort_ops(g);
}

}  // namespace npu::lowering
