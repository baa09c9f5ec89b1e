// Instances of root functions become DeviceTasks: boundaries, and edges between instances.
#pragma once
#include <vector>

#include "npu_core/lowering/device_machine.h"
#include "npu_core/lowering/pipeline.h"

namespace npu::lowering {

struct DeviceTasks {
    std::vector<std::vector<MachineTask>> tasks;      // task-id order: instances in order, ids within
    std::vector<std::vector<int32_t>> first_task;     // per DeviceTask: place of each instance's first task
    std::vector<std::vector<int32_t>> instances;      // per DeviceTask: indices of the control flow's instances
};

DeviceTasks stitch(const Program& program, const ControlFlow& flow, std::vector<CompiledRoot>& roots, int64_t stitch_max);

}  // namespace npu::lowering
