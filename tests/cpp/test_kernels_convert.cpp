// Casts between fp32 and the 16-bit formats: every 16-bit input, every midpoint and its neighbours the other way.
#include <cmath>

#include "check.h"
#include "npu_core/kernels/kernels.h"

namespace {

struct Format {
    const char* name;
    int exponent_bits, mantissa_bits;
};

// Value of a 16-bit pattern in fp64 (finite patterns only).
double value_of(const Format& f, uint32_t h) {
    const int bias = (1 << (f.exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>(h >> f.mantissa_bits & ((1u << f.exponent_bits) - 1));
    const double mantissa = h & ((1u << f.mantissa_bits) - 1);
    const double magnitude = exponent ? std::ldexp(mantissa + (1 << f.mantissa_bits), exponent - bias - f.mantissa_bits)
                                      : std::ldexp(mantissa, 1 - bias - f.mantissa_bits);
    return h & 0x8000u ? -magnitude : magnitude;
}

template <class Widen, class Narrow>
void check_format(const char* isa, const Format& f, Widen widen, Narrow narrow) {
    const uint32_t infinity = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
    std::vector<uint16_t> all(65536), back(65536);
    std::vector<float> wide(65536);
    for (int i = 0; i < 65536; ++i) all[i] = static_cast<uint16_t>(i);
    widen(all.data(), wide.data(), 65536);
    narrow(wide.data(), back.data(), 65536);
    for (uint32_t h = 0; h < 65536; ++h) {
        const uint32_t magnitude = h & 0x7fffu;
        if (magnitude > infinity) {
            CHECK(std::isnan(wide[h]), "%s %s %04x", isa, f.name, h);
            CHECK((back[h] & 0x7fffu) > infinity && (back[h] & 0x8000u) == (h & 0x8000u), "%s %s %04x", isa, f.name, h);
        } else {
            const float limit = h & 0x8000u ? -INFINITY : INFINITY;
            const float expected = magnitude == infinity ? limit : static_cast<float>(value_of(f, h));
            CHECK(bits_of(wide[h]) == bits_of(expected), "%s %s %04x", isa, f.name, h);
            CHECK(back[h] == h, "%s %s %04x came back as %04x", isa, f.name, h, back[h]);
        }
    }
    // Between neighbours a and b: below the midpoint a, above it b, on it the even one. Past the last: infinity.
    std::vector<float> x;
    std::vector<uint16_t> expected;
    for (uint32_t h = 0; h < infinity; ++h) {
        const double a = value_of(f, h);
        const double b = h + 1 == infinity ? a + (a - value_of(f, h - 1)) : value_of(f, h + 1);
        const float middle = static_cast<float>((a + b) / 2);          // exact: fp32 has more bits
        const uint16_t even = static_cast<uint16_t>(h & 1 ? h + 1 : h);
        for (float sign : {1.0f, -1.0f}) {
            const uint16_t s = sign < 0 ? 0x8000u : 0;
            x.push_back(sign * middle), expected.push_back(even | s);
            x.push_back(sign * std::nextafter(middle, 0.0f)), expected.push_back(static_cast<uint16_t>(h) | s);
            x.push_back(sign * std::nextafter(middle, INFINITY)), expected.push_back(static_cast<uint16_t>(h + 1) | s);
        }
    }
    x.push_back(3.4028235e38f), expected.push_back(static_cast<uint16_t>(infinity));
    x.push_back(1e-45f), expected.push_back(0);
    std::vector<uint16_t> y(x.size());
    narrow(x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i)
        CHECK(y[i] == expected[i], "%s %s %a: %04x, expected %04x", isa, f.name, x[i], y[i], expected[i]);
}

}  // namespace

int main() {
    int count = 0;
    const char* const* isas = npu::available_isas(&count);
    for (int i = 0; i < count; ++i) {
        npu::select_isa(isas[i]);
        const npu::KernelTable& t = npu::kernels();
        check_format(isas[i], {"fp16", 5, 10}, t.f16_to_f32, t.f32_to_f16);
        check_format(isas[i], {"bf16", 8, 7}, t.bf16_to_f32, t.f32_to_bf16);
        const int32_t n[] = {0, 1, -1, 16777217, 16777219, 2147483647, -2147483647 - 1, 33554433};
        float y[8];
        t.i32_to_f32(n, y, 8);
        for (int k = 0; k < 8; ++k) CHECK(y[k] == static_cast<float>(n[k]), "%s %d", isas[i], n[k]);
    }
    return report("casts");
}
