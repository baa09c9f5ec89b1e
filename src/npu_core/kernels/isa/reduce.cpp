// Reductions of a row, in an order that depends on nothing but its length.
//
// A row is cut into repeats of 64 lanes, as the vector unit does it. Sum: repeats are added pairwise (neighbours first,
// an odd one waits for its turn), then the 64 lanes in halves: lane i with lane i + 32, + 16, ... + 1. A lane missing
// in the last repeat counts as -0, which changes no sum. Max and min: lanes in order over the repeats, then halves.
// Product: by halving the row, so repeat k with repeat k + half of them, and so on, then the lanes in halves.
#include "npu_core/kernels/isa/simd.h"
#include "npu_core/kernels/isa/tables.h"

namespace npu::NPU_ISA {
namespace {

constexpr int LANES = 64, VECTORS = LANES / W;

typedef float F4 __attribute__((vector_size(16)));

struct Lanes {
    F v[VECTORS];
};

NPU_INLINE Lanes load_lanes(const float* x) {
    Lanes r;
    for (int i = 0; i < VECTORS; ++i) r.v[i] = load<F>(x + i * W);
    return r;
}
NPU_INLINE Lanes load_tail(const float* x, int64_t n, float absent) {
    float buffer[LANES];
    for (int i = 0; i < LANES; ++i) buffer[i] = absent;
    __builtin_memcpy(buffer, x, static_cast<unsigned long>(n) * 4);
    return load_lanes(buffer);
}
NPU_INLINE Lanes add(const Lanes& a, const Lanes& b) {
    Lanes r;
    for (int i = 0; i < VECTORS; ++i) r.v[i] = a.v[i] + b.v[i];
    return r;
}

// Halves of the 64 lanes; op(first half, second half).
template <class Op>
NPU_INLINE float across(Lanes r, Op op) {
    for (int half = VECTORS / 2; half >= 1; half /= 2)
        for (int i = 0; i < half; ++i) r.v[i] = op(r.v[i], r.v[i + half]);
    F4 q[W / 4];
    __builtin_memcpy(q, &r.v[0], sizeof(F));
    for (int half = W / 8; half >= 1; half /= 2)
        for (int i = 0; i < half; ++i) q[i] = op(q[i], q[i + half]);
    return op(op(q[0][0], q[0][2]), op(q[0][1], q[0][3]));
}

float row_sum(const float* x, int64_t n) {
    if (n <= 0) return 0.0f;
    constexpr int GROUP = 4;                      // repeats added in registers
    Lanes waiting[48];                            // waiting[i] covers the groups of bit i of `groups`
    uint64_t groups = 0;
    int depth = 0;
    int64_t i = 0;
    for (; i + GROUP * LANES <= n; i += GROUP * LANES) {
        Lanes sum = add(add(load_lanes(x + i), load_lanes(x + i + LANES)),
                        add(load_lanes(x + i + 2 * LANES), load_lanes(x + i + 3 * LANES)));
        for (uint64_t g = groups; g & 1; g >>= 1) sum = add(waiting[--depth], sum);
        waiting[depth++] = sum;
        ++groups;
    }
    if (i < n) {
        Lanes rest[GROUP];
        int count = 0;
        for (; i < n; i += LANES) rest[count++] = n - i >= LANES ? load_lanes(x + i) : load_tail(x + i, n - i, -0.0f);
        Lanes sum = rest[0];
        if (count >= 2) sum = add(sum, rest[1]);
        if (count == 3) sum = add(sum, rest[2]);
        if (count == 4) sum = add(sum, add(rest[2], rest[3]));
        waiting[depth++] = sum;
    }
    Lanes sum = waiting[--depth];
    while (depth > 0) sum = add(waiting[--depth], sum);
    return across(sum, [](auto a, auto b) { return a + b; });
}

// `repeats` is a power of two. Taken in bit-reversed order, halving is the pairing of neighbours.
float row_product(const float* x, int64_t repeats) {
    Lanes waiting[48];                            // waiting[i] covers the repeats of bit i of `done`
    int depth = 0;
    uint64_t place = 0;
    for (uint64_t done = 0; done < static_cast<uint64_t>(repeats); ++done) {
        Lanes product = load_lanes(x + place * LANES);
        for (uint64_t d = done; d & 1; d >>= 1) {
            const Lanes& first = waiting[--depth];
            for (int i = 0; i < VECTORS; ++i) product.v[i] = first.v[i] * product.v[i];
        }
        waiting[depth++] = product;
        uint64_t carry = static_cast<uint64_t>(repeats) >> 1;   // the next number with its bits reversed
        while (place & carry) {
            place ^= carry;
            carry >>= 1;
        }
        place |= carry;
    }
    return across(waiting[0], [](auto a, auto b) { return a * b; });
}

template <bool MAX>
float row_extreme(const float* x, int64_t n) {
    const float worst = MAX ? -__builtin_inff() : __builtin_inff();
    auto pick = [](auto a, auto b) {
        if constexpr (MAX) return b > a ? b : a;
        else return b < a ? b : a;
    };
    Lanes best = n >= LANES ? load_lanes(x) : load_tail(x, n, worst);
    I nan{};
    for (int v = 0; v < VECTORS; ++v) nan |= best.v[v] != best.v[v];
    for (int64_t i = LANES; i < n; i += LANES) {
        const Lanes next = n - i >= LANES ? load_lanes(x + i) : load_tail(x + i, n - i, worst);
        for (int v = 0; v < VECTORS; ++v) {
            nan |= next.v[v] != next.v[v];
            best.v[v] = pick(best.v[v], next.v[v]);
        }
    }
    int32_t any = 0;
    for (int i = 0; i < W; ++i) any |= nan[i];
    return any ? __builtin_nanf("") : across(best, pick);
}

}  // namespace

void fill_reduce(KernelTable& t) {
    t.row_sum = row_sum;
    t.row_product = row_product;
    t.row_max = row_extreme<true>;
    t.row_min = row_extreme<false>;
}

}  // namespace npu::NPU_ISA
