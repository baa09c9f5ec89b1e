#include "npu_core/program/legalise.h"

#include "npu_core/program/opcodes.h"

namespace npu {

namespace {

bool computes_in_fp32(const Program& p, const Op& op, DType t) {
    if (op.opcode == static_cast<uint8_t>(Opcode::CAST)) return false;  // a cast is a rounding point
    const OpRow& row = op_rows()[op.row];
    if (t == DType::BF16) return !row.bf16_arith;
    if (t == DType::F16) return !row.fp16_arith && p.numerics != Numerics::V0_2_0;
    return false;
}

}  // namespace

void Legaliser::mark(Id tensor, int32_t block) {
    if (static_cast<size_t>(tensor) >= twin_block_.size()) twin_block_.resize(tensor + 1, 0);
    if (branch_depth_) undo_.push_back({tensor, twin_block_[tensor]});
    twin_block_[tensor] = block;
}

void Legaliser::forget(Id tensor) {
    if (static_cast<size_t>(tensor) < twin_block_.size() && twin_block_[tensor]) mark(tensor, 0);
}

void Legaliser::op(Program& p, Op& op) {
    op.wide_ins = 0;
    op.wide_out = false;
    const Id* ins = p.id_at(op.ins);
    for (int i = 0; i < op.ins.count && i < 32; ++i) {
        const Id t = ins[i];
        if (static_cast<size_t>(t) < twin_block_.size() && twin_block_[t] == block_ &&
            computes_in_fp32(p, op, p.tensors[t].dtype))
            op.wide_ins |= 1u << i;
    }
    const Id* outs = p.id_at(op.outs);
    for (int i = 0; i < op.outs.count; ++i) {
        const Id t = outs[i];
        if (computes_in_fp32(p, op, p.tensors[t].dtype)) {
            op.wide_out = true;
            mark(t, block_);
        } else {
            forget(t);
        }
    }
}

void Legaliser::body(Program& p, Id body) {
    for (const Item& item : p.bodies[body].items) {
        switch (item.kind) {
            case ItemKind::OP: op(p, p.ops[item.a]); break;
            case ItemKind::DECL:
            case ItemKind::SET:
            case ItemKind::ASSEMBLE:
            case ItemKind::STORE: written(item.a); break;
            case ItemKind::BLOCK: new_block(); break;
            case ItemKind::LOOP:
                new_block();
                this->body(p, item.b);
                new_block();
                break;
            case ItemKind::IF: {  // both branches continue this block
                const int32_t block = block_;
                ++branch_depth_;
                for (const Id branch : {item.b, item.c}) {
                    const size_t mark_of_undo = undo_.size();
                    block_ = block;
                    this->body(p, branch);
                    while (undo_.size() > mark_of_undo) {
                        twin_block_[undo_.back().tensor] = undo_.back().block;
                        undo_.pop_back();
                    }
                }
                --branch_depth_;
                break;
            }
            case ItemKind::LOAD:
            case ItemKind::TRAP: break;
        }
    }
}

void legalise(Program& p) {
    Legaliser l;
    if (!p.bodies.empty()) l.body(p, 0);
}

}  // namespace npu
