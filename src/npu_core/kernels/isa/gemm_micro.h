// Register tile of the matrix product: R rows by V vectors of columns over a stretch of k.
#pragma once
#include "npu_core/kernels/isa/fma.h"
#include "npu_core/kernels/isa/gemm_pack.h"

namespace npu::NPU_ISA {

// Largest register tile: R_MAX rows of 2 vectors, or R_WIDE rows of 4 vectors for products with few rows.
#if defined(__AVX512F__)
constexpr int R_MAX = 14, R_WIDE = 6;
#elif defined(__AVX2__)
constexpr int R_MAX = 6, R_WIDE = 3;
#elif defined(__aarch64__)
constexpr int R_MAX = 12, R_WIDE = 6;
#else
constexpr int R_MAX = 4, R_WIDE = 2;
#endif
constexpr int A_PITCH = (R_MAX + W - 1) / W * W;                  // lanes of a packed panel of A

struct Tile {
    const float* a;                                               // packed, A_PITCH lanes
    const char* b;                                                // packed with V * W lanes, or the operand itself
    int64_t b_step_bytes;                                         // from one k to the next
    float* c;
    int64_t c_pitch;
    const float* start;                                           // V * W first values of C; null: C holds a sum
    float* partial;                                               // chain of a k block cut by the stretch
    int64_t partial_pitch;
    int64_t k_len, k_block, k_phase;                              // k_phase: where the stretch starts in its k block
    bool suspend;                                                 // the last chain goes on in the next stretch
    int64_t ahead_bytes;                                          // what to prefetch of an operand read in place
};

struct Packed : TypeF32 {
    static constexpr bool PREFETCH = false;
};
template <class T>
struct InPlace : T {
    static constexpr bool PREFETCH = true;
};

template <int R, int V, class T, bool EXACT_PRODUCT>
void tile_product(const Tile& t) {
    F acc[R][V];
    const float* a = t.a;
    const char* b = t.b;
    const int64_t step = t.b_step_bytes;
    const float* start = t.start;
    int64_t left = t.k_len;
    int64_t length = t.k_block - t.k_phase;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) acc[r][v] = F{};
    if (t.k_phase)
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) acc[r][v] = load<F>(t.partial + r * t.partial_pitch + v * W);
    for (;;) {
        const bool whole = length <= left;
        if (!whole) length = left;
        left -= length;
        for (int64_t k = 0; k < length; ++k) {
            F column[V];
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) column[v] = T::vector(b + v * W * T::BYTES);
            if constexpr (T::PREFETCH)
                for (int i = 0; i < V * W * T::BYTES; i += LINE_BYTES) __builtin_prefetch(b + t.ahead_bytes + i);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) {
                const F row = splat(a[r]);
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) acc[r][v] = fma<EXACT_PRODUCT>(row, column[v], acc[r][v]);
            }
            a += A_PITCH;
            b += step;
        }
        if (left == 0 && t.suspend) {
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) store(t.partial + r * t.partial_pitch + v * W, acc[r][v]);
            return;
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) {
                float* c = t.c + r * t.c_pitch + v * W;
                store(c, default_nan(load<F>(start ? start + v * W : c) + acc[r][v]));
                acc[r][v] = F{};
            }
        if (left == 0) return;
        start = nullptr;
        length = t.k_block;
    }
}

using TileFunction = void (*)(const Tile&);

// function[r - 1] handles r rows.
template <int V, class T, bool EXACT_PRODUCT>
struct TileFunctions {
    TileFunction function[R_MAX] = {};

    constexpr TileFunctions() { fill<1>(); }
    template <int R>
    constexpr void fill() {
        if constexpr (R <= (V == 4 ? R_WIDE : R_MAX)) {
            function[R - 1] = tile_product<R, V, T, EXACT_PRODUCT>;
            fill<R + 1>();
        }
    }
};

}  // namespace npu::NPU_ISA
