// Machine: reading operands and defining results.
#include <algorithm>
#include <cstring>

#include "npu_core/kernels/kernels.h"
#include "npu_core/numeric/machine.h"
#include "npu_core/program/listing.h"
#include "npu_core/program/opcodes.h"

namespace npu {

Value& Machine::ready(Id t) {
    Value& v = env_[t];
    if (v.state != State::READY) [[unlikely]] {
        const std::string& name = tensor(t).name;
        fail("read_before_write",
            "tensor " + (name.empty() ? "%" + std::to_string(t) : "`" + name + "`") + " " + to_text(tensor(t).shape) +
                                      " is read before anything was written to it");
    }
    return v;
}

// The logical dtype of a value that so far exists as its fp32 twin only: rounded once, then kept.
const char* Machine::narrow(Value& v) {
    if (v.data) return v.data;
    require(static_cast<bool>(v.wide), "a value without storage");
    v.store = scratch(v.shape.count() * 2);
    v.stride = dense_strides(v.shape);
    v.dense = true;
    convert_box(DType::F32, v.wide.data(), v.stride, v.dtype, v.store.data(), v.stride, v.valid);
    v.data = v.store.data();
    return v.data;
}

Operand Machine::operand_of(Value& v, bool wide) {
    Operand o;
    o.full = v.full;
    o.shape = v.shape;
    o.valid = v.valid;
    if (wide && v.wide) {
        o.dtype = DType::F32;
        o.data = v.wide.data();
        o.stride = dense_strides(v.shape);
        o.keep = v.wide;
    } else {
        o.data = narrow(v);
        o.dtype = v.dtype;
        o.stride = v.stride;
        o.dense = v.dense;
        o.keep = v.store;
    }
    return o;
}

Operand Machine::operand(const Op& op, int i) {
    const bool wide = i < 32 && (op.wide_ins >> i & 1);
    Value& v = ready(in_id(op, i));
    if (v.through && conflicts_.in_parallel()) [[unlikely]]
        note_read(in_id(op, i), v, Shape{v.shape.rank, {}}, v.valid);
    Operand o = operand_of(v, wide);
    if (wide && o.dtype != DType::F32) {  // cannot happen in a legalised Program; widening gives the rounded value
        BufferRef copy = scratch(o.shape.count() * 4);
        const Strides dense = dense_strides(o.shape);
        convert_box(o.dtype, o.data, o.stride, DType::F32, copy.data(), dense, o.valid);
        o.dtype = DType::F32;
        o.data = copy.data();
        o.stride = dense;
        o.dense = true;
        o.keep = std::move(copy);
    }
    if (v.pieces) [[unlikely]]
        note_candidate(&op, i, [&] { return "reads elements of " + tensor_text(p_, in_id(op,
            i)) + " that were never written"; });
    return o;
}

// An operand of which `box` is read: beyond the valid box there is poison, and the read is a candidate.
Operand Machine::covering(const Op& op, int i, const Shape& box) {
    Operand o = operand(op, i);
    if (o.full || covers(o.valid, box)) return o;
    note_candidate(&op, i, [&] { return "reads " + to_text(box) + " of " + tensor_text(p_, in_id(op,
        i)) + ", of which " + to_text(o.valid) + " is valid"; });
    BufferRef copy = scratch(o.shape.count() * o.size());
    const Strides dense = dense_strides(o.shape);
    copy_box(static_cast<int>(o.size()), o.data, o.stride, copy.data(), dense, o.valid);
    poison_outside(o.dtype, copy.data(), o.shape, o.valid);
    o.data = copy.data();
    o.stride = dense;
    o.dense = o.full = true;
    o.valid = o.shape;
    o.keep = std::move(copy);
    return o;
}

Operand Machine::whole(const Op& op, int i) { return covering(op, i, ready(in_id(op, i)).shape); }

Operand Machine::contiguous(Operand o) {
    if (o.dense) return o;
    BufferRef copy = scratch(o.shape.count() * o.size());
    const Strides dense = dense_strides(o.shape);
    copy_box(static_cast<int>(o.size()), o.data, o.stride, copy.data(), dense, o.valid);
    o.data = copy.data();
    o.stride = dense;
    o.dense = true;
    o.keep = std::move(copy);
    return o;
}

char* Machine::define(Id t, DType dtype, const Shape& shape, const Shape& valid, bool wide) {
    BufferRef buffer = scratch(shape.count() * (wide ? 4 : dtype_size_bytes(dtype)));
    char* p = buffer.data();
    Value& v = env_[t];
    v.state = State::READY;
    v.dtype = dtype;
    v.full = same_box(shape, valid);
    v.dense = true;
    v.through = false;
    v.region = -1;
    v.shape = shape;
    v.valid = valid;
    v.stride = dense_strides(shape);
    v.taint.reset();
    v.pieces.reset();
    if (wide) {
        v.data = nullptr;
        v.store.reset();
        v.wide = std::move(buffer);
    } else {
        v.data = p;
        v.wide.reset();
        v.store = std::move(buffer);
    }
    return p;
}

char* Machine::result(const Op& op, int i, const Shape& valid) {
    const Id t = out_id(op, i);
    const TensorInfo& info = tensor(t);
    require(valid.rank == info.shape.rank && covers(info.shape, valid), "a result's valid box exceeds its shape");
    if (char* y = forwarded(op, i, valid)) return y;
    return define(t, info.dtype, info.shape, valid, op.wide_out && is_half(info.dtype));
}

// `t` becomes another look at the storage of `src` (its logical dtype).
void Machine::share(Id t, const Value& src, const Shape& shape, const Shape& valid, const Strides& stride,
    const char* data) {
    BufferRef store = src.store;
    const int16_t region = src.region;
    const DType dtype = src.dtype;
    Value& v = env_[t];
    v.state = State::READY;
    v.dtype = dtype;
    v.full = same_box(shape, valid);
    v.dense = is_dense(shape, stride);
    v.through = false;
    v.region = region;
    v.shape = shape;
    v.valid = valid;
    v.stride = stride;
    v.data = data;
    v.store = std::move(store);
    v.wide.reset();
    v.taint.reset();
    v.pieces.reset();
    if (region >= 0) note_alias(t);
}

Shape Machine::given_valid(const Op& op, int first_scalar, const Shape& shape) {
    require(op.scalars.count >= first_scalar + shape.rank, "too few scalars for a valid shape");
    Shape v = shape;
    for (int i = 0; i < shape.rank; ++i) {
        const int64_t given = scalar_arg(op, first_scalar + i);
        const auto text = [&](const char* what) {
            return op_name(&op) + ": valid_shape is " + std::to_string(given) + " for axis " + std::to_string(i) + what;
        };
        if (given < 0) fail("arg.value", text("; extents must not be negative"));
        if (given > shape[i])
            warn("view.valid_above", [&] { return text(", whose size is ") + std::to_string(shape[i]) + "; the size is used"; });
        v[i] = std::min(given, shape[i]);
    }
    return v;
}

std::string Machine::op_name(const Op* op) const {
    if (op) return op_rows()[op->row].name;
    return item_ ? item_kind_text(item_->kind) : "";
}

std::string Machine::current_line() const { return item_ && item_->line != NONE ? p_.lines[item_->line] : ""; }

}  // namespace npu
