// Tile expansion of one root function; what goes row by row, reductions and products are in expand_*.cpp.
#pragma once
#include <functional>
#include <unordered_map>

#include "npu_core/plan/hash.h"
#include "npu_core/plan/stages.h"

namespace npu::plan {

// Tiles produced so far for one tensor.
struct Produced {
    Id raw = NONE, self = NONE;
    std::vector<Id> tiles;
    std::unordered_map<Shape, Id, KeyHash> by_offset;
};

class TileExpander {
public:
    TileExpander(const Block& b, const Chip& chip) : b_(b), chip_(chip), made_(b.tensors.size()) {}

    Graph run();

private:
    const Block& b_;
    const Chip& chip_;
    Graph g_;
    std::vector<Produced> made_;
    Id src_ = NONE;

    Shape shape(Id t) const { return b_.tensors[t].shape; }
    DType dtype(Id t) const { return b_.tensors[t].dtype; }
    bool partial(Id t) const { return !(b_.tensors[t].valid == b_.tensors[t].shape); }

    Produced& produced(Id t);
    Id window(Id t, const Shape& at, const Shape& extent);
    Id whole(Id t);                                                   // the tensor itself, one window
    Id make_tile(Id t, const Shape& at, const Shape& extent);
    void register_whole(Id t);
    // Tile for window [at, at + extent) of tensor t (linking rules).
    Id ask(Id t, const Shape& at, const Shape& extent);
    Id view_of(Id from, const Shape& at, const Shape& extent);
    Id ask_whole(Id t) { return ask(t, zeros(shape(t).rank), shape(t)); }
    Id scratch(const Shape& s, DType type);
    Id flat_scratch(int64_t bytes);
    static int64_t scratch_bytes(const BlockOp& op, const Shape& extent);
    // Calls f(offset, extent) for every tile of `full`, outermost dim first.
    static void tiles(const Shape& full, const Shape& tile, const std::function<void(const Shape&, const Shape&)>& f);
    void expand_op(const BlockOp& op);

    // expand_rows.cpp
    // Rows of the source, a piece at a time, each written to its place in global memory.
    void scatter_rows(const BlockOp& op);
    void scaled(const BlockOp& op);
    void gather_rows(const BlockOp& op);

    // expand_reduce.cpp
    // Non-reduced axes tiled in order; along the axis a tree of pairs, then one row operation.
    void reduce(const BlockOp& op);
    Id reduce_scratch(const BlockOp& op, const Shape& in, DType type);
    void topk(const BlockOp& op);

    // expand_products.cpp
    // Whole operand that the k chain can read from GM by itself: a kernel argument or slot, seen through views.
    bool direct(Id t, Id& source, Shape& at, Id& dyn);
    void matmul(const BlockOp& op);
};

}  // namespace npu::plan
