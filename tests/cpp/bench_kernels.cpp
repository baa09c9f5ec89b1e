// Speed of the kernels on every instruction set: ns per element of rows of 2048 (in first-level cache, in place where
// the types allow it), GFLOP/s of matrix products. Run by hand on a quiet machine: bench_kernels [isa].
#include <algorithm>
#include <chrono>
#include <string>

#include "check.h"
#include "npu_core/kernels/kernels.h"

namespace {

template <class Body>
double best_seconds(Body body) {
    using clock = std::chrono::steady_clock;
    double best = 1e9;
    int repeats = 1;
    for (int round = 0; round < 12; ++round) {
        const auto begin = clock::now();
        for (int i = 0; i < repeats; ++i) body();
        const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
        best = std::min(best, seconds / repeats);
        if (seconds < 2e-3) repeats *= 4;
    }
    return best;
}

void bench_rows() {
    constexpr int64_t N = 2048;
    const npu::KernelTable& t = npu::kernels();
    std::vector<float> a(N), b(N), y(N);
    std::vector<uint16_t> h(N);
    std::vector<uint8_t> c(N);
    std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < N; ++i) a[i] = std::abs(normal(rng)), b[i] = normal(rng) + 3;
    auto show = [](const char* name, double seconds) { std::printf(" %s %.3f", name, seconds / N * 1e9); };
    const char* unary[] = {"exp", "log", "sqrt", "abs", "neg", "tanh", "erf",
                           "recip", "relu", "floor", "ceil", "trunc", "round"};
    const char* binary[] = {"add", "sub", "mul", "div", "max", "min"};
    std::printf("%s, ns/element:", t.isa);
    for (int k = 0; k < static_cast<int>(npu::Unary::COUNT); ++k)
        show(unary[k], best_seconds([&] { t.unary[k](a.data(), y.data(), N); }));
    for (int k = 0; k < static_cast<int>(npu::Binary::COUNT); ++k)
        show(binary[k], best_seconds([&] { t.binary[k](y.data(), b.data(), y.data(), N); }));
    show("lt", best_seconds([&] { t.compare[2](a.data(), b.data(), c.data(), N); }));
    show("select", best_seconds([&] { t.select(c.data(), a.data(), b.data(), y.data(), N); }));
    show("f32>bf16", best_seconds([&] { t.f32_to_bf16(a.data(), h.data(), N); }));
    show("bf16>f32", best_seconds([&] { t.bf16_to_f32(h.data(), y.data(), N); }));
    show("f32>f16", best_seconds([&] { t.f32_to_f16(a.data(), h.data(), N); }));
    show("f16>f32", best_seconds([&] { t.f16_to_f32(h.data(), y.data(), N); }));
    volatile float sink = 0;
    show("row_sum", best_seconds([&] { sink = t.row_sum(a.data(), N); }));
    show("row_max", best_seconds([&] { sink = t.row_max(a.data(), N); }));
    show("row_sum of 128", 16 * best_seconds([&] { sink = t.row_sum(a.data(), 128); }));
    show("row_max of 128", 16 * best_seconds([&] { sink = t.row_max(a.data(), 128); }));
    std::printf("\n");
}

void bench_product(const char* name, int64_t m, int64_t n, int64_t k, int64_t k_block, bool b_transposed) {
    std::vector<uint16_t> a(static_cast<size_t>(m * k), 0x3f80), b(static_cast<size_t>(k * n), 0x3f80);
    std::vector<float> c(static_cast<size_t>(m * n));
    const npu::GemmArgs g{a.data(), npu::DType::BF16, k, 1, b.data(), npu::DType::BF16,
                          b_transposed ? 1 : n, b_transposed ? k : 1, nullptr, c.data(), n, m, n, k, k_block};
    const double seconds = best_seconds([&] { npu::kernels().gemm(g, 0, m, 0, n); });
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    std::printf("  %-22s %10.2f us %7.1f GFLOP/s\n", name, seconds * 1e6, flops / seconds / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
    int count = 0;
    const char* const* isas = npu::available_isas(&count);
    for (int i = 0; i < count; ++i) {
        if (argc > 1 && std::strcmp(argv[1], isas[i]) != 0) continue;
        npu::select_isa(isas[i]);
        bench_rows();
        bench_product("decode q.kT 4 heads", 4, 512, 128, 128, true);
        bench_product("decode p.v 4 heads", 4, 128, 512, 128, false);
        bench_product("1x4096x4096", 1, 4096, 4096, 512, false);
        for (int64_t s : {16, 32, 64, 128, 256, 1024})
            bench_product((std::to_string(s) + "^3").c_str(), s, s, s, std::min<int64_t>(s, 128), false);
    }
    return 0;
}
