// Machine: one_hot, index_add, index_put. An index outside its axis is a fault.
#include <algorithm>
#include <vector>

#include "npu_core/kernels/kernels.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/indexing.h"
#include "npu_core/numeric/integer.h"
#include "npu_core/numeric/machine.h"
#include "npu_core/program/listing.h"

namespace npu {

// y[..., c] = (x[...] == c), INT64
void Machine::one_hot(const Op& op) {
    const Operand x = operand(op, 0);
    const Shape& shape = tensor(out_id(op, 0)).shape;
    const int rank = x.shape.rank;
    require(shape.rank == rank + 1 && tensor(out_id(op, 0)).dtype == DType::I64 && !is_float(x.dtype),
        "one_hot: result");
    const int64_t classes = shape[rank];
    Shape valid = shape;
    for (int i = 0; i < rank; ++i) valid[i] = x.valid[i];
    const Strides dense = dense_strides(shape);
    const Strides* strides[2] = {&x.stride, &dense};
    const auto class_at = [&](int64_t at) {
        int64_t k;
        cast_row({x.dtype, DType::I64}, x.data + at * x.size(), &k, 1);
        if (k < 0 || k >= classes) out_of_range("one_hot", k, "the result", rank, classes);
        return k;
    };
    walk(x.valid, 1, strides, [&](const Shape&, const int64_t* o) { class_at(o[0]); });
    auto* y = reinterpret_cast<int64_t*>(result(op, 0, valid));
    walk(x.valid, 2, strides, [&](const Shape&, const int64_t* o) {
        const int64_t k = class_at(o[0]);
        std::memset(y + o[1], 0, static_cast<size_t>(classes) * 8);
        y[o[1] + k] = 1;
    });
}

// y = x; y[..., index[i], ...] += alpha * source[..., i, ...]: in fp32 with one rounding, integers wrap.
void Machine::index_add(const Op& op) {
    Operand x = operand(op, 0);
    const Operand index = index_operand(op, 1);
    const int rank = x.shape.rank, axis = static_cast<int>(int_arg(op, 0));
    const Shape shape = x.shape;
    require(axis >= 0 && axis < rank && index.shape.rank == 1 && shape == tensor(out_id(op, 0)).shape,
        "index_add: shapes do not fit");
    Shape box = ready(in_id(op, 2)).shape;
    require(box.rank == rank && box[axis] == index.shape[0], "index_add: the source does not fit the index");
    for (int i = 0; i < rank; ++i) require(i == axis || box[i] == shape[i], "index_add: the source does not fit");
    box = x.valid;
    box[axis] = index.valid[0];
    const Operand src = covering(op, 2, box);
    std::vector<int64_t> at(static_cast<size_t>(index.valid[0]));
    bool beyond = false;
    for (size_t i = 0; i < at.size(); ++i) {
        at[i] = index_at(index, static_cast<int64_t>(i) * index.stride[0]);
        if (at[i] < 0 || at[i] >= shape[axis]) out_of_range("index_add", at[i], tensor_text(p_, in_id(op, 0)), axis,
            shape[axis]);
        beyond |= at[i] >= x.valid[axis];
    }
    Operand from = beyond ? whole(op, 0) : x;
    x.keep.reset();
    const Strides dense = dense_strides(shape);
    Strides off_axis = dense, row = src.stride;
    off_axis[axis] = 0;
    const Strides* strides[2] = {&row, &off_axis};
    const bool floats = is_float(x.dtype);
    const DType inner = floats ? DType::F32 : DType::I64;
    // summed where the result is, or beside it in the wider type
    const bool direct = from.dtype == inner && tensor(out_id(op, 0)).dtype == inner;
    char* y = direct ? updated(op, from, {&index, &src}) : result(op, 0, from.valid);
    const DType kind = env_[out_id(op, 0)].wide ? DType::F32 : env_[out_id(op, 0)].dtype;
    const BufferRef buffer = direct ? BufferRef() : scratch(shape.count() * dtype_size_bytes(inner));
    char* sums = direct ? y : buffer.data();
    if (!direct) convert_box(from.dtype, from.data, from.stride, inner, sums, dense, from.valid);
    const auto alpha = static_cast<float>(float_arg(op, 0));
    const int64_t whole_alpha = int_arg(op, 1);
    const int last = rank - 1;
    if (floats && axis != last && box[last] > 0) {      // whole rows of the last axis
        const KernelTable& t = kernels();
        Shape rows = box;
        rows[last] = 1;
        std::vector<float> row_values(static_cast<size_t>(box[last]));
        walk(rows, 2, strides, [&](const Shape& p, const int64_t* o) {
            float* into = reinterpret_cast<float*>(sums) + o[1] + at[static_cast<size_t>(p[axis])] * dense[axis];
            load_f32(src.dtype, src.data + o[0] * src.size(), row[last], row_values.data(), box[last]);
            if (alpha != 1.0f)
                t.binary_vs[static_cast<int>(Binary::MUL)](row_values.data(), alpha, row_values.data(), box[last]);
            t.binary[static_cast<int>(Binary::ADD)](into, row_values.data(), into, box[last]);
        });
    } else walk(box, 2, strides, [&](const Shape& p, const int64_t* o) {
        const int64_t to = o[1] + at[static_cast<size_t>(p[axis])] * dense[axis];
        const char* s = src.data + o[0] * src.size();
        if (floats) {
            float v;
            cast_row({src.dtype, DType::F32}, s, &v, 1);
            float& y = reinterpret_cast<float*>(sums)[to];
            const float term = alpha * v;               // no contraction: the product is rounded
            y = y + term;
        } else {
            int64_t v;
            cast_row({src.dtype, DType::I64}, s, &v, 1);
            int64_t& y = reinterpret_cast<int64_t*>(sums)[to];
            y = wrap_add(y, wrap_mul(whole_alpha, v));
        }
    });
    if (!direct) convert_box(inner, sums, dense, kind, y, dense, from.valid);
}

// y = x; y[i0[j], i1[j], ...] (op)= values[j, ...]
void Machine::index_put(const Op& op) {
    Operand x = operand(op, 0);
    const int rank = x.shape.rank, indexed = op.ins.count - 2;
    const bool add = int_arg(op, 0) != 0;
    require(indexed >= 1 && indexed <= rank && x.shape == tensor(out_id(op, 0)).shape, "index_put: number of indices");
    std::vector<Operand> index;
    Shape box = ready(in_id(op, 1)).shape;
    const int value_rank = box.rank;
    require(value_rank + indexed == rank + 1, "index_put: the rank of the values does not fit");
    int64_t count = box[0];
    for (int k = 0; k < indexed; ++k) {
        index.push_back(index_operand(op, 2 + k));
        require(index.back().shape.rank == 1 && index.back().shape[0] == box[0],
            "index_put: an index has another length than the values");
        count = std::min(count, index.back().valid[0]);
    }
    Shape row;
    row.rank = rank - indexed;
    for (int i = 0; i < row.rank; ++i) {
        require(box[1 + i] == x.shape[indexed + i], "index_put: the values do not fit");
        row[i] = x.valid[indexed + i];
        box[1 + i] = row[i];
    }
    box[0] = std::min(count, ready(in_id(op, 1)).valid[0]);
    count = box[0];
    const Operand values = covering(op, 1, box);
    require(values.dtype == x.dtype || is_float(x.dtype), "index_put: dtypes differ");
    const Strides dense = dense_strides(x.shape);
    std::vector<int64_t> to(static_cast<size_t>(count), 0);
    bool beyond = false;
    for (int64_t j = 0; j < count; ++j)
        for (int k = 0; k < indexed; ++k) {
            const int64_t i = index_at(index[k], j * index[k].stride[0]);
            if (i < 0 || i >= x.shape[k]) out_of_range("index_put_", i, tensor_text(p_, in_id(op, 0)), k, x.shape[k]);
            beyond |= i >= x.valid[k];
            to[j] += i * dense[k];
        }
    Operand from = beyond ? whole(op, 0) : x;
    x.keep.reset();
    const bool same = from.dtype == tensor(out_id(op, 0)).dtype && !op.wide_out;
    const bool apart = std::none_of(index.begin(), index.end(), [&](const Operand& i) { return i.data == from.data; });
    char* y = same && apart ? updated(op, from, {&values}) : result(op, 0, from.valid);
    const Value& made = env_[out_id(op, 0)];
    const DType kind = made.wide ? DType::F32 : made.dtype;
    const int size = dtype_size_bytes(kind);
    if (!(same && apart)) convert_box(from.dtype, from.data, from.stride, kind, y, dense, from.valid);
    Strides value_row{}, y_row{};
    for (int i = 0; i < row.rank; ++i) value_row[i] = values.stride[1 + i], y_row[i] = dense[indexed + i];
    if (row.rank == 0) row.rank = 1, row[0] = 1;        // single elements
    const Strides* strides[2] = {&value_row, &y_row};
    if (!add && values.dtype == kind) {
        for (int64_t j = 0; j < count; ++j)
            copy_box(size, values.data + j * values.stride[0] * size, value_row, y + to[j] * size, y_row, row);
        return;
    }
    const int last = row.rank - 1;
    if (add && kind == DType::F32 && values.dtype == DType::F32 && value_row[last] == 1 && y_row[last] == 1) {
        Shape rows = row;
        rows[last] = 1;
        for (int64_t j = 0; j < count; ++j)
            walk(rows, 2, strides, [&](const Shape&, const int64_t* o) {
                float* into = reinterpret_cast<float*>(y) + to[j] + o[1];
                const auto* v = reinterpret_cast<const float*>(values.data) + j * values.stride[0] + o[0];
                kernels().binary[static_cast<int>(Binary::ADD)](into, v, into, row[last]);
            });
        return;
    }
    for (int64_t j = 0; j < count; ++j)
        walk(row, 2, strides, [&](const Shape&, const int64_t* o) {
            alignas(8) char v[8];
            cast_row({values.dtype, kind}, values.data + (j * values.stride[0] + o[0]) * values.size(), v, 1);
            char* at = y + (to[j] + o[1]) * size;
            if (add) combine(kind, Combine::ADD, at, v);
            else std::memcpy(at, v, static_cast<size_t>(size));
        });
}

}  // namespace npu
