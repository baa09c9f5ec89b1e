// The tensor graph of one root function: straight code, or one path through a loop body (several when unrolled).
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "npu_core/plan/graph.h"
#include "npu_core/program/program.h"

namespace npu::plan {

// Memory of the root function's ends: a kernel argument, or a local that crosses root functions (a slot).
struct External {
    Id tensor;            // Program tensor
    bool argument;
};

struct BlockTensor {
    Shape shape;
    DType dtype;
    Shape valid;
    Id external = NONE;   // index of Block::externals
    bool fn_in = false, fn_out = false;
};

enum class Family : uint8_t {
    VIEW, ASSEMBLE, RESHAPE,
    ELEMENTWISE,   // one tile operation per output tile; every tensor operand has the output's shape
    EXPAND,        // one axis grown
    REDUCE,        // pair tree, then the row operation
    MATMUL,
    FILL,          // no tensor operand
    TRANSPOSE,     // last two axes
    TRANSPOSE_OUT, // neither axis last: moved on the way out
    GATHER,        // rows of a GM table by index
    GATHER_AXIS,   // element gather along an axis
    TOPK,
    SCATTER,       // rows written to GM by index
    SCALED,        // tiles of the first operand; every other tensor is cut in proportion, axes beyond are whole
    WHOLE_AXIS,    // one tile operation per output tile that reads whole operands along the last axis
};

struct BlockOp {
    Family family;
    Code code;
    std::vector<Id> in, out;
    Shape at{};               // VIEW, ASSEMBLE
    Id dyn = NONE;            // VIEW, ASSEMBLE: index of the block's dynamic accesses
    Shape tile{};             // vector tile
    Id row = NONE;            // registry row, for messages
    Id line = NONE, label = NONE, options = NONE;
    int axis = 0;
    Code pair = Code::VIEW;   // REDUCE: combines two tiles
    int64_t extra = 0;        // TOPK: k; TRANSPOSE: first axis
    int axis2 = 0;
    int scratch_bytes = 0;    // rank-1 scratch in UB; below 0: a tile like the result
    // MATMUL (2-D)
    bool a_trans = false, b_trans = false, has_bias = false;
    std::vector<int64_t> cube{};
    std::string op_name{};
};

struct Block {
    std::vector<External> externals;
    std::vector<BlockTensor> tensors;
    std::vector<BlockOp> ops;
    std::vector<std::string> unmodelled;
};

// One visited item of a root function with its evaluated offsets.
struct Visit {
    const Item* item;
    Shape at;                 // offsets of views and assembles; symbolic values of fills are not kept
    Id dyn = NONE;
    Id valid = NONE;          // index of Valids::shapes: one per result, NONE when all are valid all over
};

// Valid extents of one root function, where they are below the shape.
struct Valids {
    std::vector<Shape> shapes;                   // by Visit::valid
    std::vector<std::pair<Id, Shape>> slots;     // Program tensors that earlier root functions left
    const Shape* slot(Id tensor) const {
        for (const auto& [t, shape] : slots)
            if (t == tensor) return &shape;
        return nullptr;
    }
};

// Locals read by a root function that did not write them first: they live in GM slots.
std::unordered_set<Id> crossing_locals(const Program& program);

Block build_block(const Program& program, const std::vector<Visit>& visits, const Valids& valids, const std::unordered_set<Id>& crossing,
                  Numerics numerics, const Chip& chip);

}  // namespace npu::plan
