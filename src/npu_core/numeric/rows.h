// Elementwise functions over one row of registers. A register is a row of elements of one type, or a single element
// that stands for the whole row (step 0). Half floats live in registers as fp32.
#pragma once
#include <cstdint>

#include "npu_core/base/types.h"
#include "npu_core/program/opcodes.h"

namespace npu {

constexpr int64_t STRIP = 1024;  // most elements of a register

struct Row {
    const void *a = nullptr, *b = nullptr, *c = nullptr;
    void* y = nullptr;
    int64_t n = 0;
    int a_step = 0, b_step = 0, c_step = 0;  // 1 or 0
    uint64_t constant = 0;                   // private to the function: see pack_cast
};
using RowFn = void (*)(const Row&);

// The type of the register that holds elements of `t`.
constexpr DType register_type(DType t) { return is_half(t) ? DType::F32 : t; }

// Null if the operation has no meaning for the register type.
RowFn unary_row(Opcode code, DType t);
RowFn binary_row(Opcode code, DType t);   // ADD .. MINIMUM
RowFn compare_row(Opcode code, DType t);  // EQ .. GE, result BOOL
RowFn logical_row(Opcode code);           // on BOOL registers
RowFn select_row(DType t);                // y = a ? b : c, a BOOL
RowFn convert_row();                      // constant: pack_cast
RowFn round_row(DType half);              // fp32 to the nearest value of a half type

uint64_t pack_cast(DType from, DType to, int mode, bool saturate);

}  // namespace npu
