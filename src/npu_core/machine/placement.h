// Where and in which order the tasks of programs run that stay on their core.
#pragma once
#include <cstdint>
#include <vector>

#include "npu_core/machine/machine.h"

namespace npu::machine {

struct Placement {
    std::vector<int32_t> order;          // tasks, by step
    std::vector<int32_t> step, core;     // by task; core: AIC first, then AIV, -1: a hub
    std::vector<cost::Core> side;        // by task; of a hub: of what leads to it
};

// Units of tasks go to clusters in program order; a cluster's cube and vector cores work on different units at the same time.
Placement place_tasks(const DeviceTask& tasks, const plan::Chip& chip);

}  // namespace npu::machine
