// One leaf function: its operations, local buffers, the order before scheduling, spills and the final order.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "npu_core/lowering/graph.h"

namespace npu::lowering {

// Capacities of A2/A3 in bytes.
constexpr int64_t UB_BYTES = 196608, L1_BYTES = 524288, L0A_BYTES = 65536, L0B_BYTES = 65536, L0C_BYTES = 131072;
int64_t capacity_bytes(Mem mem);   // 0: not managed
bool is_local(Mem mem);            // memories with buffers: UB, L1, L0A, L0B, L0C, BT, FIX

// A kernel the stack refuses because a memory is too small.
struct CapacityFailure : std::runtime_error {
    CapacityFailure(const std::string& what, std::string op_name, Mem memory, int64_t need, int64_t room)
        : std::runtime_error(what), op(std::move(op_name)), mem(memory), bytes(need), limit(room) {}
    std::string op;
    Mem mem;
    int64_t bytes, limit;
};

struct Buffer {
    Mem mem = Mem::UNKNOWN;
    int64_t bytes = 0;                 // rounded up to 32
    int32_t alloc = -1;                // its ALLOC operation
    std::vector<int32_t> tensors;
};

// The operations of one sub-graph, on a graph of their own. ALLOCs are operations without operands.
struct Leaf {
    Graph graph;                       // graph.order: list without ALLOCs; spill copies appended at the end
    std::vector<Buffer> buffers;
    std::vector<int32_t> buffer_of;    // tensor -> buffer; -1: not local
    std::vector<int32_t> buffer_of_alloc;  // operation -> buffer for ALLOCs, -1 for others
    std::vector<int32_t> list;         // with ALLOCs, in the order spills and the scheduler see
    std::vector<int32_t> schedule;     // final order, without ALLOCs
    int32_t spills = 0;                // copies added
};

void merge_buffers(Leaf& leaf);        // SrcDstBufferMerge: outputs that take over the buffer of an input
void add_allocs(Leaf& leaf);           // one ALLOC per buffer, in front of the list
void sort_prior_dfs(Leaf& leaf);       // OptimizeSort, method PriorDFS
void insert_spills(Leaf& leaf);        // GenSpillSchedule
void schedule_leaf(Leaf& leaf);        // ScheduleMainLoop
void check_capacity(const Leaf& leaf);

void lower_leaf(Leaf& leaf);           // all of the above, in order

// Dependencies of a list: producers of inputs and the ALLOCs of all operands, by operation id.
struct Dependencies {
    std::vector<Ids> before, after;
};
Dependencies dependencies(const Leaf& leaf, const std::vector<int32_t>& list);

}  // namespace npu::lowering
