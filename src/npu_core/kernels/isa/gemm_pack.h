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

// Packed form of `lanes` lanes: panels of `width` lanes one after the other, each [k][width]; width is a multiple of W.
struct Panels {
    float* data;
    int64_t lanes, k_len, width;
    int64_t k_left = 0;                                           // what follows on the k axis, for prefetching

    int64_t count() const { return (lanes + width - 1) / width; }
    int64_t floats() const { return count() * k_len * width; }
};

constexpr int64_t LINE_BYTES = 64;
constexpr int64_t AHEAD_BYTES = 4096;                             // how far to prefetch: over several rows

// Lanes next to each other in memory.
template <class T>
void pack_lanes(const Operand& s, const Panels& out) {
    const char* p = s.data;
    const int64_t step = s.k_stride * T::BYTES, row_bytes = out.lanes * T::BYTES;
    const int64_t ahead = (row_bytes < AHEAD_BYTES ? AHEAD_BYTES / row_bytes + 1 : 1) * step;
    for (int64_t k = 0; k < out.k_len; ++k, p += step) {
        for (int64_t i = 0; i < row_bytes; i += LINE_BYTES) __builtin_prefetch(p + ahead + i);
        float* o = out.data + k * out.width;
        for (int64_t first = 0; first < out.lanes; first += out.width, o += out.k_len * out.width)
            for (int64_t l = 0; l < out.width; l += W)
                store(o + l, vector_of<T>(p + (first + l) * T::BYTES, out.lanes - first - l));
    }
}

// Elements of one lane next to each other: W lanes at a time through a transposition. Lanes that do not exist repeat
// an existing one; nobody reads their products.
template <class T>
void pack_k(const Operand& s, const Panels& out) {
    constexpr int PER_WORD = 4 / T::BYTES;                        // elements in 32 bits
    const int64_t lane_step = s.lane_stride * T::BYTES;
    const int64_t ahead = out.k_left ? out.k_len * T::BYTES : out.width * lane_step;
    for (int64_t group = 0; group < out.count() * out.width; group += W) {
        const char* p[W];
        for (int64_t i = 0; i < W; ++i) p[i] = s.data + (group + i < out.lanes ? group + i : 0) * lane_step;
        float* o = out.data + group / out.width * out.k_len * out.width + group % out.width;
        int64_t k = 0;
        for (; k + PER_WORD * W <= out.k_len; k += PER_WORD * W) {
            I row[W];
            for (int i = 0; i < W; ++i) {
                row[i] = load<I>(p[i] + k * T::BYTES);
                __builtin_prefetch(p[i] + k * T::BYTES + ahead);
            }
            transpose(row);
            for (int i = 0; i < W; ++i) {
                if constexpr (PER_WORD == 1) {
                    store(o + (k + i) * out.width, row[i]);
                } else {
                    store(o + (k + 2 * i) * out.width, T::low(row[i]));
                    store(o + (k + 2 * i + 1) * out.width, T::high(row[i]));
                }
            }
        }
        for (; k < out.k_len; k += W) {
            const int64_t count = out.k_len - k < W ? out.k_len - k : W;
            I row[W];
            for (int i = 0; i < W; ++i) row[i] = bits(vector_of<T>(p[i] + k * T::BYTES, count));
            transpose(row);
            for (int64_t i = 0; i < count; ++i) store(o + (k + i) * out.width, row[i]);
        }
    }
}

template <class T>
void pack_any(const Operand& s, const Panels& out) {
    for (int64_t first = 0; first < out.lanes; first += out.width)
        for (int64_t k = 0; k < out.k_len; ++k)
            for (int64_t l = 0; l < out.width; ++l) {
                const char* p = s.data + ((first + l) * s.lane_stride + k * s.k_stride) * T::BYTES;
                out.data[first * out.k_len + k * out.width + l] = first + l < out.lanes ? vector_of<T>(p, 1)[0] : 0.0f;
            }
}

template <class T>
void pack_as(const Operand& s, const Panels& out) {
    if (s.lane_stride == 1) pack_lanes<T>(s, out);
    else if (s.k_stride == 1) pack_k<T>(s, out);
    else pack_any<T>(s, out);
}

inline void pack(const Operand& s, const Panels& out) {
    if (s.type == DType::F32) pack_as<TypeF32>(s, out);
    else if (s.type == DType::F16) pack_as<TypeF16>(s, out);
    else pack_as<TypeBF16>(s, out);
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
