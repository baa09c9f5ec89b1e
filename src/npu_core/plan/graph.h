// The tile graph of one root function: windows of raw storage, tile operations, and the order of the operation list.
// Rules: the public 0.2.0 lowering (docs/cost_model.md); ids grow with creation and several rules break ties by id.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "npu_core/base/ids.h"
#include "npu_core/base/patience.h"
#include "npu_core/base/types.h"
#include "npu_core/cost/opcodes.h"

namespace npu::plan {

using cost::Code;
using Id = int32_t;
constexpr Id NONE = -1;
constexpr size_t MOST_TILE_OPS = 2'000'000;   // of one root function: a few seconds and 0.9 GB

enum class Mem : uint8_t { NONE, GM, UB, L1, L0A, L0B, L0C, BT, FB, COUNT };
constexpr int MEMS = static_cast<int>(Mem::COUNT);
constexpr const char* mem_name(Mem m) {
    constexpr const char* names[] = {"?", "GM", "UB", "L1", "L0A", "L0B", "L0C", "BT", "FB"};
    return names[static_cast<int>(m)];
}

// Capacities in bytes and which direct paths exist beside those of A2/A3.
struct Chip {
    int64_t capacity[MEMS]{};
    bool direct_cv = false;   // L0C -> UB, UB -> L1 (950)
    bool skip_repeats = true; // runs of equal output tiles: go on by whole periods once the state of the core repeats
    int aic = 24, aiv = 48;
};

struct Raw {
    Shape shape;
    DType dtype;
    Id external = NONE;   // index of Block::externals: argument or slot in GM
    bool workspace = false;
};

struct Tensor {
    Id raw;
    DType dtype;
    Mem mem = Mem::NONE;
    bool fn_in = false, fn_out = false;   // ends of the root function
    bool scratch = false;
    Shape shape, offset;                  // window of the raw storage
    Id valid = NONE;                      // index of Graph::valid_shapes where less than the window is valid
    Ids producers, consumers;             // op ids, each once, ascending
};

// One output tile of a matrix product with its whole k chain: L1 and L0 loads, A_MUL_B and A_MULACC_B.
struct Matmul {
    int64_t m, n, k;                      // extent of the tile and of the whole k axis
    int64_t valid_m, valid_n, valid_k;    // what of it is valid
    int64_t k_l0, k_l1a, k_l1b;
    DType in, acc;
    bool a_trans = false, b_trans = false, bias = false;
    bool a_direct = true, b_direct = true;  // operand is read from GM by the chain itself; else by explicit L1 views
    Shape a_at{}, b_at{}, bias_at{};           // window of the direct operands
    Id a_dyn = NONE, b_dyn = NONE, bias_dyn = NONE;
    bool operator==(const Matmul&) const = default;
};

struct Op {
    Code code;
    bool dead = false, keep = false;      // keep: an L1 view of a matrix product, never redundant
    bool inlined = false;                 // EXPAND that its reader does by its own addressing
    Mem to = Mem::NONE;                   // VIEW: explicit target
    Ids in, out;
    Shape at;                             // VIEW, ASSEMBLE and moves: window offset
    Id dyn = NONE;                        // offset part that changes from instance to instance (Graph::dyn_sets)
    Id valid = NONE;                      // ASSEMBLE: index of Graph::valid_shapes where not what is valid of its input moves
    Id mm = NONE;                         // MATMUL_TILE: index of Graph::matmuls
    Id src = NONE;                        // index of Block::ops this came from
    int32_t latency = 0, scope = -1;
    Id sub = NONE;                        // sub-graph
};

struct Graph {
    std::vector<Raw> raws;
    std::vector<Tensor> tensors;
    std::vector<Op> ops;
    std::vector<Matmul> matmuls;
    std::vector<Shape> valid_shapes;
    std::vector<std::vector<Id>> dyn_sets; // accesses of the block whose offsets add up
    std::vector<Id> order;                // list order of the living operations
    bool stale = false;                   // operations were added since the last sort

    Id add_raw(const Shape& shape, DType dtype, Id external = NONE);
    Id add_tensor(Id raw, const Shape& shape, const Shape& offset);
    Id add_fresh(const Shape& shape, DType dtype);                  // own storage
    Id add_like(Id tensor);                                         // own storage for a copy of it
    const Shape& valid_of(Id tensor) const;
    const Shape& moved(const Op& assemble) const { return assemble.valid == NONE ? valid_of(assemble.in[0]) : valid_shapes[assemble.valid]; }
    void set_valid(Id tensor, const Shape& valid);
    Id add_op(Code code, Ids in, Ids out, Id src);
    void kill(Id op);
    void kill_all(const std::vector<Id>& ops);
    void move_consumers(Id from, Id to);                            // replace_input of every consumer
    void replace_input(Id op, Id from, Id to);
    void lead_input(Id op, Id from, Id to);                         // the same; `from` still lists the operation as a consumer
    void forget_consumers(Id tensor);                               // that do not read it any more
    void replace_output(Id op, size_t index, Id to);
    void sort();                          // backwards Kahn
    void drop_dead();                     // remove killed operations from the list
    int32_t latency_of(const Op& op) const;
    Id dyn_of(Id access);                 // set with one access
    Id dyn_sum(Id a, Id b);               // union of two sets

private:
    Patience patience_;
    std::map<std::pair<Id, Id>, Id> dyn_sums_;
    std::map<Id, Id> dyn_single_;
};

Shape zeros(int rank);
Shape within(const Shape& valid, const Shape& at, const Shape& extent);   // valid part of a window of something valid from 0 on
bool contains(const Shape& outer_at, const Shape& outer, const Shape& at, const Shape& shape);
bool overlaps(const Shape& a_at, const Shape& a, const Shape& b_at, const Shape& b);
Shape plus(const Shape& a, const Shape& b);
Shape minus(const Shape& a, const Shape& b);
inline int64_t bytes_of(const Shape& s, DType t) { return s.count() * dtype_size_bytes(t); }
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace npu::plan
