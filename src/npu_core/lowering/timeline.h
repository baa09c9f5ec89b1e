// Timeline of a launch under model `official`.
#pragma once
#include "npu_core/lowering/launch.h"
#include "npu_core/program/timeline.h"

namespace npu::lowering {

// At most `most` tasks: whole DeviceTasks from the first on, the last one cut off.
Timeline timeline_of(const Launch& launch, int64_t most);

}  // namespace npu::lowering
