// How a finished Program is replayed: which values die after which item, and which elementwise operations run together.
#pragma once
#include <memory>
#include <vector>

#include "npu_core/program/program.h"

namespace npu {

struct Step {
    int32_t item = NONE;               // index in the body
    Span dead;                         // pool `ids`: tensors that nobody reads after this step
};
struct BodySchedule {
    std::vector<Step> steps;
    Span dead_at_entry;                // alive before a branch, not needed in it
};
struct Schedule {
    std::vector<BodySchedule> bodies;
    std::vector<Id> ids;
};

std::shared_ptr<const Schedule> make_schedule(const Program& p);

}  // namespace npu
