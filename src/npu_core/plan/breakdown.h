// What a breakdown (program/breakdown.h) says of this planner's graph and leaves.
#pragma once
#include <vector>

#include "npu_core/machine/machine.h"
#include "npu_core/plan/leaf.h"
#include "npu_core/plan/stages.h"
#include "npu_core/program/breakdown.h"

namespace npu::plan {

LeafNote note_of(const Graph& g, const SubGraph& s, const Block& block, const Program& program);

// Of one root function whose moves are in place. `subs` are its tasks, in the order of Op::sub.
Crossings crossings_of(const Graph& g, const std::vector<SubGraph>& subs, const Block& block, const Program& program,
                       const PartitionOptions& options);

TaskKind kind_of(const Leaf& leaf, const machine::LeafTiming& timing, int64_t count);
Counts capacity_of(const Chip& chip);

}  // namespace npu::plan
