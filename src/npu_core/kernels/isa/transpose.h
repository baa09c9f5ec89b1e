// In-register transposition of W rows of W 32-bit values.
#pragma once
#include "npu_core/kernels/isa/simd.h"

namespace npu::NPU_ISA {

#if defined(__AVX512F__)
NPU_INLINE void transpose(I (&row)[W]) {
    __m512i t[16], u[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32((__m512i)row[i], (__m512i)row[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32((__m512i)row[i], (__m512i)row[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        u[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        u[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        u[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        u[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; ++i) {                                 // quarters: rows 0-3 with 4-7, 8-11 with 12-15
        t[i] = _mm512_shuffle_i32x4(u[i], u[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(u[i], u[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(u[i + 8], u[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(u[i + 8], u[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
        row[i] = (I)_mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        row[i + 8] = (I)_mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
        row[i + 4] = (I)_mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        row[i + 12] = (I)_mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
}
#elif defined(__AVX2__)
NPU_INLINE void transpose(I (&row)[W]) {
    __m256i t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi32((__m256i)row[i], (__m256i)row[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32((__m256i)row[i], (__m256i)row[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        u[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        u[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
        u[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
        row[i] = (I)_mm256_permute2x128_si256(u[i], u[i + 4], 0x20);
        row[i + 4] = (I)_mm256_permute2x128_si256(u[i], u[i + 4], 0x31);
    }
}
#else
NPU_INLINE void transpose(I (&row)[W]) {
    const I a = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
    const I b = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
    const I c = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
    const I d = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
    row[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    row[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    row[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    row[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}
#endif

}  // namespace npu::NPU_ISA
