// Matrix product of int8 operands, int32 accumulation with wrap-around: the order of additions does not matter.
//
// Operands are packed as pairs of int16, [k / 2][lane][2], for the instruction that multiplies pairs and adds the two.
#include "npu_core/kernels/isa/tables.h"
#include "npu_core/kernels/isa/transpose.h"
#include "npu_core/kernels/scratch.h"

namespace npu::NPU_ISA {
namespace {

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int ROWS = 8;
#else
constexpr int ROWS = 4;
#endif
constexpr int WIDTH = 2 * W;                                      // columns of a tile
constexpr int64_t K_CHUNK = 1024;                                 // even
static_assert(ROWS <= WIDTH);

NPU_INLINE I add_products(I a, I b, I sum) {
#if defined(__AVX512BW__)
    return (I)_mm512_add_epi32((__m512i)sum, _mm512_madd_epi16((__m512i)a, (__m512i)b));
#elif defined(__AVX2__)
    return (I)_mm256_add_epi32((__m256i)sum, _mm256_madd_epi16((__m256i)a, (__m256i)b));
#elif defined(__SSE2__)
    return (I)_mm_add_epi32((__m128i)sum, _mm_madd_epi16((__m128i)a, (__m128i)b));
#else
    return (I)((U)sum + (U)(((a << 16) >> 16) * ((b << 16) >> 16)) + (U)((a >> 16) * (b >> 16)));
#endif
}

struct Operand8 {
    const int8_t* data;
    int64_t lane_stride, k_stride;
};

NPU_INLINE I pair_of(I even, I odd) { return (even & 0xffff) | (odd << 16); }
NPU_INLINE I widen_row(const int8_t* p, int64_t count) {
    if (count >= W) return widen_bytes(load<S>(p));
    S s{};
    if (count > 0) __builtin_memcpy(&s, p, static_cast<unsigned long>(count));
    return widen_bytes(s);
}

void pack_rows(const Operand8& s, int64_t lanes, int64_t k_len, int32_t* out, int64_t pitch) {
    for (int64_t k = 0; k < k_len; k += 2, out += pitch)
        for (int64_t l = 0; l < pitch; l += W) {
            const int8_t* p = s.data + k * s.k_stride + l;
            const I odd = k + 1 < k_len ? widen_row(p + s.k_stride, lanes - l) : I{};
            store(out + l, pair_of(widen_row(p, lanes - l), odd));
        }
}

int32_t pair_at(const Operand8& s, int64_t lane, int64_t k, int64_t k_len) {
    const int8_t* p = s.data + lane * s.lane_stride + k * s.k_stride;
    const uint32_t odd = k + 1 < k_len ? static_cast<uint16_t>(p[s.k_stride]) : 0u;
    return static_cast<int32_t>(static_cast<uint16_t>(p[0]) | odd << 16);
}

// Lanes [first, first + count), k from k_begin on.
void pack_any(const Operand8& s, int64_t lanes, int64_t k_begin, int64_t k_len, int32_t* out, int64_t pitch,
              int64_t first, int64_t count) {
    for (int64_t k = k_begin; k < k_len; k += 2)
        for (int64_t l = first; l < first + count; ++l)
            out[k / 2 * pitch + l] = l < lanes ? pair_at(s, l, k, k_len) : 0;
}

void pack_columns(const Operand8& s, int64_t lanes, int64_t k_len, int32_t* out, int64_t pitch) {
    for (int64_t group = 0; group < pitch; group += W) {
        const int8_t* p[W];
        for (int64_t i = 0; i < W; ++i) p[i] = s.data + (group + i < lanes ? group + i : 0) * s.lane_stride;
        int64_t k = 0;
        for (; k + 4 * W <= k_len; k += 4 * W) {
            I row[W];
            for (int i = 0; i < W; ++i) row[i] = load<I>(p[i] + k);
            transpose(row);
            for (int i = 0; i < W; ++i) {                         // four consecutive k of W lanes
                const I x = row[i];
                int32_t* o = out + (k / 2 + 2 * i) * pitch + group;
                store(o, pair_of((x << 24) >> 24, (x << 16) >> 24));
                store(o + pitch, pair_of((x << 8) >> 24, x >> 24));
            }
        }
        pack_any(s, lanes, k, k_len, out, pitch, group, W);
    }
}

void pack(const Operand8& s, int64_t lanes, int64_t k_len, int32_t* out, int64_t pitch) {
    if (s.lane_stride == 1) pack_rows(s, lanes, k_len, out, pitch);
    else if (s.k_stride == 1) pack_columns(s, lanes, k_len, out, pitch);
    else pack_any(s, lanes, 0, k_len, out, pitch, 0, pitch);
}

constexpr int A_LANES = (ROWS + W - 1) / W * W;

// sums[R][WIDTH] += packed a (A_LANES lanes) times packed b
template <int R>
void tile_i8(const int32_t* a, const int32_t* b, int64_t pairs, int32_t* sums) {
    I acc[R][2];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
        acc[r][0] = load<I>(sums + r * WIDTH);
        acc[r][1] = load<I>(sums + r * WIDTH + W);
    }
    for (int64_t k = 0; k < pairs; ++k, a += A_LANES, b += WIDTH) {
        const I left = load<I>(b), right = load<I>(b + W);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const I row = splat_bits(static_cast<uint32_t>(a[r]));
            acc[r][0] = add_products(row, left, acc[r][0]);
            acc[r][1] = add_products(row, right, acc[r][1]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
        store(sums + r * WIDTH, acc[r][0]);
        store(sums + r * WIDTH + W, acc[r][1]);
    }
}

template <int R = ROWS>
void run_tile(int64_t rows, const int32_t* a, const int32_t* b, int64_t pairs, int32_t* sums) {
    if (rows == R) return tile_i8<R>(a, b, pairs, sums);
    if constexpr (R > 1) run_tile<R - 1>(rows, a, b, pairs, sums);
}

void gemm_i8(const GemmArgsI8& g, int64_t m_begin, int64_t m_end) {
    const int64_t rows = m_end - m_begin, panels = (rows + ROWS - 1) / ROWS, pairs_total = (g.k + 1) / 2;
    if (rows <= 0) return;
    int32_t* packed_a = static_cast<int32_t*>(kernel_scratch(Scratch::PACKED_A, panels * pairs_total * A_LANES * 4));
    int32_t* packed_b = static_cast<int32_t*>(kernel_scratch(Scratch::PACKED_B, K_CHUNK / 2 * WIDTH * 4));
    for (int64_t i = 0; i < panels; ++i) {
        const int64_t m = m_begin + i * ROWS, height = m_end - m < ROWS ? m_end - m : ROWS;
        pack(Operand8{g.a + m * g.a_row_stride, g.a_row_stride, g.a_col_stride}, height, g.k,
             packed_a + i * pairs_total * A_LANES, A_LANES);
    }
    for (int64_t n = 0; n < g.n; n += WIDTH) {
        const int64_t columns = g.n - n < WIDTH ? g.n - n : WIDTH;
        for (int64_t k0 = 0; k0 < g.k || k0 == 0; k0 += K_CHUNK) {
            const int64_t length = g.k - k0 < K_CHUNK ? g.k - k0 : K_CHUNK;
            const Operand8 b{g.b + n * g.b_col_stride + k0 * g.b_row_stride, g.b_col_stride, g.b_row_stride};
            pack(b, columns, length, packed_b, WIDTH);
            for (int64_t i = 0; i < panels; ++i) {
                const int64_t m = m_begin + i * ROWS, height = m_end - m < ROWS ? m_end - m : ROWS;
                int32_t sums[ROWS * WIDTH] = {};
                const unsigned long bytes = static_cast<unsigned long>(columns) * 4;
                for (int64_t r = 0; r < height; ++r) {
                    const int32_t* start = k0 ? g.c + (m + r) * g.c_row_stride + n : g.bias ? g.bias + n : nullptr;
                    if (start) __builtin_memcpy(sums + r * WIDTH, start, bytes);
                }
                run_tile(height, packed_a + (i * pairs_total + k0 / 2) * A_LANES, packed_b, (length + 1) / 2, sums);
                for (int64_t r = 0; r < height; ++r)
                    __builtin_memcpy(g.c + (m + r) * g.c_row_stride + n, sums + r * WIDTH, bytes);
            }
        }
    }
}

}  // namespace

void fill_gemm_i8(KernelTable& t) { t.gemm_i8 = gemm_i8; }

}  // namespace npu::NPU_ISA
