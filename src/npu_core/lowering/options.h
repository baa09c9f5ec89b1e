// Pass options that steer the lowering, out of the JSON text the front end hands over.
#pragma once
#include <cstdint>
#include <string>

#include "npu_core/lowering/partition.h"

namespace npu::lowering {

struct LoweringOptions {
    MergeOptions merges;
    int64_t stitch_max = 128;     // stitch_function_max_num
};

LoweringOptions lowering_options(const std::string& json);

}  // namespace npu::lowering
