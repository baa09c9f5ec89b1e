// Duration of a tile operation in the 0.2.0 cost machine.
// Source: hicann/pypto@r0.2.0 cost_model/simulation/arch/A2A3/PostSimulatorA2A3.h, arch/PipeSimulatorFast.cpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "npu_core/lowering/leaf_machine.h"

namespace npu::lowering {
namespace {

struct Block {
    int64_t elements, count;  // last two dims; product of the leading ones
};

Block block_of(const Tensor& t) {
    const Shape& s = t.shape;
    auto size = [&](int d) { return s[d] > 0 && !(t.dynamic >> d & 1) ? s[d] : int64_t(256); };
    Block b{1, 1};
    if (s.rank >= 2) b.elements = size(s.rank - 1) * size(s.rank - 2);
    for (int i = 0; i + 2 < s.rank; ++i) b.count *= size(i);
    return b;
}

int head_index(DType t) {
    switch (t) {
        case DType::F16: return 0;
        case DType::F32: return 1;
        case DType::I32: return 2;
        case DType::I16: return 3;
        default: return 4;
    }
}

}  // namespace

int64_t op_cycles(const Graph& g, const Op& op) {
    const OpFacts& f = facts(op.code);
    if (f.price == Price::ONE) return 1;
    int64_t m = std::numeric_limits<int64_t>::max(), count = m;
    for (const Ids* operands : {&op.in, &op.out})
        for (int32_t t : *operands) {
            const Block b = block_of(g.tensors[t]);
            m = std::min(m, b.elements);
            count = std::min(count, b.count);
        }
    const DType dtype = g.tensors[op.in.empty() ? op.out[0] : op.in[0]].dtype;
    const int64_t size = dtype_size_bytes(dtype);
    if (f.price == Price::LISTED) {
        const int p = dtype == DType::F32 ? f.p_fp32 : dtype == DType::I32 ? f.p_int32 : f.p;
        const float slope = f.k * float(size * m) * float(p);
        const int64_t cycles = int64_t((double(slope) * 1e-6 + double(f.c)) * 2000) + 1;
        return count * cycles + f.extra_cycles;
    }
    const int64_t bytes = m * count * size;
    return f.head_latency[head_index(dtype)] + 2 * ((bytes - 256) / 256) + 1;
}

}  // namespace npu::lowering
