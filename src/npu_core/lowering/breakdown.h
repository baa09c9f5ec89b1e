// What a breakdown (program/breakdown.h) says of a lowered launch.
#pragma once
#include "npu_core/lowering/launch.h"
#include "npu_core/lowering/sub_graphs.h"
#include "npu_core/program/breakdown.h"

namespace npu::lowering {

// What the operations of a sub-graph are in the kernel.
LeafNote note_of(const Program& program, const Graph& graph, const std::vector<int32_t>& ops);

// Of one root function after its last pass. `is_end`: tensors that are inputs or outputs of the function.
Crossings crossings_of(const Program& program, const Graph& graph, const SubGraphs& subs, const std::vector<char>& is_end);

// Waiting of the cores, from the times of the tasks.
Idle idle_of(const Launch& launch);

Counts capacity_of();

}  // namespace npu::lowering
