// Machine: gather, index_select, scatter, scatter_update. An index outside its axis is a fault;
// a negative one ends scatter_update, as in the public interpreter.
#include <algorithm>
#include <cstring>

#include "npu_core/base/thread_pool.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/indexing.h"
#include "npu_core/numeric/integer.h"
#include "npu_core/numeric/machine.h"
#include "npu_core/program/listing.h"

namespace npu {

namespace {

// f(pointer to the indices in their own type)
template <class F> void with_index(const Operand& index, F&& f) {
    switch (index.dtype) {
        case DType::I16: return f(reinterpret_cast<const int16_t*>(index.data));
        case DType::I32: return f(reinterpret_cast<const int32_t*>(index.data));
        default: return f(reinterpret_cast<const int64_t*>(index.data));
    }
}
// f(a value of an unsigned type of `size` bytes)
template <class F> void by_size(int size, F&& f) {
    switch (size) {
        case 1: return f(uint8_t{});
        case 2: return f(uint16_t{});
        case 4: return f(uint32_t{});
        default: return f(uint64_t{});
    }
}

}  // namespace

Operand Machine::index_operand(const Op& op, int i) {
    Operand x = operand(op, i);
    require(x.dtype == DType::I16 || x.dtype == DType::I32 || x.dtype == DType::I64,
        "an index is INT16, INT32 or INT64");
    return x;
}

// y[..., i, ...] = x[..., index[..., i, ...], ...]
void Machine::gather(const Op& op) {
    const Operand index = index_operand(op, 1);
    Operand x = operand(op, 0);
    const int rank = x.shape.rank, axis = static_cast<int>(int_arg(op, 0));
    const Shape& shape = tensor(out_id(op, 0)).shape;
    require(axis >= 0 && axis < rank && index.shape.rank == rank && index.shape == shape, "gather: shapes do not fit");
    for (int i = 0; i < rank; ++i) require(i == axis || index.shape[i] <= x.shape[i],
        "gather: the index is longer than the input off its axis");
    require(x.dtype == tensor(out_id(op, 0)).dtype, "gather: dtypes differ");
    const int size = static_cast<int>(x.size()), last = rank - 1;
    const Strides dense = dense_strides(shape);
    Strides off_axis = x.stride;
    off_axis[axis] = 0;
    const Strides* strides[3] = {&index.stride, &dense, &off_axis};
    bool beyond = false;
    Shape rows = index.valid;                           // lines of the last axis
    rows[last] = std::min<int64_t>(rows[last], 1);
    const int64_t n = index.valid[last];
    // Largest index of every line first: what lies beyond the valid extent, or the axis, is looked at one by one.
    int64_t largest = -1;
    bool negative = false, inside = true;
    for (int i = 0; i < rank; ++i) inside = inside && (i == axis || index.valid[i] <= x.valid[i]);
    with_index(index, [&]<class I>(const I* k) {
        walk(rows, 1, strides, [&](const Shape&, const int64_t* o) {
            I most = -1, least = 0;
            for (int64_t i = 0; i < n; ++i) {
                const I v = k[o[0] + i * index.stride[last]];
                most = std::max(most, v);
                least = std::min(least, v);
            }
            largest = std::max<int64_t>(largest, most);
            negative = negative || least < 0;
        });
    });
    if (negative || !inside || largest >= x.valid[axis])
    walk(index.valid, 1, strides, [&](const Shape& at, const int64_t* o) {
        const int64_t k = index_at(index, o[0]);
        if (k < 0 || k >= x.shape[axis]) out_of_range("gather", k, tensor_text(p_, in_id(op, 0)), axis, x.shape[axis]);
        for (int i = 0; i < rank; ++i) beyond |= (i == axis ? k : at[i]) >= x.valid[i];
    });
    if (beyond) x = whole(op, 0);
    off_axis = x.stride;
    off_axis[axis] = 0;
    char* y = result(op, 0, index.valid);
    const int64_t step = x.stride[axis], along = off_axis[last], index_step = index.stride[last];
    with_index(index, [&]<class I>(const I* k) {
        by_size(size, [&]<class T>(T) {
            const T* from = reinterpret_cast<const T*>(x.data);
            walk(rows, 3, strides, [&](const Shape&, const int64_t* o) {
                T* to = reinterpret_cast<T*>(y) + o[1];
                for (int64_t i = 0; i < n; ++i) to[i] = from[o[2] + i * along + k[o[0] + i * index_step] * step];
            });
        });
    });
}

// y = x with its axis replaced by the index's axes: rows are copied.
void Machine::index_select(const Op& op) {
    const Operand index = index_operand(op, 1);
    Operand x = operand(op, 0);
    const int rank = x.shape.rank, axis = static_cast<int>(int_arg(op, 0)), index_rank = index.shape.rank;
    const Shape& shape = tensor(out_id(op, 0)).shape;
    require(axis >= 0 && axis < rank && shape.rank == rank - 1 + index_rank && index_rank <= 2,
        "index_select: ranks do not fit");
    require(x.dtype == tensor(out_id(op, 0)).dtype, "index_select: dtypes differ");
    Shape valid = shape, row = x.valid;
    Strides y_stride = dense_strides(shape), row_to{}, pick{};
    for (int i = 0; i < shape.rank; ++i) {
        if (i >= axis && i < axis + index_rank) {
            require(shape[i] == index.shape[i - axis], "index_select: shapes do not fit");
            valid[i] = index.valid[i - axis];
            pick[i - axis] = y_stride[i];
        } else {
            const int from = i < axis ? i : i - index_rank + 1;
            require(shape[i] == x.shape[from], "index_select: shapes do not fit");
            valid[i] = x.valid[from];
            row_to[from] = y_stride[i];
        }
    }
    row[axis] = 1;
    bool beyond = false;
    const Strides* strides[2] = {&index.stride, &pick};
    walk(index.valid, 1, strides, [&](const Shape&, const int64_t* o) {
        const int64_t k = index_at(index, o[0]);
        if (k < 0 || k >= x.shape[axis]) out_of_range("index_select", k, tensor_text(p_, in_id(op, 0)), axis,
            x.shape[axis]);
        beyond |= k >= x.valid[axis];
    });
    if (beyond) {
        Shape needed = x.valid;
        needed[axis] = x.shape[axis];
        x = covering(op, 0, needed);
    }
    char* y = result(op, 0, valid);
    const int size = static_cast<int>(x.size());
    walk(index.valid, 2, strides, [&](const Shape&, const int64_t* o) {
        copy_box(size, x.data + index_at(index, o[0]) * x.stride[axis] * size, x.stride, y + o[1] * size, row_to, row);
    });
}

void combine(DType t, Combine how, char* y, const char* s) {
    const auto ints = [&]<class T>(T) {
        T a, b;
        std::memcpy(&a, y, sizeof(T));
        std::memcpy(&b, s, sizeof(T));
        a = how == Combine::ADD ? wrap_add(a, b) : wrap_mul(a, b);
        std::memcpy(y, &a, sizeof(T));
    };
    switch (t) {
        case DType::F32:
        case DType::F16:
        case DType::BF16: {
            float a, b;
            cast_row({t, DType::F32}, y, &a, 1);
            cast_row({t, DType::F32}, s, &b, 1);
            a = how == Combine::ADD ? a + b : a * b;
            cast_row({DType::F32, t}, &a, y, 1);
            break;
        }
        case DType::F64: {
            double a, b;
            std::memcpy(&a, y, 8);
            std::memcpy(&b, s, 8);
            a = how == Combine::ADD ? a + b : a * b;
            std::memcpy(y, &a, 8);
            break;
        }
        case DType::I8: return ints(int8_t{});
        case DType::I16: return ints(int16_t{});
        case DType::I32: return ints(int32_t{});
        case DType::I64: return ints(int64_t{});
        case DType::U8:
        case DType::BOOL: return ints(uint8_t{});
        case DType::U16: return ints(uint16_t{});
        case DType::U32: return ints(uint32_t{});
        default: return ints(uint64_t{});
    }
}

// y = x; y[..., index[..., i, ...], ...] (op)= src[..., i, ...], in program order.
void Machine::scatter(const Op& op) {
    const Operand index = index_operand(op, 1);
    Operand x = operand(op, 0);
    const int rank = x.shape.rank, axis = static_cast<int>(int_arg(op, 0));
    const auto how = static_cast<Combine>(std::clamp<int64_t>(int_arg(op, 1), 0, 2));
    const bool scalar_source = int_arg(op, 2) != 0;
    require(axis >= 0 && axis < rank && index.shape.rank == rank, "scatter: ranks do not fit");
    require(op.ins.count == (scalar_source ? 2 : 3), "scatter: number of operands");
    require(x.shape == tensor(out_id(op, 0)).shape, "scatter: result shape");
    Operand src;
    if (!scalar_source) {
        src = covering(op, 2, index.valid);
        require(src.shape.rank == rank && covers(src.shape, index.shape) && src.dtype == x.dtype,
            "scatter: source does not fit");
    }
    alignas(8) char one[8];
    if (scalar_source) {
        if (is_float(x.dtype)) {
            const double v = float_arg(op, 0);
            cast_row({DType::F64, x.dtype}, &v, one, 1);
        } else {
            const int64_t v = int_or(op, 3, 0);
            cast_row({DType::I64, x.dtype}, &v, one, 1);
        }
    }
    const int size = static_cast<int>(x.size());
    const Strides dense = dense_strides(x.shape), none{};
    Strides off_axis = dense;
    off_axis[axis] = 0;
    const Strides* strides[3] = {&index.stride, scalar_source ? &none : &src.stride, &off_axis};
    bool beyond = false;
    walk(index.valid, 1, strides, [&](const Shape& at, const int64_t* o) {
        const int64_t k = index_at(index, o[0]);
        if (k < 0 || k >= x.shape[axis]) out_of_range("scatter", k, tensor_text(p_, in_id(op, 0)), axis, x.shape[axis]);
        for (int i = 0; i < rank; ++i) {
            require(i == axis || at[i] < x.shape[i], "scatter: the index is longer than the input off its axis");
            beyond |= (i == axis ? k : at[i]) >= x.valid[i];
        }
    });
    Operand from = beyond ? whole(op, 0) : x;
    x.keep.reset();
    char* y = updated(op, from, {&index, &src});
    walk(index.valid, 3, strides, [&](const Shape&, const int64_t* o) {
        char* to = y + (o[2] + index_at(index, o[0]) * dense[axis]) * size;
        const char* s = scalar_source ? one : src.data + o[1] * size;
        if (how == Combine::PUT) std::memcpy(to, s, static_cast<size_t>(size));
        else combine(x.dtype, how, to, s);
    });
}

// Row update of a cache: input [rows, d] or [blocks, block_size, 1, d], index [b, s], src [b * s, d] or [b, s, 1, d].
void Machine::scatter_update(const Op& op) {
    const Operand index = index_operand(op, 1);
    const Operand src = operand(op, 2);
    Operand x = operand(op, 0);
    const int rank = x.shape.rank;
    require((rank == 2 || rank == 4) && src.shape.rank == rank && index.shape.rank == 2,
        "scatter_update: ranks do not fit");
    require(x.shape == tensor(out_id(op, 0)).shape && src.dtype == x.dtype,
        "scatter_update: shapes or dtypes do not fit");
    const int last = rank - 1;
    require(src.shape[last] == x.shape[last], "scatter_update: row lengths differ");
    const int64_t sequence = index.shape[1], slots = rank == 2 ? x.shape[0] : x.shape[0] * x.shape[1];
    if (rank == 2) require(src.shape[0] == index.shape[0] * sequence,
        "scatter_update: source rows do not fit the index");
    else require(src.shape[0] == index.shape[0] && src.shape[1] == sequence && src.shape[2] == 1 && x.shape[2] == 1,
        "scatter_update: source does not fit the index");
    const int size = static_cast<int>(x.size());
    const Strides dense = dense_strides(x.shape);
    const Strides* strides[1] = {&index.stride};
    bool beyond = false, stopped = false;               // a negative index ends the update: padding of the batch
    walk(index.valid, 1, strides, [&](const Shape&, const int64_t* o) {
        const int64_t k = index_at(index, o[0]);
        stopped |= k < 0;
        if (stopped) return;
        if (k >= slots) out_of_range("scatter_update", k, tensor_text(p_, in_id(op, 0)), 0, slots);
        beyond |= rank == 2 ? k >= x.valid[0] : k / x.shape[1] >= x.valid[0] || k % x.shape[1] >= x.valid[1];
    });
    Operand from = beyond ? whole(op, 0) : x;
    x.keep.reset();
    char* y = updated(op, from, {&index, &src});
    Shape row;
    row.rank = 1;
    row[0] = std::min(src.valid[last], from.valid[last]);
    const Strides from_step{src.stride[last]}, to_step{dense[last]};
    stopped = false;
    walk(index.valid, 1, strides, [&](const Shape& at, const int64_t* o) {
        const int64_t k = index_at(index, o[0]);
        stopped |= k < 0;
        if (stopped) return;
        const int64_t to = rank == 2 ? k * dense[0] : k / x.shape[1] * dense[0] + k % x.shape[1] * dense[1];
        const int64_t s = rank == 2 ? (at[0] * sequence + at[1]) * src.stride[0] : at[0] * src.stride[0] +
            at[1] * src.stride[1];
        const bool defined = rank == 2 ? at[0] * sequence + at[1] < src.valid[0] : at[0] < src.valid[0] &&
            at[1] < src.valid[1];
        if (!defined) return;
        copy_box(size, src.data + s * size, from_step, y + to * size, to_step, row);
        const Value& cache = env_[in_id(op, 0)];
        if (cache.through && conflicts_.in_parallel()) {
            Shape box = x.shape, place{rank, {}};
            for (int i = 0; i < last; ++i) box[i] = 1;
            place[0] = rank == 2 ? k : k / x.shape[1];
            if (rank == 4) place[1] = k % x.shape[1];
            note_write(in_id(op, 0), cache, place, box, false);
        }
    });
}

}  // namespace npu
