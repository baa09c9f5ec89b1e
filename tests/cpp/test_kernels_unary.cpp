// Functions of one operand: correctly rounded ones against the C library, the others by distance from fp64.
#include <cmath>

#include "check.h"
#include "npu_core/kernels/kernels.h"

namespace {

using npu::Unary;

double ulps(float y, double reference) {
    const double magnitude = std::fmax(std::fabs(reference), 0x1p-126);
    return std::fabs(y - reference) / std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

// Within `limit` units of the reference; NaN, infinity and the sign as the reference has them.
void check_function(const char* isa, const char* name, Unary op, double (*reference)(double), double limit,
                    const std::vector<float>& x) {
    std::vector<float> y(x.size());
    npu::kernels().unary[static_cast<int>(op)](x.data(), y.data(), static_cast<int64_t>(x.size()));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const double r = reference(x[i]);
        const float rounded = static_cast<float>(r);
        if (std::isnan(r) || std::isinf(rounded)) {
            CHECK(same_value(y[i], rounded), "%s %s(%a) = %a", isa, name, x[i], y[i]);
            continue;
        }
        CHECK(std::signbit(y[i]) == std::signbit(rounded), "%s %s(%a) = %a", isa, name, x[i], y[i]);
        CHECK(ulps(y[i], r) <= limit, "%s %s(%a) = %a, %.2f ULP", isa, name, x[i], y[i], ulps(y[i], r));
        worst = std::fmax(worst, ulps(y[i], r));
    }
    std::printf("  %-8s %-5s worst %.3f ULP\n", isa, name, worst);
}

void check_exact(const char* isa, const char* name, Unary op, float (*reference)(float), const std::vector<float>& x) {
    std::vector<float> y(x.size());
    npu::kernels().unary[static_cast<int>(op)](x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i)
        CHECK(same_value(y[i], reference(x[i])), "%s %s(%a) = %a, expected %a", isa, name, x[i], y[i], reference(x[i]));
}

std::vector<float> with_range(std::vector<float> v, float low, float high, int count) {
    const float step = (high - low) / static_cast<float>(count);
    for (int i = 0; i <= count; ++i) v.push_back(low + step * static_cast<float>(i));
    return v;
}

}  // namespace

int main() {
    const std::vector<float> x = probe_values(300000);
    const std::vector<float> wide = with_range(x, -106.0f, 89.5f, 1000000);
    const std::vector<float> near = with_range(x, -11.0f, 11.0f, 1000000);
    const std::vector<float> positive = with_range(x, 0.25f, 4.0f, 1000000);
    int count = 0;
    const char* const* isas = npu::available_isas(&count);
    for (int i = 0; i < count; ++i) {
        const char* isa = isas[i];
        npu::select_isa(isa);
        check_function(isa, "exp", Unary::EXP, std::exp, 1.0, wide);
        check_function(isa, "log", Unary::LOG, std::log, 0.9, positive);
        check_function(isa, "tanh", Unary::TANH, std::tanh, 1.1, near);
        check_function(isa, "erf", Unary::ERF, std::erf, 1.33, near);
        check_exact(isa, "sqrt", Unary::SQRT, std::sqrt, x);
        check_exact(isa, "abs", Unary::ABS, std::fabs, x);
        check_exact(isa, "neg", Unary::NEG, [](float v) { return -v; }, x);
        check_exact(isa, "reciprocal", Unary::RECIPROCAL, [](float v) { return 1.0f / v; }, x);
        check_exact(isa, "relu", Unary::RELU, [](float v) { return v > 0.0f || v != v ? v : 0.0f; }, x);
        check_exact(isa, "floor", Unary::FLOOR, std::floor, x);
        check_exact(isa, "ceil", Unary::CEIL, std::ceil, x);
        check_exact(isa, "trunc", Unary::TRUNC, std::trunc, x);
        check_exact(isa, "round_even", Unary::ROUND_EVEN, std::nearbyint, x);
    }
    return report("unary");
}
