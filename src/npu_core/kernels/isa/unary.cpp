// Functions of one row of fp32.
#include "npu_core/kernels/isa/math.h"
#include "npu_core/kernels/isa/rows.h"
#include "npu_core/kernels/isa/tables.h"

namespace npu::NPU_ISA {
namespace {

// Rounding to integers without an instruction for it: beyond 2^23 every value is an integer already.
NPU_INLINE F whole(F x, F rounded) {
    const F kept_sign = with_sign(fabs(rounded), sign_bit(x));
    return select(fabs(x) < splat(0x1p23f), kept_sign, x);
}
NPU_INLINE F trunc(F x) { return whole(x, to_float(to_int(x))); }
NPU_INLINE F floor(F x) {
    const F t = to_float(to_int(x));
    return whole(x, t - as_float((I)(t > x) & bits(splat(1.0f))));
}
NPU_INLINE F ceil(F x) {
    const F t = to_float(to_int(x));
    return whole(x, t + as_float((I)(t < x) & bits(splat(1.0f))));
}
NPU_INLINE F round_even(F x) {
    const F unit = splat(0x1p23f);                            // one unit in the last place of 2^23 is 1
    return whole(x, (fabs(x) + unit) - unit);
}

}  // namespace

void fill_unary(KernelTable& t) {
    auto set = [&t](Unary op, void (*f)(const float*, float*, int64_t)) { t.unary[static_cast<int>(op)] = f; };
#define NPU_ROW(expression) \
    [](const float* x, float* y, int64_t n) { map1<F, F>(x, y, n, [](F v) { return expression; }); }
    set(Unary::EXP, NPU_ROW(exp(v)));
    set(Unary::LOG, NPU_ROW(log(v)));
    set(Unary::TANH, NPU_ROW(tanh(v)));
    set(Unary::ERF, NPU_ROW(erf(v)));
    set(Unary::SQRT, NPU_ROW(sqrt(v)));
    set(Unary::ABS, NPU_ROW(fabs(v)));
    set(Unary::NEG, NPU_ROW(as_float(bits(v) ^ splat_bits(0x80000000u))));
    set(Unary::RECIPROCAL, NPU_ROW(splat(1.0f) / v));
    set(Unary::RELU, NPU_ROW(max_nan(splat(0.0f), v)));
    set(Unary::FLOOR, NPU_ROW(floor(v)));
    set(Unary::CEIL, NPU_ROW(ceil(v)));
    set(Unary::TRUNC, NPU_ROW(trunc(v)));
    set(Unary::ROUND_EVEN, NPU_ROW(round_even(v)));
#undef NPU_ROW
}

}  // namespace npu::NPU_ISA
