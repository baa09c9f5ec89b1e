// Casts over rows.
#include "npu_core/kernels/isa/convert.h"

#include "npu_core/kernels/isa/rows.h"
#include "npu_core/kernels/isa/tables.h"

namespace npu::NPU_ISA {

void fill_convert(KernelTable& t) {
#define NPU_CAST(To, VTo, From, VFrom, function) \
    [](const From* x, To* y, int64_t n) { map1<VTo, VFrom>(x, y, n, [](VFrom v) { return function(v); }); }
    t.bf16_to_f32 = NPU_CAST(float, F, uint16_t, H, bf16_to_f32);
    t.f16_to_f32 = NPU_CAST(float, F, uint16_t, H, f16_to_f32);
    t.f32_to_bf16 = NPU_CAST(uint16_t, H, float, F, f32_to_bf16);
    t.f32_to_f16 = NPU_CAST(uint16_t, H, float, F, f32_to_f16);
    t.i32_to_f32 = NPU_CAST(float, F, int32_t, I, to_float);
#undef NPU_CAST
}

}  // namespace npu::NPU_ISA
