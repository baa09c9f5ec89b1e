// Arithmetic, comparison, selection and fill over rows of fp32.
#include "npu_core/kernels/isa/rows.h"
#include "npu_core/kernels/isa/tables.h"

namespace npu::NPU_ISA {
namespace {

struct Add { static NPU_INLINE F at(F a, F b) { return a + b; } };
struct Sub { static NPU_INLINE F at(F a, F b) { return a - b; } };
struct Mul { static NPU_INLINE F at(F a, F b) { return a * b; } };
struct Div { static NPU_INLINE F at(F a, F b) { return a / b; } };
struct Max { static NPU_INLINE F at(F a, F b) { return max_nan(a, b); } };
struct Min { static NPU_INLINE F at(F a, F b) { return min_nan(a, b); } };

struct Eq { static NPU_INLINE I at(F a, F b) { return a == b; } };
struct Ne { static NPU_INLINE I at(F a, F b) { return a != b; } };
struct Lt { static NPU_INLINE I at(F a, F b) { return a < b; } };
struct Le { static NPU_INLINE I at(F a, F b) { return a <= b; } };
struct Gt { static NPU_INLINE I at(F a, F b) { return a > b; } };
struct Ge { static NPU_INLINE I at(F a, F b) { return a >= b; } };

template <class Op>
void vv(const float* a, const float* b, float* y, int64_t n) {
    map2<F>(a, b, y, n, [](F u, F v) { return Op::at(u, v); });
}
template <class Op>
void vs(const float* a, float s, float* y, int64_t n) {
    const F t = splat(s);
    map1<F, F>(a, y, n, [t](F u) { return Op::at(u, t); });
}
template <class Op>
void sv(float s, const float* b, float* y, int64_t n) {
    const F t = splat(s);
    map1<F, F>(b, y, n, [t](F u) { return Op::at(t, u); });
}
template <class Op>
void cmp_vv(const float* a, const float* b, uint8_t* y, int64_t n) {
    map2<B>(a, b, y, n, [](F u, F v) { return truth_bytes(Op::at(u, v)); });
}
template <class Op>
void cmp_vs(const float* a, float s, uint8_t* y, int64_t n) {
    const F t = splat(s);
    map1<B, F>(a, y, n, [t](F u) { return truth_bytes(Op::at(u, t)); });
}

void select_row(const uint8_t* cond, const float* a, const float* b, float* y, int64_t n) {
    int64_t i = 0;
    for (; i + W <= n; i += W) {
        const I mask = widen_bytes(load<S>(cond + i)) != 0;
        store(y + i, select(mask, load<F>(a + i), load<F>(b + i)));
    }
    for (; i < n; ++i) y[i] = cond[i] ? a[i] : b[i];
}

void fill(float v, float* y, int64_t n) {
    const F t = splat(v);
    int64_t i = 0;
    for (; i + W <= n; i += W) store(y + i, t);
    for (; i < n; ++i) y[i] = v;
}

template <class Op>
void arithmetic(KernelTable& t, Binary op) {
    const int i = static_cast<int>(op);
    t.binary[i] = vv<Op>;
    t.binary_vs[i] = vs<Op>;
    t.binary_sv[i] = sv<Op>;
}
template <class Op>
void comparison(KernelTable& t, Compare op) {
    t.compare[static_cast<int>(op)] = cmp_vv<Op>;
    t.compare_vs[static_cast<int>(op)] = cmp_vs<Op>;
}

}  // namespace

void fill_binary(KernelTable& t) {
    arithmetic<Add>(t, Binary::ADD);
    arithmetic<Sub>(t, Binary::SUB);
    arithmetic<Mul>(t, Binary::MUL);
    arithmetic<Div>(t, Binary::DIV);
    arithmetic<Max>(t, Binary::MAX);
    arithmetic<Min>(t, Binary::MIN);
    comparison<Eq>(t, Compare::EQ);
    comparison<Ne>(t, Compare::NE);
    comparison<Lt>(t, Compare::LT);
    comparison<Le>(t, Compare::LE);
    comparison<Gt>(t, Compare::GT);
    comparison<Ge>(t, Compare::GE);
    t.select = select_row;
    t.fill_f32 = fill;
}

}  // namespace npu::NPU_ISA
