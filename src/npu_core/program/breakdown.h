// Where the cost of a launch comes from: kinds of tasks, tensors that cross global memory between tasks and why, traffic
// of arguments and slots, idle cores. Filled by either planner.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "npu_core/program/program.h"

namespace npu {

// What the operations of a leaf are in the kernel.
struct LeafNote {
    std::string ops, label, line;      // names in order, each once; first semantic label; first line
};

using Counts = std::vector<std::pair<std::string, int64_t>>;

// Executions of one leaf function. Cycles and bytes are those of one execution.
struct TaskKind {
    bool cube = false;
    LeafNote note;
    int64_t count = 0, cycles = 0, gm_read = 0, gm_write = 0, spill = 0;
    Counts busy, peak;                 // cycles by pipe, bytes by memory
};

// An intermediate tensor that one task writes to global memory and another reads back.
struct CrossingKey {
    std::string from, from_line, to, to_line, reason;
    auto operator<=>(const CrossingKey&) const = default;
};
struct CrossingBytes {
    int64_t write = 0, read = 0, tiles = 0;
    int64_t once = 0;                  // of write and read what no other crossing counts too
};
using Crossings = std::map<CrossingKey, CrossingBytes>;
void add_crossings(Crossings& sum, const Crossings& one, int64_t times);

// One of two neighbouring tasks, as the partition saw it.
struct CutSide {
    bool cube = false, hub = false, scoped = false;
    int64_t latency = 0;
    size_t before = 0, after = 0;      // other tasks it reads from, and that read from it
};
// Why the two are not one task: the rules of the partition in the order it applies them (LOWERING_DETAIL 5).
std::string cut_reason(const CutSide& from, const CutSide& to, int64_t cycle_bound);

// Traffic of an argument or slot, by Program tensor.
struct TensorTraffic {
    int64_t read = 0, write = 0;
};

// Core cycles beside the work itself, summed over the cores.
struct Idle {
    int64_t predecessors = 0;     // a free core whose next task waits for others
    int64_t schedule = 0;         // a task that is ready waits for its core's dispatch
    int64_t bandwidth = 0;        // loads of a running task wait for shared L2 or HBM
    int64_t no_task = 0;          // after a core's last task, and cores of a type in use that get none

    // Before a task that is ready at `ready` and starts at `start` on a core that is free since `free`.
    void gap(int64_t free, int64_t ready, int64_t start) {
        const int64_t waits = std::min(std::max(ready - free, int64_t{0}), std::max(start - free, int64_t{0}));
        predecessors += waits;
        schedule += std::max<int64_t>(0, start - free - waits);
    }
};

struct Breakdown {
    std::vector<TaskKind> kinds;
    Crossings crossings;
    std::map<Id, TensorTraffic> tensors;
    Idle idle;
    Counts capacity;                   // bytes by memory
};

// JSON object with the fields of result/breakdown.py; of kinds and crossings those that weigh most.
std::string breakdown_json(const Program& program, const Breakdown& breakdown);

}  // namespace npu
