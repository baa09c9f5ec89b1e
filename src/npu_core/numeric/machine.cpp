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
            fail("arg.size", "argument " + tensor_text(p_,
                static_cast<Id>(t)) + " needs " + std::to_string(bytes) + " bytes, " +
                                 std::to_string(a.bytes) + " were given");
        Value& v = env_[t];
        v.state = State::READY;
        v.dtype = info.dtype;
        v.shape = v.valid = info.shape;
        v.stride = dense_strides(info.shape);
        v.data = a.data;
        v.region = region_of_arg_[info.arg_index];
        v.full = v.dense = true;
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
    } catch (const Interrupted&) {
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
            // a copy: the Program may grow before it is needed for a message
            step_item_ = p_.bodies[0].items[stepped_++];
            item_ = &step_item_;
            if (item_->kind == ItemKind::LOOP || item_->kind == ItemKind::IF) fail("internal",
                "loops and decisions cannot be stepped");
            run_item(*item_);
        }
    });
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
        case Opcode::ONE_HOT: return one_hot(op);
        case Opcode::INDEX_ADD: return index_add(op);
        case Opcode::INDEX_PUT: return index_put(op);
        case Opcode::INTERLEAVE: return interleave(op);
        case Opcode::BITCAST: return bitcast(op);
        case Opcode::PACK4: return pack4(op);
        case Opcode::UNPACK4: return unpack4(op);
        case Opcode::UNPACK_BITS: return unpack_bits(op);
        case Opcode::QUANT_MX: return quant_mx(op);
        case Opcode::PHILOX: return philox(op);
        case Opcode::SORT32: return sort32(op);
        case Opcode::MRGSORT: return merge_sort(op);
        case Opcode::SCALED_MATMUL: return matmul(op);
        case Opcode::CONV: return conv(op);
        default: return elementwise(op);
    }
}

int64_t Machine::scalar(Id slot) const {
    if (slot < 0 || static_cast<size_t>(slot) >= scalars_.size()) fail("internal", "unknown scalar slot");
    return scalars_[slot];
}

Shape Machine::valid(Id t) {
    if (t < 0 || static_cast<size_t>(t) >= p_.tensors.size()) fail("internal", "unknown tensor");
    return is_ready(t) ? env_[t].valid : tensor(t).shape;
}

DType Machine::read_dtype(Id t, bool wide) { return wide && is_half(env_[t].dtype) ? DType::F32 : env_[t].dtype; }

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
    env_.release(t);
}

}  // namespace npu
