// One leaf function: its operations, local buffers, the order before scheduling, spills and the final order.
#pragma once
#include <array>
#include <vector>

#include "npu_core/lowering/graph.h"
#include "npu_core/program/cost_report.h"

namespace npu::lowering {

// Capacities of A2/A3 in bytes.
constexpr int64_t UB_BYTES = 196608, L1_BYTES = 524288, L0A_BYTES = 65536, L0B_BYTES = 65536, L0C_BYTES = 131072;
int64_t capacity_bytes(Mem mem);   // 0: not managed
bool is_local(Mem mem);            // memories with buffers: UB, L1, L0A, L0B, L0C, BT, FIX

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
    std::array<int64_t, MEM_COUNT> peak_bytes{};   // largest occupancy while the scheduler runs
};

void merge_buffers(Leaf& leaf);        // SrcDstBufferMerge: outputs that take over the buffer of an input
void add_allocs(Leaf& leaf);           // one ALLOC per buffer, in front of the list
void sort_prior_dfs(Leaf& leaf);       // OptimizeSort, method PriorDFS
void insert_spills(Leaf& leaf);        // GenSpillSchedule
void schedule_leaf(Leaf& leaf);        // ScheduleMainLoop
void check_capacity(const Leaf& leaf);
// Throws CapacityFault for `bytes` of a memory that operation `op` needs with the operands listed in the fault.
[[noreturn]] void refuse_capacity(const Leaf& leaf, int32_t op, Mem mem, int64_t bytes, int64_t largest_gap = -1);
[[noreturn]] void refuse_buffer(const Leaf& leaf, int32_t buffer, int64_t largest_gap = -1);   // no room for this buffer

void lower_leaf(Leaf& leaf);           // all of the above, in order

// Dependencies of a list: producers of inputs and the ALLOCs of all operands, by operation id.
struct Dependencies {
    std::vector<Ids> before, after;
};
Dependencies dependencies(const Leaf& leaf, const std::vector<int32_t>& list);

}  // namespace npu::lowering
