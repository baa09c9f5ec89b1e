// Matrix product. C starts at bias or 0; for each k block in order P = fma chain over the block from 0, C = C + P.
//
// Three ways through memory, all with the same register tiles and therefore the same bits:
//   direct    few rows, columns next to each other: B is read in place, each element once
//   resident  packed A stays in cache; each panel of B is packed when its turn comes
//   blocked   large products: B packed for a range of columns, A packed block by block
#include "npu_core/kernels/isa/gemm_micro.h"
#include "npu_core/kernels/isa/tables.h"
#include "npu_core/kernels/scratch.h"

namespace npu::NPU_ISA {
namespace {

constexpr int WIDTH_MAX = 4 * W;
constexpr int64_t B_PANEL_FLOATS = 8192;                          // a panel of B in the first-level cache
constexpr int64_t RESIDENT_A_FLOATS = 1 << 18, RESIDENT_ROWS = 400;   // A whole, or a stretch of k of it, in L2
constexpr int64_t BLOCK_K = 512, BLOCK_ROW_PANELS = 12;
constexpr int64_t BLOCK_B_FLOATS = 1 << 21, BLOCK_COLUMNS = 512;
constexpr int64_t B_GROUP = 4;                                    // panels of B packed together if rows run across them
constexpr int64_t DIRECT_K = 16, DIRECT_PARTIAL_FLOATS = 16384;
constexpr int64_t AHEAD_IN_ROW_BYTES = 1024;

int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
float* scratch(Scratch use, int64_t floats) { return static_cast<float*>(kernel_scratch(use, floats * 4)); }

// A range of rows cut into panels of nearly equal height.
struct RowPanels {
    int64_t begin, rows, count;
    RowPanels(int64_t m_begin, int64_t m_end) : begin(m_begin), rows(m_end - m_begin), count(ceil_div(rows, R_MAX)) {}
    int64_t first(int64_t i) const { return begin + i * (rows / count) + smaller(i, rows % count); }
    int height(int64_t i) const { return static_cast<int>(first(i + 1) - first(i)); }
};

// Part of the k axis that one tile call covers.
struct Stretch {
    int64_t k0, length, phase;
    bool suspend;
};

class Product {
public:
    Product(const GemmArgs& args, int64_t m_begin, int64_t m_end, int64_t n_begin, int64_t n_end)
        : g(args), m0(m_begin), m1(m_end), n0(n_begin), n1(n_end),
          a{static_cast<const char*>(g.a), g.a_type, g.a_row_stride, g.a_col_stride},
          b{static_cast<const char*>(g.b), g.b_type, g.b_col_stride, g.b_row_stride},
          k_block(g.k_block > 0 && g.k_block < g.k ? g.k_block : g.k) {}

    void run() {
        const RowPanels panels(m0, m1);
        const bool halves = a.type != DType::F32 && b.type != DType::F32;
        check_range = !HAS_FMA && halves && !(a.type == DType::F16 && b.type == DType::F16);
        exact = HAS_FMA || halves;                               // with check_range: until a range says otherwise
        if (panels.rows <= R_WIDE && b.lane_stride == 1 && exact && !check_range) direct();
        else if (panels.rows <= RESIDENT_ROWS || panels.count * A_PITCH * g.k <= RESIDENT_A_FLOATS) resident(panels);
        else blocked();
    }

private:
    const GemmArgs& g;
    const int64_t m0, m1, n0, n1;
    const Operand a, b;
    const int64_t k_block;
    bool check_range, exact;

    Stretch stretch(int64_t k0, int64_t limit) const {
        const int64_t phase = k0 % k_block, rest = g.k - k0;
        const int64_t most = k_block <= limit ? limit / k_block * k_block : smaller(limit, k_block - phase);
        const int64_t length = smaller(rest, most);
        return {k0, length, phase, length < rest && (phase + length) % k_block != 0};
    }

    // Panels [panel][k][A_PITCH] of the rows, k range [k0, k0 + length).
    void pack_a(const RowPanels& panels, int64_t k0, int64_t length, float* out, ExponentRange& range) const {
        for (int64_t i = 0; i < panels.count; ++i, out += length * A_PITCH) {
            pack(a.at(panels.first(i), k0), Panels{out, panels.height(i), length, A_PITCH});
            if (check_range) range.include(out, length * A_PITCH);
        }
    }

    // One register tile of `columns` <= width columns from n on; c, start and b are completed here.
    void tile(const TileFunction* functions, int width, Tile& t, int64_t m, int rows, int64_t n, int64_t columns,
              bool first) const {
        float begin[WIDTH_MAX] = {};
        if (first && g.bias)
            for (int64_t i = 0; i < columns; ++i) begin[i] = g.bias[n + i];
        t.start = first ? begin : nullptr;
        float* c = g.c + m * g.c_row_stride + n;
        // Several k blocks in one call: a local copy of C keeps rows far apart from evicting one another.
        if (columns == width && t.k_len <= 2 * t.k_block) {
            t.c = c;
            t.c_pitch = g.c_row_stride;
            functions[rows - 1](t);
            return;
        }
        float edge[R_MAX * WIDTH_MAX];
        const unsigned long bytes = static_cast<unsigned long>(columns) * 4;
        t.c = edge;
        t.c_pitch = width;
        if (!first)
            for (int r = 0; r < rows; ++r) __builtin_memcpy(edge + r * width, c + r * g.c_row_stride, bytes);
        functions[rows - 1](t);
        const bool written = !(t.suspend && t.k_phase + t.k_len <= t.k_block);
        if (written)
            for (int r = 0; r < rows; ++r) __builtin_memcpy(c + r * g.c_row_stride, edge + r * width, bytes);
    }

    template <int V>
    const TileFunction* packed_functions(bool exact_products) const {
        static constexpr TileFunctions<V, Packed, true> fast;
        static constexpr TileFunctions<V, Packed, HAS_FMA> soft;
        return exact_products ? fast.function : soft.function;
    }
    const TileFunction* direct_functions() const {
        static constexpr TileFunctions<4, InPlace<TypeF32>, true> f32;
        static constexpr TileFunctions<4, InPlace<TypeF16>, true> f16;
        static constexpr TileFunctions<4, InPlace<TypeBF16>, true> bf16;
        return b.type == DType::F32 ? f32.function : b.type == DType::F16 ? f16.function : bf16.function;
    }

    // Rows of B are read a few at a time over their whole length; the chains of a row wait in `partial` meanwhile.
    void direct() {
        const int rows = static_cast<int>(m1 - m0), width = 4 * W;
        const int64_t step = b.k_stride * b.element_bytes(), row_bytes = (n1 - n0) * b.element_bytes();
        float* packed = scratch(Scratch::PACKED_A, g.k * A_PITCH);
        pack(a.at(m0, 0), Panels{packed, rows, g.k, A_PITCH});
        const int64_t limit = n1 - n0 > width ? DIRECT_K : g.k;
        const int64_t range = smaller(DIRECT_PARTIAL_FLOATS / rows, n1 - n0 + width) / width * width;
        const bool short_rows = row_bytes < 2 * AHEAD_IN_ROW_BYTES;
        const int64_t ahead = short_rows ? (AHEAD_BYTES / row_bytes + 1) * step : AHEAD_IN_ROW_BYTES;
        float* partial = scratch(Scratch::PARTIAL, rows * range);
        const int64_t last_columns = (n1 - n0) % width;          // narrower than a tile: through a packed panel
        float* last = scratch(Scratch::PACKED_B, g.k * width);
        if (last_columns) pack(b.at(n1 - last_columns, 0), Panels{last, last_columns, g.k, width});
        for (int64_t nb = n0; nb < n1; nb += range)
            for (int64_t k0 = 0; k0 < g.k;) {
                const Stretch s = stretch(k0, limit);
                for (int64_t n = nb; n < n1 && n < nb + range; n += width) {
                    const int64_t columns = smaller(width, n1 - n);
                    Tile t{packed + k0 * A_PITCH, b.at(n, k0).data, step, nullptr, 0, nullptr,
                           partial + (n - nb), range, s.length, k_block, s.phase, s.suspend, ahead};
                    const TileFunction* functions = direct_functions();
                    if (columns < width) {
                        t.b = reinterpret_cast<const char*>(last + k0 * width);
                        t.b_step_bytes = width * 4;
                        functions = packed_functions<4>(true);
                    }
                    tile(functions, width, t, m0, rows, n, columns, k0 < k_block);
                }
                k0 += s.length;
            }
    }

    void resident(const RowPanels& panels) {
        constexpr int width = 2 * W;
        const bool grouped = b.lane_stride == 1 || panels.count > 1;
        const int64_t limit = B_PANEL_FLOATS / width, group = grouped ? B_GROUP * width : width;
        ExponentRange a_range;
        float* packed_a = scratch(Scratch::PACKED_A, panels.count * g.k * A_PITCH);
        pack_a(panels, 0, g.k, packed_a, a_range);
        float* packed_b = scratch(Scratch::PACKED_B, smaller(g.k, limit) * group);
        float* partial = scratch(Scratch::PARTIAL, panels.rows * group);
        for (int64_t nb = n0; nb < n1; nb += group)
            for (int64_t k0 = 0; k0 < g.k;) {
                const Stretch s = stretch(k0, limit);
                const Panels packed{packed_b, smaller(group, n1 - nb), s.length, width, g.k - k0 - s.length};
                pack(b.at(nb, k0), packed);
                ExponentRange b_range;
                if (check_range) b_range.include(packed_b, packed.floats());
                const bool fast = exact && (!check_range || products_exact(a_range, b_range));
                const TileFunction* functions = packed_functions<2>(fast);
                for (int64_t n = nb; n < nb + packed.lanes; n += width)
                    for (int64_t i = 0; i < panels.count; ++i) {
                        const int64_t m = panels.first(i);
                        const float* panel = packed_b + (n - nb) * s.length;
                        Tile t{packed_a + (i * g.k + k0) * A_PITCH, reinterpret_cast<const char*>(panel), width * 4,
                               nullptr, 0, nullptr, partial + (m - m0) * group + (n - nb), group,
                               s.length, k_block, s.phase, s.suspend, 0};
                        tile(functions, width, t, m, panels.height(i), n, smaller(width, n1 - n), k0 < k_block);
                    }
                k0 += s.length;
            }
    }

    void blocked() {
        constexpr int width = 2 * W;
        const int64_t fitting = BLOCK_B_FLOATS / g.k / width * width;
        const int64_t columns_max = fitting < width ? width : smaller(fitting, BLOCK_COLUMNS);
        const int64_t row_blocks = ceil_div(m1 - m0, BLOCK_ROW_PANELS * R_MAX);
        for (int64_t nb = n0; nb < n1; nb += columns_max) {
            const int64_t n_end = smaller(n1, nb + columns_max);
            const int64_t b_panels = ceil_div(n_end - nb, width);
            ExponentRange b_range;
            float* packed_b = scratch(Scratch::PACKED_B, b_panels * g.k * width);
            for (int64_t j = 0; j < b_panels; j += B_GROUP) {
                const int64_t n = nb + j * width;
                const Panels out{packed_b + j * g.k * width, smaller(B_GROUP * width, n_end - n), g.k, width};
                pack(b.at(n, 0), out);
                if (check_range) b_range.include(out.data, out.floats());
            }
            for (int64_t i = 0; i < row_blocks; ++i) {
                const RowPanels panels(m0 + (m1 - m0) * i / row_blocks, m0 + (m1 - m0) * (i + 1) / row_blocks);
                row_block(panels, nb, n_end, packed_b, b_range);
            }
        }
    }

    void row_block(const RowPanels& panels, int64_t nb, int64_t n_end, const float* packed_b,
                   const ExponentRange& b_range) {
        constexpr int width = 2 * W;
        const int64_t b_panels = ceil_div(n_end - nb, width), partial_pitch = b_panels * width;
        float* packed_a = scratch(Scratch::PACKED_A, panels.count * smaller(g.k, BLOCK_K) * A_PITCH);
        float* partial = scratch(Scratch::PARTIAL, panels.rows * partial_pitch);
        for (int64_t k0 = 0; k0 < g.k;) {
            const Stretch s = stretch(k0, BLOCK_K);
            ExponentRange a_range;
            pack_a(panels, k0, s.length, packed_a, a_range);
            const TileFunction* functions =
                packed_functions<2>(exact && (!check_range || products_exact(a_range, b_range)));
            for (int64_t j = 0; j < b_panels; ++j) {
                const int64_t n = nb + j * width;
                for (int64_t i = 0; i < panels.count; ++i) {
                    const int64_t m = panels.first(i);
                    const float* panel = packed_b + (j * g.k + k0) * width;
                    Tile t{packed_a + i * s.length * A_PITCH, reinterpret_cast<const char*>(panel), width * 4,
                           nullptr, 0, nullptr, partial + (m - panels.begin) * partial_pitch + j * width, partial_pitch,
                           s.length, k_block, s.phase, s.suspend, 0};
                    tile(functions, width, t, m, panels.height(i), n, smaller(width, n_end - n), k0 < k_block);
                }
            }
            k0 += s.length;
        }
    }
};

void gemm(const GemmArgs& g, int64_t m_begin, int64_t m_end, int64_t n_begin, int64_t n_end) {
    if (m_begin >= m_end || n_begin >= n_end) return;
    if (g.k > 0) {
        Product(g, m_begin, m_end, n_begin, n_end).run();
        return;
    }
    for (int64_t m = m_begin; m < m_end; ++m)
        for (int64_t n = n_begin; n < n_end; ++n) g.c[m * g.c_row_stride + n] = g.bias ? g.bias[n] : 0.0f;
}

}  // namespace

void fill_gemm(KernelTable& t) { t.gemm = gemm; }

}  // namespace npu::NPU_ISA
