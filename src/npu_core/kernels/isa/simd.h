// Fixed-width vectors for one instruction set, on the vector extensions of gcc and clang.
//
// Every file of this folder is compiled once per instruction set. All names live in npu::NPU_ISA, so that the linker
// never mixes copies, and nothing here instantiates a standard library template.
#pragma once
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define NPU_INLINE inline __attribute__((always_inline))

namespace npu::NPU_ISA {

#if defined(__AVX512F__)
constexpr int W = 16;                                       // floats per vector
#elif defined(__AVX2__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif

typedef float F __attribute__((vector_size(4 * W)));
typedef int32_t I __attribute__((vector_size(4 * W)));
typedef uint32_t U __attribute__((vector_size(4 * W)));
typedef uint16_t H __attribute__((vector_size(2 * W)));     // half types cross as bits
typedef uint8_t B __attribute__((vector_size(W)));

template <class V>
NPU_INLINE V load(const void* p) {
    V v;
    __builtin_memcpy(&v, p, sizeof(V));
    return v;
}
template <class V>
NPU_INLINE void store(void* p, V v) {
    __builtin_memcpy(p, &v, sizeof(V));
}

NPU_INLINE I splat_bits(uint32_t s) { return I{} + static_cast<int32_t>(s); }
NPU_INLINE F splat(float s) {                               // through the bits: keeps -0
    uint32_t u;
    __builtin_memcpy(&u, &s, 4);
    return (F)splat_bits(u);
}

NPU_INLINE I bits(F x) { return (I)x; }
NPU_INLINE F as_float(I x) { return (F)x; }
NPU_INLINE F select(I mask, F a, F b) { return mask ? a : b; }
NPU_INLINE I select(I mask, I a, I b) { return mask ? a : b; }
NPU_INLINE F fabs(F x) { return as_float(bits(x) & 0x7fffffff); }
NPU_INLINE I sign_bit(F x) { return bits(x) & splat_bits(0x80000000u); }
NPU_INLINE F with_sign(F magnitude, I sign) { return as_float(bits(magnitude) | sign); }
NPU_INLINE F to_float(I x) { return __builtin_convertvector(x, F); }

// Truncation of values inside the int32 range.
NPU_INLINE I to_int(F x) { return __builtin_convertvector(x, I); }

// Bytes to and from 32-bit lanes (the generic conversion goes element by element).
typedef int8_t S __attribute__((vector_size(W)));
NPU_INLINE I widen_bytes(S s) {
#if defined(__AVX512F__)
    return (I)_mm512_cvtepi8_epi32((__m128i)s);
#elif defined(__AVX2__)
    return (I)_mm256_cvtepi8_epi32(_mm_cvtsi64_si128((long long)s));
#elif defined(__SSE2__)
    const __m128i x = _mm_cvtsi32_si128((int)s), twice = _mm_unpacklo_epi8(x, x);
    return (I)_mm_unpacklo_epi16(twice, twice) >> 24;
#else
    return __builtin_convertvector(s, I);
#endif
}
NPU_INLINE B truth_bytes(I mask) {                          // 1 where the mask is set
#if defined(__AVX2__) && !defined(__AVX512F__)
    const __m256i m = (__m256i)mask;
    const __m128i x = _mm_packs_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    return (B)_mm_cvtsi128_si64(_mm_packs_epi16(x, x)) & 1;
#elif defined(__SSE2__) && !defined(__AVX512F__)
    const __m128i x = _mm_packs_epi32((__m128i)mask, (__m128i)mask);
    return (B)_mm_cvtsi128_si32(_mm_packs_epi16(x, x)) & 1;
#else
    return __builtin_convertvector(mask & 1, B);
#endif
}

NPU_INLINE F sqrt(F x) {
#if defined(__AVX512F__)
    return (F)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (F)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
    return (F)_mm_sqrt_ps((__m128)x);
#elif defined(__aarch64__)
    return (F)vsqrtq_f32((float32x4_t)x);
#else
    F y;
    for (int i = 0; i < W; ++i) y[i] = __builtin_sqrtf(x[i]);
    return y;
#endif
}

// Which of several NaNs comes through a sum depends on how it was compiled: one NaN for all.
NPU_INLINE F default_nan(F x) { return select(x == x, x, splat(__builtin_nanf(""))); }

// NaN wins, whichever side it is on; equal values (0 and -0) give the first operand.
NPU_INLINE F max_nan(F a, F b) { return select((b > a) | (b != b), b, a); }
NPU_INLINE F min_nan(F a, F b) { return select((b < a) | (b != b), b, a); }

}  // namespace npu::NPU_ISA
