// The order in which the AICPU serves the tasks of a DeviceTask.
#pragma once
#include <cstdint>
#include <vector>

#include "npu_core/machine/machine.h"

namespace npu::machine {

// Tasks in the order of service, predecessors first; when each starts by nominal latencies, by task.
struct Order {
    std::vector<int32_t> tasks;
    std::vector<int64_t> start;
};

// first in, first out: by the earliest start that the graph allows, then the longest first, then as listed.
// last_first: on as many cores as the chip has, of the ready tasks the one readied last goes first (then as above).
// Both in nominal cycles: the order does not depend on the device's rates, so that a faster part never delays the whole.
Order serving_order(const DeviceTask& tasks, const std::vector<LeafTiming>& leaves, const plan::Chip& chip, bool last_first);

}  // namespace npu::machine
