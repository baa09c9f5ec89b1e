#include "npu_core/numeric/functions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "npu_core/kernels/kernels.h"
#include "npu_core/numeric/integer.h"

namespace npu {

namespace {

template <class T, T (*OP)(T)> void unary(const Row& r) {
    const T* a = static_cast<const T*>(r.a);
    T* y = static_cast<T*>(r.y);
    for (int64_t i = 0; i < r.n; ++i) y[i] = OP(a[i]);
}
template <class T, T (*OP)(T, T)> void binary(const Row& r) {
    const T *a = static_cast<const T*>(r.a), *b = static_cast<const T*>(r.b);
    T* y = static_cast<T*>(r.y);
    if (r.a_step == r.b_step) for (int64_t i = 0; i < r.n; ++i) y[i] = OP(a[i], b[i]);
    else if (r.b_step == 0) for (int64_t i = 0; i < r.n; ++i) y[i] = OP(a[i], *b);
    else for (int64_t i = 0; i < r.n; ++i) y[i] = OP(*a, b[i]);
}

// ---- fp32: the kernels of the instruction set in use
template <Function F> void f32_unary(const Row& r) {
    kernels().function[static_cast<int>(F)](static_cast<const float*>(r.a), static_cast<float*>(r.y), r.n);
}
using PairKernel = void (*KernelTable::*)(const float*, const float*, float*, int64_t);
template <PairKernel K> void f32_binary(const Row& r) {
    const KernelTable& t = kernels();
    const auto *a = static_cast<const float*>(r.a), *b = static_cast<const float*>(r.b);
    float a_row[STRIP], b_row[STRIP];
    if (r.a_step == 0 && r.n > 1) t.fill_f32(*a, a_row, r.n), a = a_row;
    if (r.b_step == 0 && r.n > 1) t.fill_f32(*b, b_row, r.n), b = b_row;
    (t.*K)(a, b, static_cast<float*>(r.y), r.n);
}

RowFn f32_function(Opcode code) {
    switch (code) {
        case Opcode::EXP2: return f32_unary<Function::EXP2>;
        case Opcode::EXPM1: return f32_unary<Function::EXPM1>;
        case Opcode::LOG2: return f32_unary<Function::LOG2>;
        case Opcode::LOG10: return f32_unary<Function::LOG10>;
        case Opcode::LOG1P: return f32_unary<Function::LOG1P>;
        case Opcode::SIN: return f32_unary<Function::SIN>;
        case Opcode::COS: return f32_unary<Function::COS>;
        case Opcode::TAN: return f32_unary<Function::TAN>;
        case Opcode::ASIN: return f32_unary<Function::ASIN>;
        case Opcode::ACOS: return f32_unary<Function::ACOS>;
        case Opcode::ATAN: return f32_unary<Function::ATAN>;
        case Opcode::SINH: return f32_unary<Function::SINH>;
        case Opcode::COSH: return f32_unary<Function::COSH>;
        case Opcode::ASINH: return f32_unary<Function::ASINH>;
        case Opcode::ACOSH: return f32_unary<Function::ACOSH>;
        case Opcode::ATANH: return f32_unary<Function::ATANH>;
        case Opcode::ERFC: return f32_unary<Function::ERFC>;
        case Opcode::CBRT: return f32_unary<Function::CBRT>;
        case Opcode::SIGN: return f32_unary<Function::SIGN>;
        default: return nullptr;
    }
}
RowFn f32_pair(Opcode code) {
    switch (code) {
        case Opcode::POW: return f32_binary<&KernelTable::pow>;
        case Opcode::HYPOT: return f32_binary<&KernelTable::hypot>;
        case Opcode::ATAN2: return f32_binary<&KernelTable::atan2>;
        case Opcode::COPYSIGN: return f32_binary<&KernelTable::copysign>;
        default: return nullptr;
    }
}

// ---- floats: double inside, one rounding
template <class T, double (*F)(double)> T rounded(T a) { return static_cast<T>(F(static_cast<double>(a))); }
template <class T, double (*F)(double, double)> T rounded(T a, T b) {
    return static_cast<T>(F(static_cast<double>(a), static_cast<double>(b)));
}
double sign_of(double a) { return a > 0 ? 1 : a < 0 ? -1 : a; }            // zero and NaN stay
double floor_modulo(double a, double b) {                                    // sign of the divisor
    const double r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
// Float operands have at most 24 significant bits, so the double quotient never rounds up to a whole number.
double floor_quotient(double a, double b) { return std::floor(a / b); }
double ceil_quotient(double a, double b) { return std::ceil(a / b); }

template <class T> RowFn float_unary(Opcode code) {
    switch (code) {
        case Opcode::EXP2: return unary<T, rounded<T, std::exp2>>;
        case Opcode::EXPM1: return unary<T, rounded<T, std::expm1>>;
        case Opcode::LOG2: return unary<T, rounded<T, std::log2>>;
        case Opcode::LOG10: return unary<T, rounded<T, std::log10>>;
        case Opcode::LOG1P: return unary<T, rounded<T, std::log1p>>;
        case Opcode::SIN: return unary<T, rounded<T, std::sin>>;
        case Opcode::COS: return unary<T, rounded<T, std::cos>>;
        case Opcode::TAN: return unary<T, rounded<T, std::tan>>;
        case Opcode::ASIN: return unary<T, rounded<T, std::asin>>;
        case Opcode::ACOS: return unary<T, rounded<T, std::acos>>;
        case Opcode::ATAN: return unary<T, rounded<T, std::atan>>;
        case Opcode::SINH: return unary<T, rounded<T, std::sinh>>;
        case Opcode::COSH: return unary<T, rounded<T, std::cosh>>;
        case Opcode::ASINH: return unary<T, rounded<T, std::asinh>>;
        case Opcode::ACOSH: return unary<T, rounded<T, std::acosh>>;
        case Opcode::ATANH: return unary<T, rounded<T, std::atanh>>;
        case Opcode::ERFC: return unary<T, rounded<T, std::erfc>>;
        case Opcode::CBRT: return unary<T, rounded<T, std::cbrt>>;
        case Opcode::SIGN: return unary<T, rounded<T, sign_of>>;
        default: return nullptr;
    }
}

template <class T> RowFn float_binary(Opcode code) {
    switch (code) {
        case Opcode::FMOD: return binary<T, rounded<T, std::fmod>>;
        case Opcode::REMAINDER: return binary<T, rounded<T, floor_modulo>>;
        case Opcode::POW: return binary<T, rounded<T, std::pow>>;
        case Opcode::HYPOT: return binary<T, rounded<T, std::hypot>>;
        case Opcode::COPYSIGN: return binary<T, rounded<T, std::copysign>>;
        case Opcode::ATAN2: return binary<T, rounded<T, std::atan2>>;
        case Opcode::FLOOR_DIV: return binary<T, rounded<T, floor_quotient>>;
        case Opcode::CEIL_DIV: return binary<T, rounded<T, ceil_quotient>>;
        default: return nullptr;
    }
}

// ---- integers, wrapping; a division by zero gives 0
template <class T> struct Integers {
    using U = std::make_unsigned_t<T>;

    static T sign(T a) { return static_cast<T>((a > 0) - (a < 0)); }
    static T invert(T a) { return static_cast<T>(~a); }
    static T quotient_down(T a, T b) {
        const T q = wrap_div(a, b);
        return b != 0 && wrap_mul(q, b) != a && (a < 0) != (b < 0) ? wrap_sub<T>(q, 1) : q;
    }
    static T quotient_up(T a, T b) {
        const T q = wrap_div(a, b);
        return b != 0 && wrap_mul(q, b) != a && (a < 0) == (b < 0) ? wrap_add<T>(q, 1) : q;
    }
    static T truncated_rest(T a, T b) { return b == 0 ? T(0) : wrap_sub(a, wrap_mul(wrap_div(a, b), b)); }
    static T rest(T a, T b) { return b == 0 ? T(0) : wrap_sub(a, wrap_mul(quotient_down(a, b), b)); }
    static T power(T a, T b) {
        if (b < 0) {                                     // 1 / a^|b| truncated
            if (a == 1) return 1;
            return a == T(-1) && std::is_signed_v<T> ? (b % 2 ? T(-1) : T(1)) : T(0);
        }
        T y = 1;
        for (; b > 0; b = static_cast<T>(b >> 1), a = wrap_mul(a, a))
            if (b & 1) y = wrap_mul(y, a);
        return y;
    }
    static U magnitude(T a) { return a < 0 ? static_cast<U>(wrap_sub<T>(0, a)) : static_cast<U>(a); }
    static T divisor(T a, T b) { return static_cast<T>(std::gcd(magnitude(a), magnitude(b))); }
    static T both(T a, T b) { return static_cast<T>(a & b); }
    static T either(T a, T b) { return static_cast<T>(a | b); }
    static T differ(T a, T b) { return static_cast<T>(a ^ b); }
    template <bool LEFT> static void shift(const Row& r) {
        constexpr int KERNEL = std::countr_zero(sizeof(T)) + (std::is_signed_v<T> ? 0 : 4);
        const auto *a = static_cast<const T*>(r.a), *b = static_cast<const T*>(r.b);
        T a_row[STRIP], b_row[STRIP];
        if (r.a_step == 0 && r.n > 1) std::fill(a_row, a_row + r.n, *a), a = a_row;
        if (r.b_step == 0 && r.n > 1) std::fill(b_row, b_row + r.n, *b), b = b_row;
        const KernelTable& t = kernels();
        (LEFT ? t.shift_left : t.shift_right)[KERNEL](a, b, r.y, r.n);
    }

    static RowFn find_unary(Opcode code) {
        if (code == Opcode::SIGN) return unary<T, sign>;
        return code == Opcode::BITWISE_NOT ? unary<T, invert> : nullptr;
    }
    static RowFn find_binary(Opcode code) {
        switch (code) {
            case Opcode::FMOD: return binary<T, truncated_rest>;
            case Opcode::REMAINDER: return binary<T, rest>;
            case Opcode::POW: return binary<T, power>;
            case Opcode::FLOOR_DIV: return binary<T, quotient_down>;
            case Opcode::CEIL_DIV: return binary<T, quotient_up>;
            case Opcode::GCD: return binary<T, divisor>;
            case Opcode::BITWISE_AND: return binary<T, both>;
            case Opcode::BITWISE_OR: return binary<T, either>;
            case Opcode::BITWISE_XOR: return binary<T, differ>;
            case Opcode::SHIFT_LEFT: return shift<true>;
            case Opcode::SHIFT_RIGHT: return shift<false>;
            default: return nullptr;
        }
    }
};

template <class F> RowFn integers(DType t, F&& find) {
    switch (t) {
        case DType::I8: return find(Integers<int8_t>{});
        case DType::I16: return find(Integers<int16_t>{});
        case DType::I32: return find(Integers<int32_t>{});
        case DType::I64: return find(Integers<int64_t>{});
        case DType::U8: return find(Integers<uint8_t>{});
        case DType::U16: return find(Integers<uint16_t>{});
        case DType::U32: return find(Integers<uint32_t>{});
        case DType::U64: return find(Integers<uint64_t>{});
        default: return nullptr;
    }
}

}  // namespace

RowFn function_unary_row(Opcode code, DType t) {
    if (t == DType::F32) return f32_function(code);
    if (t == DType::F64) return float_unary<double>(code);
    return integers(t, [&](auto v) { return decltype(v)::find_unary(code); });
}

RowFn function_binary_row(Opcode code, DType t) {
    if (t == DType::F32)
        if (const RowFn fn = f32_pair(code)) return fn;
    if (t == DType::F32) return float_binary<float>(code);
    if (t == DType::F64) return float_binary<double>(code);
    return integers(t, [&](auto v) { return decltype(v)::find_binary(code); });
}

Opcode function_of_scalar_form(Opcode code) {
    switch (code) {
        case Opcode::FMODS: return Opcode::FMOD;
        case Opcode::REMAINDERS:
        case Opcode::RREMAINDERS: return Opcode::REMAINDER;
        case Opcode::POWS: return Opcode::POW;
        case Opcode::FLOOR_DIVS: return Opcode::FLOOR_DIV;
        case Opcode::CEIL_DIVS: return Opcode::CEIL_DIV;
        case Opcode::GCDS: return Opcode::GCD;
        case Opcode::BITWISE_ANDS: return Opcode::BITWISE_AND;
        case Opcode::BITWISE_ORS: return Opcode::BITWISE_OR;
        case Opcode::BITWISE_XORS: return Opcode::BITWISE_XOR;
        case Opcode::SHIFT_LEFTS:
        case Opcode::RSHIFT_LEFTS: return Opcode::SHIFT_LEFT;
        case Opcode::SHIFT_RIGHTS:
        case Opcode::RSHIFT_RIGHTS: return Opcode::SHIFT_RIGHT;
        default: return Opcode::COUNT;
    }
}

bool scalar_comes_first(Opcode code) {
    return code == Opcode::RSUBS || code == Opcode::RDIVS || code == Opcode::RREMAINDERS ||
           code == Opcode::RSHIFT_LEFTS || code == Opcode::RSHIFT_RIGHTS;
}

}  // namespace npu
