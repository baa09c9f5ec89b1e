// The machine: one leaf on one core, then tasks on cores with dispatch.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "npu_core/cost/cost.h"

namespace npu::machine {

// One execution of a leaf: the same every time.
struct LeafTiming {
    int64_t cycles = 0;                               // from the task's start to its end
    std::array<int64_t, cost::PIPES> busy{};
    std::map<cost::Code, std::pair<int64_t, int64_t>> ops;   // count, summed cycles
};

LeafTiming run_calibrated(const plan::Leaf& leaf, const cost::Calibrated& cost, const plan::Chip& chip);   // in-order pipes

struct Task {
    int32_t leaf = -1;                                // -1: hub
    cost::Core core = cost::Core::AIV;
    int32_t predecessors = 0;
    std::vector<int32_t> successors;                  // tasks of the same DeviceTask
};
using DeviceTask = std::vector<Task>;

struct Run {
    int64_t cycles = 0;                               // whole run, launch not included
    int64_t span = 0;                                 // first task start to last task end
    int64_t aic_busy = 0, aiv_busy = 0, dispatch_busy = 0;   // dispatch: the busiest AICPU thread
    int64_t critical = 0;                             // longest chain of tasks, without waiting for cores
    int cores_used = 0;
};

// List schedule over the cores with dispatch, completion and resolve cost per task on the owning AICPU thread.
struct DispatchCost { double dispatch, pickup, completion, resolve, stitch; int threads; };
Run schedule_cores(const std::vector<DeviceTask>& work, const std::vector<LeafTiming>& leaves, const plan::Chip& chip,
                   const DispatchCost& cost);

}  // namespace npu::machine
