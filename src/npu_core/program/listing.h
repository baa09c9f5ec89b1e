// Text for people: expressions and names as print(program) and messages show them.
#pragma once
#include <string>

#include "npu_core/program/program.h"

namespace npu {

std::string expr_text(const Program& p, Id e);     // "i0 * 128 + min(l3, 64)"; i: loop index, l: loaded element
std::string tensor_text(const Program& p, Id t);   // "%12: BF16[64, 128]" or "out: ..."
std::string op_text(const Program& p, const Op& op);
const char* item_kind_text(ItemKind kind);         // "op", "loop", ...
std::string program_text(const Program& p);        // one line per item, nested by indentation

}  // namespace npu
