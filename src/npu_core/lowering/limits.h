// The lowering writes every tile operation and every task out; beyond these counts it would take more than about 1 GB.
#pragma once
#include <cstdint>
#include <string>

#include "npu_core/base/fault.h"

namespace npu::lowering {

constexpr int64_t MOST_TILE_OPS = 1'000'000, MOST_TASKS = 4'000'000, MOST_INSTANCES = 2'000'000;

[[noreturn]] inline void too_large(const char* what, int64_t limit) {
    fail("official.too_large", std::string("model official writes out every tile operation and task; this kernel has more than ") +
                                   std::to_string(limit) + " " + what +
                                   ". Estimate it with model=\"calibrated\", or with larger tiles or fewer iterations");
}

}  // namespace npu::lowering
