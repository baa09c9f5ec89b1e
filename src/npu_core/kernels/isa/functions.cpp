// Rows of functions beyond the instructions of the vector unit.
#include "npu_core/kernels/isa/double_math.h"
#include "npu_core/kernels/isa/math.h"
#include "npu_core/kernels/isa/rows.h"
#include "npu_core/kernels/isa/tables.h"

namespace npu::NPU_ISA {
namespace {

// The result of `op`, rounded to fp32; every NaN becomes the same one.
NPU_INLINE HalfF rounded(D x) { return __builtin_convertvector(select(x == x, x, nan64()), HalfF); }

// One row through double: WD elements at a time, the last ones through a buffer.
template <class Op>
NPU_INLINE void through_double(const float* x, float* y, int64_t n, Op op) {
    int64_t i = 0;
    auto one = [&](const void* from, void* to) {
        store(to, rounded(op(__builtin_convertvector(load<HalfF>(from), D))));
    };
    for (; i + WD <= n; i += WD) one(x + i, y + i);
    if (i < n) {
        float buffer[WD] = {};
        __builtin_memcpy(buffer, x + i, static_cast<unsigned long>(n - i) * 4);
        one(buffer, buffer);
        __builtin_memcpy(y + i, buffer, static_cast<unsigned long>(n - i) * 4);
    }
}
template <class Op>
NPU_INLINE void through_double(const float* a, const float* b, float* y, int64_t n, Op op) {
    int64_t i = 0;
    auto one = [&](const void* p, const void* q, void* to) {
        store(to, rounded(op(__builtin_convertvector(load<HalfF>(p), D), __builtin_convertvector(load<HalfF>(q), D))));
    };
    for (; i + WD <= n; i += WD) one(a + i, b + i, y + i);
    if (i < n) {
        float p[WD] = {}, q[WD] = {};
        const unsigned long bytes = static_cast<unsigned long>(n - i) * 4;
        __builtin_memcpy(p, a + i, bytes);
        __builtin_memcpy(q, b + i, bytes);
        one(p, q, p);
        __builtin_memcpy(y + i, p, bytes);
    }
}

// Elements that the vector code does not cover are done again, one by one: `outside(x)`, `slow(x)`. The row may be
// computed in place, so they are looked for first.
template <class Outside>
NPU_INLINE bool any(const float* x, int64_t n, Outside outside) {
    int found = 0;
    for (int64_t i = 0; i < n; ++i) found |= outside(x[i]);
    return found != 0;
}

// Angles beyond 2^18 (and infinities): the library's reduction, for the whole row in pieces.
constexpr float LARGEST_ANGLE = 262144.0f;
template <class Op>
NPU_INLINE void angles(const float* x, float* y, int64_t n, Op op, double (*slow)(double)) {
    constexpr int64_t PIECE = 256;
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t count = n - at < PIECE ? n - at : PIECE;
        const auto large = [](float v) { return !(__builtin_fabsf(v) < LARGEST_ANGLE) && v == v; };
        if (!any(x + at, count, large)) {
            through_double(x + at, y + at, count, op);
            continue;
        }
        float given[PIECE];
        __builtin_memcpy(given, x + at, static_cast<unsigned long>(count) * 4);
        through_double(given, y + at, count, op);
        for (int64_t i = 0; i < count; ++i)
            if (large(given[i])) y[at + i] = static_cast<float>(slow(given[i]));
    }
}

// Powers of anything but finite positive bases and finite exponents: the library's rules.
void pow_row(const float* a, const float* b, float* y, int64_t n) {
    constexpr int64_t PIECE = 256;
    const auto special = [](float p, float q) {
        return !(p > 0.0f && p < __builtin_inff() && __builtin_fabsf(q) < __builtin_inff());
    };
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t count = n - at < PIECE ? n - at : PIECE;
        int found = 0;
        for (int64_t i = 0; i < count; ++i) found |= special(a[at + i], b[at + i]);
        const auto op = [](D p, D q) { return pow_positive(p, q); };
        if (!found) {
            through_double(a + at, b + at, y + at, count, op);
            continue;
        }
        float p[PIECE], q[PIECE];
        const unsigned long bytes = static_cast<unsigned long>(count) * 4;
        __builtin_memcpy(p, a + at, bytes);
        __builtin_memcpy(q, b + at, bytes);
        through_double(p, q, y + at, count, op);
        for (int64_t i = 0; i < count; ++i)
            if (special(p[i], q[i])) y[at + i] = static_cast<float>(__builtin_pow(p[i], q[i]));
    }
}

// 2^x in fp32: the fraction by a polynomial, one rounding of the sum.
NPU_INLINE F exp2(F x) {
    constexpr float q[] = {0x1.62e43p-1f, 0x1.ebfbd8p-3f, 0x1.c6af78p-5f, 0x1.3b30bp-7f, 0x1.5f0a6ep-10f, 0x1.3f909cp-13f};
    x = select(x > splat(129.0f), splat(129.0f), x);
    x = select(x < splat(-152.0f), splat(-152.0f), x);
    const F magic = splat(0x1.8p23f), t = x + magic, f = x - (t - magic);
    const I n = bits(t) - bits(magic), half = n >> 1;          // two steps reach 2^128 and the subnormals
    const F power = splat(1.0f) + f * polynomial(q, f);
    return power * exponent_of(half) * exponent_of(n - half);
}

// Cube root in fp32: a third of the exponent from the bits, two steps of Halley's method.
NPU_INLINE F cbrt(F x) {
    const F a = fabs(x);
    const I small = a < splat(0x1p-100f), large = a > splat(0x1p100f);      // cubes must stay normal
    const F v = a * select(small, splat(0x1p48f), select(large, splat(0x1p-48f), splat(1.0f)));
    F y = as_float(to_int(to_float(bits(v)) * splat(1.0f / 3.0f)) + splat_bits(0x2a5137a0u));
    for (int step = 0; step < 2; ++step) {
        const F cube = y * y * y;
        y = y - y * ((cube - v) / ((cube + cube) + v));
    }
    y = y * select(small, splat(0x1p-16f), select(large, splat(0x1p16f), splat(1.0f)));
    return select((a > splat(0.0f)) & (a < splat(__builtin_inff())), with_sign(y, sign_bit(x)), x);
}

NPU_INLINE F sign(F x) {                                       // zero and NaN stay
    return select((x > splat(0.0f)) | (x < splat(0.0f)), with_sign(splat(1.0f), sign_bit(x)), x);
}

template <class T, class U, bool LEFT>
void shift_row(const void* a, const void* b, void* y, int64_t n) {
    const T *p = static_cast<const T*>(a), *q = static_cast<const T*>(b);
    T* to = static_cast<T*>(y);
    constexpr U BITS = 8 * sizeof(T);
    for (int64_t i = 0; i < n; ++i) {
        const U count = static_cast<U>(q[i]) < BITS ? static_cast<U>(q[i]) : static_cast<U>(BITS - 1);
        const bool inside = static_cast<U>(q[i]) < BITS;
        if constexpr (LEFT) to[i] = inside ? static_cast<T>(static_cast<U>(p[i]) << count) : T(0);
        else to[i] = inside ? static_cast<T>(p[i] >> count) : p[i] < 0 ? static_cast<T>(-1) : T(0);
    }
}
template <class T, class U>
void set_shifts(KernelTable& t, int at) {
    t.shift_left[at] = shift_row<T, U, true>, t.shift_right[at] = shift_row<T, U, false>;
    t.shift_left[at + 4] = shift_row<U, U, true>, t.shift_right[at + 4] = shift_row<U, U, false>;
}

}  // namespace

void fill_functions(KernelTable& t) {
    auto set = [&t](Function op, void (*f)(const float*, float*, int64_t)) { t.function[static_cast<int>(op)] = f; };
#define NPU_DOUBLE(expression) \
    [](const float* x, float* y, int64_t n) { through_double(x, y, n, [](D v) { return expression; }); }
#define NPU_ANGLE(expression, slow) \
    [](const float* x, float* y, int64_t n) { angles(x, y, n, [](D v) { return expression; }, slow); }
#define NPU_FLOAT(expression) \
    [](const float* x, float* y, int64_t n) { map1<F, F>(x, y, n, [](F v) { return expression; }); }
    set(Function::EXP2, NPU_FLOAT(exp2(v)));
    set(Function::EXPM1, NPU_DOUBLE(select(v == splat64(0.0), v, expm1_64(v))));
    set(Function::LOG2, NPU_DOUBLE(log2_64(v)));
    set(Function::LOG10, NPU_DOUBLE(log10_64(v)));
    set(Function::LOG1P, NPU_DOUBLE(log1p_64(v)));
    set(Function::SIN, NPU_ANGLE(sin64(v), [](double v) { return __builtin_sin(v); }));
    set(Function::COS, NPU_ANGLE(cos64(v), [](double v) { return __builtin_cos(v); }));
    set(Function::TAN, NPU_ANGLE(tan64(v), [](double v) { return __builtin_tan(v); }));
    set(Function::ASIN, NPU_DOUBLE(asin64(v)));
    set(Function::ACOS, NPU_DOUBLE(acos64(v)));
    set(Function::ATAN, NPU_DOUBLE(atan64(v)));
    set(Function::SINH, NPU_DOUBLE(sinh64(v)));
    set(Function::COSH, NPU_DOUBLE(cosh64(v)));
    set(Function::ASINH, NPU_DOUBLE(asinh64(v)));
    set(Function::ACOSH, NPU_DOUBLE(acosh64(v)));
    set(Function::ATANH, NPU_DOUBLE(atanh64(v)));
    set(Function::ERFC, NPU_DOUBLE(erfc64(v)));
    set(Function::CBRT, NPU_FLOAT(cbrt(v)));
    set(Function::SIGN, NPU_FLOAT(sign(v)));
#undef NPU_DOUBLE
#undef NPU_ANGLE
#undef NPU_FLOAT
    set_shifts<int8_t, uint8_t>(t, 0);
    set_shifts<int16_t, uint16_t>(t, 1);
    set_shifts<int32_t, uint32_t>(t, 2);
    set_shifts<int64_t, uint64_t>(t, 3);
    t.pow = pow_row;
    t.hypot = [](const float* a, const float* b, float* y, int64_t n) {
        through_double(a, b, y, n, [](D p, D q) { return hypot64(p, q); });
    };
    t.atan2 = [](const float* a, const float* b, float* y, int64_t n) {
        through_double(a, b, y, n, [](D p, D q) { return atan2_64(p, q); });
    };
    t.copysign = [](const float* a, const float* b, float* y, int64_t n) {
        map2<F>(a, b, y, n, [](F p, F q) { return with_sign(fabs(p), sign_bit(q)); });
    };
}

}  // namespace npu::NPU_ISA
