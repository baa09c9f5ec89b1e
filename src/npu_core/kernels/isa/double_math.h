// Functions of fp32 vectors that are computed in double and rounded once: the result is the correctly rounded one but
// for values within 2^-15 units in the last place of a tie. No fused multiply-add and no library calls on the way, so
// that every instruction set gives the same bits. The polynomials interpolate at Chebyshev nodes; their relative error
// is below 2^-42.
#pragma once
#include "npu_core/kernels/isa/simd.h"

namespace npu::NPU_ISA {

typedef double D __attribute__((vector_size(4 * W)));
typedef int64_t L __attribute__((vector_size(4 * W)));
typedef uint64_t UL __attribute__((vector_size(4 * W)));
typedef float HalfF __attribute__((vector_size(2 * W)));     // as many floats as D has doubles
constexpr int WD = W / 2;

NPU_INLINE L splat_bits64(int64_t s) { return L{} + s; }
NPU_INLINE D splat64(double s) {
    int64_t u;
    __builtin_memcpy(&u, &s, 8);
    return (D)splat_bits64(u);
}
NPU_INLINE D select(L mask, D a, D b) { return mask ? a : b; }
NPU_INLINE D abs64(D x) { return (D)((L)x & INT64_MAX); }
NPU_INLINE L sign64(D x) { return (L)x & INT64_MIN; }
NPU_INLINE D signed64(D magnitude, L sign) { return (D)((L)magnitude | sign); }
NPU_INLINE D infinity64() { return splat64(__builtin_inf()); }
NPU_INLINE D nan64() { return splat64(__builtin_nan("")); }

NPU_INLINE D sqrt(D x) {
#if defined(__AVX512F__)
    return (D)_mm512_sqrt_pd((__m512d)x);
#elif defined(__AVX2__)
    return (D)_mm256_sqrt_pd((__m256d)x);
#elif defined(__SSE2__)
    return (D)_mm_sqrt_pd((__m128d)x);
#else
    D y;
    for (int i = 0; i < WD; ++i) y[i] = __builtin_sqrt(x[i]);
    return y;
#endif
}

template <int N>
NPU_INLINE D polynomial(const double (&c)[N], D x) {
    D r = splat64(c[N - 1]);
    for (int i = N - 2; i >= 0; --i) r = r * x + splat64(c[i]);
    return r;
}

constexpr double LN2_64 = 0x1.62e42fefa39efp-1;
constexpr double LN2_HIGH64 = 0x1.62e42feep-1, LN2_LOW64 = 0x1.a39ef35793c76p-33;
constexpr double MAGIC64 = 0x1.8p52;                         // adding it rounds to a whole number

// The integer that adding `magic` rounded to; any number where the argument was out of range.
NPU_INLINE L steps64(D t, D magic) { return (L)((UL)t - (UL)magic); }

// exp(r) - 1 and n of exp(x) = 2^n exp(r); |x| < 2^20 or NaN.
struct Reduced64 { D less_one; L n; };
NPU_INLINE Reduced64 exp_reduced(D x) {
    constexpr double q[] = {0x1.fffffffffe028p-2, 0x1.5555555554f8cp-3, 0x1.55555565dead9p-5, 0x1.11111117140a3p-7,
                            0x1.6c166b8f94446p-10, 0x1.a019c3324fe13p-13, 0x1.a137426f16cfcp-16, 0x1.72ada50a7cd68p-19};
    const D magic = splat64(MAGIC64), t = x * splat64(1 / LN2_64) + magic, n = t - magic;
    const D r = (x - n * splat64(LN2_HIGH64)) - n * splat64(LN2_LOW64);
    return {r + (r * r) * polynomial(q, r), steps64(t, magic)};
}
NPU_INLINE D power_of_two(L n) { return (D)(((UL)n + uint64_t(1023)) << 52); }   // -1022 <= n <= 1023
NPU_INLINE D clamp64(D x, double low, double high) {               // NaN stays
    x = select(x > splat64(high), splat64(high), x);
    return select(x < splat64(low), splat64(low), x);
}
// Exponentials of arguments clamped to what fp32 can tell apart from 0 and infinity.
NPU_INLINE D exp64(D x) {
    const Reduced64 e = exp_reduced(clamp64(x, -700.0, 700.0));
    const D p = power_of_two(e.n);
    return p + p * e.less_one;
}
NPU_INLINE D expm1_64(D x) {
    const Reduced64 e = exp_reduced(clamp64(x, -700.0, 700.0));
    const D p = power_of_two(e.n);
    return (p - splat64(1.0)) + p * e.less_one;
}

// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), and log(1 + f); x normal and positive.
struct Logarithm { D e, log_f; };
NPU_INLINE D log_near_one(D f) {
    constexpr double p[] = {0x1.5555555555558p-1, 0x1.9999999995273p-2, 0x1.2492492dfd871p-2, 0x1.c71c62d5e4fe4p-3,
                            0x1.7462b91b9c10ap-3, 0x1.39fdcce9cc970p-3, 0x1.2b5f68b4b01e5p-3};
    const D s = f / (splat64(2.0) + f), z = s * s;
    return (s + s) + (s * z) * polynomial(p, z);
}
constexpr int64_t SQRT_HALF_BITS = 0x3fe6a09e667f3bcd;
NPU_INLINE D mantissa_less_one(D x, D* exponent) {
    const UL u = (UL)x - static_cast<uint64_t>(SQRT_HALF_BITS);
    // the exponent, biased to stay positive, read through the bits of 2^52 + e
    const UL e = ((u + (uint64_t(1024) << 52)) >> 52) | uint64_t(0x4330000000000000);
    *exponent = (D)e - splat64(0x1p52 + 1024);
    return (D)((u & uint64_t(0xfffffffffffff)) + static_cast<uint64_t>(SQRT_HALF_BITS)) - splat64(1.0);
}
NPU_INLINE Logarithm log_parts(D x) {
    Logarithm r;
    r.log_f = log_near_one(mantissa_less_one(x, &r.e));
    return r;
}
// Zero, negative, infinite and NaN arguments of a logarithm whose other values are y.
NPU_INLINE D log_ends(D x, D y) {
    y = select(x < splat64(0.0), nan64(), y);
    y = select(x == splat64(0.0), -infinity64(), y);
    return select(x < infinity64(), y, x);
}
NPU_INLINE D log2_64(D x) {
    const Logarithm l = log_parts(x);
    return log_ends(x, l.e + l.log_f * splat64(1 / LN2_64));
}
NPU_INLINE D log10_64(D x) {
    const Logarithm l = log_parts(x);
    return log_ends(x, l.e * splat64(0x1.34413509f79ffp-2) + l.log_f * splat64(0x1.bcb7b1526e50ep-2));
}
// log(1 + y) for y >= -1 whose rounding into 1 + y would lose it near zero.
NPU_INLINE D log1p_64(D y) {
    const D u = splat64(1.0) + y;
    D e;
    D f = mantissa_less_one(u, &e);
    f = select(e == splat64(0.0), y, f);
    const D r = e * splat64(LN2_64) + log_near_one(f);
    return select(y == splat64(0.0), y, log_ends(u, r));
}

// sin and cos of |x| < 2^18: reduced by multiples of pi / 2 in three parts.
struct Angle { D sin, cos; L quadrant; };
NPU_INLINE Angle angle(D x) {
    constexpr double ps[] = {-0x1.5555555555166p-3, 0x1.1111110fd28f7p-7, -0x1.a019fd9820cb8p-13,
                             0x1.71d9a79f7c8bdp-19, -0x1.aa27435ae367dp-26};
    constexpr double pc[] = {0x1.5555555555435p-5, -0x1.6c16c16b60960p-10, 0x1.a019ff51e32bap-16,
                             -0x1.27e25df65feabp-22, 0x1.1c812551bd7f2p-29};
    const D magic = splat64(MAGIC64), t = x * splat64(0x1.45f306dc9c883p-1) + magic, n = t - magic;
    const D r = ((x - n * splat64(0x1.921fb544p+0)) - n * splat64(0x1.0b4611a6p-34)) - n * splat64(0x1.3198a2e037073p-69);
    const D z = r * r;
    return {r + (r * z) * polynomial(ps, z), (splat64(1.0) - splat64(0.5) * z) + (z * z) * polynomial(pc, z),
            steps64(t, magic)};
}
NPU_INLINE D turned(const Angle& a, L quadrant) {             // sin, with the quadrant counted from there
    const D y = select((quadrant & 1) != 0, a.cos, a.sin);
    return (D)((UL)y ^ ((UL)(quadrant & 2) << 62));
}
NPU_INLINE D sin64(D x) {
    const Angle a = angle(x);
    return select(x == splat64(0.0), x, turned(a, a.quadrant));
}
NPU_INLINE D cos64(D x) {
    const Angle a = angle(x);
    return turned(a, (L)((UL)a.quadrant + uint64_t(1)));
}
NPU_INLINE D tan64(D x) {
    const Angle a = angle(x);
    const L odd = (a.quadrant & 1) != 0;
    return select(x == splat64(0.0), x, select(odd, -a.cos, a.sin) / select(odd, a.sin, a.cos));
}

constexpr double PI64 = 0x1.921fb54442d18p+1, HALF_PI64 = 0x1.921fb54442d18p+0;

// atan(a / b) for a, b >= 0, not both 0 or infinite.
NPU_INLINE D atan_quotient(D a, D b) {
    constexpr double p[] = {-0x1.55555555553a0p-2, 0x1.99999998cfffbp-3, -0x1.249248a9b2c27p-3,
                            0x1.c71c37dafcaf4p-4, -0x1.74563649ab755p-4, 0x1.3a9d3106dc825p-4,
                            -0x1.0c503f93ca7bcp-4, 0x1.a757649329017p-5, -0x1.bde7ea9ce2afbp-6};
    const L low = a <= b * splat64(0x1.a827999fcef32p-2), middle = a < b * splat64(0x1.3504f333f9de6p+1);
    const D num = select(low, a, select(middle, a - b, -b)), den = select(low, b, select(middle, a + b, a));
    const D base = select(low, splat64(0.0), select(middle, splat64(HALF_PI64 / 2), splat64(HALF_PI64)));
    const D t = num / den, z = t * t;
    return base + (t + (t * z) * polynomial(p, z));
}
NPU_INLINE D atan64(D x) {
    const D t = abs64(x);
    const D r = select(t == infinity64(), splat64(HALF_PI64), atan_quotient(t, splat64(1.0)));
    return signed64(r, sign64(x));
}
NPU_INLINE D atan2_64(D y, D x) {
    const L endless = (abs64(y) == infinity64()) & (abs64(x) == infinity64());
    const L nothing = (y == splat64(0.0)) & (x == splat64(0.0));
    D a = select(endless, splat64(1.0), select(nothing, splat64(0.0), abs64(y)));
    D b = select(endless | nothing, splat64(1.0), abs64(x));
    const L steep = a == infinity64(), flat = b == infinity64();
    a = select(steep, splat64(1.0), select(flat & (a == a), splat64(0.0), a));
    b = select(steep & (b == b), splat64(0.0), select(flat, splat64(1.0), b));
    const D r = atan_quotient(a, b);
    return signed64(select(sign64(x) != 0, splat64(PI64) - r, r), sign64(y));
}

// asin(t) - t = t z p(z) with z = t^2 <= 1/4
NPU_INLINE D asin_small(D t, D z) {
    constexpr double p[] = {0x1.5555555554efep-3, 0x1.33333335ac6acp-4, 0x1.6db6d8e4a7aa3p-5, 0x1.f1c81d3489a48p-6,
                            0x1.6e720145f9841p-6, 0x1.1dc3df4a26898p-6, 0x1.b0168ecc9ea64p-7, 0x1.00f1883fc0247p-6,
                            -0x1.8363bc8df034dp-9, 0x1.c978fce996066p-6};
    return t + (t * z) * polynomial(p, z);
}
struct Arc { D value; L near_one; };                          // asin(t), or asin(sqrt((1 - t) / 2)) for t > 1/2
NPU_INLINE Arc arc(D t) {
    const L near_one = t > splat64(0.5);
    const D z = select(near_one, (splat64(1.0) - t) * splat64(0.5), t * t);
    return {asin_small(select(near_one, sqrt(z), t), z), near_one};
}
NPU_INLINE D asin64(D x) {
    const Arc a = arc(abs64(x));
    const D y = select(a.near_one, splat64(HALF_PI64) - (a.value + a.value), a.value);
    return select(x != x, x, signed64(y, sign64(x)));
}
NPU_INLINE D acos64(D x) {
    const Arc a = arc(abs64(x));
    const D twice = a.value + a.value, side = signed64(a.value, sign64(x));
    return select(a.near_one, select(x < splat64(0.0), splat64(PI64) - twice, twice), splat64(HALF_PI64) - side);
}

NPU_INLINE D sinh64(D x) {
    const D e = expm1_64(abs64(x));
    return select(x == x, signed64(splat64(0.5) * (e + e / (e + splat64(1.0))), sign64(x)), x);
}
NPU_INLINE D cosh64(D x) {
    const D e = exp64(abs64(x));
    return splat64(0.5) * (e + splat64(1.0) / e);
}
NPU_INLINE D asinh64(D x) {
    const D t = abs64(x), z = t * t;
    const D y = log1p_64(t + z / (splat64(1.0) + sqrt(splat64(1.0) + z)));
    return select(t < infinity64(), signed64(y, sign64(x)), x);
}
NPU_INLINE D acosh64(D x) {
    const D y = x - splat64(1.0);
    const D r = log1p_64(y + sqrt(y * (y + splat64(2.0))));
    return select(x < splat64(1.0), nan64(), select(x < infinity64(), r, x));
}
NPU_INLINE D atanh64(D x) {
    const D t = abs64(x);
    const D r = splat64(0.5) * log1p_64((t + t) / (splat64(1.0) - t));
    const D y = select(t == splat64(1.0), infinity64(), select(t < splat64(1.0), r, nan64()));
    return select(x == x, select(t <= splat64(1.0), signed64(y, sign64(x)), y), x);
}

NPU_INLINE D erfc64(D x) {
    constexpr double p[] = {0x1.3ccda0b5d5db7p+0,   -0x1.1f367683f9fdcp-3, 0x1.d5f2947df78f8p-9,   0x1.510169d2d3797p-4,
                            -0x1.bda9308e061cep-4,  0x1.7a14183775d95p-4,  -0x1.e0d0fd6301bfep-5,  0x1.d0b013995ff8dp-6,
                            -0x1.3f5f9bc1b19e7p-7,  0x1.cc36488a17b04p-10, 0x1.3377efc8b23f4p-12,
                            -0x1.30704f0bacb5fp-12, 0x1.bd55954fe249ep-15, 0x1.9439c6b2f77edp-16,
                            -0x1.a39af5fe55efcp-17, -0x1.10d0f92462075p-18};
    const D t = clamp64(abs64(x), 0.0, 11.0);
    const D a = t + splat64(3.75), b = splat64(1.0) + (t + t), inverse = splat64(1.0) / (a * b);
    const D w = (t - splat64(3.75)) * (b * inverse);
    const D y = exp64(-(t * t)) * (polynomial(p, w) * (a * inverse));
    return select(x < splat64(0.0), splat64(2.0) - y, y);
}

NPU_INLINE D hypot64(D x, D y) {
    const D r = sqrt(x * x + y * y);
    return select((abs64(x) == infinity64()) | (abs64(y) == infinity64()), infinity64(), r);
}

// x^y for x > 0 and finite operands: 2^(y log2 x)
NPU_INLINE D pow_positive(D x, D y) {
    const Logarithm l = log_parts(x);
    const D high = y * l.e, low = y * (l.log_f * splat64(1 / LN2_64));      // of the exponent of two
    const D total = clamp64(high + low, -400.0, 400.0), magic = splat64(MAGIC64), t = total + magic, n = t - magic;
    const D near = select(abs64(high + low) < splat64(400.0), (high - n) + low, splat64(0.0));
    const Reduced64 e = exp_reduced(near * splat64(LN2_64));
    const D p = power_of_two((L)((UL)steps64(t, magic) + (UL)e.n));
    return p + p * e.less_one;
}

}  // namespace npu::NPU_ISA
