#include "npu_core/numeric/group.h"

#include <algorithm>

#include "npu_core/base/fault.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/functions.h"

namespace npu {

namespace {

double ns_of(Opcode code) {
    switch (code) {
        case Opcode::EXP:
        case Opcode::LOG: return 0.6;
        case Opcode::TANH:
        case Opcode::ERF: return 1.2;
        case Opcode::DIV:
        case Opcode::DIVS:
        case Opcode::RDIVS:
        case Opcode::RECIPROCAL:
        case Opcode::SQRT: return 0.3;
        default: break;
    }
    const bool function = (code > Opcode::ROUND && code < Opcode::ADD) || (code > Opcode::MINIMUM &&
        code < Opcode::ADDS) ||
                          (code > Opcode::RDIVS && code < Opcode::EQ);
    return function ? 12.0 : 0.2;
}

Opcode base_of_scalar(Opcode code) {
    if (const Opcode base = function_of_scalar_form(code); base != Opcode::COUNT) return base;
    switch (code) {
        case Opcode::ADDS: return Opcode::ADD;
        case Opcode::SUBS:
        case Opcode::RSUBS: return Opcode::SUB;
        case Opcode::MULS: return Opcode::MUL;
        case Opcode::DIVS:
        case Opcode::RDIVS: return Opcode::DIV;
        case Opcode::MAXS: return Opcode::MAXIMUM;
        case Opcode::MINS: return Opcode::MINIMUM;
        default: return static_cast<Opcode>(static_cast<int>(Opcode::EQ) +
            static_cast<int>(code) - static_cast<int>(Opcode::EQS));
    }
}

}  // namespace

Shape result_box(const Shape& out, const Shape* const* shapes, const Shape* const* valids, int count) {
    Shape box = out;
    for (int axis = 0; axis < out.rank; ++axis)
        for (int k = 0; k < count; ++k) {
            const int own = axis - (out.rank - shapes[k]->rank);
            if (own < 0 || (*shapes[k])[own] != out[axis]) continue;
            box[axis] = (*valids[k])[own];
            break;
        }
    return box;
}

int GroupBuilder::find(Id tensor) const {
    for (size_t i = made_.size(); i-- > 0;)
        if (made_[i].tensor == tensor) return static_cast<int>(i);
    return -1;
}

int16_t GroupBuilder::new_register(DType type) {
    g_.registers.push_back({type, -1, -1});
    return static_cast<int16_t>(g_.registers.size() - 1);
}

int16_t GroupBuilder::exec(RowFn fn, DType type, int16_t a, int16_t b, int16_t c, uint64_t constant) {
    const int16_t y = new_register(type);
    g_.code.push_back({Group::Kind::EXEC, y, a, b, c, fn, constant});
    return y;
}

int16_t GroupBuilder::operand(const Op& op, int i, Group::Result& result) {
    const Id t = p_->id_at(op.ins)[i];
    const bool wide = i < 32 && (op.wide_ins >> i & 1);
    if (const int m = find(t); m >= 0) {
        Made& made = made_[m];
        result.in[result.count++] = static_cast<int16_t>(~m);
        if (!is_half(made.dtype) || (made.wide && wide)) return made.raw;
        if (made.rounded < 0) made.rounded = exec(round_row(made.dtype), DType::F32, made.raw);
        return made.rounded;
    }
    for (size_t k = 0; k < g_.loads.size(); ++k)
        if (g_.loads[k].tensor == t && g_.loads[k].wide == wide) {
            result.in[result.count++] = static_cast<int16_t>(k);
            return g_.loads[k].reg;
        }
    const TensorType type = type_of_(t);
    const DType stored = wide && is_half(type.dtype) ? DType::F32 : type.dtype;
    const int16_t reg = new_register(register_type(stored));
    result.in[result.count++] = static_cast<int16_t>(g_.loads.size());
    g_.code.push_back({Group::Kind::LOAD, static_cast<int16_t>(g_.loads.size())});
    g_.loads.push_back({t, wide, type.dtype, stored, type.shape, reg});
    return reg;
}

int16_t GroupBuilder::immediate(const Op& op, DType type, int int_index, int float_index, bool symbolic) {
    const int16_t reg = new_register(type);
    Group::Immediate imm{reg, 0, 0, NONE};
    if (symbolic && op.scalars.count > 0) imm.expr = p_->id_at(op.scalars)[0];
    if (op.ints.count > int_index) imm.i = p_->ints[op.ints.begin + int_index];
    if (op.floats.count > float_index) imm.f = p_->floats[op.floats.begin + float_index];
    g_.immediates.push_back(imm);
    return reg;
}

int16_t GroupBuilder::converted(int16_t reg, DType type) {
    const DType from = g_.registers[reg].type;
    if (from == type) return reg;
    return exec(convert_row(), type, reg, -1, -1, pack_cast(from, type, static_cast<int>(CastMode::NONE), false));
}

int16_t GroupBuilder::truth(int16_t reg) { return converted(reg, DType::BOOL); }

int16_t GroupBuilder::compute_cast(const Op& op, Group::Result& result, DType out) {
    const int16_t x = operand(op, 0, result);
    const DType from = type_of_(p_->id_at(op.ins)[0]).dtype;
    const int mode = static_cast<int>(p_->ints[op.ints.begin]);
    const bool saturate = p_->ints[op.ints.begin + 1] != 0;
    if (mode < 0 || mode > static_cast<int>(CastMode::ODD)) fail("internal", "unknown cast mode");
    const bool nearest = mode == static_cast<int>(CastMode::NONE) || mode == static_cast<int>(CastMode::RINT);
    // The register of a half operand holds its exact value in fp32; a half result is rounded where it is read or
    // stored.
    const bool plain = is_float(from) && from != DType::F64 && is_float(out) && out != DType::F64 && nearest;
    if (plain && (out == DType::F32 || !saturate)) return x;
    if (from == out && nearest) return x;
    const DType reg_from = register_type(from);
    if (from == out) {  // to integral values; a half stays representable
        return exec(convert_row(), reg_from, x, -1, -1, pack_cast(reg_from, reg_from, mode, saturate));
    }
    return exec(convert_row(), register_type(out), x, -1, -1, pack_cast(reg_from, out, mode, saturate));
}

int16_t GroupBuilder::compute(const Op& op, Group::Result& result, DType out) {
    const Opcode code = static_cast<Opcode>(op.opcode);
    const DType reg_out = register_type(out);
    RowFn fn = nullptr;
    switch (info(code).family) {
        case Family::UNARY: {
            fn = unary_row(code, reg_out);
            if (!fn) return -1;
            return exec(fn, reg_out, converted(operand(op, 0, result), reg_out));
        }
        case Family::BINARY: {
            fn = binary_row(code, reg_out);
            if (!fn) return -1;
            const int16_t a = converted(operand(op, 0, result), reg_out), b = converted(operand(op, 1, result),
                reg_out);
            return exec(fn, reg_out, a, b);
        }
        case Family::SCALAR: {
            fn = binary_row(base_of_scalar(code), reg_out);
            if (!fn) return -1;
            const int16_t x = converted(operand(op, 0, result), reg_out), s = immediate(op, reg_out, 0, 0, true);
            const bool reversed = scalar_comes_first(code);
            return exec(fn, reg_out, reversed ? s : x, reversed ? x : s);
        }
        case Family::COMPARE: {
            int16_t a = operand(op, 0, result), b = operand(op, 1, result);
            const DType ta = g_.registers[a].type, tb = g_.registers[b].type;
            const DType common = ta == tb ? ta : is_float(ta) || is_float(tb) ? (ta == DType::F64 ||
                tb == DType::F64 ? DType::F64 : DType::F32) : DType::I64;
            fn = compare_row(code, common);
            if (!fn) return -1;
            a = converted(a, common);
            b = converted(b, common);
            return exec(fn, DType::BOOL, a, b);
        }
        case Family::COMPARE_SCALAR: {
            const int16_t a = operand(op, 0, result);
            const DType type = g_.registers[a].type;
            fn = compare_row(base_of_scalar(code), type);
            if (!fn) return -1;
            return exec(fn, DType::BOOL, a, immediate(op, type, 0, 0, true));
        }
        case Family::LOGICAL: {
            const int16_t a = truth(operand(op, 0, result));
            if (code == Opcode::LOGICAL_NOT) return exec(logical_row(code), DType::BOOL, a);
            return exec(logical_row(code), DType::BOOL, a, truth(operand(op, 1, result)));
        }
        case Family::WHERE: {
            fn = select_row(reg_out);
            if (!fn) return -1;
            const bool a_scalar = p_->ints[op.ints.begin] != 0, b_scalar = p_->ints[op.ints.begin + 1] != 0;
            if (op.ins.count != 3 - a_scalar - b_scalar) fail("internal",
                "where: number of tensors and scalars disagree");
            const int16_t cond = truth(operand(op, 0, result));
            const int16_t a = a_scalar ? immediate(op, reg_out, 2, 0, false) : converted(operand(op, 1, result),
                reg_out);
            const int16_t b = b_scalar ? immediate(op, reg_out, 3, 1, false) : converted(operand(op,
                a_scalar ? 1 : 2, result), reg_out);
            return exec(fn, reg_out, cond, a, b);
        }
        case Family::CAST: return compute_cast(op, result, out);
        default: return -1;
    }
}

bool GroupBuilder::add(int32_t op_index) {
    const Op& op = p_->ops[op_index];
    const Id t = p_->id_at(op.outs)[0];
    const TensorType out = type_of_(t);
    const auto broadcasts = [&](const Shape& s) {
        if (s.rank > out.shape.rank) return false;
        for (int i = 0; i < s.rank; ++i)
            if (s[i] != out.shape[out.shape.rank - s.rank + i] && s[i] != 1) return false;
        return true;
    };
    for (int i = 0; i < op.ins.count; ++i)
        if (!broadcasts(type_of_(p_->id_at(op.ins)[i]).shape))
            fail("internal",
                "operation `" + op_rows()[op.row].name + "`: shapes " +
                to_text(type_of_(p_->id_at(op.ins)[i]).shape) + " and " +
                                 to_text(out.shape) + " do not broadcast");
    if (!empty()) {
        const bool loaded = std::any_of(g_.loads.begin(), g_.loads.end(),
            [&](const Group::Load& l) { return l.tensor == t; });
        if (!(out.shape == g_.space) || find(t) >= 0 || loaded) return false;
        if (g_.loads.size() + op.ins.count > MOST_LOADS || g_.results.size() + 1 > MOST_STORES ||
            g_.registers.size() + 8 > MOST_REGISTERS) return false;
    }
    g_.space = out.shape;
    Group::Result result{op_index, out.dtype};
    const int16_t reg = compute(op, result, out.dtype);
    if (reg < 0) fail("dtype",
        "operation `" + op_rows()[op.row].name + "` is not defined for " + dtype_name(out.dtype));
    made_.push_back({t, out.dtype, op.wide_out, reg, -1});
    g_.results.push_back(result);
    g_.ns_per_element += ns_of(static_cast<Opcode>(op.opcode));
    return true;
}

Group GroupBuilder::finish(const std::function<Wanted(Id, const Op&)>& wanted) {
    // A store goes right behind the code that makes its register.
    const auto insert_store = [&](Group::Store s) {
        const auto index = static_cast<int16_t>(g_.stores.size());
        g_.stores.push_back(s);
        size_t at = g_.code.size();
        for (size_t i = 0; i < g_.code.size(); ++i) {
            const Group::Code& c = g_.code[i];
            if ((c.kind == Group::Kind::EXEC && c.y == s.reg) || (c.kind == Group::Kind::LOAD &&
                g_.loads[c.y].reg == s.reg)) {
                at = i + 1;
                if (c.kind == Group::Kind::EXEC && g_.registers[s.reg].direct < 0 &&
                    s.dtype == g_.registers[s.reg].type) g_.registers[s.reg].direct = index;
                break;
            }
        }
        g_.code.insert(g_.code.begin() + static_cast<ptrdiff_t>(at), Group::Code{Group::Kind::STORE, index});
    };
    for (size_t i = 0; i < made_.size(); ++i) {
        const Made& m = made_[i];
        const bool twin = m.wide && is_half(m.dtype);
        const Wanted w = wanted(m.tensor, p_->ops[g_.results[i].op]);
        if (twin && w.wide) insert_store({m.tensor, true, m.dtype, DType::F32, m.raw});
        if (w.narrow || (w.wide && !twin)) insert_store({m.tensor, false, m.dtype, m.dtype, m.raw});
    }
    assign_slots();
    return std::move(g_);
}

// Registers share slots once their last reader is past.
void GroupBuilder::assign_slots() {
    std::vector<int> last(g_.registers.size(), -1);
    for (size_t i = 0; i < g_.code.size(); ++i) {
        const Group::Code& c = g_.code[i];
        const auto used = [&](int16_t r) {
            if (r >= 0) last[r] = static_cast<int>(i);
        };
        if (c.kind == Group::Kind::LOAD) used(g_.loads[c.y].reg);
        else if (c.kind == Group::Kind::STORE) used(g_.stores[c.y].reg);
        else used(c.y), used(c.a), used(c.b), used(c.c);
    }
    std::vector<int16_t> free;
    const auto take = [&](int16_t reg) {
        if (free.empty()) free.push_back(static_cast<int16_t>(g_.slots++));
        g_.registers[reg].slot = free.back();
        free.pop_back();
    };
    for (size_t i = 0; i < g_.code.size(); ++i) {
        const Group::Code& c = g_.code[i];
        if (c.kind == Group::Kind::LOAD) take(g_.loads[c.y].reg);
        else if (c.kind == Group::Kind::EXEC) take(c.y);
        for (size_t r = 0; r < last.size(); ++r)
            if (last[r] == static_cast<int>(i) && g_.registers[r].slot >= 0) free.push_back(g_.registers[r].slot);
    }
}

}  // namespace npu
