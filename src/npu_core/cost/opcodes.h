// Tile operations: the vocabulary between expansion and the cost models. One row per opcode the planner can emit.
// Columns of the public 0.2.0 cost table: hicann/pypto@r0.2.0:framework/src/cost_model/simulation (official_sim table).
#pragma once
#include <cstdint>

namespace npu::cost {

enum class Pipe : uint8_t { S, MTE2, MTE1, CUBE, VEC, MTE3, FIX, COUNT };  // in-order pipes of a core
constexpr int PIPES = static_cast<int>(Pipe::COUNT);
constexpr const char* pipe_name(Pipe p) {
    constexpr const char* names[] = {"SCALAR", "MTE2", "MTE1", "CUBE", "VEC", "MTE3", "FIX"};
    return names[static_cast<int>(p)];
}

enum class Core : uint8_t { ANY, AIV, AIC, HUB };
enum class Class : uint8_t { COMPUTE, MOVE_IN, MOVE_OUT, MOVE_LOCAL, MATMUL, OTHER };
// How many instruction passes over the data the calibrated model charges, and on which instruction of the device table.
enum class Half : uint8_t { TWO, ONE_IF_FP32, ONE_IF_INT32 };  // precision factor p of the public table

// name, table k, table c, precision factor, default latency L (-1: has k and c), pipe, core, class, instruction, passes
#define NPU_TILE_OPCODES(X)                                                                            \
    X(VIEW, 0, 0, TWO, 0, S, ANY, MOVE_LOCAL, "", 0)                                                   \
    X(ASSEMBLE, 0, 0, TWO, 0, S, ANY, MOVE_LOCAL, "", 0)                                               \
    X(RESHAPE, 0, 0, TWO, 0, S, ANY, OTHER, "", 0)                                                     \
    X(COPY_IN, 2.613, 0.00240884, TWO, -1, MTE2, ANY, MOVE_IN, "", 0)                                  \
    X(COPY_OUT, 3.2883, 0.00195, TWO, -1, MTE3, ANY, MOVE_OUT, "", 0)                                  \
    X(TRANSPOSE_MOVEIN, 0, 0, TWO, 10, MTE2, ANY, MOVE_IN, "", 0)                                      \
    X(TRANSPOSE_MOVEOUT, 0.00025893, 0.03350, TWO, -1, MTE3, ANY, MOVE_OUT, "", 0)                     \
    X(L0C_COPY_L1, 0, 0, TWO, 10, FIX, AIC, MOVE_LOCAL, "", 0)                                         \
    X(L0C_COPY_UB, 0, 0, TWO, 10, FIX, AIC, MOVE_OUT, "", 0)                                           \
    X(UB_COPY_L1, 0, 0, TWO, 10, MTE3, AIV, MOVE_OUT, "", 0)                                           \
    X(L1_TO_L0A, 1.12719, 0.015, TWO, -1, MTE1, AIC, MOVE_LOCAL, "", 0)                                \
    X(L1_TO_L0At, 0, 0, TWO, 0, MTE1, AIC, MOVE_LOCAL, "", 0)                                          \
    X(L1_TO_L0B, 2.05893, 0.012, TWO, -1, MTE1, AIC, MOVE_LOCAL, "", 0)                                \
    X(L1_TO_L0Bt, 1.868830, 0.015, TWO, -1, MTE1, AIC, MOVE_LOCAL, "", 0)                              \
    X(L1_TO_BT, 0, 0, TWO, 10, MTE1, AIC, MOVE_LOCAL, "", 0)                                           \
    X(A_MUL_B, 3.91153, 0.0107, TWO, -1, CUBE, AIC, MATMUL, "", 0)                              \
    X(A_MULACC_B, 3.90376, 0.0103, TWO, -1, CUBE, AIC, MATMUL, "", 0)                           \
    X(MATMUL_TILE, 0, 0, TWO, 0, CUBE, AIC, MATMUL, "", 0)                                      \
    X(ABS, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vabs", 1)                                                \
    X(EXP, 3.49358, 0.02597, ONE_IF_FP32, -1, VEC, AIV, COMPUTE, "vexp", 1)                            \
    X(LN, 3.49358, 0.02597, ONE_IF_FP32, -1, VEC, AIV, COMPUTE, "vln", 1)                              \
    X(SQRT, 3.67358, 0.02197, ONE_IF_FP32, -1, VEC, AIV, COMPUTE, "vsqrt", 1)                          \
    X(RECIPROCAL, 0.98673, 0.00989, TWO, -1, VEC, AIV, COMPUTE, "vrec", 1)                             \
    X(RELU, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vrelu", 1)                                              \
    X(CEIL, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vconv", 1)                                              \
    X(FLOOR, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vconv", 1)                                             \
    X(TRUNC, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vconv", 1)                                             \
    X(ROUND, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vconv", 1)                                             \
    X(TANH, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vmul", 19)                                              \
    X(ERF, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vmul", 27)                                               \
    X(CAST, 0.91250, 0.015687, TWO, -1, VEC, AIV, COMPUTE, "vconv", 1)                                 \
    X(VEC_DUP, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vector_dup", 1)                                      \
    X(RANGE, 0.76264, 0.0221, TWO, -1, VEC, AIV, COMPUTE, "vadds", 1)                                  \
    X(EXPAND, 0.58, 0.014, TWO, -1, VEC, AIV, COMPUTE, "vcopy", 1)                                     \
    X(REGISTER_COPY, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vcopy", 1)                                     \
    X(ADD, 2.40457, 0.0188, TWO, -1, VEC, AIV, COMPUTE, "vadd", 1)                                     \
    X(SUB, 1.64044, 0.02152, TWO, -1, VEC, AIV, COMPUTE, "vsub", 1)                                    \
    X(MUL, 1.63706, 0.01419, ONE_IF_INT32, -1, VEC, AIV, COMPUTE, "vmul", 1)                           \
    X(DIV, 3.82854, 0.02462, ONE_IF_FP32, -1, VEC, AIV, COMPUTE, "vdiv", 1)                            \
    X(MAXIMUM, 308.7260, 0.0, TWO, -1, VEC, AIV, COMPUTE, "vmax", 1)                                   \
    X(MINIMUM, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vmin", 1)                                            \
    X(ADDS, 0.76264, 0.0221, TWO, -1, VEC, AIV, COMPUTE, "vadds", 1)                                   \
    X(SUBS, 0.76264, 0.0221, TWO, -1, VEC, AIV, COMPUTE, "vadds", 1)                                   \
    X(MULS, 0.9527, 0.015, ONE_IF_INT32, -1, VEC, AIV, COMPUTE, "vmuls", 1)                            \
    X(DIVS, 0.9527, 0.015, TWO, -1, VEC, AIV, COMPUTE, "vmuls", 1)                                     \
    X(MAXS, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vmaxs", 1)                                              \
    X(MINS, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vmins", 1)                                              \
    X(CMP, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vcmpv_ge", 1)                                            \
    X(CMPS, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vcmpv_ge", 1)                                           \
    X(LOGICALAND, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vand", 1)                                         \
    X(LOGICALOR, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vor", 1)                                           \
    X(LOGICALNOT, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vnot", 1)                                         \
    X(WHERE_TT, 2.40457, 0.0188, TWO, -1, VEC, AIV, COMPUTE, "vsel", 1)                                \
    X(WHERE_TS, 2.40457, 0.0188, TWO, -1, VEC, AIV, COMPUTE, "vsel", 1)                                \
    X(WHERE_ST, 2.40457, 0.0188, TWO, -1, VEC, AIV, COMPUTE, "vsel", 1)                                \
    X(WHERE_SS, 2.40457, 0.0188, TWO, -1, VEC, AIV, COMPUTE, "vsel", 1)                                \
    X(PAIRSUM, 19.58115, 0.0, TWO, -1, VEC, AIV, COMPUTE, "vadd", 1)                                   \
    X(PAIRMAX, 19.28672, 0.0, TWO, -1, VEC, AIV, COMPUTE, "vmax", 1)                                   \
    X(PAIRMIN, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vmin", 1)                                            \
    X(PAIRPROD, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vmul", 1)                                           \
    X(ROWSUM_SINGLE, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "rowsum", 1)                                    \
    X(ROWMAX_SINGLE, 15.58731, 0.00888, TWO, -1, VEC, AIV, COMPUTE, "rowmax", 1)                       \
    X(ROWMIN_SINGLE, 15.58731, 0.00888, TWO, -1, VEC, AIV, COMPUTE, "rowmax", 1)                       \
    X(ROWPROD_SINGLE, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "rowsum", 1)                                   \
    X(ROWSUMLINE, 14.58731, 0.07288, TWO, -1, VEC, AIV, COMPUTE, "colsum", 1)                          \
    X(ROWMAXLINE, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "colmax", 1)                                       \
    X(ROWMINLINE, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "colmax", 1)                                       \
    X(ROWPRODLINE, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "colsum", 1)                                      \
    X(BITSORT, 0, 0, TWO, 10, VEC, ANY, OTHER, "vbitsort", 1)                                          \
    X(MRGSORT, 0, 0, TWO, 10, VEC, ANY, OTHER, "vmrgsort4", 1)                                         \
    X(TILEDMRGSORT, 0, 0, TWO, 10, VEC, ANY, OTHER, "vmrgsort4", 1)                                    \
    X(EXTRACT, 0, 0, TWO, 10, VEC, ANY, OTHER, "vreducev2", 1)                                         \
    X(GATHER, 0, 0, TWO, 10, VEC, ANY, OTHER, "gm_rows", 1)                                            \
    X(GATHER_ELEMENT, 0, 0, TWO, 10, VEC, AIV, OTHER, "vgather", 1)                                    \
    X(SCATTER_ELEMENT, 0, 0, TWO, 10, VEC, AIV, OTHER, "vgather", 1)                                   \
    X(INDEX_OUTCAST, 0, 0, TWO, 10, MTE3, ANY, MOVE_OUT, "gm_rows", 1)                                 \
    X(GATHER_MASK, 0, 0, TWO, 10, VEC, AIV, OTHER, "vreducev2", 1)                                     \
    X(DEINTERLEAVE, 0, 0, TWO, 10, VEC, AIV, OTHER, "vreducev2", 2)                                    \
    X(TRIUL, 0, 0, TWO, 10, VEC, AIV, OTHER, "vsel", 1)                                                \
    X(FILLPAD, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vector_dup", 1)                                      \
    X(TRANSPOSE_VNCHWCONV, 0, 0, TWO, 10, VEC, ANY, MOVE_LOCAL, "vcopy", 2)                            \
    X(EXPM1, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vexp", 3)                                              \
    X(POW, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vmul", 40)                                               \
    X(SIGN, 0, 0, TWO, 10, VEC, AIV, COMPUTE, "vmuls", 4)                                              \
    X(CUM_SUM, 0, 0, TWO, 10, VEC, AIV, OTHER, "vadd", 4)                                              \
    X(UNKNOWN_VEC, 0, 0, TWO, 10, VEC, AIV, OTHER, "vmul", 1)                                          \
    X(OPAQUE, 0, 0, TWO, 10, VEC, AIV, OTHER, "vmul", 1)

enum class Code : uint8_t {
#define NPU_X(name, ...) name,
    NPU_TILE_OPCODES(NPU_X)
#undef NPU_X
        COUNT
};

struct CodeInfo {
    const char* name;
    float k, c;
    Half half;
    int default_latency;  // -1: k and c are table entries
    Pipe pipe;
    Core core;
    Class cls;
    const char* instr;    // calibrated model: instruction of the device table
    int passes;           // calibrated model: passes of that instruction over the tile
};
const CodeInfo& info(Code c);

}  // namespace npu::cost
