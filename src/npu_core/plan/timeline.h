// One leaf function of a plan as a timeline shows it.
#pragma once
#include "npu_core/cost/cost.h"
#include "npu_core/plan/leaf.h"
#include "npu_core/program/timeline.h"

namespace npu::plan {

TimelineLeaf timeline_leaf(const Leaf& leaf, const cost::Calibrated& cost, const Chip& chip);

}  // namespace npu::plan
