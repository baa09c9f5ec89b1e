// exp, log, tanh and erf of fp32 vectors, without fused multiply-add: the same bits on every instruction set.
//
// Coefficients are minimax fits (relative error of the result below 2^-25), rounded to fp32 one at a time with the
// others refitted. tests/cpp/test_kernels_unary.cpp states the bounds in units of the last place.
#pragma once
#include "npu_core/kernels/isa/simd.h"

namespace npu::NPU_ISA {

template <int N>
NPU_INLINE F polynomial(const float (&c)[N], F x) {          // c[0] + c[1] x + ...
    F r = splat(c[N - 1]);
    for (int i = N - 2; i >= 0; --i) r = r * x + splat(c[i]);
    return r;
}

constexpr float LN2_HIGH = 0.693359375f;                     // 9 bits: times an exponent it is exact
constexpr float LN2_LOW = -2.12194440e-4f;

struct Reduced {
    F power;                                                 // exp(x - n ln 2)
    F n;
    I n_int;
};

// |x| < 2^20 or NaN
NPU_INLINE Reduced exp_reduced(F x) {
    constexpr float q[] = {0x1.fffffcp-2f, 0x1.55549p-3f, 0x1.5558bcp-5f, 0x1.123b5cp-7f, 0x1.6a445ep-10f};
    const F magic = splat(0x1.8p23f);
    const F t = x * splat(1.4426950408889634f) + magic;
    const F n = t - magic;
    const F r = (x - n * splat(LN2_HIGH)) - n * splat(LN2_LOW);
    const F power = splat(1.0f) + (r + (r * r) * polynomial(q, r));
    return {power, n, bits(t) - bits(magic)};
}

NPU_INLINE F exponent_of(I n) { return as_float((n + 127) << 23); }

// exp where neither the result nor 2^n leaves the normal range (NaN allowed)
NPU_INLINE F exp_normal(F x) {
    const Reduced e = exp_reduced(x);
#if defined(__AVX512F__)
    return (F)_mm512_scalef_ps((__m512)e.power, (__m512)e.n);
#else
    return e.power * exponent_of(e.n_int);
#endif
}

NPU_INLINE F exp(F x) {
    x = select(x > splat(89.0f), splat(89.0f), x);           // overflows to infinity
    x = select(x < splat(-105.0f), splat(-105.0f), x);       // rounds to 0
#if defined(__AVX512F__)
    return exp_normal(x);
#else
    const Reduced e = exp_reduced(x);
    const I half = e.n_int >> 1;                             // two steps reach 2^128 and the subnormals
    return e.power * exponent_of(half) * exponent_of(e.n_int - half);
#endif
}

NPU_INLINE F log(F x) {
    constexpr float p[] = {0x1.555554p-2f,  -0x1.000226p-2f, 0x1.99a01cp-3f, -0x1.54728ap-3f,
                           0x1.22d92ep-3f, -0x1.0d8242p-3f, 0x1.055ec6p-3f, -0x1.38c9dep-4f};
    const I sqrt_half = splat_bits(0x3f3504f3u);
    const I subnormal = x < splat(0x1p-126f);
    const I u = (I)((U)bits(select(subnormal, x * splat(0x1p23f), x)) - (U)sqrt_half);  // wraps for x < 0
    const F f = as_float((u & 0x7fffff) + sqrt_half) - splat(1.0f);              // mantissa in [sqrt(1/2), sqrt(2)) - 1
    const F e = to_float((u >> 23) - (subnormal & 23));
    const F z = f * f;
    const F t = f * z * polynomial(p, f) + e * splat(LN2_LOW);
    F y = (f + (t - z * splat(0.5f))) + e * splat(LN2_HIGH);
    const F infinity = splat(__builtin_inff());
    y = select(x < splat(0.0f), splat(__builtin_nanf("")), y);
    y = select(x == splat(0.0f), -infinity, y);
    return select(x < infinity, y, x + x);                   // inf and NaN
}

NPU_INLINE F tanh(F x) {
    constexpr float p[] = {-0x1.5554f6p-2f, 0x1.10fb0ap-3f, -0x1.b6c362p-5f, 0x1.4939cp-6f, -0x1.50e2aap-8f};
    const F one = splat(1.0f), two = splat(2.0f);
    const F t = fabs(x), z = t * t;
    const F near = t + t * (z * polynomial(p, z));
    const F clamped = select(t > splat(10.0f), splat(10.0f), t);
    const F far = one - two / (exp_normal(clamped + clamped) + one);
    return with_sign(select(t < splat(0.7f), near, far), sign_bit(x));
}

NPU_INLINE F erf(F x) {
    constexpr float p[] = {0x1.06eba8p-3f, -0x1.812726p-2f, 0x1.ce256ap-4f,
                           -0x1.b735eap-6f, 0x1.4b763p-8f, -0x1.4cd86p-11f};
    constexpr float q[] = {0x1.b666eep-14f, 0x1.20c89cp+0f, 0x1.45e5c8p-1f, 0x1.ac23c6p-4f,        // -log(erfc(t))
                           -0x1.70f50ap-6f, 0x1.98add2p-9f, -0x1.ab2da4p-13f};
    const F t = fabs(x), z = t * t;
    const F near = t + t * polynomial(p, z);
    const F clamped = select(t > splat(3.95f), splat(3.95f), t);
    const F far = splat(1.0f) - exp_normal(-polynomial(q, clamped));
    return with_sign(select(t < splat(0.85f), near, far), sign_bit(x));
}

}  // namespace npu::NPU_ISA
