// The graph every pass works on: raw tensors (storage), tensors (windows) and operations, addressed by creation number.
//
// Several rules of the 0.2.0 stack order things by creation, so ids only grow and are never reused; removed operations
// stay in `ops` with dead = true. `order` is the operation list; passes re-sort it where the real ones do (sort_ops).
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "npu_core/base/types.h"
#include "npu_core/lowering/tile_opcodes.h"
#include "npu_core/base/ids.h"

namespace npu::lowering {

// One offset: a constant plus an expression of loop indices (index of Graph::symbols; 0 is none).
struct Coord {
    int64_t at = 0;
    int32_t symbol = 0;
    bool operator==(const Coord&) const = default;
};
struct Offset {
    int rank = 0;
    std::array<Coord, MAX_RANK> d{};
    bool is_static() const {
        for (int i = 0; i < rank; ++i)
            if (d[i].symbol) return false;
        return true;
    }
    bool operator==(const Offset& o) const {
        if (rank != o.rank) return false;
        for (int i = 0; i < rank; ++i)
            if (!(d[i] == o.d[i])) return false;
        return true;
    }
};
Offset zero_offset(int rank);
Shape shape2(int64_t rows, int64_t columns);
Offset offset2(int64_t row, int64_t column);

struct Symbol {
    std::string text;
    std::vector<std::pair<int32_t, int32_t>> terms;  // (Program expression, unrolled copy) whose sum it is; empty: text only
};

struct Raw {
    Shape shape;
    DType dtype = DType::F32;
};

struct Tensor {
    int32_t raw = -1;
    Shape shape;
    Offset offset;               // window within the raw tensor
    DType dtype = DType::F32;
    Mem mem = Mem::UNKNOWN;
    int32_t valid = 0;           // tensor graph: mask of axes whose valid size is symbolic
    uint32_t dynamic = 0;        // arguments: mask of axes annotated as dynamic, whose size the package does not know
    Ids producers, consumers;    // operations by creation number, each once
};

struct TileShapes {
    Shape vec;                               // rank 0: not set
    int64_t m = 0, k = 0, ka = 0, kb = 0, n = 0;   // cube: mL0, kL0, kAL1, kBL1, nL0; 0: not set
    int64_t m1 = 0, n1 = 0;
    bool split_k = false;
};

// What only some operations carry.
struct Attributes {
    int axis = -1;
    bool has_scalar = false;
    double scalar = 0;
    std::vector<int64_t> ints;   // k, order, merge size, make mode, cast mode: whatever tells two operations apart
    bool trans_a = false, trans_b = false;
    bool direct = false;         // ASSEMBLE written by an explicit assemble call
};

// Where an operation comes from: row of the registry, line and label of the Program; -1 for none.
struct Origin {
    int32_t row = -1, line = -1, label = -1;
};

struct Op {
    Opcode code = Opcode::NOP;
    Ids in, out;
    Offset at;                       // VIEW, ASSEMBLE and moves: window offset
    Mem to = Mem::UNKNOWN;           // VIEW: explicit target memory
    bool transpose = false;          // VIEW to L0: transposed load
    bool keep = false;               // VIEW that RemoveRedundantOp must not drop
    bool dead = false;
    int32_t latency = 10;            // of the partition and the in-core scheduler, not of the cost machine
    int32_t sub_graph = -1;
    int32_t scope = -1;              // sg_set_scope
    int32_t tile = -1;               // index of Graph::tiles
    int32_t attributes = -1;         // index of Graph::attributes
    int32_t source = -1;             // index of Graph::sources
    int64_t gm_bytes = 0;            // moves: bytes that cross global memory, without padding, after conversion
    int32_t valid = 0;               // not 0: carries a symbolic valid size, never equal to another operation
};

struct Graph {
    std::vector<Raw> raws;
    std::vector<Tensor> tensors;
    std::vector<Op> ops;
    std::vector<int32_t> order;      // live operations
    bool stale = false;              // operations were added since the last sort
    std::vector<int32_t> inputs, outputs;
    std::vector<TileShapes> tiles;
    std::vector<Attributes> attributes;
    std::vector<Symbol> symbols{Symbol{}};
    std::vector<Origin> sources;

    int32_t add_raw(const Shape& shape, DType dtype);
    int32_t add_tensor(int32_t raw, const Shape& shape, const Offset& offset, DType dtype, Mem mem = Mem::UNKNOWN);
    int32_t add_fresh(const Shape& shape, DType dtype, Mem mem = Mem::UNKNOWN);   // own raw tensor
    int32_t add_op(Opcode code, const Ids& in, const Ids& out);                     // appended to `order`, latency set
    int32_t clone_op(int32_t op, const Ids& in, const Ids& out);                    // same attributes and latency
    int32_t symbol(const std::string& text, std::vector<std::pair<int32_t, int32_t>> terms = {});

    void link(int32_t op);      // enter the operation with its tensors
    void unlink(int32_t op);
    void kill(int32_t op);      // unlink and mark dead; `order` is cleaned by drop_dead or sort_ops
    void kill_all(const std::vector<int32_t>& list);   // the same for many, in one pass over the lists of their tensors
    void replace_input(int32_t op, int32_t from, int32_t to);
    void replace_output(int32_t op, int32_t from, int32_t to);
    void drop_dead();           // remove dead operations from `order`
    bool is_output(int32_t tensor) const;
    bool is_input(int32_t tensor) const;
    const Attributes* attrs(const Op& op) const { return op.attributes < 0 ? nullptr : &attributes[op.attributes]; }
    Coord add(const Coord& a, const Coord& b);
    Offset add(const Offset& a, const Offset& b);
};

int64_t bytes_of(const Shape& shape, DType dtype);
int32_t initial_latency(const Graph& graph, Opcode code, const Ids& in, const Ids& out);
void sort_ops(Graph& graph);                       // once: Kahn backwards, then reversed
void sort_if_stale(Graph& graph);                  // what a pass gets that asks for the operation list
std::vector<int32_t> sorted_ops(const Graph& graph, const std::vector<int32_t>& list);
bool erase_dead_ops(Graph& graph);                 // operations nobody reads, repeated; no sort; true if any went

}  // namespace npu::lowering
