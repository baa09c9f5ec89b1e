#include "npu_core/program/opcodes.h"

namespace npu {

namespace {

constexpr int ANY = 1 << 20;
using F = Family;
constexpr OpcodeInfo TABLE[] = {
    {"exp", F::UNARY, 1, 1, 1, 0, 0, 0},
    {"log", F::UNARY, 1, 1, 1, 0, 0, 0},
    {"sqrt", F::UNARY, 1, 1, 1, 0, 0, 0},
    {"abs", F::UNARY, 1, 1, 1, 0, 0, 0},
    {"neg", F::UNARY, 1, 1, 1, 0, 0, 0},
    {"tanh", F::UNARY, 1, 1, 1, 0, 0, 0},
    {"erf", F::UNARY, 1, 1, 1, 0, 0, 0},
    {"reciprocal", F::UNARY, 1, 1, 1, 0, 0, 0},
    {"relu", F::UNARY, 1, 1, 1, 0, 0, 0},
    {"floor", F::UNARY, 1, 1, 1, 0, 0, 0},
    {"ceil", F::UNARY, 1, 1, 1, 0, 0, 0},
    {"trunc", F::UNARY, 1, 1, 1, 0, 0, 0},
    {"round", F::UNARY, 1, 1, 1, 0, 0, 0},
    {"add", F::BINARY, 2, 2, 1, 0, 0, 0},
    {"sub", F::BINARY, 2, 2, 1, 0, 0, 0},
    {"mul", F::BINARY, 2, 2, 1, 0, 0, 0},
    {"div", F::BINARY, 2, 2, 1, 0, 0, 0},
    {"maximum", F::BINARY, 2, 2, 1, 0, 0, 0},
    {"minimum", F::BINARY, 2, 2, 1, 0, 0, 0},
    {"adds", F::SCALAR, 1, 1, 1, 0, 0, 0},
    {"subs", F::SCALAR, 1, 1, 1, 0, 0, 0},
    {"muls", F::SCALAR, 1, 1, 1, 0, 0, 0},
    {"divs", F::SCALAR, 1, 1, 1, 0, 0, 0},
    {"maxs", F::SCALAR, 1, 1, 1, 0, 0, 0},
    {"mins", F::SCALAR, 1, 1, 1, 0, 0, 0},
    {"rsubs", F::SCALAR, 1, 1, 1, 0, 0, 0},
    {"rdivs", F::SCALAR, 1, 1, 1, 0, 0, 0},
    {"eq", F::COMPARE, 2, 2, 1, 0, 0, 0},
    {"ne", F::COMPARE, 2, 2, 1, 0, 0, 0},
    {"lt", F::COMPARE, 2, 2, 1, 0, 0, 0},
    {"le", F::COMPARE, 2, 2, 1, 0, 0, 0},
    {"gt", F::COMPARE, 2, 2, 1, 0, 0, 0},
    {"ge", F::COMPARE, 2, 2, 1, 0, 0, 0},
    {"eqs", F::COMPARE_SCALAR, 1, 1, 1, 0, 0, 0},
    {"nes", F::COMPARE_SCALAR, 1, 1, 1, 0, 0, 0},
    {"lts", F::COMPARE_SCALAR, 1, 1, 1, 0, 0, 0},
    {"les", F::COMPARE_SCALAR, 1, 1, 1, 0, 0, 0},
    {"gts", F::COMPARE_SCALAR, 1, 1, 1, 0, 0, 0},
    {"ges", F::COMPARE_SCALAR, 1, 1, 1, 0, 0, 0},
    {"logical_and", F::LOGICAL, 2, 2, 1, 0, 0, 0},
    {"logical_or", F::LOGICAL, 2, 2, 1, 0, 0, 0},
    {"logical_not", F::LOGICAL, 1, 1, 1, 0, 0, 0},
    {"where", F::WHERE, 1, 3, 1, 4, 2, 0},
    {"cast", F::CAST, 1, 1, 1, 2, 0, 0},
    {"sum", F::REDUCE, 1, 1, 1, 2, 0, 0},
    {"amax", F::REDUCE, 1, 1, 1, 2, 0, 0},
    {"amin", F::REDUCE, 1, 1, 1, 2, 0, 0},
    {"prod", F::REDUCE, 1, 1, 1, 2, 0, 0},
    {"topk", F::TOPK, 1, 1, 2, 2, 0, 0},
    {"matmul", F::MATMUL, 2, 3, 1, 4, 0, 0},
    {"view", F::MOVE, 1, 1, 1, 1, 0, 0},
    {"reshape", F::MOVE, 1, 1, 1, 2, 0, 0},
    {"unsqueeze", F::MOVE, 1, 1, 1, 1, 0, 0},
    {"squeeze", F::MOVE, 1, 1, 1, 1, 0, 0},
    {"transpose", F::MOVE, 1, 1, 1, 0, 0, 0},
    {"concat", F::MOVE, 1, ANY, 1, 1, 0, 0},
    {"expand", F::MOVE, 1, 1, 1, 1, 0, 0},
    {"clone", F::MOVE, 1, 1, 1, 0, 0, 0},
    {"fillpad", F::MOVE, 1, 1, 1, 0, 0, 0},
    {"tril", F::MOVE, 1, 1, 1, 0, 0, 1},
    {"triu", F::MOVE, 1, 1, 1, 0, 0, 1},
    {"deinterleave", F::MOVE, 1, 2, 2, 0, 0, 0},
    {"gathermask", F::MOVE, 1, 1, 1, 1, 0, 0},
    {"full", F::CREATE, 0, 0, 1, 2, 1, 0},
    {"arange", F::CREATE, 0, 0, 1, 0, 0, 0},
    {"gather", F::INDEX, 2, 2, 1, 1, 0, 0},
    {"index_select", F::INDEX, 2, 2, 1, 1, 0, 0},
    {"scatter", F::INDEX, 2, 3, 1, 3, 0, 0},
    {"scatter_update", F::INDEX, 3, 3, 1, 1, 0, 0},
};
static_assert(sizeof(TABLE) / sizeof(TABLE[0]) == static_cast<size_t>(Opcode::COUNT));

}  // namespace

const OpcodeInfo& info(Opcode code) { return TABLE[static_cast<int>(code)]; }

uint8_t find_opcode(std::string_view kernel) {
    for (int i = 0; i < static_cast<int>(Opcode::COUNT); ++i)
        if (TABLE[i].name == kernel) return static_cast<uint8_t>(i);
    return NO_OPCODE;
}

}  // namespace npu
