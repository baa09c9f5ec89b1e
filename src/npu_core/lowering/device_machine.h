// AICPUs, cores and queues of the 0.2.0 cost machine: when each task of each DeviceTask runs, and where.
#pragma once
#include <cstdint>
#include <vector>

#include "npu_core/lowering/tile_opcodes.h"

namespace npu::lowering {

struct MachineTask {
    CoreType core = CoreType::AIV;        // AIV, AIC or HUB
    int32_t leaf = -1;                    // index of the leaf costs; -1 for a hub
    std::vector<int32_t> successors;      // positions in the DeviceTask; repeats count twice
    int32_t predecessors = 0;
};

struct LeafCost {
    int64_t cycles = 0;
    const std::vector<int64_t>* events = nullptr;  // wake-ups of the first executions, relative to the start
};

struct TaskTiming {
    int32_t core = -1;                    // 0-23 AIC, 24-71 AIV; -1 for a hub
    int64_t start = 0, end = 0;
};

struct DeviceRun {
    std::vector<std::vector<TaskTiming>> tasks;  // parallel to the DeviceTasks handed in
    int64_t cycles = 0;                          // total of the run
};

constexpr int AICPU_COUNT = 6, AIC_COUNT = 24, AIV_COUNT = 48;

// Runs DeviceTasks one after the other; each is a list of tasks in task-id order.
DeviceRun run_device(const std::vector<std::vector<MachineTask>>& device_tasks, const std::vector<LeafCost>& leaves);

}  // namespace npu::lowering
