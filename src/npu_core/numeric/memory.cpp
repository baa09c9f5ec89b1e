// Machine: argument memory, snapshots of views of it, and assemble.
#include <algorithm>
#include <cstring>

#include "npu_core/numeric/machine.h"
#include "npu_core/program/listing.h"

namespace npu {

namespace {

// First and one past the last byte that a value's valid box touches.
std::pair<const char*, const char*> extent(const Value& v) {
    if (is_empty(v.valid)) return {v.data, v.data};
    int64_t last = 0;
    for (int i = 0; i < v.valid.rank; ++i) last += (v.valid[i] - 1) * v.stride[i];
    return {v.data, v.data + (last + 1) * dtype_size_bytes(v.dtype)};
}

// The union of two boxes if that is a box.
bool join(std::pair<Shape, Shape>& a, const std::pair<Shape, Shape>& b) {
    int differing = -1;
    bool a_in_b = true, b_in_a = true;
    for (int i = 0; i < a.first.rank; ++i) {
        const int64_t a0 = a.first[i], a1 = a0 + a.second[i], b0 = b.first[i], b1 = b0 + b.second[i];
        a_in_b &= b0 <= a0 && a1 <= b1;
        b_in_a &= a0 <= b0 && b1 <= a1;
        if (a0 != b0 || a1 != b1) differing = differing < 0 ? i : -2;
        if (differing == -2 && !a_in_b && !b_in_a) return false;
    }
    if (b_in_a) return true;
    if (a_in_b) return a = b, true;
    if (differing < 0) return false;
    const int64_t a0 = a.first[differing], a1 = a0 + a.second[differing];
    const int64_t b0 = b.first[differing], b1 = b0 + b.second[differing];
    if (std::max(a0, b0) > std::min(a1, b1)) return false;
    a.first[differing] = std::min(a0, b0);
    a.second[differing] = std::max(a1, b1) - a.first[differing];
    return true;
}

}  // namespace

void Machine::note_alias(Id t) {
    if (listed_[t]) return;
    listed_[t] = 1;
    aliases_[env_[t].region].push_back(t);
}

void Machine::own(Value& v) {
    BufferRef copy = scratch(v.shape.count() * dtype_size_bytes(v.dtype));
    const Strides dense = dense_strides(v.shape);
    copy_box(dtype_size_bytes(v.dtype), v.data, v.stride, copy.data(), dense, v.valid);
    v.data = copy.data();
    v.store = std::move(copy);
    v.stride = dense;
    v.dense = true;
    v.region = -1;
    v.through = false;
}

// Values that look at bytes [begin, end) of an argument keep what they saw.
void Machine::before_write(int region, const char* begin, const char* end) {
    auto& list = aliases_[region];
    for (size_t i = 0; i < list.size();) {
        const Id t = list[i];
        Value& v = env_[t];
        const bool looking = v.state == State::READY && v.region == region && !v.through;
        bool drop = !looking;
        if (looking) {
            const auto [first, last] = extent(v);
            if (first < end && begin < last) {
                own(v);
                drop = true;
            }
        }
        if (drop) {
            listed_[t] = 0;
            list[i] = list.back();
            list.pop_back();
        } else {
            ++i;
        }
    }
}

bool Machine::writable(const char* begin, const char* end) const {
    return std::any_of(args_.begin(), args_.end(), [&](const ArgMemory& a) {
        return a.writable && a.data <= begin && end <= a.data + a.bytes;
    });
}

Touch Machine::touch_of(Id t, const Value& v, const Shape& at, const Shape& extent, bool write) const {
    Touch x;
    x.tensor = t;
    x.shape = v.shape;
    x.at = at;
    x.extent = extent;
    int64_t first = 0, last = 0;
    for (int i = 0; i < at.rank; ++i) {
        first += at[i] * v.stride[i];
        last += (at[i] + extent[i] - 1) * v.stride[i];
    }
    const int size = dtype_size_bytes(v.dtype);
    x.first = v.data + first * size;
    x.last = v.data + (last + 1) * size;
    x.line = item_ ? item_->line : NONE;
    x.write = write;
    return x;
}

void Machine::note_write(Id dst, const Value& d, const Shape& at, const Shape& extent, bool check_block) {
    if (is_empty(extent)) return;
    const Touch write = touch_of(dst, d, at, extent, true);
    if (conflicts_.in_parallel()) conflicts_.touch(write);
    if (!check_block) return;
    if (const Touch* before = conflicts_.block_write(write))
        warn("assemble.overlap", [&] {
            return tensor_text(p_, dst) + " is written twice at the same place in one block, " + to_text(extent) +
                   " at " + to_text(at) + " after " + to_text(before->extent) + " at " + to_text(before->at) +
                   (before->line == NONE ? "" : " (" + p_.lines[before->line] + ")") +
                   ": the real order is not defined; here the later write wins";
        });
}

void Machine::note_read(Id t, const Value& v, const Shape& at, const Shape& extent) {
    if (!is_empty(extent)) conflicts_.touch(touch_of(t, v, at, extent, false));
}

void Machine::leave_parallel() {
    for (const ConflictWatch::Race& r : conflicts_.leave()) {
        const std::string line = r.a.line == NONE ? "" : p_.lines[r.a.line];
        const bool known = std::any_of(warnings_.begin(), warnings_.end(), [&](const Candidate& w) {
            return w.op == "loop.parallel_race" && w.line == line;
        });
        if (known) continue;
        warnings_.push_back({"loop.parallel_race", line,
            "iteration " + std::to_string(r.a.iteration) + " of the parallel loop" +
                (r.loop_line == NONE ? "" : " at " + p_.lines[r.loop_line]) + " writes " + to_text(r.a.extent) +
                " at " + to_text(r.a.at) + " of " + tensor_text(p_, r.a.tensor) + ", of which iteration " +
                std::to_string(r.b.iteration) + (r.b.write ? " also writes " : " reads ") + to_text(r.b.extent) +
                " at " + to_text(r.b.at) + ": their order is not defined on the device"});
    }
}

char* Machine::take_over(const Op& op, Operand& from, std::initializer_list<const Operand*> others) {
    const Item* next = following_;
    const Id in = in_id(op, 0), out = out_id(op, 0);
    if (!next || (next->kind != ItemKind::SET && next->kind != ItemKind::ASSEMBLE) || next->a != in ||
        next->b != out || in == out || options_.poison == Poison::TRACE || options_.keep || op.wide_out) return nullptr;
    Value& v = env_[in];
    if (!v.data || v.data != from.data || !v.dense || v.pieces || v.wide || v.dtype != tensor(out).dtype ||
        v.shape != tensor(out).shape) return nullptr;
    const char *begin = v.data, *end = begin + v.shape.count() * dtype_size_bytes(v.dtype);
    for (const Operand* o : others)
        if (o->data >= begin && o->data < end) return nullptr;
    if (next->kind == ItemKind::SET) {
        from.keep.reset();
        if (v.region >= 0 || v.through || !v.store || !v.store.unique() || v.store.data() != begin) return nullptr;
        env_[out] = std::move(v);
        env_[in].clear();
        return const_cast<char*>(begin);
    }
    bool in_place = (tensor(in).kind == TensorKind::ARG || v.through) && v.region >= 0 && v.full && writable(begin, end);
    for (int i = 0; i < next->span.count; ++i) in_place = in_place && eval(p_.ids[next->span.begin + i]) == 0;
    if (!in_place) return nullptr;
    before_write(v.region, begin, end);
    share(out, v, v.shape, v.valid, v.stride, v.data);
    return const_cast<char*>(begin);
}

char* Machine::forwarded(const Op& op, int i, const Shape& valid) {
    const Item* next = following_;
    const Id out = out_id(op, i);
    if (!next || next->kind != ItemKind::ASSEMBLE || next->b != out || tensor(next->a).kind != TensorKind::ARG ||
        op.wide_out || options_.poison == Poison::TRACE || options_.keep) return nullptr;
    Value& d = env_[next->a];
    const TensorInfo& info = tensor(out);
    if (!d.dense || d.dtype != info.dtype || d.shape != info.shape || valid != info.shape || is_empty(valid)) return nullptr;
    for (int k = 0; k < next->span.count; ++k)
        if (eval(p_.ids[next->span.begin + k]) != 0) return nullptr;
    for (int k = 0; k < op.ins.count; ++k)              // reads of the memory that would be written
        if (env_[in_id(op, k)].region == d.region) return nullptr;
    const char *begin = d.data, *end = begin + d.shape.count() * dtype_size_bytes(d.dtype);
    if (!writable(begin, end)) return nullptr;
    before_write(d.region, begin, end);
    share(out, d, d.shape, d.shape, d.stride, begin);
    return const_cast<char*>(begin);
}

char* Machine::updated(const Op& op, Operand& from, std::initializer_list<const Operand*> others) {
    if (char* y = take_over(op, from, others)) return y;
    char* y = result(op, 0, from.valid);
    copy_box(static_cast<int>(from.size()), from.data, from.stride, y, dense_strides(from.shape), from.valid);
    return y;
}

void Machine::assemble(Id dst, Id src, const Shape& offset) {
    Value& d = env_[dst];
    Value& s = ready(src);
    const bool fresh = d.state != State::READY;
    const Shape& d_shape = fresh ? tensor(dst).shape : d.shape;
    require(s.shape.rank == d_shape.rank && offset.rank == d_shape.rank, "assemble: ranks differ");
    Shape box = s.valid;
    for (int i = 0; i < box.rank; ++i) {
        if (offset[i] < 0) fail("assemble.negative_offset", "assemble of " + tensor_text(p_,
            src) + " into " + tensor_text(p_, dst) +
                                                                 " at " + to_text(offset) + ": negative offset");
        if (box[i] > 0 && offset[i] > d_shape[i] - box[i])
            fail("assemble.past_end", "assemble of " + tensor_text(p_, src) + " into " + tensor_text(p_, dst) + " at " +
                                          to_text(offset) + ": " + to_text(s.valid) + " elements reach past its end");
    }
    narrow(s);
    if (!fresh && (tensor(dst).kind == TensorKind::ARG || d.through)) {
        if (options_.poison == Poison::TRACE) trace_store(dst, src, box);
        else if (s.pieces) note_candidate(nullptr, 0, [&] { return "stores elements of " + tensor_text(p_,
            src) + " that were never written"; });
        if (!item_->in_place && (!item_->alone || conflicts_.in_parallel())) note_write(dst, d, offset, box, !item_->alone);
        assemble_into_argument(d, dst, s, offset, box);
    } else if (options_.poison == Poison::TRACE) {
        // What was outside the valid box of the destination, or never written, is undefined in its next version.
        const BufferRef piece = s.taint;
        const Shape piece_shape = s.shape;
        BufferRef before = d.taint;
        if (!fresh && !d.full) {
            Value bytes = taint_of(dst, 0);
            before = scratch(d.shape.count());
            std::memset(before.data(), 0xff, static_cast<size_t>(d.shape.count()));
            copy_box(1, bytes.data, bytes.stride, before.data(), bytes.stride, d.valid);
        }
        assemble_into_local(d, dst, s, offset, box);
        trace_assemble(dst, before, piece, piece_shape, offset, box, fresh);
    } else {
        if (s.pieces) note_candidate(nullptr, 0, [&] { return "copies elements of " + tensor_text(p_,
            src) + " that were never written"; });
        assemble_into_local(d, dst, s, offset, box);
    }
}

void Machine::assemble_into_argument(Value& d, Id dst, Value& s, const Shape& offset, const Shape& box) {
    if (is_empty(box)) return;
    const int size = dtype_size_bytes(d.dtype);
    int64_t first = 0, last = 0;
    for (int i = 0; i < box.rank; ++i) {
        first += offset[i] * d.stride[i];
        last += (offset[i] + box[i] - 1) * d.stride[i];
    }
    char* to = const_cast<char*>(d.data) + first * size;
    const char* end = d.data + (last + 1) * size;
    if (!writable(to, end)) fail("arg.read_only", "argument " + tensor_text(p_,
        dst) + " is written but its memory is read-only");
    if (s.data == to && s.dtype == d.dtype && s.stride == d.stride) return;      // it is there already
    if (s.region == d.region && s.region >= 0) {  // argument to argument: the source is taken as it was
        Value copy = s;
        own(copy);
        before_write(d.region, to, end);
        convert_box(copy.dtype, copy.data, copy.stride, d.dtype, to, d.stride, box);
        return;
    }
    before_write(d.region, to, end);
    convert_box(s.dtype, s.data, s.stride, d.dtype, to, d.stride, box);
}

void Machine::add_piece(Value& v, const Shape& offset, const Shape& extent) {
    if (is_empty(extent)) return;
    if (v.pieces.use_count() > 1) v.pieces = std::make_shared<std::vector<std::pair<Shape, Shape>>>(*v.pieces);
    auto& list = *v.pieces;
    std::pair<Shape, Shape> box{offset, extent};
    for (size_t i = 0; i < list.size();) {
        if (join(box, list[i])) {
            list[i] = list.back();
            list.pop_back();
            i = 0;
        } else {
            ++i;
        }
    }
    if (box.second == v.shape) {
        v.pieces.reset();
        return;
    }
    if (list.size() < 256) list.push_back(box);
}

void Machine::assemble_into_local(Value& d, Id dst, Value& s, const Shape& offset, const Shape& box) {
    const Shape whole_shape = d.state == State::READY ? d.shape : tensor(dst).shape;
    const bool covers_all = box == whole_shape;
    const Strides dense = dense_strides(whole_shape);
    if (d.state != State::READY || covers_all) {
        const DType dtype = d.state == State::READY ? d.dtype : tensor(dst).dtype;
        BufferRef keep = s.store;                       // the source may be an older version of the destination
        Value source = s;
        char* p = define(dst, dtype, whole_shape, whole_shape);
        if (!covers_all) {
            fill_poison(dtype, p, whole_shape.count());
            env_[dst].pieces = std::make_shared<std::vector<std::pair<Shape, Shape>>>();
        }
        int64_t first = 0;
        for (int i = 0; i < box.rank; ++i) first += offset[i] * dense[i];
        convert_box(source.dtype, source.data, source.stride, dtype, p + first * dtype_size_bytes(dtype), dense, box);
        if (!covers_all) add_piece(env_[dst], offset, box);
        return;
    }
    narrow(d);
    const bool partial = !d.full;
    Value source = s;                                   // keeps storage that the copy below may drop
    if (d.region >= 0 || !d.dense || !d.store || !d.store.unique() || source.data == d.data) own(d);
    char* p = d.store.data();
    if (partial) {
        poison_outside(d.dtype, p, d.shape, d.valid);
        if (!d.pieces) d.pieces = std::make_shared<std::vector<std::pair<Shape, Shape>>>(1,
            std::pair{Shape{d.shape.rank, {}}, d.valid});
        d.valid = d.shape;
        d.full = true;
    }
    d.wide.reset();
    int64_t first = 0;
    for (int i = 0; i < box.rank; ++i) first += offset[i] * dense[i];
    convert_box(source.dtype, source.data, source.stride, d.dtype, p + first * dtype_size_bytes(d.dtype), dense, box);
    if (d.pieces) add_piece(d, offset, box);
}

}  // namespace npu
