// The numeric executor: runs a Program on argument memory, replaying a finished tree or stepping item by item.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "npu_core/base/buffer_pool.h"
#include "npu_core/base/fault.h"
#include "npu_core/base/patience.h"
#include "npu_core/numeric/conflicts.h"
#include "npu_core/numeric/env.h"
#include "npu_core/numeric/schedule.h"
#include "npu_core/numeric/value.h"
#include "npu_core/program/program.h"

namespace npu {

struct ArgMemory {
    char* data = nullptr;
    int64_t bytes = 0;
    bool writable = true;
};

enum class Poison : uint8_t { OFF, CHECK, TRACE };

struct MachineOptions {
    Poison poison = Poison::CHECK;
    bool clamp_elements = false;  // an element read past the end is clamped and warned about
    bool fuse = true;             // strips of several elementwise operations
    bool keep = false;            // no early release: every value can be read after run()
};

struct Candidate {
    std::string op, line, text;
    int operand = -1;
};

enum class Outcome : uint8_t { OK, FAULT, TRAP, INTERRUPTED };
struct Report {
    Outcome outcome = Outcome::OK;
    std::string code, message, line;
    int32_t trap = NONE;
};

struct Group;   // elementwise operations executed together

class Machine {
  public:
    Machine(const Program& program, std::vector<ArgMemory> args, MachineOptions options);
    ~Machine();

    Report run(const Schedule& schedule) noexcept;  // replay a finished Program
    Report step() noexcept;                         // execute the items appended since the last call
    int64_t scalar(Id slot) const;
    Shape valid(Id t);
    bool is_ready(Id t) const { return static_cast<size_t>(t) < env_.size() && env_.ready(t); }
    // Static shape, contiguous, in the logical dtype or fp32 (`wide`), poison outside the valid box.
    std::vector<char> read(Id t, bool wide);
    DType read_dtype(Id t, bool wide);
    void release(Id t);
    const std::vector<Candidate>& candidates() const { return candidates_; }
    const std::vector<Candidate>& warnings() const { return warnings_; }
    // Stepping: iterations of a parallel loop.
    void enter_parallel(int32_t line) { conflicts_.enter(line); }
    void next_iteration(int64_t i) { conflicts_.next_iteration(i); }
    void leave_parallel();

  private:
    // machine.cpp: items and control flow
    template <class F> Report guarded(F&& f) noexcept;
    void prepare();
    void run_body(const Schedule& s, Id body);
    void run_item(const Item& item);
    void run_op(const Op& op);
    void execute(const Op& op);
    void set(const Item& item);
    void load(const Item& item);
    void store(const Item& item);
    int64_t dense_offset(const Item& item, const Value& v) const;
    int64_t element_index(const Item& item, const Value& v, Id t, bool write);

    // expr.cpp
    void measure_exprs();
    int64_t eval(Id e) const;
    int64_t scalar_arg(const Op& op, int i) const { return eval(p_.ids[op.scalars.begin + i]); }

    // values.cpp: reading and defining values
    Value& ready(Id t);
    const char* narrow(Value& v);
    Operand operand(const Op& op, int i);              // inside the valid box only
    Operand operand_of(Value& v, bool wide);
    Operand whole(const Op& op, int i);                // all of the shape: poison where undefined, noted as candidate
    Operand covering(const Op& op, int i, const Shape& box);
    Operand contiguous(Operand o);                     // valid box copied to a dense array if needed
    char* result(const Op& op, int i, const Shape& valid);
    // Storage of result 0 that holds the elements of operand 0: that of the operand itself where the next item puts the
    // result back in its place and nobody else looks at it, else a copy of `from`.
    char* updated(const Op& op, Operand& from, std::initializer_list<const Operand*> others);
    char* forwarded(const Op& op, int i, const Shape& valid);   // argument memory that the next item puts result i into
    char* take_over(const Op& op, Operand& from, std::initializer_list<const Operand*> others);
    char* define(Id t, DType dtype, const Shape& shape, const Shape& valid, bool wide = false);
    void share(Id t, const Value& src, const Shape& shape, const Shape& valid, const Strides& stride, const char* data);
    BufferRef scratch(int64_t bytes) { return BufferRef(pool_->take(bytes)); }
    const TensorInfo& tensor(Id t) const { return p_.tensors[t]; }
    Id in_id(const Op& op, int i) const { return p_.ids[op.ins.begin + i]; }
    Id out_id(const Op& op, int i) const { return p_.ids[op.outs.begin + i]; }
    int64_t int_arg(const Op& op, int i) const { return p_.ints[op.ints.begin + i]; }
    double float_arg(const Op& op, int i) const { return op.floats.count > i ? p_.floats[op.floats.begin + i] : 0.0; }
    int64_t int_or(const Op& op, int i, int64_t otherwise) const {
        return op.ints.count > i ? int_arg(op, i) : otherwise;
    }
    Shape given_valid(const Op& op, int first_scalar, const Shape& shape);

    // memory.cpp: argument memory, assemble
    void note_alias(Id t);
    void before_write(int region, const char* begin, const char* end);
    void own(Value& v);                                // a private dense copy of the storage
    void assemble(Id dst, Id src, const Shape& offset);
    bool writable(const char* begin, const char* end) const;
    Touch touch_of(Id t, const Value& v, const Shape& at, const Shape& extent, bool write) const;
    void note_write(Id dst, const Value& d, const Shape& at, const Shape& extent, bool check_block);
    void note_read(Id t, const Value& v, const Shape& at, const Shape& extent);
    void assemble_into_argument(Value& d, Id dst, Value& s, const Shape& offset, const Shape& box);
    void assemble_into_local(Value& d, Id dst, Value& s, const Shape& offset, const Shape& box);
    static void add_piece(Value& v, const Shape& offset, const Shape& extent);

    // candidates A read beyond what is defined; `text()` is only asked for when the place is new.
    template <class F> void note_candidate(const Op* op, int operand, F&& text) {
        if (options_.poison == Poison::OFF) return;
        Candidate c{op_name(op), current_line(), {}, operand};
        if (options_.poison == Poison::TRACE) {
            c.text = text();
            return add_source(operand, std::move(c));
        }
        for (const Candidate& k : candidates_)
            if (k.operand == operand && k.line == c.line && k.op == c.op) return;
        if (candidates_.size() >= MOST_CANDIDATES) return;
        c.text = text();
        candidates_.push_back(std::move(c));
    }
    std::string op_name(const Op* op) const;
    // A rule that the run continues after; once a line.
    template <class F> void warn(const char* rule, F&& text) {
        std::string line = current_line();
        for (const Candidate& w : warnings_)
            if (w.op == rule && w.line == line) return;
        warnings_.push_back({rule, std::move(line), text()});
    }

    // taint.cpp: poison=trace
    friend struct Shadow;
    Value taint_of(Id t, int source);
    void trace_op(const Op& op);
    Id trace_view(const Op& op, struct Shadow& s);
    void keep_taint(Id t, const Value& bytes);
    void trace_store(Id dst, Id src, const Shape& box);
    void trace_assemble(Id dst, const BufferRef& before, const BufferRef& piece, const Shape& piece_shape,
        const Shape& offset,
                        const Shape& box, bool fresh);
    int source_of(int operand) const;
    void add_source(int operand, Candidate c);
    std::string current_line() const;

    // one file each: elementwise, reduce, matmul, move, create, index
    void elementwise(const Op& op);
    bool run_group(const Group& g, const Op* alone, const Item* assemble = nullptr);
    char* argument_box(const Item& assemble, const Group& g, const Shape& box);
    void reduce(const Op& op);
    void arg_extreme(const Op& op);
    void scan(const Op& op);
    void topk(const Op& op);
    void matmul(const Op& op);
    void view(const Op& op);
    void reshape(const Op& op);
    void insert_or_drop_axis(const Op& op);
    void transpose(const Op& op);
    void concat(const Op& op);
    void expand(const Op& op);
    void clone(const Op& op);
    void fillpad(const Op& op);
    void triangle(const Op& op);
    void deinterleave(const Op& op);
    void gathermask(const Op& op);
    void full(const Op& op);
    void arange(const Op& op);
    void gather(const Op& op);
    void index_select(const Op& op);
    void scatter(const Op& op);
    void scatter_update(const Op& op);
    Operand index_operand(const Op& op, int i);
    void one_hot(const Op& op);
    void index_add(const Op& op);
    void index_put(const Op& op);
    void interleave(const Op& op);
    void bitcast(const Op& op);
    void pack4(const Op& op);
    void unpack4(const Op& op);
    void unpack_bits(const Op& op);
    void quant_mx(const Op& op);
    void philox(const Op& op);
    void sort32(const Op& op);
    void merge_sort(const Op& op);
    void conv(const Op& op);
    Operand product_operand(const Op& op, int i);
    Operand scaled_operand(const Op& op, int i, int scale, bool k_last, bool k_first);

    static constexpr size_t MOST_CANDIDATES = 1000;
    const Program& p_;
    std::vector<ArgMemory> args_;
    std::vector<int16_t> region_of_arg_;
    MachineOptions options_;
    PoolLease pool_;
    Env env_;                                          // after pool_: buffers go back before the pool does
    std::vector<std::vector<Id>> aliases_;             // per region: locals that may point into it
    std::vector<uint8_t> listed_;                      // tensor is in aliases_
    std::vector<int64_t> scalars_;
    std::vector<uint8_t> expr_nodes_;                  // size of each expression as a tree, capped
    std::vector<Candidate> candidates_, warnings_;
    std::vector<Candidate> sources_;                   // poison=trace: reads beyond what is defined, by number - 1
    std::vector<int> op_sources_;                      // per operand of the operation being executed
    ConflictWatch conflicts_;
    const Item* item_ = nullptr;                       // being executed, for messages
    const Item* following_ = nullptr;                  // while replaying: the item executed after it
    Item step_item_{};
    Patience patience_;
    size_t stepped_ = 0;                               // items of the kernel body already executed
    std::vector<std::unique_ptr<Group>> single_;       // per op: its group of one, built on first use
};

}  // namespace npu
