// Tile-operation cycles of the public 0.2.0 simulator: single-precision k * size * m * p, the rest in double.
#include <algorithm>

#include "npu_core/cost/cost.h"

namespace npu::cost {

int64_t official_cycles(const plan::Leaf& leaf, const plan::LeafOp& op, bool) {
    if (op.code == Code::VIEW || op.code == Code::ASSEMBLE || op.code == Code::RESHAPE) return 1;
    int64_t m = INT64_MAX, count = INT64_MAX;
    for (const plan::Operands* side : {&op.in, &op.out})
        for (int32_t t : *side) {
            const Shape& s = leaf.tensors[t].shape;
            int64_t last_two = 1, lead = 1;
            if (s.rank >= 2) last_two = s[s.rank - 1] * s[s.rank - 2];
            for (int i = 0; i + 2 < s.rank; ++i) lead *= s[i];
            m = std::min(m, last_two);
            count = std::min(count, lead);
        }
    const plan::Operands& typed = op.in.empty() ? op.out : op.in;
    const DType type = leaf.tensors[typed[0]].dtype;
    const int64_t size = dtype_size_bytes(type);
    const CodeInfo& i = info(op.code);
    if (i.default_latency >= 0) {
        const int64_t bytes = m * count * size;
        return i.default_latency + 2 * ((bytes - 256) / 256) + 1;
    }
    const bool one = (i.half == Half::ONE_IF_FP32 && type == DType::F32) || (i.half == Half::ONE_IF_INT32 && type == DType::I32);
    const float scaled = i.k * static_cast<float>(size * m) * static_cast<float>(one ? 1 : 2);
    const double per = (static_cast<double>(scaled) * 1e-6 + static_cast<double>(i.c)) * 2000.0;
    int64_t cycles = count * (static_cast<int64_t>(per) + 1);
    if (op.code == Code::COPY_IN) cycles += 1400;
    if (op.code == Code::COPY_OUT) cycles += 300;
    return cycles;
}

}  // namespace npu::cost
