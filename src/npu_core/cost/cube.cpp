// Cube pipe: 6 + fractals, two cycles per fp32 fractal on A2/A3.
#include "npu_core/cost/cost.h"

namespace npu::cost {

Cycles Calibrated::cube(const plan::Leaf& leaf, const plan::LeafOp& op) const {
    const plan::LeafTensor &a = leaf.tensors[op.in[0]], &c = leaf.tensors[op.out[0]];
    const int64_t k_unit = 32 / dtype_size_bytes(a.dtype);
    const int64_t fractals = plan::ceil_div(c.exact[0], 16) * plan::ceil_div(a.exact[1], k_unit) * plan::ceil_div(c.exact[1], 16);
    // FP4 shows the rate of FP8 in the measured products (cube.mac_per_cycle_fp4_alt): 64 values in two cycles.
    const int64_t rate = (a.dtype == DType::F32 && !is_950_) || is_packed4(a.dtype) ? 2 : 1;
    return {static_cast<int64_t>(mad_head_) + fractals * rate, 0, 0};
}

}  // namespace npu::cost
