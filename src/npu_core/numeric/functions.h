// Elementwise functions beyond the vectorised kernels: computed element by element in double with the C++ standard
// library and rounded once, or exactly in integers.
#pragma once
#include "npu_core/numeric/rows.h"

namespace npu {

// Null if the operation is not one of them or has no meaning for the register type.
RowFn function_unary_row(Opcode code, DType t);
RowFn function_binary_row(Opcode code, DType t);

// The two-operand operation of a tensor-with-scalar form; COUNT if `code` is none of these.
Opcode function_of_scalar_form(Opcode code);
// True for the forms whose scalar is the first operand.
bool scalar_comes_first(Opcode code);

}  // namespace npu
