#include "npu_core/numeric/cast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "npu_core/base/fault.h"
#include "npu_core/kernels/kernels.h"
#include "npu_core/numeric/small_floats.h"

namespace npu {

namespace {

constexpr int64_t CUT = 512;  // elements converted at a time on the general path

double rounded(double v, CastMode mode) {
    switch (mode) {
        case CastMode::NONE:
        case CastMode::TRUNC: return std::trunc(v);
        case CastMode::RINT:
        case CastMode::ODD: return std::nearbyint(v);
        case CastMode::ROUND: return std::round(v);
        case CastMode::FLOOR: return std::floor(v);
        case CastMode::CEIL: return std::ceil(v);
    }
    return v;
}

// A 16-bit float: exponent and mantissa bits, sign on top. FP16 = (5, 10), BF16 = (8, 7).
template <int EXP, int MAN>
uint16_t to_half(double v, CastMode mode, bool saturate) {
    constexpr int BIAS = (1 << (EXP - 1)) - 1, LOWEST = 1 - BIAS;
    constexpr uint16_t INF = ((1 << EXP) - 1) << MAN, MOST = INF - 1;
    const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
    if (std::isnan(v)) return sign | INF | (1 << (MAN - 1));
    const double a = std::fabs(v);
    if (std::isinf(a)) return sign | (saturate ? MOST : INF);
    if (a == 0) return sign;
    int e = std::max(std::ilogb(a), LOWEST);
    const double scaled = std::ldexp(a, MAN - e);       // exact; the integer part holds the kept bits
    double kept = std::floor(scaled);
    const double rest = scaled - kept;
    const bool negative = sign != 0;
    if (rest != 0) {
        bool up = false;
        switch (mode) {
            case CastMode::NONE:
            case CastMode::RINT: up = rest > 0.5 || (rest == 0.5 && std::fmod(kept, 2) != 0); break;
            case CastMode::ROUND: up = rest >= 0.5; break;
            case CastMode::FLOOR: up = negative; break;
            case CastMode::CEIL: up = !negative; break;
            case CastMode::TRUNC: break;
            case CastMode::ODD: up = std::fmod(kept, 2) == 0; break;
        }
        kept += up;
    }
    // kept in [0, 2^(MAN+1)]; a carry moves into the exponent by itself.
    int64_t bits = static_cast<int64_t>(kept) + (static_cast<int64_t>(e - LOWEST) << MAN);
    if (bits >= INF) {
        const bool to_zero = mode == CastMode::TRUNC || mode == CastMode::ODD ||
                             (mode == CastMode::FLOOR && !negative) || (mode == CastMode::CEIL && negative);
        bits = saturate || to_zero ? MOST : INF;
    }
    return sign | static_cast<uint16_t>(bits);
}

template <class T>
T int_of_float(double v, const CastSpec& s) {
    using L = std::numeric_limits<T>;
    v = rounded(v, s.mode);
    if (s.saturate) {
        if (std::isnan(v)) return 0;
        if (v <= static_cast<double>(L::min())) return L::min();
        if (v >= static_cast<double>(L::max())) return L::max();
        return static_cast<T>(v);
    }
    if constexpr (sizeof(T) == 8 && !L::is_signed) {
        if (v >= 9223372036854775808.0 && v < 18446744073709551616.0) return static_cast<T>(v);
    }
    constexpr double EDGE = sizeof(T) == 4 && L::is_signed ? 2147483648.0 : 9223372036854775808.0;
    // Out of range of the machine's conversion: its "indefinite" value, as on x86; narrow types then wrap.
    if (!(v >= -EDGE && v < EDGE)) return static_cast<T>(sizeof(T) == 4 &&
        L::is_signed ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min());
    return static_cast<T>(static_cast<int64_t>(v));
}

template <class T, class From>
T int_of_int(From v, const CastSpec& s) {
    if (s.saturate) {
        if (std::cmp_less(v, std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
        if (std::cmp_greater(v, std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    }
    return static_cast<T>(v);
}

// Storing from the three carriers of the general path: double, int64, uint64.
template <class From>
void store_row(const CastSpec& s, const From* x, void* y, int64_t n) {
    constexpr bool FLOAT = std::is_floating_point_v<From>;
    const auto ints = [&]<class T>(T* out) {
        for (int64_t i = 0; i < n; ++i) {
            if constexpr (FLOAT) out[i] = int_of_float<T>(x[i], s);
            else out[i] = int_of_int<T>(x[i], s);
        }
    };
    const auto halves = [&](auto convert) {
        auto* out = static_cast<uint16_t*>(y);
        for (int64_t i = 0; i < n; ++i) {
            if constexpr (FLOAT) out[i] = convert(x[i]);
            else out[i] = convert(static_cast<double>(static_cast<float>(x[i])));
        }
    };
    switch (s.to) {
        case DType::F32: for (int64_t i = 0; i < n; ++i) static_cast<float*>(y)[i] = static_cast<float>(x[i]); break;
        case DType::F64: for (int64_t i = 0; i < n; ++i) static_cast<double*>(y)[i] = static_cast<double>(x[i]); break;
        case DType::F16: halves([&](double v) { return to_half<5, 10>(v, s.mode, s.saturate); }); break;
        case DType::BF16: halves([&](double v) { return to_half<8, 7>(v, s.mode, s.saturate); }); break;
        case DType::I8: ints(static_cast<int8_t*>(y)); break;
        case DType::I16: ints(static_cast<int16_t*>(y)); break;
        case DType::I32: ints(static_cast<int32_t*>(y)); break;
        case DType::I64: ints(static_cast<int64_t*>(y)); break;
        case DType::U8: ints(static_cast<uint8_t*>(y)); break;
        case DType::U16: ints(static_cast<uint16_t*>(y)); break;
        case DType::U32: ints(static_cast<uint32_t*>(y)); break;
        case DType::U64: ints(static_cast<uint64_t*>(y)); break;
        case DType::BOOL: for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(y)[i] = x[i] != 0; break;
        default: fail("cast.dtype", std::string("no conversion to ") + dtype_name(s.to));
    }
}

template <class T, class To>
void widen(const void* x, To* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(static_cast<const T*>(x)[i]);
}

void load_double(DType t, const void* x, double* y, int64_t n) {
    if (t == DType::F64) return widen<double>(x, y, n);
    if (t == DType::F32) return widen<float>(x, y, n);
    float f[CUT];
    (t == DType::F16 ? kernels().f16_to_f32 : kernels().bf16_to_f32)(static_cast<const uint16_t*>(x), f, n);
    widen<float>(f, y, n);
}

void load_int(DType t, const void* x, int64_t* y, int64_t n) {
    switch (t) {
        case DType::I8: return widen<int8_t>(x, y, n);
        case DType::I16: return widen<int16_t>(x, y, n);
        case DType::I32: return widen<int32_t>(x, y, n);
        case DType::I64: return widen<int64_t>(x, y, n);
        case DType::U8: return widen<uint8_t>(x, y, n);
        case DType::U16: return widen<uint16_t>(x, y, n);
        case DType::U32: return widen<uint32_t>(x, y, n);
        case DType::BOOL: for (int64_t i = 0; i < n; ++i) y[i] = static_cast<const uint8_t*>(x)[i] != 0; return;
        default: fail("cast.dtype", std::string("no conversion from ") + dtype_name(t));
    }
}

template <class T>
void integral_row(const CastSpec& s, const T* x, T* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(rounded(x[i], s.mode));
}

bool same_dtype(const CastSpec& s, const void* x, void* y, int64_t n) {
    if (s.from != s.to) return false;
    const bool copies = !is_float(s.to) || s.mode == CastMode::NONE || s.mode == CastMode::RINT ||
        s.mode == CastMode::ODD;
    if (copies) {
        std::memmove(y, x, static_cast<size_t>(n) * dtype_size_bytes(s.to));
    } else if (s.to == DType::F32) {
        integral_row(s, static_cast<const float*>(x), static_cast<float*>(y), n);
    } else if (s.to == DType::F64) {
        integral_row(s, static_cast<const double*>(x), static_cast<double*>(y), n);
    } else {
        for (int64_t i = 0; i < n; i += CUT) {
            double d[CUT];
            const int64_t m = std::min(CUT, n - i);
            load_double(s.from, static_cast<const uint16_t*>(x) + i, d, m);
            integral_row(s, d, d, m);
            store_row<double>({s.from, s.to, CastMode::RINT, false}, d, static_cast<uint16_t*>(y) + i, m);
        }
    }
    return true;
}

// fp32 to integers of at most 32 bits: through a truncation to int32, which vectorises. False where that is not enough.
template <class T>
bool narrow_row(const CastSpec& s, const float* x, T* y, int64_t n) {
    using L = std::numeric_limits<T>;
    constexpr float LOW = static_cast<float>(L::min()), HIGH = static_cast<float>(L::max());
    float buffer[CUT];
    for (int64_t at = 0; at < n; at += CUT) {
        const int64_t m = std::min(CUT, n - at);
        const float* v = x + at;
        if (s.mode == CastMode::RINT) {
            kernels().unary[static_cast<int>(Unary::ROUND_EVEN)](v, buffer, m);
            v = buffer;
        }
        if (s.saturate) {
            for (int64_t i = 0; i < m; ++i) {           // NaN becomes 0
                const float low = v[i] > LOW ? v[i] : LOW, both = low < HIGH ? low : HIGH;
                buffer[i] = v[i] == v[i] ? both : 0.0f;
            }
            v = buffer;
        } else {
            int outside = 0;
            for (int64_t i = 0; i < m; ++i) outside |= !(v[i] > -2147483648.0f && v[i] < 2147483648.0f);
            if (outside) return false;
        }
        for (int64_t i = 0; i < m; ++i) y[at + i] = static_cast<T>(static_cast<int32_t>(v[i]));
    }
    return true;
}

bool to_integers(const CastSpec& s, const float* x, void* y, int64_t n) {
    if (s.mode != CastMode::NONE && s.mode != CastMode::TRUNC && s.mode != CastMode::RINT) return false;
    switch (s.to) {
        case DType::I8: return narrow_row(s, x, static_cast<int8_t*>(y), n);
        case DType::U8: return narrow_row(s, x, static_cast<uint8_t*>(y), n);
        case DType::I16: return narrow_row(s, x, static_cast<int16_t*>(y), n);
        case DType::U16: return narrow_row(s, x, static_cast<uint16_t*>(y), n);
        case DType::I32: return !s.saturate && narrow_row(s, x, static_cast<int32_t*>(y), n);
        case DType::BOOL:
            for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(y)[i] = x[i] != 0.0f;
            return true;
        default: return false;
    }
}

template <class T>
bool small_ints(const void* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(static_cast<int32_t>(static_cast<const T*>(x)[i]));
    return true;
}

// The pairs that matter for speed.
bool fast_row(const CastSpec& s, const void* x, void* y, int64_t n) {
    const KernelTable& k = kernels();
    const bool nearest = s.mode == CastMode::NONE || s.mode == CastMode::RINT;
    if (s.to == DType::F32) {
        auto* f = static_cast<float*>(y);
        if (s.from == DType::BF16) return k.bf16_to_f32(static_cast<const uint16_t*>(x), f, n), true;
        if (s.from == DType::F16) return k.f16_to_f32(static_cast<const uint16_t*>(x), f, n), true;
        if (s.from == DType::I32) return k.i32_to_f32(static_cast<const int32_t*>(x), f, n), true;
        if (s.from == DType::I8) return small_ints<int8_t>(x, f, n);
        if (s.from == DType::U8) return small_ints<uint8_t>(x, f, n);
        if (s.from == DType::I16) return small_ints<int16_t>(x, f, n);
        if (s.from == DType::U16) return small_ints<uint16_t>(x, f, n);
        if (s.from == DType::F64) return widen<double>(x, f, n), true;
    }
    if (s.from == DType::F32 && !is_float(s.to) && !is_float8(s.to) && to_integers(s, static_cast<const float*>(x), y, n))
        return true;
    if (s.from == DType::F32 && nearest && !s.saturate) {
        const auto* f = static_cast<const float*>(x);
        if (s.to == DType::BF16) return k.f32_to_bf16(f, static_cast<uint16_t*>(y), n), true;
        if (s.to == DType::F16) return k.f32_to_f16(f, static_cast<uint16_t*>(y), n), true;
    }
    return false;
}

// 8-bit floats go through fp32, which holds all of their values.
void float8_row(const CastSpec& s, const void* x, void* y, int64_t n) {
    const int from_size = dtype_size_bytes(s.from), to_size = dtype_size_bytes(s.to);
    for (int64_t i = 0; i < n; i += CUT) {
        const int64_t m = std::min(CUT, n - i);
        const char* in = static_cast<const char*>(x) + i * from_size;
        char* out = static_cast<char*>(y) + i * to_size;
        float f[CUT];
        if (is_float8(s.from)) float8_values(s.from, reinterpret_cast<const uint8_t*>(in), f, m);
        else cast_row({s.from, DType::F32}, in, f, m);
        if (is_float8(s.to)) float8_codes(s.to, f, reinterpret_cast<uint8_t*>(out), m, s.mode, s.saturate);
        else cast_row({DType::F32, s.to, s.mode, s.saturate}, f, out, m);
    }
}

}  // namespace

void cast_row(const CastSpec& s, const void* x, void* y, int64_t n) {
    if (n <= 0 || same_dtype(s, x, y, n) || fast_row(s, x, y, n)) return;
    if (is_float8(s.from) || is_float8(s.to)) return float8_row(s, x, y, n);
    const int from_size = dtype_size_bytes(s.from), to_size = dtype_size_bytes(s.to);
    for (int64_t i = 0; i < n; i += CUT) {
        const int64_t m = std::min(CUT, n - i);
        const char* in = static_cast<const char*>(x) + i * from_size;
        char* out = static_cast<char*>(y) + i * to_size;
        if (is_float(s.from)) {
            double d[CUT];
            load_double(s.from, in, d, m);
            store_row(s, d, out, m);
        } else if (s.from == DType::U64) {
            store_row(s, reinterpret_cast<const uint64_t*>(in), out, m);
        } else {
            int64_t v[CUT];
            load_int(s.from, in, v, m);
            store_row(s, v, out, m);
        }
    }
}

}  // namespace npu
