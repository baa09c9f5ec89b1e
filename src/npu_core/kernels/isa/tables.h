// What the files of one instruction set contribute to its table.
#pragma once
#include "npu_core/kernels/kernels.h"

namespace npu::NPU_ISA {

void fill_unary(KernelTable& t);      // unary.cpp
void fill_functions(KernelTable& t);  // functions.cpp: sequences of instructions on the chip
void fill_binary(KernelTable& t);     // binary.cpp: arithmetic, compare, select, fill
void fill_convert(KernelTable& t);    // convert.cpp
void fill_reduce(KernelTable& t);     // reduce.cpp
void fill_gemm(KernelTable& t);       // gemm.cpp
void fill_gemm_i8(KernelTable& t);    // gemm_i8.cpp

}  // namespace npu::NPU_ISA
