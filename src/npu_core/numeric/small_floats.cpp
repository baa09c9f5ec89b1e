#include "npu_core/numeric/small_floats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "npu_core/base/fault.h"

namespace npu {

namespace {

constexpr float NAN32 = std::numeric_limits<float>::quiet_NaN(), INF32 = std::numeric_limits<float>::infinity();

// Exponent and mantissa bits of an IEEE-like byte, sign on top.
float ieee8(unsigned code, int exp_bits, int man_bits) {
    const int bias = (1 << (exp_bits - 1)) - 1;
    const unsigned e = code >> man_bits & ((1u << exp_bits) - 1), m = code & ((1u << man_bits) - 1);
    const float size = e ? std::ldexp(1.0f + std::ldexp(static_cast<float>(m), -man_bits), static_cast<int>(e) - bias)
                         : std::ldexp(static_cast<float>(m), 1 - bias - man_bits);
    return code & 0x80 ? -size : size;
}

// HF8: a prefix code ("dot") tells how many of the following bits are exponent; the exponent has a sign and a hidden
// one.
float hf8(unsigned code) {
    if (code == 0) return 0.0f;
    if (code == 0x80) return NAN32;
    const unsigned low = code & 0x7f;
    const float sign = code & 0x80 ? -1.0f : 1.0f;
    if (low == 0x6f) return sign * INF32;
    int dot, left;                                      // exponent bits; bits after the prefix
    if (low >> 5 == 3) dot = 4, left = 5;
    else if (low >> 5 == 2) dot = 3, left = 5;
    else if (low >> 5 == 1) dot = 2, left = 5;
    else if (low >> 4 == 1) dot = 1, left = 4;
    else if (low >> 3 == 1) dot = 0, left = 3;
    else return sign * std::ldexp(1.0f, static_cast<int>(low) - 23);   // denormal: powers of two
    const int man_bits = left - dot;
    const unsigned rest = low & ((1u << left) - 1), m = rest & ((1u << man_bits) - 1), e = rest >> man_bits;
    int exponent = 0;
    if (dot > 0) {
        const int size = static_cast<int>((1u << (dot - 1)) | (e & ((1u << (dot - 1)) - 1)));
        exponent = e >> (dot - 1) & 1 ? -size : size;
    }
    return sign * std::ldexp(1.0f + std::ldexp(static_cast<float>(m), -man_bits), exponent);
}

float value_of(DType t, unsigned code) {
    switch (t) {
        case DType::F8E4M3: return (code & 0x7f) == 0x7f ? NAN32 : ieee8(code, 4, 3);
        case DType::F8E5M2:
            if ((code & 0x7c) == 0x7c) return code & 3 ? NAN32 : code & 0x80 ? -INF32 : INF32;
            return ieee8(code, 5, 2);
        case DType::F8E8M0: return code == 255 ? NAN32 : std::ldexp(1.0f, static_cast<int>(code) - 127);
        default: return hf8(code);
    }
}

// The numbers >= 0 of a format in order, with their codes; `next` is where the one after the largest would be.
struct Grid {
    std::array<float, 256> value;                       // by code
    std::vector<float> size;
    std::vector<uint8_t> code;
    float next = 0;
};

Grid make_grid(DType t) {
    Grid g;
    std::vector<std::pair<float, uint8_t>> found;
    for (unsigned c = 0; c < 256; ++c) {
        g.value[c] = value_of(t, c);
        if (std::isfinite(g.value[c]) && (t == DType::F8E8M0 || c < 128))
            found.push_back({g.value[c], static_cast<uint8_t>(c)});
    }
    std::sort(found.begin(), found.end());
    for (const auto& [v, c] : found) g.size.push_back(v), g.code.push_back(c);
    const float top = g.size.back(), before = g.size[g.size.size() - 2];
    g.next = t == DType::HF8 ? 1.5f * top : t == DType::F8E8M0 ? INF32 : top + (top - before);
    return g;
}

const Grid& grid(DType t) {
    static const std::array<Grid, 4> all{make_grid(DType::HF8), make_grid(DType::F8E4M3), make_grid(DType::F8E5M2),
        make_grid(DType::F8E8M0)};
    return all[static_cast<size_t>(t) - static_cast<size_t>(DType::HF8)];
}

// Whether |x| between two neighbours goes to the upper one.
bool goes_up(double x, double lower, double upper, bool upper_is_even, bool negative, CastMode mode, bool away) {
    const double below = x - lower, above = upper - x;
    switch (mode) {
        case CastMode::FLOOR: return negative && below > 0;
        case CastMode::CEIL: return !negative && below > 0;
        case CastMode::TRUNC:
        case CastMode::ODD: return false;
        case CastMode::ROUND: return above <= below;
        default: return above < below || (above == below && (away || upper_is_even));
    }
}

uint8_t overflow_code(DType t, bool negative) {
    const uint8_t sign = negative ? 0x80 : 0;
    switch (t) {
        case DType::F8E4M3: return sign | 0x7f;
        case DType::F8E5M2: return sign | 0x7c;
        case DType::F8E8M0: return 0xff;
        default: return sign | 0x6f;
    }
}

uint8_t nan_code(DType t, bool negative) {
    const uint8_t sign = negative ? 0x80 : 0;
    switch (t) {
        case DType::F8E4M3: return sign | 0x7f;
        case DType::F8E5M2: return sign | 0x7e;
        case DType::F8E8M0: return 0xff;
        default: return 0x80;
    }
}

uint8_t code_of(DType t, const Grid& g, float x, CastMode mode, bool saturate) {
    const bool negative = std::signbit(x);
    if (std::isnan(x) || (t == DType::F8E8M0 && (negative || x == 0))) return nan_code(t, negative);
    const uint8_t sign = negative && t != DType::F8E8M0 ? 0x80 : 0;
    const float size = std::fabs(x);
    if (size >= g.size.back()) {
        const bool even = t == DType::F8E5M2;           // the code after the largest number
        const bool over = std::isinf(size) || size >= g.next || goes_up(size, g.size.back(), g.next, even, negative,
            mode, t == DType::HF8);
        return over && !saturate ? overflow_code(t, negative) : static_cast<uint8_t>(sign | g.code.back());
    }
    const auto upper = std::upper_bound(g.size.begin(), g.size.end(), size) - g.size.begin();
    if (upper == 0) return g.code.front();              // F8E8M0: below the smallest power
    const bool up = goes_up(size, g.size[upper - 1], g.size[upper], g.code[upper] % 2 == 0, negative, mode,
        t == DType::HF8);
    const uint8_t code = g.code[up ? upper : upper - 1];
    return code == 0 && t == DType::HF8 ? 0 : sign | code;   // HF8 has no negative zero
}

}  // namespace

void float8_values(DType t, const uint8_t* x, float* y, int64_t n) {
    const Grid& g = grid(t);
    for (int64_t i = 0; i < n; ++i) y[i] = g.value[x[i]];
}

void float8_codes(DType t, const float* x, uint8_t* y, int64_t n, CastMode mode, bool saturate) {
    const Grid& g = grid(t);
    for (int64_t i = 0; i < n; ++i) y[i] = code_of(t, g, x[i], mode, saturate);
}

float packed4_value(DType t, unsigned code) {
    constexpr float e2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    if (t == DType::I4) return static_cast<float>(code & 8 ? static_cast<int>(code) - 16 : static_cast<int>(code));
    const float size = t == DType::F4E2M1X2 ? e2m1[code & 7] : 0.25f * static_cast<float>(code & 7);
    return code & 8 ? -size : size;
}

unsigned packed4_code(DType t, float x, CastMode mode, bool saturate) {
    if (t == DType::I4) {
        int8_t v;
        cast_row({DType::F32, DType::I8, mode, true}, &x, &v, 1);
        if (saturate) v = std::clamp<int8_t>(v, -8, 7);
        return static_cast<unsigned>(v) & 15;
    }
    const unsigned sign = std::signbit(x) ? 8 : 0;
    if (std::isnan(x)) return 7;
    const float size = std::fabs(x);
    unsigned lower = 0;
    while (lower < 7 && packed4_value(t, lower + 1) <= size) ++lower;
    if (lower == 7) return sign | 7;
    const bool up = goes_up(size, packed4_value(t, lower), packed4_value(t, lower + 1), lower % 2 == 1, sign != 0,
        mode, false);
    return sign | (up ? lower + 1 : lower);
}

}  // namespace npu
