// Machine: life cycle, items and control flow. Operations are in the files named after them.
#include "npu_core/numeric/machine.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

#include "npu_core/numeric/group.h"
#include "npu_core/program/listing.h"
#include "npu_core/program/opcodes.h"

namespace npu {

namespace {
struct Interrupt {};
}  // namespace

Machine::Machine(const Program& program, std::vector<ArgMemory> args, MachineOptions options)
    : p_(program), args_(std::move(args)), options_(options) {
    // Arguments that share memory form one region: a write to one is a write to all of them.
    std::vector<int> order(args_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) { return args_[a].data < args_[b].data; });
    region_of_arg_.resize(args_.size());
    const char* end = nullptr;
    int16_t region = -1;
    for (const int i : order) {
        if (region < 0 || args_[i].data >= end || args_[i].bytes == 0) ++region;
        region_of_arg_[i] = region;
        end = std::max<const char*>(end, args_[i].data + args_[i].bytes);
    }
    aliases_.resize(static_cast<size_t>(region) + 1);
    prepare();
}

Machine::~Machine() = default;

// Makes room for tensors and scalars that were added since the last call, and binds new argument tensors.
void Machine::prepare() {
    const size_t known = env_.size();
    env_.resize(p_.tensors.size());
    listed_.resize(p_.tensors.size(), 0);
    scalars_.resize(p_.scalar_slots, 0);
    measure_exprs();
    for (size_t t = known; t < p_.tensors.size(); ++t) {
        const TensorInfo& info = p_.tensors[t];
        if (info.kind != TensorKind::ARG) continue;
        if (static_cast<size_t>(info.arg_index) >= args_.size())
            fail("arg.missing", "no memory was given for argument " + std::to_string(info.arg_index));
        const ArgMemory& a = args_[info.arg_index];
        const int64_t bytes = info.shape.count() * dtype_size_bytes(info.dtype);
        if (a.bytes != bytes)
            fail("arg.size", "argument " + tensor_text(p_, static_cast<Id>(t)) + " needs " + std::to_string(bytes) + " bytes, " +
                                 std::to_string(a.bytes) + " were given");
        Value& v = env_[t];
        v.state = State::READY;
        v.dtype = info.dtype;
        v.shape = v.valid = info.shape;
        v.stride = dense_strides(info.shape);
        v.data = a.data;
        v.region = region_of_arg_[info.arg_index];
        v.through = true;                               // never a snapshot of itself
    }
}

template <class F>
Report Machine::guarded(F&& f) noexcept {
    Report r;
    try {
        f();
    } catch (const TrapSignal& t) {
        r.outcome = Outcome::TRAP;
        r.trap = t.number;
    } catch (const Interrupt&) {
        r.outcome = Outcome::INTERRUPTED;
    } catch (const Fault& e) {
        r.outcome = Outcome::FAULT;
        r.code = e.code;
        r.message = e.message;
        r.line = e.line.empty() ? current_line() : e.line;
    } catch (const std::bad_alloc&) {
        r.outcome = Outcome::FAULT;
        r.code = "memory";
        r.message = "not enough memory for a tensor";
        r.line = current_line();
    } catch (const std::exception& e) {
        r.outcome = Outcome::FAULT;
        r.code = "internal";
        r.message = e.what();
        r.line = current_line();
    }
    return r;
}

Report Machine::run(const Schedule& schedule) noexcept {
    return guarded([&] {
        prepare();
        run_body(schedule, 0);
    });
}

Report Machine::step() noexcept {
    return guarded([&] {
        prepare();
        const size_t count = p_.bodies[0].items.size();
        while (stepped_ < count) {
            step_item_ = p_.bodies[0].items[stepped_++];  // a copy: the Program may grow before it is needed for a message
            item_ = &step_item_;
            if (item_->kind == ItemKind::LOOP || item_->kind == ItemKind::IF) fail("internal", "loops and decisions cannot be stepped");
            run_item(*item_);
        }
    });
}

// Looks at the clock every few items while they are short, else after each.
void Machine::poll() {
    using namespace std::chrono_literals;
    constexpr int MOST_ITEMS = 16;
    if (!options_.interrupted || ++items_ < items_per_look_) return;
    items_ = 0;
    const auto now = std::chrono::steady_clock::now();
    if (now - asked_ < 20ms) {
        items_per_look_ = std::min(2 * items_per_look_, MOST_ITEMS);
        return;
    }
    items_per_look_ = 1;
    if (options_.interrupted()) throw Interrupt{};
    asked_ = std::chrono::steady_clock::now();
}

void Machine::run_body(const Schedule& s, Id body) {
    for (;;) {
        const BodySchedule& plan = s.bodies[body];
        const auto& items = p_.bodies[body].items;
        const bool frees = !options_.keep;
        const bool fuses = options_.fuse && frees && options_.poison != Poison::TRACE;
        const auto bury = [&](Span dead) {
            for (int i = 0; i < dead.count; ++i) env_[s.ids[dead.begin + i]].clear();
        };
        if (frees) bury(plan.dead_at_entry);
        Id next = NONE;                                 // an If is the last item: continue in its branch without recursion
        for (const Step& step : fuses ? plan.fused : plan.plain) {
            poll();
            const Item& item = items[step.item];
            item_ = &item;
            if (step.group != NONE) {
                const Item* assemble = step.assemble == NONE ? nullptr : &items[step.assemble];
                if (!run_group(s.groups[step.group], nullptr, assemble)) {
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
                for (int64_t i = start; i < stop; i += stride) {
                    poll();
                    scalars_[item.a] = i;
                    run_body(s, item.b);
                    if (i > INT64_MAX - stride) break;
                }
                item_ = &item;
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
            env_[item.a].clear();
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
        case ItemKind::BLOCK:
        case ItemKind::IF:
        case ItemKind::LOOP: return;
    }
}

// The next version of a local: the source's storage, shared. Its fp32 twin is not carried over (legalise never reads it).
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
    for (int i = 0; i < item.span.count; ++i) o += std::clamp<int64_t>(eval(p_.ids[item.span.begin + i]), 0, v.shape[i] - 1) * dense[i];
    return o;
}

int64_t Machine::element_index(const Item& item, const Value& v, Id t, bool write) {
    require(item.span.count == v.shape.rank, "an element index has another rank than its tensor");
    int64_t o = 0;
    for (int i = 0; i < item.span.count; ++i) {
        int64_t at = eval(p_.ids[item.span.begin + i]);
        if (at < 0 || at >= v.shape[i]) {
            const std::string text = std::string(write ? "write" : "read") + " of element " + std::to_string(at) + " on axis " + std::to_string(i) +
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
    if (is_float(v.dtype)) fail("element.dtype", "an element of " + tensor_text(p_, item.b) + " is read as a scalar: integers only");
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
    if (is_float(dtype)) fail("element.dtype", "an element of " + tensor_text(p_, item.a) + " is written: integers only");
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
    if (d.state == State::READY && (tensor(item.a).kind == TensorKind::ARG || d.through)) assemble_into_argument(d, item.a, s, offset, one);
    else assemble_into_local(d, item.a, s, offset, one);
}

void Machine::run_op(const Op& op) {
    if (options_.poison == Poison::TRACE) {
        op_sources_.clear();
        execute(op);
        return trace_op(op);
    }
    execute(op);
}

void Machine::execute(const Op& op) {
    const Opcode code = static_cast<Opcode>(op.opcode);
    switch (code) {
        case Opcode::SUM:
        case Opcode::AMAX:
        case Opcode::AMIN:
        case Opcode::PROD: return reduce(op);
        case Opcode::ARGMAX:
        case Opcode::ARGMIN: return arg_extreme(op);
        case Opcode::CUMSUM:
        case Opcode::CUMPROD: return scan(op);
        case Opcode::TOPK: return topk(op);
        case Opcode::MATMUL: return matmul(op);
        case Opcode::VIEW: return view(op);
        case Opcode::RESHAPE: return reshape(op);
        case Opcode::UNSQUEEZE:
        case Opcode::SQUEEZE: return insert_or_drop_axis(op);
        case Opcode::TRANSPOSE: return transpose(op);
        case Opcode::CONCAT: return concat(op);
        case Opcode::EXPAND: return expand(op);
        case Opcode::CLONE: return clone(op);
        case Opcode::FILLPAD: return fillpad(op);
        case Opcode::TRIL:
        case Opcode::TRIU: return triangle(op);
        case Opcode::DEINTERLEAVE: return deinterleave(op);
        case Opcode::GATHERMASK: return gathermask(op);
        case Opcode::FULL: return full(op);
        case Opcode::ARANGE: return arange(op);
        case Opcode::GATHER: return gather(op);
        case Opcode::INDEX_SELECT: return index_select(op);
        case Opcode::SCATTER: return scatter(op);
        case Opcode::SCATTER_UPDATE: return scatter_update(op);
        default: return elementwise(op);
    }
}

int64_t Machine::scalar(Id slot) const {
    if (slot < 0 || static_cast<size_t>(slot) >= scalars_.size()) fail("internal", "unknown scalar slot");
    return scalars_[slot];
}

Shape Machine::valid(Id t) const {
    if (t < 0 || static_cast<size_t>(t) >= p_.tensors.size()) fail("internal", "unknown tensor");
    return is_ready(t) ? env_[t].valid : tensor(t).shape;
}

DType Machine::read_dtype(Id t, bool wide) const { return wide && is_half(env_[t].dtype) ? DType::F32 : env_[t].dtype; }

std::vector<char> Machine::read(Id t, bool wide) {
    if (t < 0 || static_cast<size_t>(t) >= env_.size()) fail("internal", "unknown tensor");
    Value& v = ready(t);
    const Operand o = operand_of(v, wide);
    const DType to = read_dtype(t, wide);
    std::vector<char> out(static_cast<size_t>(v.shape.count()) * dtype_size_bytes(to));
    if (v.shape.count() == 0) return out;
    convert_box(o.dtype, o.data, o.stride, to, out.data(), dense_strides(v.shape), v.valid);
    poison_outside(to, out.data(), v.shape, v.valid);
    return out;
}

void Machine::release(Id t) {
    if (t < 0 || static_cast<size_t>(t) >= env_.size() || tensor(t).kind == TensorKind::ARG) return;
    env_[t].clear();
}

}  // namespace npu
