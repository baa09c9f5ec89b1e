// Local tiles grow to the alignment of their memory. Source: hicann/pypto@r0.2.0 passes/tile_graph_pass (PadLocalBuffer).
#include <algorithm>

#include "npu_core/lowering/leaf.h"
#include "npu_core/lowering/moves.h"

namespace npu::lowering {
namespace {

constexpr int64_t UB_ALIGN_BYTES = 32, BIAS_ALIGN_BYTES = 64, COMPARE_BYTES = 256;

int64_t round_up(int64_t x, int64_t step) { return (x + step - 1) / step * step; }

bool read_by(const Graph& g, int32_t tensor, Opcode code) {
    for (int32_t c : g.tensors[tensor].consumers)
        if (g.ops[c].code == code) return true;
    return false;
}

void pad_tensor(Graph& g, int32_t id) {
    Tensor& t = g.tensors[id];
    Raw& raw = g.raws[t.raw];
    const int64_t size = dtype_size_bytes(t.dtype);
    const int last = t.shape.rank - 1;
    if (last < 0) return;
    auto grow = [&](int d, int64_t step) {
        t.shape[d] = round_up(t.shape[d], step);
        raw.shape[d] = std::max(raw.shape[d], round_up(raw.shape[d], step));
    };
    switch (t.mem) {
        case Mem::UB: grow(last, std::max<int64_t>(1, UB_ALIGN_BYTES / size)); break;
        case Mem::BT: grow(last, BIAS_ALIGN_BYTES / size); break;
        case Mem::FIX: break;
        case Mem::L1:
            if (read_by(g, id, Opcode::L1_TO_BT)) { grow(last, BIAS_ALIGN_BYTES / size); break; }
            if (read_by(g, id, Opcode::FIX_COPY_IN_QUANT_PRE)) break;
            [[fallthrough]];
        default: {
            const int64_t step = size == 1 ? 32 : 16;
            grow(last, step);
            if (last > 0) grow(last - 1, step);
        }
    }
}

// Comparisons work on whole blocks of 256 bytes.
void pad_compare(Graph& g, const Op& op) {
    for (const Ids* operands : {&op.in, &op.out})
        for (int32_t id : *operands) {
            Tensor& t = g.tensors[id];
            if (t.mem != Mem::UB || t.shape.rank < 2) continue;
            const int last = t.shape.rank - 1;
            const int64_t row = t.shape[last] * dtype_size_bytes(t.dtype);
            if (row % COMPARE_BYTES == 0) continue;
            int64_t rows = 1;
            while (row * rows % COMPARE_BYTES) ++rows;
            t.shape[last - 1] = round_up(t.shape[last - 1], rows);
            Raw& raw = g.raws[t.raw];
            raw.shape[last - 1] = std::max(raw.shape[last - 1], t.shape[last - 1]);
        }
}

}  // namespace

void pad_local_buffers(Graph& g) {
    std::vector<char> done(g.tensors.size(), 0);
    for (int32_t id : g.order)
        for (const Ids* operands : {&g.ops[id].in, &g.ops[id].out})
            for (int32_t t : *operands) {
                if (done[t] || !is_local(g.tensors[t].mem)) continue;
                done[t] = 1;
                pad_tensor(g, t);
            }
    for (int32_t id : g.order)
        if (g.ops[id].code == Opcode::CMP || g.ops[id].code == Opcode::CMPS || g.ops[id].code == Opcode::PRELU)
            pad_compare(g, g.ops[id]);
}

}  // namespace npu::lowering
