// Forms of Program operations in the 0.2.0 tensor graph, by family.
#pragma once
#include "npu_core/lowering/tensor_graph.h"
#include "npu_core/program/opcodes.h"

namespace npu::lowering {

void emit_program_op(TensorGraphBuilder& b, const npu::Op& op);
bool emit_movement(TensorGraphBuilder& b, const npu::Op& op, npu::Opcode code);   // false: not of this family
bool emit_reduction(TensorGraphBuilder& b, const npu::Op& op, npu::Opcode code);
void emit_matmul(TensorGraphBuilder& b, const npu::Op& op);

}  // namespace npu::lowering
