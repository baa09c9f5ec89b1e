// How a finished Program is replayed: which values die after which step, and which elementwise operations run together.
#pragma once
#include <memory>
#include <vector>

#include "npu_core/numeric/group.h"
#include "npu_core/program/program.h"

namespace npu {

struct Step {
    int32_t item = NONE;               // index in the body; of a group: its first operation
    int32_t group = NONE;              // index of groups
    int32_t assemble = NONE;           // item that puts the group's only result into an argument: stored there at once
    Span dead;                         // pool `ids`: tensors that nobody reads after this step
};
struct BodySchedule {
    std::vector<Step> fused, plain;    // the same work with groups, and item by item
    Span dead_at_entry;
};
struct Schedule {
    std::vector<BodySchedule> bodies;
    std::vector<Group> groups;
    std::vector<std::vector<int32_t>> group_items;   // item index of each operation, for when they run one by one
    std::vector<Id> ids;
};

std::shared_ptr<const Schedule> make_schedule(const Program& p);

}  // namespace npu
