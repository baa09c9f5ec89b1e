// The executor kernels by name: the left column of docs/core_operations.md, with the least attributes each one needs.
#pragma once
#include <cstdint>
#include <string_view>

namespace npu {

enum class Opcode : uint8_t {
    EXP, LOG, SQRT, ABS, NEG, TANH, ERF, RECIPROCAL, RELU, FLOOR, CEIL, TRUNC, ROUND,
    EXP2, EXPM1, LOG2, LOG10, LOG1P, SIN, COS, TAN, ASIN, ACOS, ATAN, SINH, COSH, ASINH, ACOSH, ATANH, ERFC, CBRT, SIGN,
    BITWISE_NOT,
    ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM,
    FMOD, REMAINDER, POW, HYPOT, COPYSIGN, ATAN2, FLOOR_DIV, CEIL_DIV, GCD, BITWISE_AND, BITWISE_OR, BITWISE_XOR,
    SHIFT_LEFT, SHIFT_RIGHT,
    ADDS, SUBS, MULS, DIVS, MAXS, MINS, RSUBS, RDIVS,
    FMODS, REMAINDERS, RREMAINDERS, POWS, FLOOR_DIVS, CEIL_DIVS, GCDS, BITWISE_ANDS, BITWISE_ORS, BITWISE_XORS,
    SHIFT_LEFTS, SHIFT_RIGHTS, RSHIFT_LEFTS, RSHIFT_RIGHTS,
    EQ, NE, LT, LE, GT, GE, EQS, NES, LTS, LES, GTS, GES,
    LOGICAL_AND, LOGICAL_OR, LOGICAL_NOT, WHERE, CAST,
    SUM, AMAX, AMIN, PROD, ARGMAX, ARGMIN, CUMSUM, CUMPROD, TOPK, MATMUL,
    VIEW, RESHAPE, UNSQUEEZE, SQUEEZE, TRANSPOSE, CONCAT, EXPAND, CLONE, FILLPAD, TRIL, TRIU, DEINTERLEAVE, GATHERMASK,
    FULL, ARANGE, GATHER, INDEX_SELECT, SCATTER, SCATTER_UPDATE,
    ONE_HOT, INDEX_ADD, INDEX_PUT, INTERLEAVE, BITCAST, PACK4, UNPACK4, UNPACK_BITS, QUANT_MX, PHILOX, SORT32, MRGSORT,
    SCALED_MATMUL, CONV,
    COUNT
};
constexpr uint8_t NO_OPCODE = 255;

enum class Family : uint8_t {
    UNARY, BINARY, SCALAR, COMPARE, COMPARE_SCALAR, LOGICAL, WHERE, CAST,   // elementwise, in this order
    REDUCE, TOPK, MATMUL, MOVE, CREATE, INDEX, OTHER
};
constexpr bool is_elementwise(Family f) { return f <= Family::CAST; }

struct OpcodeInfo {
    std::string_view name;
    Family family;
    int min_ins, max_ins, outs;
    int min_ints, min_floats, min_scalars;
};
const OpcodeInfo& info(Opcode code);
// NO_OPCODE for a name that the executor does not have.
uint8_t find_opcode(std::string_view kernel);

}  // namespace npu
