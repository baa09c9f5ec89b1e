// The Program: what tracing one kernel for one signature gives. Flat pools; bodies form the decision tree.
//
// A body is a list of items in program order. An If is always the last item of its body: the rest of each path lies
// inside its two branches (paths share their prefix, they never join again). A root function ("block") is a tree path
// between loops: a new block starts at every loop iteration and after every loop.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "npu_core/base/types.h"

namespace npu {

using Id = int32_t;
constexpr Id NONE = -1;

// One registry row, pushed by Python at import. C++ has no second operation table.
struct OpRow {
    std::string name;        // registry name, such as "add"
    std::string kernel;      // executor entry, such as "add"
    std::string cost_class;  // such as "VEC_BINARY", "CUBE", "MOVE" (pypto_sim/registry.py: Cost)
    std::string instr;       // instruction of the device table that prices it, such as "vadd"; may be empty
    bool bf16_arith = true;  // false: operands become fp32 (numerics.csv, "no bf16 arithmetic")
    bool fp16_arith = true;  // false: fp16 operands become fp32 under numerics "current"
};

// GE0: a >= 0, EQ0: a == 0
enum class ExprOp : uint8_t { CONST, INDEX, LOAD, ADD, MUL, FLOORDIV, MOD, MIN, MAX, GE0, EQ0 };
struct Expr {
    ExprOp op;
    Id a = NONE, b = NONE;  // operands (expression ids)
    int64_t value = 0;      // CONST: the value; INDEX, LOAD: slot of the run-time scalar table
};

struct Span { int32_t begin = 0, count = 0; };  // range of a pool

enum class TensorKind : uint8_t { LOCAL, ARG };
struct TensorInfo {
    DType dtype;
    Shape shape;             // static buffer shape
    TensorKind kind;
    int arg_index = -1;      // position among the tensor arguments, for ARG
    uint32_t dynamic_axes = 0;   // ARG: bit mask of axes annotated as dynamic; read by model `official` only
    std::string name;        // what messages call it
    Id alias = NONE;         // argument whose memory it is (reshape in place)
    Id extents = NONE;       // index of Program::extents: valid extents that may be below the shape, read by the plan only

    bool global() const { return kind == TensorKind::ARG || alias != NONE; }
};

struct CarriedExtent { Id tensor; int axis; Id slot; };   // scalar slot that holds a valid extent of a local; plan only

// cube: m0 m1 k0 kA1 kB1 n0 n1
struct TileInfo { std::vector<int64_t> vec; std::vector<int64_t> cube; bool split_k = false; };

struct Op {
    int32_t row;             // index of OpRow
    uint8_t opcode = 255;    // executor kernel of the row (program/opcodes.h), filled in by the builder
    Span outs, ins;          // pool ids: tensor ids
    Span ints, floats;       // pools ints, floats
    Span scalars;            // pool ids: expression ids
    int32_t tile = NONE;     // index of tiles
    int32_t options = NONE;  // index of options (pass options in force), as handed over
    int32_t label = NONE;    // index of labels (semantic label, composite name)
    uint32_t wide_ins = 0;   // legalise: bit i set = operand i is read as its fp32 twin
    bool wide_out = false;   // legalise: arithmetic result kept in fp32 with its rounded twin
};

enum class ItemKind : uint8_t {
    OP,        // a = op index
    DECL,      // a = tensor id: an unwritten local
    SET,       // a = destination tensor, b = source tensor: t[:] = x on a local
    ASSEMBLE,  // a = destination, b = source, span = offsets (expressions)
    LOAD,      // a = run-time scalar slot, b = tensor, span = indices
    STORE,     // a = tensor, b = value (expression), span = indices: one element, INT32
    BLOCK,     // stepping and unrolled loops: a new block begins
    IF,        // a = condition (expression), b = then body, c = else body
    LOOP,      // a = run-time scalar slot of the index, span = start, stop, step (expressions), b = body
    TRAP,      // a = trap number: Python raises the recorded exception
};
struct Item {
    ItemKind kind;
    Id a = NONE, b = NONE, c = NONE;
    Span span;
    int32_t line = NONE;     // index of lines
    bool parallel = false;   // LOOP: promised independent
    Span unroll;             // LOOP: unroll factors asked for (pool ints), read by the plan only; values never change
    bool submit_before = false;  // LOOP: submit_before_loop, read by the plan only
    bool in_place = false;   // ASSEMBLE: second half of an in-place operation
    bool alone = false;      // ASSEMBLE: no other of its block writes the same argument
};
// Results that variables of the kernel still hold where a block ends. Values do not depend on it; the public 0.2.0 package
// stores them, which moves operations about (lowering).
struct Held {
    int32_t before;          // index of the item that follows
    Span tensors;
};
struct Body {
    std::vector<Item> items;
    std::vector<Held> held;
};

enum class Numerics : uint8_t { CURRENT, V0_2_0 };

struct Program {
    Numerics numerics = Numerics::CURRENT;
    std::vector<TensorInfo> tensors;
    std::vector<Expr> exprs;
    std::vector<Op> ops;
    std::vector<Body> bodies;           // bodies[0] is the kernel
    std::vector<Id> ids;                // pool: tensor and expression ids
    std::vector<Span> extents;          // expressions per axis, each combination once
    std::vector<CarriedExtent> carried;
    std::vector<int64_t> ints;          // pool
    std::vector<double> floats;         // pool
    std::vector<TileInfo> tiles;
    std::vector<std::string> lines;     // "file:line"
    std::vector<std::string> labels;
    std::vector<std::string> options;   // JSON text of the options in force
    int32_t scalar_slots = 0;           // loop indices and loaded elements

    const Id* id_at(Span s) const { return ids.data() + s.begin; }
};

const std::vector<OpRow>& op_rows();
void set_op_rows(std::vector<OpRow> rows);

}  // namespace npu
