#include "npu_core/cost/opcodes.h"

namespace npu::cost {

const CodeInfo& info(Code c) {
    using enum Pipe;
    using enum Core;
    using enum Class;
    static const CodeInfo table[] = {
#define NPU_X(name, pipe, core, cls, instr, passes) {#name, pipe, core, cls, instr, passes},
        NPU_TILE_OPCODES(NPU_X)
#undef NPU_X
#define NPU_X(name, instr, passes) {#name, VEC, AIV, OTHER, instr, passes},
        NPU_FUNCTION_OPCODES(NPU_X)
#undef NPU_X
    };
    return table[static_cast<int>(c)];
}

}  // namespace npu::cost
