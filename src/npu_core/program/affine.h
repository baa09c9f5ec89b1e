// A scalar as a line over the coming blocks of a loop: its value now, what it gains per block, and for how many further
// blocks that is sure. Planning takes equal blocks of a loop in one go with it (plan/walk).
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "npu_core/program/evaluate.h"

namespace npu {

constexpr int64_t FOR_EVER = std::numeric_limits<int64_t>::max();

struct Affine {
    int64_t value = 0;
    bool known = false;
    int64_t slope = 0;         // per block
    int64_t blocks = FOR_EVER; // further blocks for which value + k * slope holds
};

namespace affine {

// Blocks k >= 0 for which room - k * pace >= 0, room >= 0.
inline int64_t until(int64_t room, int64_t pace) { return pace <= 0 ? FOR_EVER : room / pace; }

inline int64_t mod_floor(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }   // b > 0

// A line as far as no operator on it can overflow.
inline Affine line(int64_t value, int64_t slope, int64_t blocks = FOR_EVER) {
    constexpr int64_t LIMIT = int64_t{1} << 61;
    if (slope == 0) return {value, true, 0, blocks};
    if (std::max(value, slope) > LIMIT || std::min(value, slope) < -LIMIT) return {value, true, 0, 0};
    return {value, true, slope, std::min(blocks, slope > 0 ? until(LIMIT - value, slope) : until(LIMIT + value, -slope))};
}

inline bool product(int64_t a, int64_t b, int64_t& y) { return !__builtin_mul_overflow(a, b, &y); }

}  // namespace affine

// One operator on known operands. Faults as evaluate() for the value now.
inline Affine evaluate(ExprOp op, const Affine& a, const Affine& b) {
    using namespace affine;
    Affine y{evaluate(op, a.value, b.value), true, 0, std::min(a.blocks, b.blocks)};
    if (a.slope == 0 && b.slope == 0) return y;
    auto limit = [&y](int64_t blocks) { y.blocks = std::min(y.blocks, blocks); };
    switch (op) {
        case ExprOp::ADD:
            if (__builtin_add_overflow(a.slope, b.slope, &y.slope)) y.slope = 0, limit(0);
            break;
        case ExprOp::MUL: {
            int64_t one = 0, other = 0;
            if ((a.slope != 0 && b.slope != 0) || !product(a.slope, b.value, one) || !product(b.slope, a.value, other)) limit(0);
            else y.slope = one + other;                        // one of the two is 0
            break;
        }
        case ExprOp::FLOORDIV:
        case ExprOp::MOD: {
            if (b.slope != 0 || b.value <= 0) { limit(0); break; }
            const bool quotient = op == ExprOp::FLOORDIV;
            if (a.slope % b.value == 0) {                      // whole steps: the remainder stays
                if (quotient) y.slope = a.slope / b.value;
                break;
            }
            const int64_t rest = mod_floor(a.value, b.value);  // until the quotient changes
            limit(a.slope > 0 ? until(b.value - 1 - rest, a.slope) : until(rest, -a.slope));
            if (!quotient) y.slope = a.slope;
            break;
        }
        case ExprOp::MIN:
        case ExprOp::MAX: {
            const bool smaller = a.value != b.value ? a.value < b.value : a.slope <= b.slope;
            const bool first = smaller == (op == ExprOp::MIN);
            const Affine &taken = first ? a : b, &other = first ? b : a;
            y.slope = taken.slope;
            const Affine &low = op == ExprOp::MIN ? taken : other, &high = op == ExprOp::MIN ? other : taken;
            int64_t gap, pace;                                 // low stays below high
            if (__builtin_sub_overflow(high.value, low.value, &gap) || __builtin_sub_overflow(low.slope, high.slope, &pace)) limit(0);
            else limit(gap < 0 ? 0 : until(gap, pace));
            break;
        }
        case ExprOp::GE0: limit(a.value >= 0 ? until(a.value, -a.slope) : until(-(a.value + 1), a.slope)); break;
        case ExprOp::EQ0:
            if (a.value == 0) limit(0);
            else if (a.value % a.slope == 0 && (a.value < 0) != (a.slope < 0)) limit(-(a.value / a.slope) - 1);
            break;
        default: limit(0);
    }
    return line(y.value, y.slope, y.blocks);
}

}  // namespace npu
