// Matrix products against the definition in kernels.h: every path, operand type, layout, split and instruction set.
#include <cmath>

#include "check.h"
#include "npu_core/kernels/kernels.h"

namespace {

using npu::DType;

struct Matrix {
    DType type;
    int64_t rows, columns, row_stride, column_stride;
    std::vector<float> value;             // row-major, as fp32
    std::vector<uint8_t> storage;

    Matrix(DType t, int64_t r, int64_t c, int layout, const std::vector<float>& v)
        : type(t), rows(r), columns(c), value(v) {
        row_stride = layout == 0 ? c : layout == 1 ? 1 : 3 * c + 1;
        column_stride = layout == 0 ? 1 : layout == 1 ? r : 3;
        const int bytes = npu::dtype_size_bytes(t);
        storage.resize(static_cast<size_t>((r * row_stride + c * column_stride) * bytes + 64));
        const npu::KernelTable& k = npu::kernels();
        for (int64_t i = 0; i < r; ++i)
            for (int64_t j = 0; j < c; ++j) {
                float& x = value[i * c + j];
                uint8_t* p = storage.data() + (i * row_stride + j * column_stride) * bytes;
                uint16_t h = 0;
                if (t == DType::F32) {
                    std::memcpy(p, &x, 4);
                    continue;
                }
                (t == DType::F16 ? k.f32_to_f16 : k.f32_to_bf16)(&x, &h, 1);
                (t == DType::F16 ? k.f16_to_f32 : k.bf16_to_f32)(&h, &x, 1);
                std::memcpy(p, &h, 2);
            }
    }
};

float reference(const Matrix& a, const Matrix& b, const float* bias, int64_t k_block, int64_t m, int64_t n) {
    float c = bias ? bias[n] : 0.0f;
    for (int64_t k0 = 0; k0 < a.columns; k0 += k_block) {
        float p = 0.0f;
        for (int64_t k = k0; k < a.columns && k < k0 + k_block; ++k)
            p = std::fma(a.value[m * a.columns + k], b.value[k * b.columns + n], p);
        c += p;
    }
    return c;
}

enum Kind { PLAIN, WIDE, TINY, SPECIAL };

std::vector<float> values(int64_t count, Kind kind, std::mt19937& rng) {
    std::normal_distribution<float> normal;
    std::vector<float> v(static_cast<size_t>(count));
    for (float& x : v) {
        x = normal(rng);
        const unsigned pick = rng() % 100;
        if (kind == WIDE) x = std::ldexp(x, static_cast<int>(rng() % 170) - 90);
        if (kind == TINY) x = std::ldexp(x, -66);
        if (kind == SPECIAL && pick < 30)
            x = pick < 2 ? INFINITY : pick < 3 ? NAN : pick < 20 ? 0.0f : pick < 25 ? -0.0f : 1e-40f;
    }
    return v;
}

struct Size {
    int64_t m, n, k, k_block;
};

void check_product(DType ta, DType tb, Kind kind, int layout_a, int layout_b, const Size& size, std::mt19937& rng) {
    const int64_t m = size.m, n = size.n, k = size.k, k_block = size.k_block;
    const Matrix a(ta, m, k, layout_a, values(m * k, kind, rng)), b(tb, k, n, layout_b, values(k * n, kind, rng));
    char what[200];
    std::snprintf(what, sizeof(what), "types %d %d kind %d layouts %d %d, %ldx%ldx%ld block %ld", static_cast<int>(ta),
                  static_cast<int>(tb), kind, layout_a, layout_b, static_cast<long>(m), static_cast<long>(n),
                  static_cast<long>(k), static_cast<long>(k_block));
    const std::vector<float> bias = values(n, PLAIN, rng);
    const float* start = rng() % 2 ? bias.data() : nullptr;
    std::vector<float> expected(static_cast<size_t>(m * n));
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) expected[i * n + j] = reference(a, b, start, k_block, i, j);
    int count = 0;
    const char* const* isas = npu::available_isas(&count);
    for (int i = 0; i < count; ++i) {
        npu::select_isa(isas[i]);
        for (bool split : {false, true}) {
            std::vector<float> c(static_cast<size_t>(m * (n + 2)), 7.0f);
            const npu::GemmArgs g{a.storage.data(), ta, a.row_stride, a.column_stride,
                                  b.storage.data(), tb, b.row_stride, b.column_stride,
                                  start, c.data(), n + 2, m, n, k, k_block};
            const int64_t m1 = split ? static_cast<int64_t>(rng() % static_cast<unsigned>(m + 1)) : m;
            const int64_t n1 = split ? static_cast<int64_t>(rng() % static_cast<unsigned>(n + 1)) : n;
            npu::kernels().gemm(g, 0, m1, 0, n1);
            npu::kernels().gemm(g, m1, m, 0, n1);
            npu::kernels().gemm(g, 0, m1, n1, n);
            npu::kernels().gemm(g, m1, m, n1, n);
            for (int64_t r = 0; r < m; ++r)
                for (int64_t j = 0; j < n + 2; ++j) {
                    const float e = j < n ? expected[r * n + j] : 7.0f, y = c[r * (n + 2) + j];
                    CHECK(same_value(y, e), "%s %s: c[%d,%d] = %a, expected %a", isas[i], what, static_cast<int>(r),
                          static_cast<int>(j), y, e);
                }
        }
    }
}

void check_i8(int64_t m, int64_t n, int64_t k, int layout, std::mt19937& rng) {
    std::vector<int8_t> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n));
    for (int8_t& x : a) x = static_cast<int8_t>(rng());
    for (int8_t& x : b) x = static_cast<int8_t>(rng());
    std::vector<int32_t> bias(static_cast<size_t>(n));
    for (int32_t& x : bias) x = static_cast<int32_t>(rng());
    int count = 0;
    const char* const* isas = npu::available_isas(&count);
    for (int i = 0; i < count; ++i) {
        npu::select_isa(isas[i]);
        std::vector<int32_t> c(static_cast<size_t>(m * n));
        const bool by_rows = layout == 0;
        const npu::GemmArgsI8 g{a.data(), by_rows ? k : 1, by_rows ? 1 : m, b.data(), by_rows ? n : 1, by_rows ? 1 : k,
                                bias.data(), c.data(), n, m, n, k};
        npu::kernels().gemm_i8(g, 0, m / 2);
        npu::kernels().gemm_i8(g, m / 2, m);
        for (int64_t r = 0; r < m; ++r)
            for (int64_t j = 0; j < n; ++j) {
                uint32_t e = static_cast<uint32_t>(bias[j]);
                for (int64_t q = 0; q < k; ++q)
                    e += static_cast<uint32_t>(a[by_rows ? r * k + q : r + q * m] * b[by_rows ? q * n + j : q + j * k]);
                CHECK(c[r * n + j] == static_cast<int32_t>(e), "%s int8 layout %d %ldx%ldx%ld", isas[i], layout,
                      static_cast<long>(m), static_cast<long>(n), static_cast<long>(k));
            }
    }
}

}  // namespace

int main() {
    std::mt19937 rng(5);
    const Size sizes[] = {{1, 1, 1, 1},     {1, 300, 128, 128}, {4, 512, 128, 128}, {4, 128, 512, 128},
                          {3, 65, 300, 300}, {6, 1100, 33, 16},  {5, 64, 513, 512},  {7, 33, 64, 64},
                          {14, 32, 600, 600}, {28, 70, 530, 512}, {33, 129, 100, 7},  {2, 9, 0, 1}};
    const DType types[][2] = {{DType::BF16, DType::BF16}, {DType::F16, DType::F16},
                              {DType::F32, DType::F32}, {DType::BF16, DType::F16}};
    for (const Size& s : sizes)
        for (const auto& t : types)
            for (Kind kind : {PLAIN, WIDE, TINY, SPECIAL}) {
                check_product(t[0], t[1], kind, 0, 0, s, rng);
                check_product(t[0], t[1], kind, 0, 1, s, rng);
                check_product(t[0], t[1], kind, static_cast<int>(rng() % 3), 2, s, rng);
            }
    for (int64_t k_block : {64, 600, 1000})
        check_product(DType::BF16, DType::BF16, PLAIN, 0, 0, {350, 70, 1000, k_block}, rng);
    check_product(DType::F32, DType::F32, WIDE, 1, 1, {300, 600, 1000, 900}, rng);
    for (int layout : {0, 1})
        for (int64_t k : {1, 7, 64, 129, 2049}) check_i8(11, 70, k, layout, rng);
    return report("matrix product");
}
