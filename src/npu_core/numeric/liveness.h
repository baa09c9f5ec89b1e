// Last uses: which values nobody reads after an item, along every path of the decision tree.
#pragma once
#include <vector>

#include "npu_core/program/program.h"

namespace npu {

struct Liveness {
    std::vector<std::vector<Span>> after;   // per body and item: tensors that die with it (pool `ids`)
    std::vector<Span> at_entry;             // per body: alive before a branch, not needed in it
    std::vector<Id> ids;
};
Liveness find_liveness(const Program& p);

}  // namespace npu
