// Builds a Program item by item. Every id and attribute count is checked here; mistakes are std::invalid_argument.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "npu_core/program/legalise.h"
#include "npu_core/program/program.h"

namespace npu {

struct OpRequest {
    int32_t row = NONE;
    std::vector<Id> outs, ins, scalars;
    std::vector<int64_t> ints;
    std::vector<double> floats;
    int32_t tile = NONE, options = NONE, label = NONE, line = NONE;
};

struct LoopRequest {
    Id slot = NONE, start = NONE, stop = NONE, step = NONE;
    bool parallel = false, submit_before = false;
    std::vector<int64_t> unroll;
    int32_t line = NONE;
};

class Builder {
  public:
    explicit Builder(Numerics numerics);
    const Program& program() const { return p_; }
    bool finished() const { return finished_; }

    Id tensor(int dtype, const std::vector<int64_t>& shape, int arg_index, std::string name);
    void dynamic_axes(Id argument, const std::vector<int>& axes);   // annotated as dynamic
    void extents(Id t, const std::vector<Id>& valid);
    void carries(Id t, int axis, Id slot);
    Id constant(int64_t value);
    Id expr(int op, Id a, Id b);
    std::pair<Id, Id> scalar(int kind);  // (slot, expression)
    int32_t tile(std::vector<int64_t> vec, std::vector<int64_t> cube, bool split_k);
    int32_t line(std::string_view text) { return intern(p_.lines, line_ids_, text); }
    int32_t label(std::string_view text) { return intern(p_.labels, label_ids_, text); }
    int32_t options(std::string_view text) { return intern(p_.options, option_ids_, text); }

    void op(const OpRequest& r);
    void decl(Id t, int32_t line);
    void set(Id dst, Id src, int32_t line);
    void assemble(Id dst, Id src, const std::vector<Id>& offsets, int32_t line, bool in_place = false);
    void load(Id slot, Id t, const std::vector<Id>& index, int32_t line);
    void store(Id t, Id value, const std::vector<Id>& index, int32_t line);
    void block();
    void held(const std::vector<Id>& tensors);
    void begin_loop(const LoopRequest& r);
    void end_loop();
    void begin_if(Id cond, int32_t line);
    void begin_else();
    void end_if();
    void trap(int32_t number, int32_t line);
    void finish();

  private:
    enum class Open : uint8_t { KERNEL, LOOP, THEN, ELSE };
    struct Level { Open kind; Id body; Id else_body; };

    int32_t intern(std::vector<std::string>& pool, std::unordered_map<std::string, int32_t>& ids,
        std::string_view text);
    Id push_expr(Expr e);
    Item& append(ItemKind kind, int32_t line);
    Id new_body();
    Span ids(const std::vector<Id>& v);
    void check_tensor(Id t) const;
    void check_tensors(const std::vector<Id>& v) const;
    void check_exprs(const std::vector<Id>& v) const;
    void check_slot(Id slot) const;

    Program p_;
    Legaliser legaliser_;
    std::vector<Level> open_;
    std::map<std::vector<Id>, Id> extent_ids_;
    std::unordered_map<int64_t, Id> constants_;
    std::map<std::tuple<int, Id, Id>, Id> exprs_;
    std::unordered_map<std::string, int32_t> line_ids_, label_ids_, option_ids_;
    void mark_lone_writes(Id body, std::unordered_map<Id, Item*> block);

    bool finished_ = false;
};

}  // namespace npu
