// Task graph of one root function: calls, edges without redundancy, hubs, task ids.
#pragma once
#include <vector>

#include "npu_core/lowering/graph.h"

namespace npu::lowering {

// One sub-graph of a root function. Tensors are global memory ones; numbers may come from any id space.
struct Call {
    int32_t sub_graph = 0, leaf = 0;
    CoreType core = CoreType::AIV;        // HUB: only reshapes
    std::vector<int32_t> in, out;
};

struct RootTask {
    CoreType core = CoreType::HUB;
    int32_t call = -1;                    // index of the calls handed in; -1 for an inserted hub
    std::vector<int32_t> successors;      // task ids
    int32_t predecessors = 0;
};

struct RootTasks {
    std::vector<RootTask> tasks;          // by task id
    std::vector<int32_t> task_of_call;    // -1: unlinked hub
    std::vector<int32_t> call_order;      // calls in the order of the root function
};

// `outputs`: tensors that leave the root function. `calls` in sub-graph order.
RootTasks build_task_graph(const std::vector<Call>& calls, const std::vector<int32_t>& outputs);

}  // namespace npu::lowering
