// A leaf: the operations of one task in core order, with the padded tiles the cost models see.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

#include "npu_core/plan/hash.h"
#include "npu_core/plan/stages.h"
#include "npu_core/program/breakdown.h"

namespace npu::plan {

// Shapes of a leaf, each once: a long leaf has very many tiles of few shapes. They stay where they are when it is moved.
class ShapePool {
public:
    ShapePool() = default;
    ShapePool(ShapePool&&) = default;
    ShapePool& operator=(ShapePool&&) = default;
    const Shape& operator()(const Shape& s) { return *shapes_.insert(s).first; }

private:
    std::unordered_set<Shape, KeyHash> shapes_;
};

struct LeafTensor {
    Mem mem;
    DType dtype;
    const Shape& tile;      // as the operation wrote it; of Leaf::shapes
    const Shape& exact;     // its valid part: what moves and what instructions work on
    int64_t room = 0;       // bytes it takes in local memory: the tile, padded
    int32_t buffer = -1;    // local memory shared by aliases; -1 for GM
    Id graph = NONE;        // tile-graph tensor, NONE for tiles inside a matrix product
};

// Operand list without an allocation: an operation of a leaf has few operands.
class Operands {
public:
    Operands() = default;
    Operands(std::initializer_list<int32_t> ids) { for (int32_t t : ids) push_back(t); }
    explicit Operands(const std::vector<int32_t>& ids) { for (int32_t t : ids) push_back(t); }
    void push_back(int32_t t) {
        if (count_ == LIMIT) throw std::length_error("an operation of a leaf has more than 8 operands");
        ids_[count_++] = t;
    }
    int32_t operator[](size_t i) const { return ids_[i]; }
    int32_t* begin() { return ids_; }
    int32_t* end() { return ids_ + count_; }
    const int32_t* begin() const { return ids_; }
    const int32_t* end() const { return ids_ + count_; }
    size_t size() const { return count_; }
    bool empty() const { return count_ == 0; }
    int32_t back() const { return ids_[count_ - 1]; }

private:
    static constexpr uint32_t LIMIT = 8;
    uint32_t count_ = 0;
    int32_t ids_[LIMIT];
};

struct LeafOp {
    Code code;
    cost::Pipe pipe;
    Operands in, out;
    int32_t latency = 0;    // partition and in-core scheduler
    Id src = NONE;          // Block::ops
    int64_t row_bytes = 0;  // moves: contiguous bytes in GM, 0 if the whole tile is one run
    int64_t gm_bytes = 0;   // moves between GM and the core: bytes that cross
    bool spill = false;
    bool inlined = false;   // EXPAND: only one block per row is filled
};

struct Leaf {
    LeafNote note;
    cost::Core core = cost::Core::AIV;
    ShapePool shapes;
    std::vector<LeafTensor> tensors;
    std::vector<LeafOp> ops;
    std::vector<LeafOp> spare;      // room for another order of the operations
    std::vector<int64_t> buffer_bytes;
    std::vector<Mem> buffer_mem;
    std::array<int64_t, MEMS> peak{};
    int64_t gm_read = 0, gm_write = 0, spill_bytes = 0;
    // A run of equal output tiles: the operations are those of one tile, run 1 + repeats times. Traffic above is of all.
    int64_t repeats = 0;
};

// Content of a sub-graph up to renaming: equal signatures share one leaf.
std::vector<int64_t> signature(const Graph& g, const SubGraph& s);
Leaf build_leaf(const Graph& g, const SubGraph& s, bool share_loads = true, Leaf room = {});   // room: emptied, for its storage
// Number of equal output tiles of matrix products when the sub-graph is nothing else and the operands of one tile
// overflow L1; 0 otherwise.
int64_t streamed_tiles(const Graph& g, const SubGraph& s, const Chip& chip);
// Spill and reload copies where UB or L1 overflows in list order (plan/spill.cpp).
void insert_spills(Leaf& leaf, const Chip& chip);
// In-core order by the list scheduler, allocation, spills and peaks. Throws CapacityFault.
void schedule_leaf(Leaf& leaf, const Block& block, const Program& program, const Chip& chip);

}  // namespace npu::plan
