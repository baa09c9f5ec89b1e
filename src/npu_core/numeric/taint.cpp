// Machine, poison "trace": which elements are undefined, followed through every operation to the arguments.
//
// A value may carry one byte per element: 0 defined, else the number of the read that let the undefined element in.
// What an operation does to such bytes is computed by running core operations on the bytes themselves, in a Machine of
// their own.
#include <algorithm>
#include <cstring>

#include "npu_core/numeric/machine.h"
#include "npu_core/program/listing.h"
#include "npu_core/program/opcodes.h"

namespace npu {

namespace {

constexpr uint8_t NEVER_WRITTEN = 255;  // an unwritten element of a local, not read yet
constexpr int MOST_SOURCES = 254;

bool any(const char* p, int64_t n) { return std::any_of(p, p + n, [](char c) { return c != 0; }); }

}  // namespace

// Core operations on byte tensors (and on the values that steer them).
struct Shadow {
    Program q;
    Machine m{q, {}, MachineOptions{Poison::OFF, false, false, true}};

    Id put(const Value& v) {
        TensorInfo info;
        info.dtype = v.dtype;
        info.shape = v.shape;
        info.kind = TensorKind::LOCAL;
        q.tensors.push_back(info);
        m.prepare();
        m.env_[static_cast<Id>(q.tensors.size()) - 1] = v;
        m.env_[static_cast<Id>(q.tensors.size()) - 1].region = -1;
        m.env_[static_cast<Id>(q.tensors.size()) - 1].through = false;
        return static_cast<Id>(q.tensors.size()) - 1;
    }
    Id apply(Opcode code, const std::vector<Id>& ins, const Shape& shape, const std::vector<int64_t>& ints = {},
        const std::vector<int64_t>& scalars = {}) {
        TensorInfo info;
        info.dtype = DType::U8;
        info.shape = shape;
        info.kind = TensorKind::LOCAL;
        Op op{};
        op.row = 0;
        op.opcode = static_cast<uint8_t>(code);
        const auto outs = static_cast<Id>(q.tensors.size());
        const int out_count = npu::info(code).outs;
        op.outs = {static_cast<int32_t>(q.ids.size()), out_count};
        for (int i = 0; i < out_count; ++i) {
            q.ids.push_back(outs + i);
            q.tensors.push_back(info);
        }
        op.ins = {static_cast<int32_t>(q.ids.size()), static_cast<int32_t>(ins.size())};
        q.ids.insert(q.ids.end(), ins.begin(), ins.end());
        op.ints = {static_cast<int32_t>(q.ints.size()), static_cast<int32_t>(ints.size())};
        q.ints.insert(q.ints.end(), ints.begin(), ints.end());
        op.floats = {static_cast<int32_t>(q.floats.size()), 2};
        q.floats.insert(q.floats.end(), {0.0, 0.0});
        for (const int64_t s : scalars) q.exprs.push_back({ExprOp::CONST, NONE, NONE, s});
        op.scalars = {static_cast<int32_t>(q.ids.size()), static_cast<int32_t>(scalars.size())};
        for (size_t i = 0; i < scalars.size();
            ++i) q.ids.push_back(static_cast<Id>(q.exprs.size() - scalars.size() + i));
        q.ops.push_back(op);
        m.prepare();
        m.run_op(q.ops.back());
        return outs;
    }
    const Value& value(Id t) { return m.env_[t]; }
    Shape shape(Id t) const { return q.tensors[t].shape; }
    Id reduce(Id x, int axis) {
        Shape s = shape(x);
        s[axis] = 1;
        return apply(Opcode::AMAX, {x}, s, {axis, 1});
    }
    // From the first undefined element along the axis on.
    Id running(Id x, int axis) {
        Value v = value(x);
        Shape line = v.valid;
        line[axis] = 1;
        for (int64_t i = 1; i < v.valid[axis]; ++i) {
            const Id before = slice(x, axis, i - 1), here = slice(x, axis, i);
            const Id both = join(before, here, shape(here));
            copy_box(1, value(both).data, value(both).stride, v.store.data() + i * v.stride[axis], v.stride, line);
        }
        return x;
    }
    Id slice(Id x, int axis, int64_t at) {
        Shape s = shape(x);
        s[axis] = 1;
        std::vector<int64_t> scalars(static_cast<size_t>(s.rank), 0);
        scalars[axis] = at;
        return apply(Opcode::VIEW, {x}, s, {0}, scalars);
    }
    Id join(Id a, Id b, const Shape& s) { return apply(Opcode::MAXIMUM, {a, b}, s); }
    bool any_set(Id t) {
        const Value& v = value(t);
        if (is_empty(v.valid)) return false;
        std::vector<char> bytes(static_cast<size_t>(v.valid.count()));
        copy_box(1, v.data, v.stride, bytes.data(), dense_strides(v.valid), v.valid);
        return any(bytes.data(), v.valid.count());
    }
};

// Bytes of operand i as the operation reads it: outside the valid box the read that it noted there, if any.
Value Machine::taint_of(Id t, int source) {
    const Value& v = env_[t];
    Value out;
    out.state = State::READY;
    out.dtype = DType::U8;
    out.shape = v.shape;
    out.valid = source ? v.shape : v.valid;
    out.full = out.valid == out.shape;
    out.stride = dense_strides(v.shape);
    const int64_t n = v.shape.count();
    out.store = scratch(n);
    out.data = out.store.data();
    char* p = out.store.data();
    std::memset(p, 0, static_cast<size_t>(n));
    if (v.taint) {
        copy_box(1, v.taint.data(), out.stride, p, out.stride, v.valid);
        for (int64_t i = 0; i < n && source; ++i)
            if (static_cast<uint8_t>(p[i]) == NEVER_WRITTEN) p[i] = static_cast<char>(source);
    }
    if (source && !v.full) {
        std::vector<char> inside(static_cast<size_t>(n), 0);
        const char one = 1;
        copy_box(1, &one, Strides{}, inside.data(), out.stride, v.valid);
        for (int64_t i = 0; i < n; ++i)
            if (!inside[i]) p[i] = static_cast<char>(source);
    }
    return out;
}

void Machine::trace_op(const Op& op) {
    bool clean = true;
    for (int i = 0; i < op.ins.count; ++i) clean = clean && !env_[in_id(op, i)].taint && !source_of(i);
    if (clean) return;
    const Opcode code = static_cast<Opcode>(op.opcode);
    const Family family = info(code).family;
    Shadow s;
    const auto byte_in = [&](int i) { return s.put(taint_of(in_id(op, i), source_of(i))); };
    const auto real_in = [&](int i) {
        Value v = env_[in_id(op, i)];
        narrow(env_[in_id(op, i)]);
        v.data = env_[in_id(op, i)].data;
        v.store = env_[in_id(op, i)].store;
        v.stride = env_[in_id(op, i)].stride;
        v.wide.reset();
        v.pieces.reset();
        return s.put(v);
    };
    const Shape out = tensor(out_id(op, 0)).shape;
    const std::vector<int64_t> ints(p_.ints.begin() + op.ints.begin, p_.ints.begin() + op.ints.begin + op.ints.count);
    std::vector<int64_t> scalars;
    for (int i = 0; i < op.scalars.count; ++i) scalars.push_back(scalar_arg(op, i));
    const auto whole_out = [&](Id what) {                 // one byte for every element
        Shape one = s.shape(what);
        Id t = what;
        for (int axis = 0; axis < one.rank; ++axis) t = s.reduce(t, axis);
        Shape flat = out;
        for (int i = 0; i < flat.rank; ++i) flat[i] = 1;
        t = s.apply(Opcode::RESHAPE, {t}, flat, {0, 0});
        return s.apply(Opcode::EXPAND, {t}, out, {0});
    };

    if (op.outs.count == 2 && family == Family::TOPK) {
        const int last = out.rank - 1;
        const Id row = s.reduce(byte_in(0), last);
        const Id all = s.apply(Opcode::EXPAND, {row}, out, {0});
        keep_taint(out_id(op, 0), s.value(all));
        keep_taint(out_id(op, 1), s.value(all));
        return;
    }
    if (code == Opcode::DEINTERLEAVE) {
        std::vector<Id> ins;
        for (int i = 0; i < op.ins.count; ++i) ins.push_back(byte_in(i));
        const Id first = s.apply(code, ins, out);
        keep_taint(out_id(op, 0), s.value(first));
        keep_taint(out_id(op, 1), s.value(first + 1));
        return;
    }
    if (family == Family::OTHER) {                        // which result an undefined operand reaches is not followed
        Id t = whole_out(byte_in(0));
        for (int i = 1; i < op.ins.count; ++i) t = s.join(t, whole_out(byte_in(i)), out);
        keep_taint(out_id(op, 0), s.value(t));
        if (op.outs.count == 2) {
            Shape one = out, other = tensor(out_id(op, 1)).shape;
            for (int axis = 0; axis < out.rank; ++axis) t = s.reduce(t, axis), one[axis] = 1;
            for (int i = 0; i < other.rank; ++i) one[i] = 1;
            one.rank = other.rank;
            t = s.apply(Opcode::EXPAND, {s.apply(Opcode::RESHAPE, {t}, one, {0, 0})}, other, {0});
            keep_taint(out_id(op, 1), s.value(t));
        }
        return;
    }
    Id y = NONE;
    if (family == Family::WHERE) {
        std::vector<Id> ins{real_in(0)};
        for (int i = 1; i < op.ins.count; ++i) ins.push_back(byte_in(i));
        y = s.join(s.apply(code, ins, out, {ints[0], ints[1], 0, 0}), byte_in(0), out);
    } else if (is_elementwise(family)) {
        y = byte_in(0);
        for (int i = 1; i < op.ins.count; ++i) y = s.join(y, byte_in(i), out);
    } else if (family == Family::REDUCE) {
        const bool running = code == Opcode::CUMSUM || code == Opcode::CUMPROD;
        y = running ? s.running(byte_in(0), static_cast<int>(ints[0])) : s.apply(Opcode::AMAX, {byte_in(0)}, out, ints);
    } else if (family == Family::MATMUL) {
        const auto side = [&](int i, bool trans, bool reduce_rows) {
            Id t = byte_in(i);
            const int rank = s.shape(t).rank;
            if (trans) {
                Shape swapped = s.shape(t);
                std::swap(swapped[rank - 1], swapped[rank - 2]);
                std::vector<int64_t> axes(static_cast<size_t>(rank));
                for (int k = 0; k < rank; ++k) axes[k] = k;
                std::swap(axes[rank - 1], axes[rank - 2]);
                t = s.apply(Opcode::TRANSPOSE, {t}, swapped, axes);
            }
            return s.reduce(t, reduce_rows ? rank - 2 : rank - 1);
        };
        y = s.join(side(0, ints[0] != 0, false), side(1, ints[1] != 0, true), out);
        if (op.ins.count == 3) y = s.join(y, byte_in(2), out);
    } else if (code == Opcode::VIEW) {
        y = trace_view(op, s);
    } else if (code == Opcode::GATHER) {
        y = s.join(s.apply(code, {byte_in(0), real_in(1)}, out, ints), byte_in(1), out);
    } else if (code == Opcode::INDEX_SELECT) {
        y = s.apply(code, {byte_in(0), real_in(1)}, out, ints);
        if (const Id index = byte_in(1); s.any_set(index)) y = s.join(y, whole_out(index), out);
    } else if (code == Opcode::SCATTER || code == Opcode::SCATTER_UPDATE) {
        std::vector<Id> ins{byte_in(0), real_in(1)};
        if (op.ins.count == 3) ins.push_back(byte_in(2));
        std::vector<int64_t> put = ints;
        if (code == Opcode::SCATTER) put[1] = 0;          // an addition keeps what was undefined
        if (code == Opcode::SCATTER && put.size() > 3) put[3] = 0;
        y = s.apply(code, ins, out, put);
        if (code == Opcode::SCATTER && ints[1] != 0) y = s.join(y, ins[0], out);
        if (const Id index = byte_in(1); s.any_set(index)) y = s.join(y, whole_out(index), out);
    } else {                                              // moves do to the bytes what they do to the elements
        std::vector<Id> ins;
        for (int i = 0; i < op.ins.count; ++i) ins.push_back(byte_in(i));
        std::vector<int64_t> plain = ints;
        if (code == Opcode::FILLPAD) plain = {0};
        if (code == Opcode::RESHAPE) plain[1] = 0;
        y = s.apply(code, ins, out, plain, scalars);
    }
    keep_taint(out_id(op, 0), s.value(y));
}

// A view may declare elements valid that its source does not have.
Id Machine::trace_view(const Op& op, Shadow& s) {
    const Value x = taint_of(in_id(op, 0), source_of(0));
    const Value& y = env_[out_id(op, 0)];
    Value out;
    out.state = State::READY;
    out.dtype = DType::U8;
    out.shape = y.shape;
    out.valid = y.valid;
    out.full = y.full;
    out.stride = dense_strides(y.shape);
    out.store = scratch(y.shape.count());
    out.data = out.store.data();
    std::memset(out.store.data(), source_of(0), static_cast<size_t>(y.shape.count()));
    Shape box = y.valid;
    int64_t first = 0;
    for (int i = 0; i < box.rank; ++i) {
        const int64_t offset = scalar_arg(op, i);
        box[i] = std::clamp<int64_t>(x.shape[i] - offset, 0, box[i]);
        first += offset * x.stride[i];
    }
    copy_box(1, x.data + first, x.stride, out.store.data(), out.stride, box);
    return s.put(out);
}

// Stores a result's bytes beside it, unless all of its valid box is defined.
void Machine::keep_taint(Id t, const Value& bytes) {
    Value& v = env_[t];
    const int64_t n = v.shape.count();
    BufferRef copy = scratch(n);
    std::memset(copy.data(), 0, static_cast<size_t>(n));
    Shape box = v.valid;
    require(bytes.shape.rank == box.rank, "trace: ranks differ");
    for (int i = 0; i < box.rank; ++i) box[i] = std::min(box[i], bytes.valid[i]);
    copy_box(1, bytes.data, bytes.stride, copy.data(), dense_strides(v.shape), box);
    if (any(copy.data(), n)) v.taint = std::move(copy);
    else v.taint.reset();
}

// Undefined elements among those stored to an argument: the reads that let them in become candidates.
void Machine::trace_store(Id dst, Id src, const Shape& box) {
    const Value& v = env_[src];
    if (!v.taint || is_empty(box)) return;
    std::vector<char> bytes(static_cast<size_t>(box.count()));
    copy_box(1, v.taint.data(), dense_strides(v.shape), bytes.data(), dense_strides(box), box);
    int64_t count[256] = {};
    for (const char b : bytes) ++count[static_cast<uint8_t>(b)];
    for (int id = 1; id < 256; ++id) {
        if (!count[id]) continue;
        Candidate c;
        if (id <= static_cast<int>(sources_.size())) c = sources_[id - 1];
        else c = {"assemble", current_line(), "stores elements of " + tensor_text(p_,
            src) + " that were never written"};
        c.text += "; " + std::to_string(count[id]) + " undefined elements are stored to " + tensor_text(p_, dst);
        if (const std::string line = current_line(); !line.empty()) c.text += " at " + line;
        const bool known = std::any_of(candidates_.begin(), candidates_.end(),
            [&](const Candidate& k) { return k.op == c.op && k.line == c.line; });
        if (!known && candidates_.size() < 1000) candidates_.push_back(std::move(c));
    }
}

// The bytes of a local after `src` was put at `offset`; `fresh`: nothing else of it has been written.
void Machine::trace_assemble(Id dst, const BufferRef& before, const BufferRef& piece, const Shape& piece_shape,
    const Shape& offset, const Shape& box, bool fresh) {
    Value& d = env_[dst];
    if (!before && !piece && !fresh && !d.taint) return;
    const int64_t n = d.shape.count();
    BufferRef bytes = scratch(n);
    if (before) std::memcpy(bytes.data(), before.data(), static_cast<size_t>(n));
    else std::memset(bytes.data(), fresh ? NEVER_WRITTEN : 0, static_cast<size_t>(n));
    const Strides dense = dense_strides(d.shape);
    int64_t first = 0;
    for (int i = 0; i < box.rank; ++i) first += offset[i] * dense[i];
    const char zero = 0;
    if (piece) copy_box(1, piece.data(), dense_strides(piece_shape), bytes.data() + first, dense, box);
    else copy_box(1, &zero, Strides{}, bytes.data() + first, dense, box);
    if (any(bytes.data(), n)) d.taint = std::move(bytes);
    else d.taint.reset();
}

int Machine::source_of(int operand) const {
    return operand < static_cast<int>(op_sources_.size()) ? op_sources_[operand] : 0;
}

void Machine::add_source(int operand, Candidate c) {
    int id = 0;
    for (size_t i = 0; i < sources_.size() && !id; ++i)
        if (sources_[i].line == c.line && sources_[i].op == c.op &&
            sources_[i].operand == c.operand) id = static_cast<int>(i) + 1;
    if (!id && sources_.size() < MOST_SOURCES) {
        sources_.push_back(std::move(c));
        id = static_cast<int>(sources_.size());
    }
    if (!id) id = MOST_SOURCES;
    if (operand >= 0) {
        if (op_sources_.size() <= static_cast<size_t>(operand)) op_sources_.resize(static_cast<size_t>(operand) + 1, 0);
        op_sources_[operand] = id;
    }
}

}  // namespace npu
