#include "npu_core/program/control.h"

#include <cstring>

#include "npu_core/program/evaluate.h"

namespace npu {

namespace {

// Element `index` of integer data of this type; none for other types.
std::optional<int64_t> element(const uint8_t* data, int64_t index, DType type) {
    const uint8_t* at = data + index * dtype_size_bytes(type);
    auto get = [at]<typename T>(T) {
        T v;
        std::memcpy(&v, at, sizeof v);
        return static_cast<int64_t>(v);
    };
    switch (type) {
        case DType::I8: return get(int8_t{});
        case DType::I16: return get(int16_t{});
        case DType::I32: return get(int32_t{});
        case DType::I64: return get(int64_t{});
        case DType::U8: case DType::BOOL: return get(uint8_t{});
        case DType::U16: return get(uint16_t{});
        case DType::U32: return get(uint32_t{});
        case DType::U64: return get(uint64_t{});
        default: return std::nullopt;
    }
}

}  // namespace

ControlScalars::ControlScalars(const Program& program, const std::vector<IntData>& data, const std::vector<Assumed>& assume,
                               std::set<std::string>& assumptions)
    : p_(program), data_(data), assume_(assume), assumptions_(assumptions), slots_(static_cast<size_t>(program.scalar_slots)),
      slot_name_(static_cast<size_t>(program.scalar_slots)), written_(program.tensors.size(), 0),
      has_loop_(program.bodies.size(), -1), constant_(program.exprs.size(), -1) {}

ControlScalars::Scalar ControlScalars::value_of(Id e) const {
    const Expr& x = p_.exprs[e];
    switch (x.op) {
        case ExprOp::CONST: return {x.value, true};
        case ExprOp::INDEX: case ExprOp::LOAD: return slots_[static_cast<size_t>(x.value)];
        default: break;
    }
    const Scalar a = value_of(x.a), b = x.b == NONE ? Scalar{0, true} : value_of(x.b);
    if (!a.known || !b.known) return {};
    return evaluate(x.op, a, b);
}

ControlScalars::Scalar ControlScalars::eval(Id e) {
    const Scalar s = value_of(e);
    alike_ = std::min(alike_, s.blocks);
    return s;
}

bool ControlScalars::constant(Id e) {
    if (constant_[e] >= 0) return constant_[e];
    const Expr x = p_.exprs[e];
    bool is = x.op != ExprOp::INDEX && x.op != ExprOp::LOAD;
    if (is && x.op != ExprOp::CONST) is = constant(x.a) && (x.b == NONE || constant(x.b));
    constant_[e] = is;
    return is;
}

// First unknown scalar of an expression, for messages.
std::string ControlScalars::culprit(Id e) const {
    const Expr& x = p_.exprs[e];
    if (x.op == ExprOp::LOAD || x.op == ExprOp::INDEX)
        return slots_[static_cast<size_t>(x.value)].known ? "" : slot_name_[static_cast<size_t>(x.value)];
    std::string name = x.a == NONE ? "" : culprit(x.a);
    return !name.empty() || x.b == NONE ? name : culprit(x.b);
}

std::optional<ControlScalars::Scalar> ControlScalars::assumed(const std::string& name, const std::string& line) {
    const std::string number = line.substr(line.rfind(':') + 1), bare = name.substr(0, name.find('['));
    for (const Assumed& a : assume_) {
        if (a.key != name && a.key != bare && a.key != line && a.key != number) continue;
        const int64_t value = a.low + (a.high - a.low) / 2;
        assumptions_.insert((name.empty() ? line : name) + " = " + std::to_string(value) +
                            (a.low == a.high ? " (given)" : " (middle of the given range)"));
        return Scalar{value, true};
    }
    return std::nullopt;
}

int64_t ControlScalars::must(Id e, const Item& item, const char* what) {
    const Scalar s = eval(e);
    if (s.slope != 0) alike_ = 0;
    if (s.known) return s.value;
    const std::string name = culprit(e), line = line_of(item);
    if (auto a = assumed(name, line)) return a->value;
    if (outside_.count(name))
        throw NeedsDataFault(std::string(what) + " depends on " + name + ", which is outside of the argument", line);
    throw NeedsDataFault(std::string(what) + " depends on " + (name.empty() ? "a value computed in the kernel" : name) +
                         ", whose value is not known in a cost-only run; pass the argument's data, or assume={\"" +
                         (name.empty() ? line : name) + "\": value}", line);
}

void ControlScalars::set_index(Id slot, int64_t value, int64_t slope) {
    slots_[static_cast<size_t>(slot)] = affine::line(value, slope);
    slot_name_[static_cast<size_t>(slot)] = "loop index";
}

void ControlScalars::load(const Item& item) {
    const size_t slot = static_cast<size_t>(item.a);
    const TensorInfo& t = p_.tensors[item.b];
    std::string name = (t.name.empty() ? "tensor" : t.name) + "[";
    const Id memory = memory_of(item.b);
    const int argument = p_.tensors[memory].arg_index;
    bool known = argument >= 0 && !written_[memory];
    int64_t index = 0;
    bool moves = false, outside = false;
    for (int i = 0; i < item.span.count; ++i) {
        const Scalar s = eval(p_.id_at(item.span)[i]);
        name += (i ? ", " : "") + (s.known ? std::to_string(s.value) : std::string("?"));
        moves = moves || s.slope != 0;
        const bool inside = s.value >= 0 && s.value < t.shape[i];
        outside = outside || (s.known && !inside);
        known = known && s.known && inside;
        if (known) index = index * t.shape[i] + s.value;
    }
    name += "]";
    slot_name_[slot] = name;
    if (outside) outside_.insert(name);
    slots_[slot] = {};
    if (moves && !assume_.empty()) alike_ = 0;       // other elements have other names
    if (auto a = assumed(name, line_of(item))) { slots_[slot] = *a; return; }
    const bool has_data = argument >= 0 && argument < static_cast<int>(data_.size()) && data_[static_cast<size_t>(argument)].data;
    if (moves && has_data) alike_ = 0;               // other elements may have other values
    if (!known || !has_data) return;
    const IntData& d = data_[static_cast<size_t>(argument)];
    if ( (index + 1) * dtype_size_bytes(t.dtype) > d.bytes) return;
    if (auto value = element(d.data, index, t.dtype)) slots_[slot] = {*value, true};
}

bool ControlScalars::has_loop(Id body) {
    signed char& known = has_loop_[body];
    if (known >= 0) return known;
    known = 0;
    for (const Item& item : p_.bodies[body].items) {
        if (item.kind == ItemKind::LOOP) known = 1;
        if (item.kind == ItemKind::IF && (has_loop(item.b) || has_loop(item.c))) known = 1;
    }
    return known;
}

int64_t ControlScalars::unrolled(const Item& loop, int64_t left) {
    int64_t best = 1;
    if (loop.unroll.count && !has_loop(loop.b))
        for (int i = 0; i < loop.unroll.count; ++i) {
            const int64_t factor = p_.ints[loop.unroll.begin + i];
            if (factor > best && factor <= left) best = factor;
        }
    return best;
}

}  // namespace npu
