// Packing of a matrix operand into panels [k][lane] of fp32. A lane is a row of A or a column of B.
#pragma once
#include "npu_core/kernels/isa/convert.h"
#include "npu_core/kernels/isa/transpose.h"
#include "npu_core/kernels/kernels.h"

namespace npu::NPU_ISA {

struct Operand {
    const char* data;
    DType type;
    int64_t lane_stride, k_stride;                                // in elements

    int64_t element_bytes() const { return type == DType::F32 ? 4 : 2; }
    Operand at(int64_t lane, int64_t k) const {
        return {data + (lane * lane_stride + k * k_stride) * element_bytes(), type, lane_stride, k_stride};
    }
};

struct TypeF32 {
    static constexpr int BYTES = 4;
    static NPU_INLINE F vector(const char* p) { return load<F>(p); }
};
struct TypeF16 {
    static constexpr int BYTES = 2;
    static NPU_INLINE F vector(const char* p) { return f16_to_f32(load<H>(p)); }
    static NPU_INLINE F low(I pair) { return f16_to_f32(narrow((U)pair & 0xffffu)); }
    static NPU_INLINE F high(I pair) { return f16_to_f32(narrow((U)pair >> 16)); }
};
struct TypeBF16 {
    static constexpr int BYTES = 2;
    static NPU_INLINE F vector(const char* p) { return bf16_to_f32(load<H>(p)); }
    static NPU_INLINE F low(I pair) { return as_float(pair << 16); }
    static NPU_INLINE F high(I pair) { return as_float(pair & splat_bits(0xffff0000u)); }
};

template <class T>
NPU_INLINE F vector_of(const char* p, int64_t count) {            // the first `count` of W elements, 0 after them
    if (count >= W) return T::vector(p);
    char buffer[W * T::BYTES] = {};
    if (count > 0) __builtin_memcpy(buffer, p, static_cast<unsigned long>(count * T::BYTES));
    return T::vector(buffer);
}

// Lanes next to each other in memory.
template <class T>
void pack_lanes(const Operand& s, int64_t lanes, int64_t k_len, float* out, int64_t pitch) {
    const char* p = s.data;
    const int64_t step = s.k_stride * T::BYTES;
    const int64_t whole = lanes / W * W;
    for (int64_t k = 0; k < k_len; ++k, p += step, out += pitch) {
        int64_t l = 0;
        for (; l < whole; l += W) store(out + l, T::vector(p + l * T::BYTES));
        for (; l < pitch; l += W) store(out + l, vector_of<T>(p + l * T::BYTES, lanes - l));
    }
}

// Elements of one lane next to each other: W lanes at a time through a transposition. Lanes that do not exist repeat
// lane 0; nobody reads their products.
template <class T>
void pack_k(const Operand& s, int64_t lanes, int64_t k_len, float* out, int64_t pitch) {
    constexpr int PER_WORD = 4 / T::BYTES;                        // elements in 32 bits
    for (int64_t group = 0; group < pitch; group += W) {
        const char* p[W];
        for (int64_t i = 0; i < W; ++i)
            p[i] = s.data + (group + i < lanes ? group + i : 0) * s.lane_stride * T::BYTES;
        float* o = out + group;
        int64_t k = 0;
        for (; k + PER_WORD * W <= k_len; k += PER_WORD * W) {
            I row[W];
            for (int i = 0; i < W; ++i) row[i] = load<I>(p[i] + k * T::BYTES);
            transpose(row);
            for (int i = 0; i < W; ++i) {
                if constexpr (PER_WORD == 1) {
                    store(o + (k + i) * pitch, row[i]);
                } else {
                    store(o + (k + 2 * i) * pitch, T::low(row[i]));
                    store(o + (k + 2 * i + 1) * pitch, T::high(row[i]));
                }
            }
        }
        for (; k < k_len; k += W) {
            const int64_t count = k_len - k < W ? k_len - k : W;
            I row[W];
            for (int i = 0; i < W; ++i) row[i] = bits(vector_of<T>(p[i] + k * T::BYTES, count));
            transpose(row);
            for (int64_t i = 0; i < count; ++i) store(o + (k + i) * pitch, row[i]);
        }
    }
}

template <class T>
void pack_any(const Operand& s, int64_t lanes, int64_t k_len, float* out, int64_t pitch) {
    for (int64_t k = 0; k < k_len; ++k)
        for (int64_t l = 0; l < pitch; ++l)
            out[k * pitch + l] = l < lanes ? vector_of<T>(s.data + (l * s.lane_stride + k * s.k_stride) * T::BYTES, 1)[0] : 0.0f;
}

template <class T>
void pack_as(const Operand& s, int64_t lanes, int64_t k_len, float* out, int64_t pitch) {
    if (s.lane_stride == 1) pack_lanes<T>(s, lanes, k_len, out, pitch);
    else if (s.k_stride == 1) pack_k<T>(s, lanes, k_len, out, pitch);
    else pack_any<T>(s, lanes, k_len, out, pitch);
}

// pitch: a multiple of W, at least `lanes`.
inline void pack(const Operand& s, int64_t lanes, int64_t k_len, float* out, int64_t pitch) {
    if (s.type == DType::F32) pack_as<TypeF32>(s, lanes, k_len, out, pitch);
    else if (s.type == DType::F16) pack_as<TypeF16>(s, lanes, k_len, out, pitch);
    else pack_as<TypeBF16>(s, lanes, k_len, out, pitch);
}

// Exponents (of 2) of the finite non-zero values of a packed operand; without any, low > high.
struct ExponentRange {
    int low = 1000, high = -1000;

    void include(const float* x, int64_t n) {                     // n is a multiple of W
        I smallest = splat_bits(0x7fffffffu), largest{};
        for (int64_t i = 0; i < n; i += W) {
            const I m = bits(load<F>(x + i)) & 0x7fffffff;
            const I finite = m < 0x7f800000;
            largest = select(finite & (m > largest), m, largest);
            smallest = select((m != 0) & (m < smallest), m, smallest);
        }
        for (int i = 0; i < W; ++i) {
            if (largest[i] != 0) high = max_of(high, (largest[i] >> 23) - 127);
            if (largest[i] != 0) low = min_of(low, smallest[i] >> 23 ? (smallest[i] >> 23) - 127 : -149);
        }
    }
    static int max_of(int a, int b) { return a > b ? a : b; }
    static int min_of(int a, int b) { return a < b ? a : b; }
};

// Whether every product of halves from the two ranges is exact in fp32.
inline bool products_exact(const ExponentRange& a, const ExponentRange& b) {
    return a.low > a.high || b.low > b.high || (a.high + b.high <= 126 && a.low + b.low >= -126);
}

}  // namespace npu::NPU_ISA
