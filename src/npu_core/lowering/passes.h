// The passes of the lowering by the name of the stage they produce.
#pragma once
#include <string>

#include "npu_core/lowering/graph.h"

namespace npu::lowering {

void run_pass(Graph& graph, const std::string& name);   // std::invalid_argument for an unknown name

}  // namespace npu::lowering
