// Machine: view, reshape and the other operations that only look at storage in another way.
#include <algorithm>
#include <cstring>

#include "npu_core/numeric/machine.h"
#include "npu_core/program/listing.h"
#include "npu_core/program/opcodes.h"

namespace npu {

void Machine::view(const Op& op) {
    const Id x_id = in_id(op, 0), y_id = out_id(op, 0);
    Value& x = ready(x_id);
    const Shape& shape = tensor(y_id).shape;
    const int rank = shape.rank;
    require(x.shape.rank == rank && op.scalars.count >= rank, "view: rank or number of offsets does not fit");
    require(x.dtype == tensor(y_id).dtype, "view: dtypes differ");
    Shape offset = shape, within = shape;               // within: what the source's valid box gives
    int64_t first = 0;
    const char* data = narrow(x);
    for (int i = 0; i < rank; ++i) {
        offset[i] = scalar_arg(op, i);
        if (offset[i] < 0 || (offset[i] >= x.shape[i] && (offset[i] > 0 || x.shape[i] > 0)))
            fail("view.past_end", "view " + to_text(shape) + " of " + tensor_text(p_,
                x_id) + " starts at " + std::to_string(offset[i]) +
                                      " on axis " + std::to_string(i) + ", which has length " +
                                          std::to_string(x.shape[i]));
        within[i] = std::clamp<int64_t>(x.valid[i] - offset[i], 0, shape[i]);
        first += offset[i] * x.stride[i];
    }
    const Shape valid = int_arg(op, 0) ? given_valid(op, rank, shape) : within;
    if (x.through && conflicts_.in_parallel()) [[unlikely]] {
        Shape seen = valid;
        for (int i = 0; i < rank; ++i) seen[i] = std::min(valid[i], within[i]);
        note_read(x_id, x, offset, seen);
    }
    const auto pieces = x.pieces;
    if (covers(within, valid)) {
        share(y_id, x, shape, valid, x.stride, data + first * dtype_size_bytes(x.dtype));
    } else {
        note_candidate(&op, 0, [&] {
            return "declares " + to_text(valid) + " valid in a view of " + tensor_text(p_,
                x_id) + ", which defines " + to_text(within) + " of it";
        });
        const Value source = x;
        const int size = dtype_size_bytes(source.dtype);
        char* y = define(y_id, source.dtype, shape, valid);
        fill_poison(source.dtype, y, shape.count());
        Shape both = within;
        for (int i = 0; i < rank; ++i) both[i] = std::min(within[i], valid[i]);
        copy_box(size, source.data + first * size, source.stride, y, dense_strides(shape), both);
    }
    if (pieces) [[unlikely]] {                          // what was written of the source, seen through the view
        Value& y = env_[y_id];
        y.pieces = std::make_shared<std::vector<std::pair<Shape, Shape>>>();
        for (const auto& [at, extent] : *pieces) {
            Shape from = at, count = extent;
            for (int i = 0; i < rank; ++i) {
                from[i] = std::max<int64_t>(at[i] - offset[i], 0);
                count[i] = std::clamp<int64_t>(at[i] + extent[i] - offset[i], 0, valid[i]) - from[i];
                if (count[i] < 0) count[i] = 0;
            }
            if (!is_empty(count) && count == valid) {
                y.pieces.reset();
                break;
            }
            if (!is_empty(count)) y.pieces->push_back({from, count});
        }
        if (is_empty(valid)) y.pieces.reset();
    }
}

void Machine::reshape(const Op& op) {
    const Id x_id = in_id(op, 0), y_id = out_id(op, 0);
    Value& x = ready(x_id);
    narrow(x);
    const Shape& shape = tensor(y_id).shape;
    require(x.shape.count() == shape.count(), "reshape: element counts differ");
    require(x.dtype == tensor(y_id).dtype, "reshape: dtypes differ");
    const Shape valid = int_arg(op, 0) ? given_valid(op, 0, shape) : shape;
    const auto pieces = x.pieces;
    const Operand whole_x = [&] {
        if (x.full) return contiguous(operand_of(x, false));
        // A box of the source is no box of the result: see whether the result's box stays inside it.
        std::vector<char> defined(static_cast<size_t>(shape.count()), 0);
        const char one = 1;
        const Strides dense_x = dense_strides(x.shape), dense_y = dense_strides(shape);
        copy_box(1, &one, Strides{}, defined.data(), dense_x, x.valid);
        std::vector<char> seen(static_cast<size_t>(valid.count()));
        copy_box(1, defined.data(), dense_y, seen.data(), dense_strides(valid), valid);
        if (std::find(seen.begin(), seen.end(), 0) == seen.end()) return contiguous(operand_of(x, false));
        return whole(op, 0);
    }();
    if (whole_x.data == x.data && x.dense) {
        const bool argument = x.region >= 0 && (tensor(x_id).kind == TensorKind::ARG || x.through);
        share(y_id, x, shape, valid, dense_strides(shape), x.data);
        // in place: a write to the result is a write to the argument
        if (argument && int_or(op, 1, 0)) env_[y_id].through = true;
    } else {
        Value holder;                                   // the copy becomes the result's storage
        holder.dtype = x.dtype;
        holder.store = whole_x.keep;
        share(y_id, holder, shape, valid, dense_strides(shape), whole_x.data);
    }
    if (pieces) [[unlikely]] {
        note_candidate(&op, 0, [&] { return "reads elements of " + tensor_text(p_,
            x_id) + " that were never written"; });
    }
}

void Machine::insert_or_drop_axis(const Op& op) {
    const Id y_id = out_id(op, 0);
    Value& x = ready(in_id(op, 0));
    const char* data = narrow(x);
    const Shape& shape = tensor(y_id).shape;
    const int axis = static_cast<int>(int_arg(op, 0));
    const bool inserts = op.opcode == static_cast<uint8_t>(Opcode::UNSQUEEZE);
    require(shape.rank == x.shape.rank + (inserts ? 1 : -1), "unsqueeze or squeeze: rank does not fit");
    require(axis >= 0 && axis < std::max(shape.rank, x.shape.rank), "unsqueeze or squeeze: axis out of range");
    Shape valid = shape;
    Strides stride{};
    for (int i = 0, o = 0; i < x.shape.rank || o < shape.rank;) {
        if (inserts && o == axis) {
            valid[o] = 1;
            stride[o] = o < x.shape.rank ? x.stride[o] * x.shape[o] : 1;
            ++o;
        } else if (!inserts && i == axis) {
            require(x.shape[i] == 1, "squeeze: the axis is longer than 1");
            ++i;
        } else {
            valid[o] = x.valid[i];
            stride[o++] = x.stride[i++];
        }
    }
    if (x.pieces) note_candidate(&op, 0, [&] { return "reads elements of " + tensor_text(p_, in_id(op,
        0)) + " that were never written"; });
    share(y_id, x, shape, valid, stride, data);
}

void Machine::expand(const Op& op) {
    const Id y_id = out_id(op, 0);
    const Shape& shape = tensor(y_id).shape;
    const Shape valid = int_arg(op, 0) ? given_valid(op, 0, shape) : shape;
    const Shape& x_shape = ready(in_id(op, 0)).shape;
    require(x_shape.rank == shape.rank, "expand: ranks differ");
    Shape needed = x_shape;
    for (int i = 0; i < shape.rank; ++i) {
        require(x_shape[i] == shape[i] || x_shape[i] == 1, "expand: an axis longer than 1 cannot grow");
        needed[i] = x_shape[i] == shape[i] ? valid[i] : std::min<int64_t>(valid[i], 1);
    }
    const Operand x = covering(op, 0, needed);
    Strides stride = x.stride;
    for (int i = 0; i < shape.rank; ++i)
        if (x.shape[i] != shape[i]) stride[i] = 0;
    Value holder;
    holder.dtype = x.dtype;
    holder.store = x.keep;
    holder.region = x.keep ? int16_t{-1} : env_[in_id(op, 0)].region;
    share(y_id, holder, shape, valid, stride, x.data);
}

void Machine::clone(const Op& op) {
    Value& x = ready(in_id(op, 0));
    const char* data = narrow(x);
    const auto pieces = x.pieces;
    share(out_id(op, 0), x, x.shape, x.valid, x.stride, data);
    env_[out_id(op, 0)].pieces = pieces;
}

}  // namespace npu
