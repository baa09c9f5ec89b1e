// One launch under the public 0.2.0 stack: every root function compiled, instances stitched, tasks run on the machine.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "npu_core/lowering/paths.h"
#include "npu_core/lowering/stitch.h"

namespace npu::lowering {

struct Launch {
    ControlFlow flow;
    std::vector<CompiledRoot> roots;
    LeafLibrary library;
    DeviceTasks device;
    DeviceRun run;
    std::set<std::string> unmodelled;      // operations the release does not have
    std::set<std::string> assumptions;

    // Calls use(task, timing) for every task that runs on a core.
    template <class F> void each_task(F&& use) const {
        for (size_t d = 0; d < device.tasks.size(); ++d)
            for (size_t i = 0; i < device.tasks[d].size(); ++i)
                if (device.tasks[d][i].core != CoreType::HUB) use(device.tasks[d][i], run.tasks[d][i]);
    }
};

// `strict`: operations that the simulator cannot run are faults (not_simulated).
Launch run_launch(const Program& program, const std::vector<IntData>& data, const std::vector<Assumed>& assume, bool strict);

}  // namespace npu::lowering
