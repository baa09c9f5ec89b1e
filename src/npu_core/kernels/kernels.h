// Row kernels: the only code compiled per instruction set. Everything here works on contiguous runs of elements.
//
// Rules (docs/architecture.md, "Determinism"): the same bits on every instruction set. Elementwise math uses no fused
// multiply-add; sums use the fixed lane order below; the matrix product is a k-ascending fma chain per output element.
// Files in kernels/isa/ are compiled once per instruction set with NPU_ISA defined; they live in namespace
// npu::NPU_ISA, use no standard library templates, and export one table.
#pragma once
#include <cstdint>

#include "npu_core/base/types.h"

namespace npu {

enum class Unary : uint8_t {
    EXP, LOG, SQRT, ABS, NEG, TANH, ERF, RECIPROCAL, RELU, FLOOR, CEIL, TRUNC, ROUND_EVEN, COUNT
};
enum class Function : uint8_t {
    EXP2, EXPM1, LOG2, LOG10, LOG1P, SIN, COS, TAN, ASIN, ACOS, ATAN, SINH, COSH, ASINH, ACOSH, ATANH, ERFC, CBRT, SIGN,
    COUNT
};
enum class Binary : uint8_t { ADD, SUB, MUL, DIV, MAX, MIN, COUNT };
enum class Compare : uint8_t { EQ, NE, LT, LE, GT, GE, COUNT };

// C[m,n] (+)= A[m,k] B[k,n]; strides in elements, so that a transposed operand is a stride swap.
// For each k block in order: P = fma chain over the block from 0, k ascending; C = C + P. C starts at bias[n] or 0.
// k_block outside 1..k means one block. Operands are F32, F16 or BF16, and may differ.
struct GemmArgs {
    const void* a; DType a_type; int64_t a_row_stride, a_col_stride;
    const void* b; DType b_type; int64_t b_row_stride, b_col_stride;
    const float* bias;                    // n values or null
    float* c; int64_t c_row_stride;       // fp32 result
    int64_t m, n, k, k_block;
};
struct GemmArgsI8 {                       // int32 accumulation with wrap-around
    const int8_t* a; int64_t a_row_stride, a_col_stride;
    const int8_t* b; int64_t b_row_stride, b_col_stride;
    const int32_t* bias; int32_t* c; int64_t c_row_stride;
    int64_t m, n, k;
};

struct KernelTable {
    const char* isa;
    void (*unary[static_cast<int>(Unary::COUNT)])(const float* x, float* y, int64_t n);
    void (*function[static_cast<int>(Function::COUNT)])(const float* x, float* y, int64_t n);
    // y = a << b or a >> b of integers of 1, 2, 4, 8 bytes, signed then unsigned; a count outside the bits leaves 0 (-1
    // for a negative number moved right)
    void (*shift_left[8])(const void* a, const void* b, void* y, int64_t n);
    void (*shift_right[8])(const void* a, const void* b, void* y, int64_t n);
    void (*pow)(const float* a, const float* b, float* y, int64_t n);
    void (*hypot)(const float* a, const float* b, float* y, int64_t n);
    void (*atan2)(const float* a, const float* b, float* y, int64_t n);
    void (*copysign)(const float* a, const float* b, float* y, int64_t n);
    void (*binary[static_cast<int>(Binary::COUNT)])(const float* a, const float* b, float* y, int64_t n);
    void (*binary_vs[static_cast<int>(Binary::COUNT)])(const float* a, float s, float* y, int64_t n);   // a op s
    void (*binary_sv[static_cast<int>(Binary::COUNT)])(float s, const float* b, float* y, int64_t n);   // s op b
    void (*compare[static_cast<int>(Compare::COUNT)])(const float* a, const float* b, uint8_t* y, int64_t n);
    void (*compare_vs[static_cast<int>(Compare::COUNT)])(const float* a, float s, uint8_t* y, int64_t n);
    void (*select)(const uint8_t* cond, const float* a, const float* b, float* y, int64_t n);
    void (*bf16_to_f32)(const uint16_t* x, float* y, int64_t n);
    void (*f32_to_bf16)(const float* x, uint16_t* y, int64_t n);   // nearest, ties to even; NaN stays NaN
    void (*f16_to_f32)(const uint16_t* x, float* y, int64_t n);
    void (*f32_to_f16)(const float* x, uint16_t* y, int64_t n);    // nearest even, overflow to inf
    void (*i32_to_f32)(const int32_t* x, float* y, int64_t n);
    void (*fill_f32)(float v, float* y, int64_t n);
    // 64 lanes, pairwise over repeats, then one cross-lane tree: lane i with i + 32, i + 16, ... (isa/reduce.cpp);
    // 0 for n = 0
    float (*row_sum)(const float* x, int64_t n);
    float (*row_product)(const float* x, int64_t repeats);   // of 64 floats; a power of two
    float (*row_max)(const float* x, int64_t n);   // NaN propagates (as the default NaN); n >= 1
    float (*row_min)(const float* x, int64_t n);
    // Scratch for packing is owned by the kernel (thread local). Rows [m_begin, m_end) only, so that threads can share
    // one product: the bits of an element never depend on the split. Each call packs what it reads, so give every
    // thread one large piece of the longer side (rows in multiples of 56, columns in multiples of 64), not many small.
    void (*gemm)(const GemmArgs& g, int64_t m_begin, int64_t m_end, int64_t n_begin, int64_t n_end);
    void (*gemm_i8)(const GemmArgsI8& g, int64_t m_begin, int64_t m_end);
};

// The table in use: the best the machine has, or the one named by PYPTO_SIM_ISA (baseline, avx2, avx512).
const KernelTable& kernels();
// Names the machine can run, best first; select_isa throws std::invalid_argument for any other.
const char* const* available_isas(int* count);
void select_isa(const char* name);

}  // namespace npu
