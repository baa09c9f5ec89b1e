#include "npu_core/plan/block.h"

#include <algorithm>
#include <functional>

#include "npu_core/plan/block_builder.h"

namespace npu::plan {

Block BlockBuilder::run(const std::vector<Visit>& visits) {
    for (const Visit& v : visits) {
        item_ = v.item;
        visit_ = &v;
        switch (v.item->kind) {
            case ItemKind::OP: operation(v); break;
            case ItemKind::SET: set(v.item->a, read(v.item->b)); break;
            case ItemKind::ASSEMBLE: assemble(v); break;
            case ItemKind::DECL: current_.erase(v.item->a); open_.erase(v.item->a); declared_.insert(v.item->a); break;
            default: break;   // element loads and stores move a few bytes by the scalar unit
        }
    }
    for (Id t : dirty_order_)
        if (auto it = current_.find(t); it != current_.end()) {
            Id slot = external_out(t);
            emit({.family = Family::ASSEMBLE, .code = Code::ASSEMBLE, .in = {it->second}, .out = {slot},
                  .at = zeros(b_.tensors[slot].shape.rank)});
        }
    return std::move(b_);
}

Id BlockBuilder::external(Id t, bool out) {
    auto& known = out ? external_out_ : external_in_;
    if (auto it = known.find(t); it != known.end()) return it->second;
    Id e = NONE;
    for (size_t i = 0; i < b_.externals.size(); ++i)
        if (b_.externals[i].tensor == t) e = static_cast<Id>(i);
    if (e == NONE) {
        e = static_cast<Id>(b_.externals.size());
        b_.externals.push_back({t, p_.tensors[t].global()});
    }
    Id id = tensor(p_.tensors[t].shape, p_.tensors[t].dtype);
    b_.tensors[id].external = e;
    (out ? b_.tensors[id].fn_out : b_.tensors[id].fn_in) = true;
    return known[t] = id;
}

void BlockBuilder::emit(BlockOp op) {
    if (op.line == NONE && item_) op.line = item_->line;
    if (op_) {
        op.label = op_->label;
        op.options = op_->options;
        op.row = op_->row;
        if (op.tile.rank == 0 && op_->tile != NONE) op.tile = vec_tile(op_->tile);
    }
    b_.ops.push_back(std::move(op));
}

Shape BlockBuilder::vec_tile(Id tile) const {
    Shape s;
    for (int64_t v : p_.tiles[tile].vec)
        if (s.rank < MAX_RANK) s[s.rank++] = v;
    return s;
}

Id BlockBuilder::read(Id t) {
    open_.erase(t);
    if (auto it = current_.find(t); it != current_.end()) return it->second;
    if (auto it = view_of_in_.find(t); it != view_of_in_.end()) return it->second;
    Id from = external(t, false);
    const Shape* left = valids_.slot(t);
    Id view = tensor(shape(from), dtype(from), left ? *left : shape(from));
    emit({.family = Family::VIEW, .code = Code::VIEW, .in = {from}, .out = {view}, .at = zeros(shape(from).rank)});
    return view_of_in_[t] = view;
}

void BlockBuilder::set(Id t, Id value) {
    current_[t] = value;
    open_.erase(t);
    declared_.erase(t);
    if (crossing_.count(t) && std::find(dirty_order_.begin(), dirty_order_.end(), t) == dirty_order_.end())
        dirty_order_.push_back(t);
}

void BlockBuilder::assemble(const Visit& v) {
    op_ = nullptr;
    Id dst = item_->a, src = read(item_->b);
    Id target;
    if (p_.tensors[dst].global() || (!current_.count(dst) && !declared_.count(dst) && crossing_.count(dst))) {
        target = external_out(dst);
    } else if (auto it = open_.find(dst); it != open_.end()) {
        target = it->second;
    } else {
        target = tensor(p_.tensors[dst].shape, p_.tensors[dst].dtype);
        if (auto old = current_.find(dst); old != current_.end())
            emit({.family = Family::ASSEMBLE, .code = Code::ASSEMBLE, .in = {old->second}, .out = {target},
                  .at = zeros(shape(target).rank)});
        set(dst, target);
        open_[dst] = target;
    }
    if (dtype(src) != dtype(target)) src = cast_to(src, dtype(target));
    emit({.family = Family::ASSEMBLE, .code = Code::ASSEMBLE, .in = {src}, .out = {target}, .at = v.at, .dyn = v.dyn});
}

Id BlockBuilder::cast_to(Id x, DType to) {
    Id y = like(x, to);
    emit({.family = Family::ELEMENTWISE, .code = Code::CAST, .in = {x}, .out = {y}, .op_name = "cast"});
    return y;
}

BlockBuilder::Result BlockBuilder::result(size_t i) {
    Id t = p_.id_at(op_->outs)[i];
    const TensorInfo& info = p_.tensors[t];
    const bool widened = promotes(info.dtype);
    const Shape& valid = visit_->valid == NONE ? info.shape : valids_.shapes[visit_->valid + i];
    return {t, tensor(info.shape, widened ? DType::F32 : info.dtype, valid), widened};
}

void BlockBuilder::finish(const Result& r) {
    Id value = r.exact;
    if (r.widened) {
        value = cast_to(r.exact, p_.tensors[r.program].dtype);
        wide_[value] = r.exact;
    }
    define(r.program, value);
}

void BlockBuilder::define(Id t, Id value) {
    if (p_.tensors[t].kind == TensorKind::ARG) {
        Id out = external_out(t);
        emit({.family = Family::ASSEMBLE, .code = Code::ASSEMBLE, .in = {value}, .out = {out},
              .at = zeros(shape(out).rank)});
        return;
    }
    set(t, value);
}

std::unordered_set<Id> crossing_locals(const Program& program) {
    std::unordered_set<Id> crossing;
    std::function<void(Id, std::unordered_set<Id>)> walk = [&](Id body, std::unordered_set<Id> defined) {
        auto read = [&](Id t) {
            if (!program.tensors[t].global() && !defined.count(t)) crossing.insert(t);
        };
        for (const Item& item : program.bodies[body].items) {
            switch (item.kind) {
                case ItemKind::OP: {
                    const npu::Op& op = program.ops[item.a];
                    for (int i = 0; i < op.ins.count; ++i) read(program.id_at(op.ins)[i]);
                    for (int i = 0; i < op.outs.count; ++i) defined.insert(program.id_at(op.outs)[i]);
                    break;
                }
                case ItemKind::SET: read(item.b); defined.insert(item.a); break;
                case ItemKind::ASSEMBLE: read(item.b); break;   // partial: does not define the destination
                case ItemKind::DECL: defined.insert(item.a); break;
                case ItemKind::LOAD: case ItemKind::STORE: case ItemKind::TRAP: break;
                case ItemKind::BLOCK: defined.clear(); break;
                case ItemKind::IF: walk(item.b, defined); walk(item.c, defined); break;
                case ItemKind::LOOP: walk(item.b, {}); defined.clear(); break;
            }
        }
    };
    if (!program.bodies.empty()) walk(0, {});
    return crossing;
}

Block build_block(const Program& program, const std::vector<Visit>& visits, const Valids& valids,
                  const std::unordered_set<Id>& crossing, Numerics numerics, const Chip& chip) {
    return BlockBuilder(program, valids, crossing, numerics, chip).run(visits);
}
}  // namespace npu::plan
