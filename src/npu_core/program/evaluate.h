// One operator of a scalar expression on known operands: the same for running and for planning.
#pragma once
#include <algorithm>
#include <string>

#include "npu_core/base/fault.h"
#include "npu_core/program/program.h"

namespace npu {

// Division rounds down, as Python's. Faults: scalar.overflow, scalar.division_by_zero.
inline int64_t evaluate(ExprOp op, int64_t a, int64_t b) {
    switch (op) {
        case ExprOp::ADD:
        case ExprOp::MUL: {
            int64_t y;
            if (op == ExprOp::ADD ? __builtin_add_overflow(a, b, &y) : __builtin_mul_overflow(a, b, &y))
                fail("scalar.overflow", std::to_string(a) + (op == ExprOp::ADD ? " + " : " * ") + std::to_string(b) +
                                            " in a run-time scalar does not fit 64 bits");
            return y;
        }
        case ExprOp::FLOORDIV:
        case ExprOp::MOD: {
            if (b == 0) fail("scalar.division_by_zero", "division by zero in a run-time scalar");
            if (b == -1) return op == ExprOp::MOD ? 0 : evaluate(ExprOp::MUL, a, -1);
            const int64_t q = a / b, r = a % b;
            const bool below = r != 0 && (r < 0) != (b < 0);
            return op == ExprOp::FLOORDIV ? q - below : r + (below ? b : 0);
        }
        case ExprOp::MIN: return std::min(a, b);
        case ExprOp::MAX: return std::max(a, b);
        case ExprOp::GE0: return a >= 0;
        case ExprOp::EQ0: return a == 0;
        default: return 0;
    }
}

}  // namespace npu
