// Machine: running sums and products, and the index of an extreme value, along one axis.
#include <algorithm>
#include <array>
#include <vector>

#include "npu_core/base/thread_pool.h"
#include "npu_core/kernels/kernels.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/integer.h"
#include "npu_core/numeric/machine.h"
#include "npu_core/program/opcodes.h"

namespace npu {

namespace {

constexpr int64_t SIDE_BY_SIDE = 8;

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
int64_t first_extreme(const float* x, int64_t n, bool largest) {
    const float best = largest ? kernels().row_max(x, n) : kernels().row_min(x, n);     // NaN if there is one
    constexpr int64_t PIECE = 64;
    const auto is_best = [&](float v) { return best == best ? v == best : v != v; };
    int64_t i = 0;
    for (int found = 0; i + PIECE < n; i += PIECE) {    // a piece at a time, which vectorises
        if (best == best) for (int64_t k = 0; k < PIECE; ++k) found |= x[i + k] == best;
        else for (int64_t k = 0; k < PIECE; ++k) found |= x[i + k] != x[i + k];
        if (found) break;
    }
    while (!is_best(x[i])) ++i;
    return i;
}
int64_t first_extreme(const int64_t* x, int64_t n, bool largest) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; ++i)
        if (largest ? x[i] > x[best] : x[i] < x[best]) best = i;
    return best;
}

// Running sums or products of `lines` lines of n elements each, side by side: one waits for the one before it.
template <bool PRODUCT, class T> void accumulate(T* x, int64_t lines, int64_t n) {
    const auto step = [](T a, T b) {
        if constexpr (std::is_floating_point_v<T>) return PRODUCT ? a * b : a + b;
        else return PRODUCT ? wrap_mul(a, b) : wrap_add(a, b);
    };
    if (lines == SIDE_BY_SIDE) {
        T sum[SIDE_BY_SIDE];
        for (int64_t k = 0; k < SIDE_BY_SIDE; ++k) sum[k] = x[k * n];
        for (int64_t i = 1; i < n; ++i)
            for (int64_t k = 0; k < SIDE_BY_SIDE; ++k) x[k * n + i] = sum[k] = step(sum[k], x[k * n + i]);
        return;
    }
    for (int64_t k = 0; k < lines; ++k)
        for (int64_t i = 1; i < n; ++i) x[k * n + i] = step(x[k * n + i - 1], x[k * n + i]);
}

template <class T> constexpr DType type_of_line() { return std::is_floating_point_v<T> ? DType::F32 : DType::I64; }

// Reads n elements of a line as T.
template <class T> void read_line(const Operand& x, int64_t offset, int axis, T* line, int64_t n) {
    const char* p = x.data + offset * x.size();
    if constexpr (std::is_floating_point_v<T>) return load_f32(x.dtype, p, x.stride[axis], line, n);
    if (x.stride[axis] == 1) return cast_row({x.dtype, type_of_line<T>()}, p, line, n);
    for (int64_t i = 0; i < n; ++i)
        cast_row({x.dtype, type_of_line<T>()}, p + i * x.stride[axis] * x.size(), line + i, 1);
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
    parallel_ranges(lines, 0.6 * static_cast<double>(lines * n), [&](int64_t b, int64_t e) {
        std::vector<float> floats(static_cast<size_t>(n));
        std::vector<int64_t> ints(static_cast<size_t>(n));
        for (int64_t r = b; r < e; ++r) {
            const auto [from, at] = line_offsets(r, axis, x.valid, x.stride, to);
            int64_t found;
            if (x.dtype == DType::F32 && x.stride[axis] == 1) {
                found = first_extreme(reinterpret_cast<const float*>(x.data) + from, n, largest);
            } else if (is_float(x.dtype)) {
                read_line(x, from, axis, floats.data(), n);
                found = first_extreme(floats.data(), n, largest);
            } else {
                read_line(x, from, axis, ints.data(), n);
                found = first_extreme(ints.data(), n, largest);
            }
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
    const int size = dtype_size_bytes(out.dtype);
    const auto write = [&]<class T>(const T* line, int64_t at) {
        if (to[axis] == 1) return cast_row({type_of_line<T>(), out.dtype}, line, y + at * size, n);
        for (int64_t i = 0; i < n; ++i)
            cast_row({type_of_line<T>(), out.dtype}, line + i, y + (at + i * to[axis]) * size, 1);
    };
    const auto lines_as = [&]<class T>(int64_t b, int64_t e, T*) {
        std::vector<T> work(static_cast<size_t>(SIDE_BY_SIDE * n));
        for (int64_t r = b; r < e; r += SIDE_BY_SIDE) {
            const int64_t count = std::min(SIDE_BY_SIDE, e - r);
            std::array<int64_t, SIDE_BY_SIDE> at{};
            for (int64_t k = 0; k < count; ++k) {
                const auto [from, into] = line_offsets(r + k, axis, x.valid, x.stride, to);
                at[k] = into;
                read_line(x, from, axis, work.data() + k * n, n);
            }
            if (product) accumulate<true>(work.data(), count, n);
            else accumulate<false>(work.data(), count, n);
            for (int64_t k = 0; k < count; ++k) write(work.data() + k * n, at[k]);
        }
    };
    parallel_ranges(lines, 1.5 * static_cast<double>(lines * n), [&](int64_t b, int64_t e) {
        if (is_float(x.dtype)) lines_as(b, e, static_cast<float*>(nullptr));
        else lines_as(b, e, static_cast<int64_t*>(nullptr));
    });
}

}  // namespace npu
