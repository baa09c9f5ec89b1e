// Vector conversions between fp32 and the 16-bit formats; used by the casts and by the packing of matrix operands.
#pragma once
#include "npu_core/kernels/isa/simd.h"

namespace npu::NPU_ISA {

NPU_INLINE U widen(H h) { return __builtin_convertvector(h, U); }
NPU_INLINE H narrow(U u) { return __builtin_convertvector(u, H); }

NPU_INLINE F bf16_to_f32(H h) { return (F)(widen(h) << 16); }

// Nearest, ties to even. A NaN keeps its sign and becomes the default quiet NaN.
NPU_INLINE H f32_to_bf16(F x) {
    const U u = (U)x;
    const U rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const U nan = ((u >> 16) & 0x8000u) | 0x7fc0u;
    return narrow((U)select((I)(x != x), (I)nan, (I)rounded));
}

NPU_INLINE F f16_to_f32(H h) {
#if defined(__AVX512F__)
    return (F)_mm512_cvtph_ps((__m256i)h);
#elif defined(__F16C__)
    return (F)_mm256_cvtph_ps((__m128i)h);
#else
    const U u = widen(h);
    const U sign = (u & 0x8000u) << 16;
    const U magnitude = (u & 0x7fffu) << 13;                   // exponent and mantissa in fp32 position
    const U exponent = u & 0x7c00u;
    const U normal = magnitude + (112u << 23);
    const U quiet = (U)(((I)((u & 0x3ffu) != 0u)) & 0x400000);    // NaN becomes quiet, as hardware does it
    const U special = (magnitude + (224u << 23)) | quiet;
    // subnormal: mantissa * 2^-24, exact in fp32
    const U small = (U)(to_float((I)(u & 0x3ffu)) * splat(0x1p-24f));
    const I is_special = (I)(exponent == 0x7c00u), is_small = (I)(exponent == 0u);
    return (F)(sign | (U)select(is_special, (I)special, select(is_small, (I)small, (I)normal)));
#endif
}

// Nearest, ties to even; beyond 65504 + half a unit becomes infinity; NaN keeps sign and upper payload, quiet.
NPU_INLINE H f32_to_f16(F x) {
#if defined(__AVX512F__)
    return (H)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__F16C__)
    return (H)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    const U u = (U)x;
    const U sign = (u >> 16) & 0x8000u;
    const U magnitude = u & 0x7fffffffu;
    const U normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // below 2^-14: adding 0.5 makes one unit of fp32 equal to one unit of the fp16 subnormals and rounds to even
    const U small = (U)((F)magnitude + splat(0.5f)) - 0x3f000000u;
    const U nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    const I m = (I)magnitude;
    I r = select(m < (113 << 23), (I)small, (I)normal);
    r = select(m >= 0x477ff000, splat_bits(0x7c00u), r);
    r = select(m > 0x7f800000, (I)nan, r);
    return narrow(sign | (U)r);
#endif
}

}  // namespace npu::NPU_ISA
