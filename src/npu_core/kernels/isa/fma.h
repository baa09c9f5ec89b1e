// a * b + c with one rounding. Where the instruction set has no such instruction there are two forms: `fma_if_exact`
// multiplies, then adds (right when the product is exact in fp32), `fma_soft` is always right.
#pragma once
#include "npu_core/kernels/isa/simd.h"

namespace npu::NPU_ISA {

#if defined(__FMA__) || defined(__aarch64__)
constexpr bool HAS_FMA = true;
#else
constexpr bool HAS_FMA = false;
#endif

NPU_INLINE F fma_if_exact(F a, F b, F c) {
#if defined(__AVX512F__)
    return (F)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (F)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (F)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

// The product of two fp32 is exact in fp64. Their sum with c is rounded to odd there (the last bit remembers that
// something was cut off), which makes the second rounding, to fp32, right in every case including subnormals.
NPU_INLINE F fma_soft(F a, F b, F c) {
    typedef double D __attribute__((vector_size(8 * W)));
    typedef int64_t L __attribute__((vector_size(8 * W)));
    const D p = __builtin_convertvector(a, D) * __builtin_convertvector(b, D);
    const D z = __builtin_convertvector(c, D);
    const D s = p + z;
    const D part = s - p;
    const D lost = (p - (s - part)) + (z - part);                 // exact value minus s; NaN if s is not finite
    const L even = ((L)s & 1) == 0;
    const L opposite = ((L)lost ^ (L)s) < 0;                      // -1: the exact value lies towards zero
    const L to_odd = ((lost < 0.0) | (lost > 0.0)) & even & (opposite | 1);
    return __builtin_convertvector((D)((L)s + to_odd), F);
}

template <bool EXACT_PRODUCT>
NPU_INLINE F fma(F a, F b, F c) {
    if constexpr (HAS_FMA || EXACT_PRODUCT) return fma_if_exact(a, b, c);
    else return fma_soft(a, b, c);
}

}  // namespace npu::NPU_ISA
