// Casts over rows.
#include "npu_core/kernels/isa/convert.h"

#include "npu_core/kernels/isa/rows.h"
#include "npu_core/kernels/isa/tables.h"

namespace npu::NPU_ISA {

void fill_convert(KernelTable& t) {
    t.bf16_to_f32 = [](const uint16_t* x, float* y, int64_t n) { map1<F, H>(x, y, n, [](H h) { return bf16_to_f32(h); }); };
    t.f16_to_f32 = [](const uint16_t* x, float* y, int64_t n) { map1<F, H>(x, y, n, [](H h) { return f16_to_f32(h); }); };
    t.f32_to_bf16 = [](const float* x, uint16_t* y, int64_t n) { map1<H, F>(x, y, n, [](F v) { return f32_to_bf16(v); }); };
    t.f32_to_f16 = [](const float* x, uint16_t* y, int64_t n) { map1<H, F>(x, y, n, [](F v) { return f32_to_f16(v); }); };
    t.i32_to_f32 = [](const int32_t* x, float* y, int64_t n) { map1<F, I>(x, y, n, [](I v) { return to_float(v); }); };
}

}  // namespace npu::NPU_ISA
