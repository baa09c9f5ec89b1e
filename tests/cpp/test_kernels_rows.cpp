// Binary operations, comparisons, selection and reductions: against scalar definitions, every length up to 300,
// unaligned, in place, and with the same bits on every instruction set.
#include <cmath>
#include <stdexcept>

#include "check.h"
#include "npu_core/kernels/kernels.h"

namespace {

using npu::Binary;
using npu::Compare;

float expected(Binary op, float a, float b) {
    switch (op) {
        case Binary::ADD: return a + b;
        case Binary::SUB: return a - b;
        case Binary::MUL: return a * b;
        case Binary::DIV: return a / b;
        case Binary::MAX: return a != a ? a : b != b ? b : b > a ? b : a;
        default: return a != a ? a : b != b ? b : b < a ? b : a;
    }
}
bool expected(Compare op, float a, float b) {
    switch (op) {
        case Compare::EQ: return a == b;
        case Compare::NE: return a != b;
        case Compare::LT: return a < b;
        case Compare::LE: return a <= b;
        case Compare::GT: return a > b;
        default: return a >= b;
    }
}

// The order of kernels.h, one repeat of 64 lanes after the other, level by level.
float expected_sum(const float* x, int64_t n) {
    if (n == 0) return 0.0f;
    std::vector<std::vector<float>> level;
    for (int64_t i = 0; i < n; i += 64) {
        level.emplace_back(64, -0.0f);
        for (int64_t l = 0; l < 64 && i + l < n; ++l) level.back()[l] = x[i + l];
    }
    while (level.size() > 1) {
        std::vector<std::vector<float>> next;
        for (size_t i = 0; i + 1 < level.size(); i += 2) {
            next.push_back(level[i]);
            for (int l = 0; l < 64; ++l) next.back()[l] += level[i + 1][l];
        }
        if (level.size() % 2) next.push_back(level.back());
        level = next;
    }
    for (int half = 32; half >= 1; half /= 2)
        for (int l = 0; l < half; ++l) level[0][l] += level[0][l + half];
    return level[0][0];
}

void check_elementwise(const char* isa, const std::vector<float>& a, const std::vector<float>& b) {
    const npu::KernelTable& t = npu::kernels();
    const int64_t n = static_cast<int64_t>(a.size());
    std::vector<float> y(n), z(n);
    std::vector<uint8_t> c(n);
    for (int k = 0; k < static_cast<int>(Binary::COUNT); ++k) {
        const Binary op = static_cast<Binary>(k);
        t.binary[k](a.data(), b.data(), y.data(), n);
        for (int64_t i = 0; i < n; ++i)
            CHECK(same_value(y[i], expected(op, a[i], b[i])), "%s op %d: %a, %a -> %a", isa, k, a[i], b[i], y[i]);
        for (float s : {-0.0f, 0.0f, 1.5f, __builtin_nanf("")}) {
            z = a;
            t.binary_vs[k](z.data(), s, z.data(), n);
            for (int64_t i = 0; i < n; ++i)
                CHECK(same_value(z[i], expected(op, a[i], s)), "%s op %d: %a, scalar %a -> %a", isa, k, a[i], s, z[i]);
            t.binary_sv[k](s, a.data(), y.data(), n);
            for (int64_t i = 0; i < n; ++i)
                CHECK(same_value(y[i], expected(op, s, a[i])), "%s op %d: scalar %a, %a -> %a", isa, k, s, a[i], y[i]);
        }
    }
    for (int k = 0; k < static_cast<int>(Compare::COUNT); ++k) {
        const Compare op = static_cast<Compare>(k);
        t.compare[k](a.data(), b.data(), c.data(), n);
        for (int64_t i = 0; i < n; ++i)
            CHECK(c[i] == expected(op, a[i], b[i]), "%s compare %d: %a, %a", isa, k, a[i], b[i]);
        t.compare_vs[k](a.data(), 1.0f, c.data(), n);
        for (int64_t i = 0; i < n; ++i) CHECK(c[i] == expected(op, a[i], 1.0f), "%s compare %d: %a", isa, k, a[i]);
    }
    t.select(c.data(), a.data(), b.data(), y.data(), n);
    for (int64_t i = 0; i < n; ++i) CHECK(bits_of(y[i]) == bits_of(c[i] ? a[i] : b[i]), "%s select", isa);
    t.fill_f32(-0.0f, y.data(), n);
    for (int64_t i = 0; i < n; ++i) CHECK(bits_of(y[i]) == 0x80000000u, "%s fill", isa);
}

void check_reductions(const char* isa, const std::vector<float>& x) {
    const npu::KernelTable& t = npu::kernels();
    for (int64_t n = 0; n <= 3000; n += n < 700 ? 1 : 97) {
        const float* p = x.data() + n % 7;
        CHECK(bits_of(t.row_sum(p, n)) == bits_of(expected_sum(p, n)), "%s row_sum of %ld", isa, static_cast<long>(n));
        if (n == 0) continue;
        float high = p[0], low = p[0];
        for (int64_t i = 1; i < n; ++i) high = p[i] > high ? p[i] : high, low = p[i] < low ? p[i] : low;
        CHECK(t.row_max(p, n) == high && t.row_min(p, n) == low, "%s extremes of %ld", isa, static_cast<long>(n));
        std::vector<float> with_nan(p, p + n);
        with_nan[n * 7 % n] = with_nan[(n * 13 + 5) % n] = __builtin_nanf("");
        CHECK(std::isnan(t.row_max(with_nan.data(), n)), "%s NaN in %ld", isa, static_cast<long>(n));
        CHECK(std::isnan(t.row_min(with_nan.data(), n)), "%s NaN in %ld", isa, static_cast<long>(n));
    }
    for (int64_t repeats = 1; repeats <= 32; repeats *= 2) {        // values near 1: no product leaves the range
        std::vector<float> near_one, halves;
        for (int64_t i = 0; i < 64 * repeats; ++i) near_one.push_back(1.0f + std::fmod(std::fabs(x[i % x.size()]), 1.0f) / 64);
        halves = near_one;
        for (size_t half = halves.size() / 2; half >= 1; half /= 2)
            for (size_t i = 0; i < half; ++i) halves[i] *= halves[i + half];
        CHECK(bits_of(t.row_product(near_one.data(), repeats)) == bits_of(halves[0]), "%s row_product of %ld repeats", isa,
              static_cast<long>(repeats));
    }
    const float zeros[] = {-0.0f, -0.0f, -0.0f};
    CHECK(bits_of(t.row_sum(zeros, 3)) == 0x80000000u, "%s sum of negative zeros", isa);
}

// Runs every element function on tails of every length and compares bits, elements beyond the row included.
std::vector<uint32_t> all_outputs(const std::vector<float>& a, const std::vector<float>& b) {
    const npu::KernelTable& t = npu::kernels();
    std::vector<uint32_t> out;
    std::vector<float> y(400);
    auto clear = [&] { std::fill(y.begin(), y.end(), 7.0f); };
    auto keep = [&] {
        for (float v : y) out.push_back(v != v ? 0x7fc00000u : bits_of(v));
    };
    for (int64_t n = 0; n < 300; n += 1 + n / 40)
        for (int64_t offset : {0, 1, 5}) {
            for (auto f : t.unary) clear(), f(a.data() + offset, y.data() + offset, n), keep();
            for (auto f : t.binary) clear(), f(a.data() + offset, b.data(), y.data() + 1, n), keep();
        }
    return out;
}

}  // namespace

int main() {
    std::vector<float> special = probe_values(0), a, b;
    for (float u : special)
        for (float v : special) a.push_back(u), b.push_back(v);
    const std::vector<float> more = probe_values(20000, 2), other = probe_values(20000, 3);
    a.insert(a.end(), more.begin(), more.end());
    b.insert(b.end(), other.begin(), other.end());
    std::mt19937 rng(4);
    std::normal_distribution<float> normal;
    std::vector<float> plain(3100);
    for (float& v : plain) v = normal(rng);

    int count = 0;
    const char* const* isas = npu::available_isas(&count);
    std::vector<uint32_t> first;
    for (int i = 0; i < count; ++i) {
        npu::select_isa(isas[i]);
        CHECK(std::strcmp(npu::kernels().isa, isas[i]) == 0, "%s", isas[i]);
        check_elementwise(isas[i], a, b);
        check_reductions(isas[i], plain);
        const std::vector<uint32_t> out = all_outputs(more, other);
        if (first.empty()) first = out;
        CHECK(out == first, "%s differs from %s", isas[i], isas[0]);
    }
    bool refused = false;
    try {
        npu::select_isa("mmx");
    } catch (const std::invalid_argument&) {
        refused = true;
    }
    CHECK(refused, "unknown instruction set");
    return report("rows");
}
