// One kernel of the table in use, by number: what the tests and benchmarks of the kernels call from Python.
#pragma once
#include "npu_core/kernels/kernels.h"

namespace npu {

// Operand counts are elements of y. The numbers are those of Unary, Binary and Compare.
void single_unary(int op, const void* x, void* y, int64_t n);
void single_binary(int op, const void* a, const void* b, void* y, int64_t n);
void single_compare(int op, const void* a, const void* b, void* y, int64_t n);
void single_cast(int from, int to, const void* x, void* y, int64_t n);      // DType codes: fp32 with fp16, bf16, int32
enum class Reduction : int { SUM, MAX, MIN };
float single_reduction(int reduction, const void* x, int64_t n);
// sizes: m, n, k, k_block; part: m_begin, m_end, n_begin, n_end; strides: of rows, of columns; C is dense.
void single_gemm(const void* a, int a_type, const int64_t* a_strides, const void* b, int b_type,
                 const int64_t* b_strides, const void* bias, void* c, const int64_t* sizes, const int64_t* part);
void single_gemm_i8(const void* a, const int64_t* a_strides, const void* b, const int64_t* b_strides, const void* bias,
                    void* c, const int64_t* sizes, const int64_t* part);

}  // namespace npu
