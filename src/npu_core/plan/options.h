// Options in force that steer the plan, out of the JSON text the front end hands over.
#pragma once
#include <string>

#include "npu_core/plan/stages.h"

namespace npu::plan {

struct RunOptions {
    PartitionOptions partition;
    int64_t stitch_max = 128;
    int sched_mode = 0;                        // device_sched_mode: 1 last in, first out; 2 threads in turn; 3 both
    bool combine_axis = false;                 // last-axis broadcasts are part of the operation that reads them
    int32_t scope = -1;                        // sg_set_scope; below zero: none
};

RunOptions parse_options(const std::string& json);

}  // namespace npu::plan
