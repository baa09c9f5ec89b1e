// A leaf: the operations of one task in core order, with the padded tiles the cost models see.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "npu_core/plan/stages.h"

namespace npu::plan {

struct LeafTensor {
    Mem mem;
    DType dtype;
    Shape shape;            // padded
    Shape exact;            // as the operation wrote it
    int32_t buffer = -1;    // local memory shared by aliases; -1 for GM
    Id graph = NONE;        // tile-graph tensor, NONE for tiles inside a matrix product
};

struct LeafOp {
    Code code;
    cost::Pipe pipe;
    std::vector<int32_t> in, out;
    int32_t latency = 0;    // partition and in-core scheduler
    Id src = NONE;          // Block::ops
    int64_t row_bytes = 0;  // moves: contiguous bytes in GM, 0 if the whole tile is one run
    int64_t gm_bytes = 0;   // moves between GM and the core: bytes that cross
    bool spill = false;
};

struct Leaf {
    cost::Core core = cost::Core::AIV;
    std::vector<LeafTensor> tensors;
    std::vector<LeafOp> ops;
    std::vector<int64_t> buffer_bytes;
    std::vector<Mem> buffer_mem;
    std::array<int64_t, MEMS> peak{};
    int64_t gm_read = 0, gm_write = 0, spill_bytes = 0;
    int64_t gm_in_padded = 0, gm_out_padded = 0;   // as the public simulator counts them: padded tiles, L0C as fp32
};

// Content of a sub-graph up to renaming: equal signatures share one leaf.
std::vector<int64_t> signature(const Graph& g, const SubGraph& s);
Leaf build_leaf(const Graph& g, const SubGraph& s);
// Spill and reload copies where UB or L1 overflows in list order (plan/spill.cpp).
void insert_spills(Leaf& leaf, const Chip& chip);
// In-core order by the list scheduler, allocation, spills and peaks. Throws CapacityFault.
void schedule_leaf(Leaf& leaf, const Block& block, const Program& program, const Chip& chip);

}  // namespace npu::plan
