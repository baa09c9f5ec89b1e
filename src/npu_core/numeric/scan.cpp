// Machine: running sums and products, and the index of an extreme value, along one axis.
#include <vector>

#include "npu_core/base/thread_pool.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/integer.h"
#include "npu_core/numeric/machine.h"
#include "npu_core/program/opcodes.h"

namespace npu {

namespace {

// Offsets of line `r` of the lines along `axis`: (source, result), in elements.
std::pair<int64_t, int64_t> line_offsets(int64_t r, int axis, const Shape& valid, const Strides& from, const Strides& to) {
    int64_t a = 0, b = 0;
    for (int i = valid.rank - 1; i >= 0; --i) {
        if (i == axis) continue;
        a += r % valid[i] * from[i];
        b += r % valid[i] * to[i];
        r /= valid[i];
    }
    return {a, b};
}

int64_t lines_of(const Shape& valid, int axis) { return valid[axis] ? valid.count() / valid[axis] : 0; }

// The first extreme value; the first NaN wins over every number.
template <class T> int64_t first_extreme(const std::vector<T>& x, bool largest) {
    size_t best = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        if (x[i] != x[i]) return static_cast<int64_t>(i);
        if (largest ? x[i] > x[best] : x[i] < x[best]) best = i;
    }
    return static_cast<int64_t>(best);
}

template <class T> void accumulate(std::vector<T>& x, bool product) {
    for (size_t i = 1; i < x.size(); ++i) {
        if constexpr (std::is_floating_point_v<T>) x[i] = product ? x[i - 1] * x[i] : x[i - 1] + x[i];
        else x[i] = product ? wrap_mul(x[i - 1], x[i]) : wrap_add(x[i - 1], x[i]);
    }
}

template <class T> constexpr DType type_of_line() { return std::is_floating_point_v<T> ? DType::F32 : DType::I64; }

// Reads the elements of a line as T.
template <class T> void read_line(const Operand& x, int64_t offset, int axis, std::vector<T>& line) {
    const char* p = x.data + offset * x.size();
    for (size_t i = 0; i < line.size(); ++i)
        cast_row({x.dtype, type_of_line<T>()}, p + static_cast<int64_t>(i) * x.stride[axis] * x.size(), &line[i], 1);
}

}  // namespace

void Machine::arg_extreme(const Op& op) {
    const Operand x = operand(op, 0);
    const int axis = static_cast<int>(int_arg(op, 0));
    const bool keep = int_arg(op, 1) != 0, largest = op.opcode == static_cast<uint8_t>(Opcode::ARGMAX);
    require(axis >= 0 && axis < x.shape.rank && x.dtype != DType::F64, "argmax: axis or dtype does not fit");
    const Shape& y_shape = tensor(out_id(op, 0)).shape;
    require(y_shape.rank == x.shape.rank - !keep, "argmax: result shape does not fit");
    Shape valid;
    valid.rank = y_shape.rank;
    Strides to{};
    const Strides dense = dense_strides(y_shape);
    for (int i = 0, j = 0; i < x.shape.rank; ++i) {
        if (i == axis && !keep) continue;
        valid[j] = i == axis ? 1 : x.valid[i];
        to[i] = i == axis ? 0 : dense[j];
        ++j;
    }
    const DType index_type = tensor(out_id(op, 0)).dtype;
    char* y = result(op, 0, valid);
    const int64_t n = x.valid[axis], lines = lines_of(x.valid, axis);
    if (!lines) return;
    parallel_ranges(lines, 4.0 * static_cast<double>(lines * n), [&](int64_t b, int64_t e) {
        std::vector<float> floats(static_cast<size_t>(n));
        std::vector<int64_t> ints(static_cast<size_t>(n));
        for (int64_t r = b; r < e; ++r) {
            const auto [from, at] = line_offsets(r, axis, x.valid, x.stride, to);
            int64_t found;
            if (is_float(x.dtype)) read_line(x, from, axis, floats), found = first_extreme(floats, largest);
            else read_line(x, from, axis, ints), found = first_extreme(ints, largest);
            cast_row({DType::I64, index_type}, &found, y + at * dtype_size_bytes(index_type), 1);
        }
    });
}

void Machine::scan(const Op& op) {
    const Operand x = operand(op, 0);
    const int axis = static_cast<int>(int_arg(op, 0));
    const bool product = op.opcode == static_cast<uint8_t>(Opcode::CUMPROD);
    const TensorInfo& out = tensor(out_id(op, 0));
    require(axis >= 0 && axis < x.shape.rank && x.dtype != DType::F64 && out.shape == x.shape, "cumsum: axis, dtype or result does not fit");
    require(!op.wide_out, "cumsum: a row that keeps fp32 twins");
    char* y = result(op, 0, x.valid);
    const Strides to = dense_strides(out.shape);
    const int64_t n = x.valid[axis], lines = lines_of(x.valid, axis);
    if (!lines) return;
    const auto write = [&](auto& line, int64_t at) {
        using T = typename std::decay_t<decltype(line)>::value_type;
        const int size = dtype_size_bytes(out.dtype);
        for (size_t i = 0; i < line.size(); ++i)
            cast_row({type_of_line<T>(), out.dtype}, &line[i], y + (at + static_cast<int64_t>(i) * to[axis]) * size, 1);
    };
    parallel_ranges(lines, 6.0 * static_cast<double>(lines * n), [&](int64_t b, int64_t e) {
        std::vector<float> floats(static_cast<size_t>(n));
        std::vector<int64_t> ints(static_cast<size_t>(n));
        for (int64_t r = b; r < e; ++r) {
            const auto [from, at] = line_offsets(r, axis, x.valid, x.stride, to);
            if (is_float(x.dtype)) read_line(x, from, axis, floats), accumulate(floats, product), write(floats, at);
            else read_line(x, from, axis, ints), accumulate(ints, product), write(ints, at);
        }
    });
}

}  // namespace npu
