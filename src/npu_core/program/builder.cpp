#include "npu_core/program/builder.h"

#include <stdexcept>
#include <utility>

#include "npu_core/base/fault.h"
#include "npu_core/program/opcodes.h"

namespace npu {

namespace {
[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }
bool inside(int64_t i, size_t n) { return i >= 0 && static_cast<uint64_t>(i) < n; }
void check_optional(int64_t i, size_t n, const char* what) {
    if (i != NONE && !inside(i, n)) refuse(std::string("unknown ") + what + " id " + std::to_string(i));
}
}  // namespace

Builder::Builder(Numerics numerics) {
    p_.numerics = numerics;
    open_.push_back({Open::KERNEL, new_body(), NONE});
}

Id Builder::new_body() {
    p_.bodies.emplace_back();
    return static_cast<Id>(p_.bodies.size() - 1);
}

int32_t Builder::intern(std::vector<std::string>& pool, std::unordered_map<std::string, int32_t>& ids,
    std::string_view text) {
    const auto [it, fresh] = ids.try_emplace(std::string(text), static_cast<int32_t>(pool.size()));
    if (fresh) pool.emplace_back(text);
    return it->second;
}

Span Builder::ids(const std::vector<Id>& v) {
    const Span s{static_cast<int32_t>(p_.ids.size()), static_cast<int32_t>(v.size())};
    p_.ids.insert(p_.ids.end(), v.begin(), v.end());
    return s;
}

void Builder::check_tensor(Id t) const {
    if (!inside(t, p_.tensors.size())) refuse("unknown tensor id " + std::to_string(t));
}
void Builder::check_tensors(const std::vector<Id>& v) const {
    for (const Id t : v) check_tensor(t);
}
void Builder::check_exprs(const std::vector<Id>& v) const {
    for (const Id e : v)
        if (!inside(e, p_.exprs.size())) refuse("unknown expression id " + std::to_string(e));
}
void Builder::check_slot(Id slot) const {
    if (!inside(slot, p_.scalar_slots)) refuse("unknown scalar slot " + std::to_string(slot));
}

Id Builder::tensor(int dtype, const std::vector<int64_t>& shape, int arg_index, std::string name) {
    if (!inside(dtype, static_cast<size_t>(DType::COUNT))) refuse("unknown dtype code " + std::to_string(dtype));
    if (shape.size() > MAX_RANK) refuse("a tensor has at most " + std::to_string(MAX_RANK) + " axes");
    TensorInfo t;
    t.dtype = static_cast<DType>(dtype);
    t.shape.rank = static_cast<int>(shape.size());
    int64_t count = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] < 0) refuse("negative axis in shape");
        t.shape[static_cast<int>(i)] = shape[i];
        if (__builtin_mul_overflow(count, shape[i], &count) || count > (int64_t{1} << 48)) refuse("tensor too large");
    }
    t.kind = arg_index >= 0 ? TensorKind::ARG : TensorKind::LOCAL;
    t.arg_index = arg_index;
    t.name = std::move(name);
    p_.tensors.push_back(std::move(t));
    return static_cast<Id>(p_.tensors.size() - 1);
}

void Builder::dynamic_axes(Id t, const std::vector<int>& axes) {
    check_tensor(t);
    for (int axis : axes) {
        if (axis < 0 || axis >= p_.tensors[t].shape.rank) refuse("dynamic axes: no axis " + std::to_string(axis));
        p_.tensors[t].dynamic_axes |= 1u << axis;
    }
}

void Builder::extents(Id t, const std::vector<Id>& valid) {
    check_tensor(t);
    check_exprs(valid);
    if (static_cast<int>(valid.size()) != p_.tensors[t].shape.rank) refuse("valid extents: one per axis");
    const auto [it, fresh] = extent_ids_.try_emplace(valid, static_cast<Id>(p_.extents.size()));
    if (fresh) p_.extents.push_back(ids(valid));
    p_.tensors[t].extents = it->second;
}

void Builder::carries(Id t, int axis, Id slot) {
    check_tensor(t);
    check_slot(slot);
    if (!inside(axis, static_cast<size_t>(p_.tensors[t].shape.rank))) refuse("a carried extent of an axis that is not there");
    p_.carried.push_back({t, axis, slot});
}

Id Builder::push_expr(Expr e) {
    p_.exprs.push_back(e);
    return static_cast<Id>(p_.exprs.size() - 1);
}

Id Builder::constant(int64_t value) {
    const auto [it, fresh] = constants_.try_emplace(value, NONE);
    if (fresh) it->second = push_expr({ExprOp::CONST, NONE, NONE, value});
    return it->second;
}

Id Builder::expr(int op, Id a, Id b) {
    if (op < static_cast<int>(ExprOp::ADD) ||
        op > static_cast<int>(ExprOp::EQ0)) refuse("unknown expression code " + std::to_string(op));
    const bool unary = op >= static_cast<int>(ExprOp::GE0);
    if (!inside(a, p_.exprs.size()) || (!unary && !inside(b,
        p_.exprs.size()))) refuse("unknown operand of an expression");
    if (unary) b = NONE;
    const auto [it, fresh] = exprs_.try_emplace({op, a, b}, NONE);
    if (fresh) it->second = push_expr({static_cast<ExprOp>(op), a, b, 0});
    return it->second;
}

std::pair<Id, Id> Builder::scalar(int kind) {
    if (kind != static_cast<int>(ExprOp::INDEX) &&
        kind != static_cast<int>(ExprOp::LOAD)) refuse("a scalar is an INDEX (1) or a LOAD (2)");
    const Id slot = p_.scalar_slots++;
    return {slot, push_expr({static_cast<ExprOp>(kind), NONE, NONE, slot})};
}

int32_t Builder::tile(std::vector<int64_t> vec, std::vector<int64_t> cube, bool split_k) {
    p_.tiles.push_back({std::move(vec), std::move(cube), split_k});
    return static_cast<int32_t>(p_.tiles.size() - 1);
}

Item& Builder::append(ItemKind kind, int32_t line) {
    if (finished_) refuse("the Program is finished");
    check_optional(line, p_.lines.size(), "line");
    auto& items = p_.bodies[open_.back().body].items;
    if (!items.empty() && items.back().kind == ItemKind::IF) refuse("an If is the last item of its body");
    Item item{};
    item.kind = kind;
    item.line = line;
    items.push_back(item);
    return items.back();
}

void Builder::op(const OpRequest& r) {
    const auto& rows = op_rows();
    if (!inside(r.row, rows.size())) refuse("unknown operation row " + std::to_string(r.row));
    const OpRow& row = rows[r.row];
    const uint8_t code = find_opcode(row.kernel);
    if (code == NO_OPCODE) refuse("operation `" + row.name + "` has no executor kernel");
    const OpcodeInfo& k = info(static_cast<Opcode>(code));
    const auto n_ins = static_cast<int64_t>(r.ins.size());
    if (n_ins < k.min_ins || n_ins > k.max_ins || static_cast<int64_t>(r.outs.size()) != k.outs ||
        static_cast<int64_t>(r.ints.size()) < k.min_ints || static_cast<int64_t>(r.floats.size()) < k.min_floats ||
        static_cast<int64_t>(r.scalars.size()) < k.min_scalars)
        refuse("operation `" + row.name + "`: wrong number of operands or attributes for kernel `" + row.kernel + "`");
    check_tensors(r.outs);
    check_tensors(r.ins);
    check_exprs(r.scalars);
    check_optional(r.tile, p_.tiles.size(), "tile");
    check_optional(r.options, p_.options.size(), "options");
    check_optional(r.label, p_.labels.size(), "label");
    for (const Id t : r.outs) {
        if (p_.tensors[t].kind == TensorKind::ARG) refuse("operation `" + row.name +
            "`: an argument is written by assemble only");
        for (const Id s : r.ins)
            if (s == t) refuse("operation `" + row.name + "`: its result must be a new tensor");
    }
    Item& item = append(ItemKind::OP, r.line);
    item.a = static_cast<Id>(p_.ops.size());
    Op op{};
    op.row = r.row;
    op.opcode = code;
    op.outs = ids(r.outs);
    op.ins = ids(r.ins);
    op.scalars = ids(r.scalars);
    op.ints = {static_cast<int32_t>(p_.ints.size()), static_cast<int32_t>(r.ints.size())};
    p_.ints.insert(p_.ints.end(), r.ints.begin(), r.ints.end());
    op.floats = {static_cast<int32_t>(p_.floats.size()), static_cast<int32_t>(r.floats.size())};
    p_.floats.insert(p_.floats.end(), r.floats.begin(), r.floats.end());
    op.tile = r.tile;
    op.options = r.options;
    op.label = r.label;
    legaliser_.op(p_, op);
    p_.ops.push_back(op);
    if (static_cast<Opcode>(code) == Opcode::RESHAPE && r.ints.size() > 1 && r.ints[1]) {
        const TensorInfo& x = p_.tensors[r.ins[0]];
        p_.tensors[r.outs[0]].alias = x.kind == TensorKind::ARG ? r.ins[0] : x.alias;
    }
}

void Builder::decl(Id t, int32_t line) {
    check_tensor(t);
    if (p_.tensors[t].kind == TensorKind::ARG) refuse("an argument is not declared");
    append(ItemKind::DECL, line).a = t;
    legaliser_.written(t);
}

void Builder::set(Id dst, Id src, int32_t line) {
    check_tensors({dst, src});
    if (p_.tensors[dst].kind == TensorKind::ARG) refuse("set writes a local; an argument is written by assemble");
    Item& item = append(ItemKind::SET, line);
    item.a = dst;
    item.b = src;
    legaliser_.written(dst);
}

void Builder::assemble(Id dst, Id src, const std::vector<Id>& offsets, int32_t line, bool in_place) {
    check_tensors({dst, src});
    check_exprs(offsets);
    if (offsets.size() > MAX_RANK) refuse("assemble: too many offsets");
    Item& item = append(ItemKind::ASSEMBLE, line);
    item.a = dst;
    item.b = src;
    item.span = ids(offsets);
    item.in_place = in_place;
    legaliser_.written(dst);
}

void Builder::load(Id slot, Id t, const std::vector<Id>& index, int32_t line) {
    check_slot(slot);
    check_tensor(t);
    check_exprs(index);
    Item& item = append(ItemKind::LOAD, line);
    item.a = slot;
    item.b = t;
    item.span = ids(index);
}

void Builder::store(Id t, Id value, const std::vector<Id>& index, int32_t line) {
    check_tensor(t);
    check_exprs(index);
    check_exprs({value});
    Item& item = append(ItemKind::STORE, line);
    item.a = t;
    item.b = value;
    item.span = ids(index);
    legaliser_.written(t);
}

void Builder::held(const std::vector<Id>& tensors) {
    check_tensors(tensors);
    Body& body = p_.bodies[open_.back().body];
    body.held.push_back({static_cast<int32_t>(body.items.size()), ids(tensors)});
}

void Builder::block() {
    append(ItemKind::BLOCK, NONE);
    legaliser_.new_block();
}

void Builder::begin_loop(const LoopRequest& r) {
    check_slot(r.slot);
    check_exprs({r.start, r.stop, r.step});
    Item& item = append(ItemKind::LOOP, r.line);
    item.a = r.slot;
    item.span = ids({r.start, r.stop, r.step});
    item.parallel = r.parallel;
    item.submit_before = r.submit_before;
    item.unroll = {static_cast<int32_t>(p_.ints.size()), static_cast<int32_t>(r.unroll.size())};
    p_.ints.insert(p_.ints.end(), r.unroll.begin(), r.unroll.end());
    const Id body = static_cast<Id>(p_.bodies.size());
    item.b = body;
    new_body();
    open_.push_back({Open::LOOP, body, NONE});
    legaliser_.new_block();
}

void Builder::end_loop() {
    if (open_.back().kind != Open::LOOP) refuse("end_loop without begin_loop");
    open_.pop_back();
    legaliser_.new_block();
}

void Builder::begin_if(Id cond, int32_t line) {
    check_exprs({cond});
    Item& item = append(ItemKind::IF, line);
    item.a = cond;
    const Id then_body = static_cast<Id>(p_.bodies.size());
    item.b = then_body;
    item.c = then_body + 1;
    new_body();
    new_body();
    open_.push_back({Open::THEN, then_body, then_body + 1});
}

void Builder::begin_else() {
    if (open_.back().kind != Open::THEN) refuse("begin_else without begin_if");
    open_.back().kind = Open::ELSE;
    open_.back().body = open_.back().else_body;
}

void Builder::end_if() {
    if (open_.back().kind != Open::THEN && open_.back().kind != Open::ELSE) refuse("end_if without begin_if");
    open_.pop_back();
}

void Builder::trap(int32_t number, int32_t line) { append(ItemKind::TRAP, line).a = number; }

void Builder::mark_lone_writes(Id body, std::unordered_map<Id, Item*> block) {
    for (Item& item : p_.bodies[body].items) {
        switch (item.kind) {
            case ItemKind::ASSEMBLE: {
                const Id alias = p_.tensors[item.a].alias;
                const auto [first, fresh] = block.try_emplace(alias == NONE ? item.a : alias, &item);
                item.alone = fresh;
                if (!fresh) first->second->alone = false;
                break;
            }
            case ItemKind::IF:                           // the last item of its body
                mark_lone_writes(item.b, block);
                mark_lone_writes(item.c, block);
                break;
            case ItemKind::LOOP:
                mark_lone_writes(item.b, {});
                block.clear();
                break;
            case ItemKind::BLOCK: block.clear(); break;
            default: break;
        }
    }
}

void Builder::finish() {
    if (open_.size() != 1) refuse("finish: a loop or an If is still open");
    if (finished_) return;
    legalise(p_);
    mark_lone_writes(0, {});
    finished_ = true;
}

}  // namespace npu
