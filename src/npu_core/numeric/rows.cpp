#include "npu_core/numeric/rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "npu_core/kernels/kernels.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/functions.h"
#include "npu_core/numeric/integer.h"

namespace npu {

namespace {

const float* f(const void* p) { return static_cast<const float*>(p); }
const uint8_t* u8(const void* p) { return static_cast<const uint8_t*>(p); }

// ---- fp32: the kernels of the instruction set in use
template <Unary U>
void f32_unary(const Row& r) { kernels().unary[static_cast<int>(U)](f(r.a), static_cast<float*>(r.y), r.n); }

template <Binary B>
void f32_binary(const Row& r) {
    constexpr int I = static_cast<int>(B);
    const KernelTable& k = kernels();
    auto* y = static_cast<float*>(r.y);
    if (r.a_step == r.b_step) k.binary[I](f(r.a), f(r.b), y, r.n);
    else if (r.b_step == 0) k.binary_vs[I](f(r.a), *f(r.b), y, r.n);
    else k.binary_sv[I](*f(r.a), f(r.b), y, r.n);
}

constexpr Compare swapped(Compare c) {
    switch (c) {
        case Compare::LT: return Compare::GT;
        case Compare::LE: return Compare::GE;
        case Compare::GT: return Compare::LT;
        case Compare::GE: return Compare::LE;
        default: return c;
    }
}
template <Compare C>
void f32_compare(const Row& r) {
    const KernelTable& k = kernels();
    auto* y = static_cast<uint8_t*>(r.y);
    if (r.a_step == r.b_step) k.compare[static_cast<int>(C)](f(r.a), f(r.b), y, r.n);
    else if (r.b_step == 0) k.compare_vs[static_cast<int>(C)](f(r.a), *f(r.b), y, r.n);
    else k.compare_vs[static_cast<int>(swapped(C))](f(r.b), *f(r.a), y, r.n);
}

void f32_select(const Row& r) {
    float b_row[STRIP], c_row[STRIP];
    auto* y = static_cast<float*>(r.y);
    const KernelTable& k = kernels();
    if (r.a_step == 0 && r.n > 1) {
        const bool first = *u8(r.a);
        const float* from = f(first ? r.b : r.c);
        if (first ? r.b_step : r.c_step) std::memcpy(y, from, static_cast<size_t>(r.n) * 4);
        else k.fill_f32(*from, y, r.n);
        return;
    }
    const float *b = f(r.b), *c = f(r.c);
    if (!r.b_step && r.n > 1) k.fill_f32(*b, b_row, r.n), b = b_row;
    if (!r.c_step && r.n > 1) k.fill_f32(*c, c_row, r.n), c = c_row;
    k.select(u8(r.a), b, c, y, r.n);
}

// ---- every other type
template <class T, class F>
void map1(const Row& r, F op) {
    const T* a = static_cast<const T*>(r.a);
    T* y = static_cast<T*>(r.y);
    for (int64_t i = 0; i < r.n; ++i) y[i] = op(a[i]);
}
template <class T, class Y, class F>
void map2(const Row& r, F op) {
    const T *a = static_cast<const T*>(r.a), *b = static_cast<const T*>(r.b);
    Y* y = static_cast<Y*>(r.y);
    if (r.a_step == r.b_step) for (int64_t i = 0; i < r.n; ++i) y[i] = op(a[i], b[i]);
    else if (r.b_step == 0) for (int64_t i = 0; i < r.n; ++i) y[i] = op(a[i], *b);
    else for (int64_t i = 0; i < r.n; ++i) y[i] = op(*a, b[i]);
}

template <class T> struct Arithmetic {
    static constexpr bool FLOAT = std::is_floating_point_v<T>;
    static T add(T a, T b) { if constexpr (FLOAT) return a + b; else return wrap_add(a, b); }
    static T sub(T a, T b) { if constexpr (FLOAT) return a - b; else return wrap_sub(a, b); }
    static T mul(T a, T b) { if constexpr (FLOAT) return a * b; else return wrap_mul(a, b); }
    static T div(T a, T b) { if constexpr (FLOAT) return a / b; else return wrap_div(a, b); }
    static T max(T a, T b) { return a != a || a >= b ? a : b; }   // NaN propagates
    static T min(T a, T b) { return a != a || a <= b ? a : b; }
    template <T (*OP)(T, T)> static void row(const Row& r) { map2<T, T>(r, [](T a, T b) { return OP(a, b); }); }
    static RowFn find(Opcode code) {
        switch (code) {
            case Opcode::ADD: return row<add>;
            case Opcode::SUB: return row<sub>;
            case Opcode::MUL: return row<mul>;
            case Opcode::DIV: return row<div>;
            case Opcode::MAXIMUM: return row<max>;
            case Opcode::MINIMUM: return row<min>;
            default: return nullptr;
        }
    }
};

template <class T> RowFn find_compare(Opcode code) {
    switch (code) {
        case Opcode::EQ: return [](const Row& r) { map2<T, uint8_t>(r, [](T a, T b) -> uint8_t { return a == b; }); };
        case Opcode::NE: return [](const Row& r) { map2<T, uint8_t>(r, [](T a, T b) -> uint8_t { return a != b; }); };
        case Opcode::LT: return [](const Row& r) { map2<T, uint8_t>(r, [](T a, T b) -> uint8_t { return a < b; }); };
        case Opcode::LE: return [](const Row& r) { map2<T, uint8_t>(r, [](T a, T b) -> uint8_t { return a <= b; }); };
        case Opcode::GT: return [](const Row& r) { map2<T, uint8_t>(r, [](T a, T b) -> uint8_t { return a > b; }); };
        case Opcode::GE: return [](const Row& r) { map2<T, uint8_t>(r, [](T a, T b) -> uint8_t { return a >= b; }); };
        default: return nullptr;
    }
}

template <class T> RowFn find_unary(Opcode code) {
    using A = Arithmetic<T>;
    if constexpr (std::is_floating_point_v<T>) {
        switch (code) {
            case Opcode::EXP: return [](const Row& r) { map1<T>(r, [](T a) { return std::exp(a); }); };
            case Opcode::LOG: return [](const Row& r) { map1<T>(r, [](T a) { return std::log(a); }); };
            case Opcode::SQRT: return [](const Row& r) { map1<T>(r, [](T a) { return std::sqrt(a); }); };
            case Opcode::TANH: return [](const Row& r) { map1<T>(r, [](T a) { return std::tanh(a); }); };
            case Opcode::ERF: return [](const Row& r) { map1<T>(r, [](T a) { return std::erf(a); }); };
            case Opcode::RECIPROCAL: return [](const Row& r) { map1<T>(r, [](T a) { return 1 / a; }); };
            case Opcode::FLOOR: return [](const Row& r) { map1<T>(r, [](T a) { return std::floor(a); }); };
            case Opcode::CEIL: return [](const Row& r) { map1<T>(r, [](T a) { return std::ceil(a); }); };
            case Opcode::TRUNC: return [](const Row& r) { map1<T>(r, [](T a) { return std::trunc(a); }); };
            case Opcode::ROUND: return [](const Row& r) { map1<T>(r, [](T a) { return std::nearbyint(a); }); };
            case Opcode::ABS: return [](const Row& r) { map1<T>(r, [](T a) { return std::fabs(a); }); };
            case Opcode::NEG: return [](const Row& r) { map1<T>(r, [](T a) { return -a; }); };
            case Opcode::RELU: return [](const Row& r) { map1<T>(r, [](T a) { return A::max(a, 0); }); };
            default: return nullptr;
        }
    } else {
        switch (code) {
            case Opcode::ABS: return [](const Row& r) { map1<T>(r, [](T a) { return a < 0 ? wrap_sub<T>(0, a) : a;
                }); };
            case Opcode::NEG: return [](const Row& r) { map1<T>(r, [](T a) { return wrap_sub<T>(0, a); }); };
            case Opcode::RELU: return [](const Row& r) { map1<T>(r, [](T a) { return a > 0 ? a : T(0); }); };
            case Opcode::FLOOR:
            case Opcode::CEIL:
            case Opcode::TRUNC:
            case Opcode::ROUND: return [](const Row& r) { map1<T>(r, [](T a) { return a; }); };
            default: return nullptr;
        }
    }
}

template <class T> void select_any(const Row& r) {
    const uint8_t* a = u8(r.a);
    const T *b = static_cast<const T*>(r.b), *c = static_cast<const T*>(r.c);
    T* y = static_cast<T*>(r.y);
    for (int64_t i = 0; i < r.n; ++i) y[i] = a[i * r.a_step] ? b[i * r.b_step] : c[i * r.c_step];
}

// Calls f with a value of the C++ type of a register type (fp32 excluded).
template <class F> RowFn by_type(DType t, F&& find) {
    switch (t) {
        case DType::F64: return find(double{});
        case DType::I8: return find(int8_t{});
        case DType::I16: return find(int16_t{});
        case DType::I32: return find(int32_t{});
        case DType::I64: return find(int64_t{});
        case DType::U8:
        case DType::BOOL: return find(uint8_t{});
        case DType::U16: return find(uint16_t{});
        case DType::U32: return find(uint32_t{});
        case DType::U64: return find(uint64_t{});
        default: return nullptr;
    }
}

void convert_any(const Row& r) {
    const uint64_t k = r.constant;
    const CastSpec s{static_cast<DType>(k & 255), static_cast<DType>(k >> 8 & 255),
        static_cast<CastMode>(k >> 16 & 255), (k >> 24 & 1) != 0};
    if (!is_half(s.to)) return cast_row(s, r.a, r.y, r.n);
    uint16_t half[STRIP];                              // rounded, then back into an fp32 register
    cast_row(s, r.a, half, r.n);
    cast_row({s.to, DType::F32}, half, r.y, r.n);
}

void round_bf16(const Row& r) {
    uint16_t half[STRIP];
    kernels().f32_to_bf16(f(r.a), half, r.n);
    kernels().bf16_to_f32(half, static_cast<float*>(r.y), r.n);
}
void round_f16(const Row& r) {
    uint16_t half[STRIP];
    kernels().f32_to_f16(f(r.a), half, r.n);
    kernels().f16_to_f32(half, static_cast<float*>(r.y), r.n);
}

}  // namespace

RowFn unary_row(Opcode code, DType t) {
    if (const RowFn fn = function_unary_row(code, t)) return fn;
    if (t != DType::F32) return by_type(t, [&](auto v) { return find_unary<decltype(v)>(code); });
    switch (code) {
        case Opcode::EXP: return f32_unary<Unary::EXP>;
        case Opcode::LOG: return f32_unary<Unary::LOG>;
        case Opcode::SQRT: return f32_unary<Unary::SQRT>;
        case Opcode::ABS: return f32_unary<Unary::ABS>;
        case Opcode::NEG: return f32_unary<Unary::NEG>;
        case Opcode::TANH: return f32_unary<Unary::TANH>;
        case Opcode::ERF: return f32_unary<Unary::ERF>;
        case Opcode::RECIPROCAL: return f32_unary<Unary::RECIPROCAL>;
        case Opcode::RELU: return f32_unary<Unary::RELU>;
        case Opcode::FLOOR: return f32_unary<Unary::FLOOR>;
        case Opcode::CEIL: return f32_unary<Unary::CEIL>;
        case Opcode::TRUNC: return f32_unary<Unary::TRUNC>;
        case Opcode::ROUND: return f32_unary<Unary::ROUND_EVEN>;
        default: return nullptr;
    }
}

RowFn binary_row(Opcode code, DType t) {
    if (const RowFn fn = function_binary_row(code, t)) return fn;
    if (t != DType::F32) return by_type(t, [&](auto v) { return Arithmetic<decltype(v)>::find(code); });
    switch (code) {
        case Opcode::ADD: return f32_binary<Binary::ADD>;
        case Opcode::SUB: return f32_binary<Binary::SUB>;
        case Opcode::MUL: return f32_binary<Binary::MUL>;
        case Opcode::DIV: return f32_binary<Binary::DIV>;
        case Opcode::MAXIMUM: return f32_binary<Binary::MAX>;
        case Opcode::MINIMUM: return f32_binary<Binary::MIN>;
        default: return nullptr;
    }
}

RowFn compare_row(Opcode code, DType t) {
    if (t != DType::F32) return by_type(t, [&](auto v) { return find_compare<decltype(v)>(code); });
    switch (code) {
        case Opcode::EQ: return f32_compare<Compare::EQ>;
        case Opcode::NE: return f32_compare<Compare::NE>;
        case Opcode::LT: return f32_compare<Compare::LT>;
        case Opcode::LE: return f32_compare<Compare::LE>;
        case Opcode::GT: return f32_compare<Compare::GT>;
        case Opcode::GE: return f32_compare<Compare::GE>;
        default: return nullptr;
    }
}

RowFn logical_row(Opcode code) {
    switch (code) {
        case Opcode::LOGICAL_AND: return [](const Row& r) { map2<uint8_t, uint8_t>(r, [](uint8_t a,
            uint8_t b) -> uint8_t { return (a != 0) & (b != 0); }); };
        case Opcode::LOGICAL_OR: return [](const Row& r) { map2<uint8_t, uint8_t>(r, [](uint8_t a,
            uint8_t b) -> uint8_t { return (a | b) != 0; }); };
        case Opcode::LOGICAL_NOT: return [](const Row& r) { map1<uint8_t>(r,
            [](uint8_t a) -> uint8_t { return a == 0; }); };
        default: return nullptr;
    }
}

RowFn select_row(DType t) {
    if (t == DType::F32) return f32_select;
    return by_type(t, [](auto v) -> RowFn { return select_any<decltype(v)>; });
}

RowFn convert_row() { return convert_any; }
RowFn round_row(DType half) { return half == DType::BF16 ? round_bf16 : round_f16; }

uint64_t pack_cast(DType from, DType to, int mode, bool saturate) {
    const auto u = [](auto v) { return static_cast<uint64_t>(v); };
    return u(from) | u(to) << 8 | u(mode) << 16 | u(saturate) << 24;
}

}  // namespace npu
