// One leaf function on one core of the 0.2.0 cost machine: start and end of every operation.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "npu_core/lowering/graph.h"

namespace npu::lowering {

struct Timing {
    Pipe pipe = Pipe::NONE;      // NONE: dropped, not simulated
    int64_t start = 0, end = 0;  // cycles after the start of the task
};

struct LeafRun {
    std::vector<Timing> timings;    // parallel to the list handed in
    int64_t cycles = 0;             // duration of the task
    std::vector<int64_t> events;    // ascending: cycles at which a pipe or the core does something
};

// Duration of one operation from the shapes of its operands (padded shapes).
int64_t op_cycles(const Graph& graph, const Op& op);

// Runs `list` (operations in final order). An operation that the simulator has no pipe for runs on the vector pipe and
// its name is added to `no_pipe`; without that set it is a fault (not_simulated).
LeafRun run_leaf(const Graph& graph, const std::vector<int32_t>& list, std::set<std::string>* no_pipe = nullptr);

}  // namespace npu::lowering
