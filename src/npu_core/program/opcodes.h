// The executor kernels by name: the left column of docs/core_operations.md, with the least attributes each one needs.
#pragma once
#include <cstdint>
#include <string_view>

namespace npu {

enum class Opcode : uint8_t {
    EXP, LOG, SQRT, ABS, NEG, TANH, ERF, RECIPROCAL, RELU, FLOOR, CEIL, TRUNC, ROUND,
    ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM,
    ADDS, SUBS, MULS, DIVS, MAXS, MINS, RSUBS, RDIVS,
    EQ, NE, LT, LE, GT, GE, EQS, NES, LTS, LES, GTS, GES,
    LOGICAL_AND, LOGICAL_OR, LOGICAL_NOT, WHERE, CAST,
    SUM, AMAX, AMIN, PROD, TOPK, MATMUL,
    VIEW, RESHAPE, UNSQUEEZE, SQUEEZE, TRANSPOSE, CONCAT, EXPAND, CLONE, FILLPAD, TRIL, TRIU, DEINTERLEAVE, GATHERMASK,
    FULL, ARANGE, GATHER, INDEX_SELECT, SCATTER, SCATTER_UPDATE,
    COUNT
};
constexpr uint8_t NO_OPCODE = 255;

enum class Family : uint8_t {
    UNARY, BINARY, SCALAR, COMPARE, COMPARE_SCALAR, LOGICAL, WHERE, CAST,   // elementwise, in this order
    REDUCE, TOPK, MATMUL, MOVE, CREATE, INDEX
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
