// Machine: control flow, and the items that are not operations.
#include <algorithm>
#include <cstring>

#include "npu_core/numeric/machine.h"
#include "npu_core/program/listing.h"

namespace npu {

void Machine::run_body(const Schedule& s, Id body) {
    for (;;) {
        const BodySchedule& plan = s.bodies[body];
        const auto& items = p_.bodies[body].items;
        const bool frees = !options_.keep;
        const bool fuses = options_.fuse && frees && options_.poison != Poison::TRACE;
        const auto bury = [&](Span dead) {
            for (int i = 0; i < dead.count; ++i) env_.release(s.ids[dead.begin + i]);
        };
        if (frees) bury(plan.dead_at_entry);
        // an If is the last item: continue in its branch without recursion
        Id next = NONE;
        const std::vector<Step>& steps = fuses ? plan.fused : plan.plain;
        for (size_t at = 0; at < steps.size(); ++at) {
            const Step& step = steps[at];
            patience_.check();
            const Item& item = items[step.item];
            item_ = &item;
            following_ = at + 1 < steps.size() && steps[at + 1].group == NONE ? &items[steps[at + 1].item] : nullptr;
            if (step.group != NONE) {
                const Item* assemble = step.assemble == NONE ? nullptr : &items[step.assemble];
                if (!run_group(s.groups[step.group], nullptr, assemble)) {
                    following_ = nullptr;
                    for (const int32_t k : s.group_items[step.group]) {
                        item_ = &items[k];
                        run_item(*item_);
                    }
                    if (assemble) run_item(*(item_ = assemble));
                }
            } else if (item.kind == ItemKind::IF) {
                next = eval(item.a) ? item.b : item.c;
            } else if (item.kind == ItemKind::LOOP) {
                const Id* bounds = p_.id_at(item.span);
                const int64_t start = eval(bounds[0]), stop = eval(bounds[1]), stride = eval(bounds[2]);
                if (stride <= 0) fail("loop.step", "a loop needs a positive step, not " + std::to_string(stride));
                if (item.parallel) conflicts_.enter(item.line);
                for (int64_t i = start; i < stop; i += stride) {
                    patience_.check();
                    scalars_[item.a] = i;
                    conflicts_.new_block();
                    if (item.parallel) conflicts_.next_iteration(i);
                    run_body(s, item.b);
                    if (i > INT64_MAX - stride) break;
                }
                conflicts_.new_block();
                item_ = &item;
                if (item.parallel) leave_parallel();
            } else {
                run_item(item);
            }
            if (frees) bury(step.dead);
        }
        if (next == NONE) return;
        body = next;
    }
}

void Machine::run_item(const Item& item) {
    switch (item.kind) {
        case ItemKind::OP: return run_op(p_.ops[item.a]);
        case ItemKind::DECL:
            env_.release(item.a);
            env_[item.a].state = State::DECLARED;
            return;
        case ItemKind::SET: return set(item);
        case ItemKind::ASSEMBLE: {
            Shape offset;
            offset.rank = item.span.count;
            for (int i = 0; i < item.span.count; ++i) offset[i] = eval(p_.ids[item.span.begin + i]);
            return assemble(item.a, item.b, offset);
        }
        case ItemKind::LOAD: return load(item);
        case ItemKind::STORE: return store(item);
        case ItemKind::TRAP: throw TrapSignal{item.a};
        case ItemKind::BLOCK: return conflicts_.new_block();
        case ItemKind::IF:
        case ItemKind::LOOP: return;
    }
}

// The next version of a local: the source's storage, shared. Its fp32 twin is not carried over (legalise never reads
// it).
void Machine::set(const Item& item) {
    Value& s = ready(item.b);
    narrow(s);
    if (item.a == item.b) return;
    Value copy = s;
    copy.through = false;
    copy.wide.reset();
    Value& d = env_[item.a];
    d = std::move(copy);
    if (d.region >= 0) note_alias(item.a);
}

// Where an element (inside the shape) is in a contiguous array.
int64_t Machine::dense_offset(const Item& item, const Value& v) const {
    const Strides dense = dense_strides(v.shape);
    int64_t o = 0;
    for (int i = 0; i < item.span.count; ++i) o += std::clamp<int64_t>(eval(p_.ids[item.span.begin + i]), 0,
        v.shape[i] - 1) * dense[i];
    return o;
}

int64_t Machine::element_index(const Item& item, const Value& v, Id t, bool write) {
    require(item.span.count == v.shape.rank, "an element index has another rank than its tensor");
    int64_t o = 0;
    for (int i = 0; i < item.span.count; ++i) {
        int64_t at = eval(p_.ids[item.span.begin + i]);
        if (at < 0 || at >= v.shape[i]) {
            const std::string text = std::string(write ? "write" : "read") + " of element " + std::to_string(at) +
                " on axis " + std::to_string(i) +
                                     " of " + tensor_text(p_, t) + ", which has length " + std::to_string(v.shape[i]);
            if (!options_.clamp_elements || write || v.shape[i] == 0) fail("element.past_end", text);
            warn("element.past_end", [&] { return text; });
            at = std::clamp<int64_t>(at, 0, v.shape[i] - 1);
        }
        if (at >= v.valid[i]) {
            require(!write, "an element write outside the valid box");
            return -1;
        }
        o += at * v.stride[i];
    }
    return o;
}

void Machine::load(const Item& item) {
    Value& v = ready(item.b);
    if (is_float(v.dtype)) fail("element.dtype", "an element of " + tensor_text(p_,
        item.b) + " is read as a scalar: integers only");
    const int64_t o = element_index(item, v, item.b, false);
    int64_t value;
    const char* p = v.data;
    char poison[8];
    const auto undefined = [&] { return "reads an undefined element of " + tensor_text(p_, item.b) + " as a scalar"; };
    if (options_.poison != Poison::TRACE) {
        if (o < 0 || v.pieces) note_candidate(nullptr, 0, undefined);
    } else if (o < 0 || (v.taint && v.taint.data()[dense_offset(item, v)])) {
        candidates_.push_back({"element", current_line(), undefined()});
    }
    if (conflicts_.in_parallel() && v.through) {
        Shape at, one;
        at.rank = one.rank = item.span.count;
        for (int i = 0; i < at.rank; ++i) at[i] = eval(p_.ids[item.span.begin + i]), one[i] = 1;
        note_read(item.b, v, at, one);
    }
    if (o < 0) {
        fill_poison(v.dtype, poison, 1);
        p = poison;
    } else {
        p += o * dtype_size_bytes(v.dtype);
    }
    switch (v.dtype) {
        case DType::I8: { int8_t x; std::memcpy(&x, p, 1); value = x; break; }
        case DType::I16: { int16_t x; std::memcpy(&x, p, 2); value = x; break; }
        case DType::I32: { int32_t x; std::memcpy(&x, p, 4); value = x; break; }
        case DType::U8:
        case DType::BOOL: { uint8_t x; std::memcpy(&x, p, 1); value = x; break; }
        case DType::U16: { uint16_t x; std::memcpy(&x, p, 2); value = x; break; }
        case DType::U32: { uint32_t x; std::memcpy(&x, p, 4); value = x; break; }
        default: std::memcpy(&value, p, 8);
    }
    scalars_[item.a] = value;
}

void Machine::store(const Item& item) {
    const int64_t number = eval(item.b);
    const DType dtype = tensor(item.a).dtype;
    if (is_float(dtype)) fail("element.dtype", "an element of " + tensor_text(p_,
        item.a) + " is written: integers only");
    Shape one;
    one.rank = item.span.count;
    for (int i = 0; i < one.rank; ++i) one[i] = 1;
    Value& d = env_[item.a];
    Value shape_only;                                   // bounds are checked before anything changes
    shape_only.shape = shape_only.valid = d.state == State::READY ? d.shape : tensor(item.a).shape;
    shape_only.stride = dense_strides(shape_only.shape);
    element_index(item, shape_only, item.a, true);
    Shape offset = one;
    for (int i = 0; i < one.rank; ++i) offset[i] = eval(p_.ids[item.span.begin + i]);
    Value s;
    s.state = State::READY;
    s.dtype = DType::I64;
    s.shape = s.valid = one;
    s.stride = dense_strides(one);
    s.data = reinterpret_cast<const char*>(&number);
    if (conflicts_.in_parallel() && d.state == State::READY && d.through) note_write(item.a, d, offset, one, false);
    if (d.state == State::READY && (tensor(item.a).kind == TensorKind::ARG || d.through)) assemble_into_argument(d,
        item.a, s, offset, one);
    else assemble_into_local(d, item.a, s, offset, one);
}

}  // namespace npu
