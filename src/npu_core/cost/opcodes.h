// Tile operations: the vocabulary between expansion and the cost models. One row per opcode the planner can emit.
#pragma once
#include <cstdint>

#include "npu_core/cost/function_opcodes.h"

namespace npu::cost {

enum class Pipe : uint8_t { S, MTE2, MTE1, CUBE, VEC, MTE3, FIX, COUNT };  // in-order pipes of a core
constexpr int PIPES = static_cast<int>(Pipe::COUNT);
constexpr const char* pipe_name(Pipe p) {
    constexpr const char* names[] = {"SCALAR", "MTE2", "MTE1", "CUBE", "VEC", "MTE3", "FIX"};
    return names[static_cast<int>(p)];
}

enum class Core : uint8_t { ANY, AIV, AIC, HUB };
enum class Class : uint8_t { COMPUTE, MOVE_IN, MOVE_OUT, MOVE_LOCAL, MATMUL, OTHER };
// Last columns: how many passes over the data are charged, and on which instruction of the device table.

// name, pipe, core, class, instruction, passes
#define NPU_TILE_OPCODES(X)                                                                            \
    X(VIEW, S, ANY, MOVE_LOCAL, "", 0)                                                                 \
    X(ASSEMBLE, S, ANY, MOVE_LOCAL, "", 0)                                                             \
    X(RESHAPE, S, ANY, OTHER, "", 0)                                                                   \
    X(COPY_IN, MTE2, ANY, MOVE_IN, "", 0)                                                              \
    X(COPY_OUT, MTE3, ANY, MOVE_OUT, "", 0)                                                            \
    X(TRANSPOSE_MOVEIN, MTE2, ANY, MOVE_IN, "", 0)                                                     \
    X(TRANSPOSE_MOVEOUT, MTE3, ANY, MOVE_OUT, "", 0)                                                   \
    X(L0C_COPY_L1, FIX, AIC, MOVE_LOCAL, "", 0)                                                        \
    X(L0C_COPY_UB, FIX, AIC, MOVE_OUT, "", 0)                                                          \
    X(UB_COPY_L1, MTE3, AIV, MOVE_OUT, "", 0)                                                          \
    X(L1_TO_L0A, MTE1, AIC, MOVE_LOCAL, "", 0)                                                         \
    X(L1_TO_L0At, MTE1, AIC, MOVE_LOCAL, "", 0)                                                        \
    X(L1_TO_L0B, MTE1, AIC, MOVE_LOCAL, "", 0)                                                         \
    X(L1_TO_L0Bt, MTE1, AIC, MOVE_LOCAL, "", 0)                                                        \
    X(L1_TO_BT, MTE1, AIC, MOVE_LOCAL, "", 0)                                                          \
    X(A_MUL_B, CUBE, AIC, MATMUL, "", 0)                                                               \
    X(A_MULACC_B, CUBE, AIC, MATMUL, "", 0)                                                            \
    X(MATMUL_TILE, CUBE, AIC, MATMUL, "", 0)                                                           \
    X(ABS, VEC, AIV, COMPUTE, "vabs", 1)                                                               \
    X(EXP, VEC, AIV, COMPUTE, "vexp", 1)                                                               \
    X(LN, VEC, AIV, COMPUTE, "vln", 1)                                                                 \
    X(SQRT, VEC, AIV, COMPUTE, "vsqrt", 1)                                                             \
    X(RECIPROCAL, VEC, AIV, COMPUTE, "vrec", 1)                                                        \
    X(RELU, VEC, AIV, COMPUTE, "vrelu", 1)                                                             \
    X(CEIL, VEC, AIV, COMPUTE, "vconv", 1)                                                             \
    X(FLOOR, VEC, AIV, COMPUTE, "vconv", 1)                                                            \
    X(TRUNC, VEC, AIV, COMPUTE, "vconv", 1)                                                            \
    X(ROUND, VEC, AIV, COMPUTE, "vconv", 1)                                                            \
    X(TANH, VEC, AIV, COMPUTE, "vmul", 19)                                                             \
    X(ERF, VEC, AIV, COMPUTE, "vmul", 27)                                                              \
    X(CAST, VEC, AIV, COMPUTE, "vconv", 1)                                                             \
    X(VEC_DUP, VEC, AIV, COMPUTE, "vector_dup", 1)                                                     \
    X(RANGE, VEC, AIV, COMPUTE, "vadds", 1)                                                            \
    X(EXPAND, VEC, AIV, COMPUTE, "vcopy", 1)                                                           \
    X(REGISTER_COPY, VEC, AIV, COMPUTE, "vcopy", 1)                                                    \
    X(ADD, VEC, AIV, COMPUTE, "vadd", 1)                                                               \
    X(SUB, VEC, AIV, COMPUTE, "vsub", 1)                                                               \
    X(MUL, VEC, AIV, COMPUTE, "vmul", 1)                                                               \
    X(DIV, VEC, AIV, COMPUTE, "vdiv", 1)                                                               \
    X(MAXIMUM, VEC, AIV, COMPUTE, "vmax", 1)                                                           \
    X(MINIMUM, VEC, AIV, COMPUTE, "vmin", 1)                                                           \
    X(ADDS, VEC, AIV, COMPUTE, "vadds", 1)                                                             \
    X(SUBS, VEC, AIV, COMPUTE, "vadds", 1)                                                             \
    X(MULS, VEC, AIV, COMPUTE, "vmuls", 1)                                                             \
    X(DIVS, VEC, AIV, COMPUTE, "vmuls", 1)                                                             \
    X(MAXS, VEC, AIV, COMPUTE, "vmaxs", 1)                                                             \
    X(MINS, VEC, AIV, COMPUTE, "vmins", 1)                                                             \
    X(CMP, VEC, AIV, COMPUTE, "vcmpv_ge", 1)                                                           \
    X(CMPS, VEC, AIV, COMPUTE, "vcmpv_ge", 1)                                                          \
    X(LOGICALAND, VEC, AIV, COMPUTE, "vand", 1)                                                        \
    X(LOGICALOR, VEC, AIV, COMPUTE, "vor", 1)                                                          \
    X(LOGICALNOT, VEC, AIV, COMPUTE, "vnot", 1)                                                        \
    X(WHERE_TT, VEC, AIV, COMPUTE, "vsel", 1)                                                          \
    X(WHERE_TS, VEC, AIV, COMPUTE, "vsel", 1)                                                          \
    X(WHERE_ST, VEC, AIV, COMPUTE, "vsel", 1)                                                          \
    X(WHERE_SS, VEC, AIV, COMPUTE, "vsel", 1)                                                          \
    X(PAIRSUM, VEC, AIV, COMPUTE, "vadd", 1)                                                           \
    X(PAIRMAX, VEC, AIV, COMPUTE, "vmax", 1)                                                           \
    X(PAIRMIN, VEC, AIV, COMPUTE, "vmin", 1)                                                           \
    X(PAIRPROD, VEC, AIV, COMPUTE, "vmul", 1)                                                          \
    X(ROWSUM_SINGLE, VEC, AIV, COMPUTE, "rowsum", 1)                                                   \
    X(ROWMAX_SINGLE, VEC, AIV, COMPUTE, "rowmax", 1)                                                   \
    X(ROWMIN_SINGLE, VEC, AIV, COMPUTE, "rowmax", 1)                                                   \
    X(ROWPROD_SINGLE, VEC, AIV, COMPUTE, "rowsum", 1)                                                  \
    X(ROWSUMLINE, VEC, AIV, COMPUTE, "colsum", 1)                                                      \
    X(ROWMAXLINE, VEC, AIV, COMPUTE, "colmax", 1)                                                      \
    X(ROWMINLINE, VEC, AIV, COMPUTE, "colmax", 1)                                                      \
    X(ROWPRODLINE, VEC, AIV, COMPUTE, "colsum", 1)                                                     \
    X(BITSORT, VEC, ANY, OTHER, "vbitsort", 1)                                                         \
    X(MRGSORT, VEC, ANY, OTHER, "vmrgsort4", 1)                                                        \
    X(TILEDMRGSORT, VEC, ANY, OTHER, "vmrgsort4", 1)                                                   \
    X(EXTRACT, VEC, ANY, OTHER, "vreducev2", 1)                                                        \
    X(GATHER, VEC, ANY, OTHER, "gm_rows", 1)                                                           \
    X(GATHER_ELEMENT, VEC, AIV, OTHER, "vgather", 1)                                                   \
    X(SCATTER_ELEMENT, VEC, AIV, OTHER, "vgather", 1)                                                  \
    X(INDEX_OUTCAST, MTE3, ANY, MOVE_OUT, "gm_rows", 1)                                                \
    X(GATHER_MASK, VEC, AIV, OTHER, "vreducev2", 1)                                                    \
    X(DEINTERLEAVE, VEC, AIV, OTHER, "vreducev2", 2)                                                   \
    X(TRIUL, VEC, AIV, OTHER, "vsel", 1)                                                               \
    X(FILLPAD, VEC, AIV, COMPUTE, "vector_dup", 1)                                                     \
    X(TRANSPOSE_VNCHWCONV, VEC, ANY, MOVE_LOCAL, "vcopy", 2)                                           \
    X(EXPM1, VEC, AIV, COMPUTE, "vexp", 3)                                                             \
    X(POW, VEC, AIV, COMPUTE, "vmul", 40)                                                              \
    X(SIGN, VEC, AIV, COMPUTE, "vmuls", 4)                                                             \
    X(CUM_SUM, VEC, AIV, OTHER, "vadd", 4)                                                             \
    X(UNKNOWN_VEC, VEC, AIV, OTHER, "vmul", 1)

enum class Code : uint8_t {
#define NPU_X(name, ...) name,
    NPU_TILE_OPCODES(NPU_X)
    NPU_FUNCTION_OPCODES(NPU_X)
#undef NPU_X
        COUNT
};

struct CodeInfo {
    const char* name;
    Pipe pipe;
    Core core;
    Class cls;
    const char* instr;    // instruction of the device table
    int passes;           // passes of that instruction over the tile
};
const CodeInfo& info(Code c);

}  // namespace npu::cost
