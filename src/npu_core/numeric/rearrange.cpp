// Machine: operations that move elements: transpose, concat, fillpad, tril and triu, deinterleave, gathermask.
#include <algorithm>
#include <cstring>

#include "npu_core/base/thread_pool.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/machine.h"
#include "npu_core/program/opcodes.h"

namespace npu {

namespace {

// out[c][r] = in[r][c]. A block goes through a small buffer: whole cache lines are read, and long runs written.
template <class T>
void transpose_blocked(const char* in, int64_t in_row, char* out, int64_t out_row, int64_t rows, int64_t cols) {
    constexpr int64_t R = 64, C = 64 / sizeof(T);
    const T* x = reinterpret_cast<const T*>(in);
    T* y = reinterpret_cast<T*>(out);
    T block[C][R];
    for (int64_t r0 = 0; r0 < rows; r0 += R)
        for (int64_t c0 = 0; c0 < cols; c0 += C) {
            const int64_t nr = std::min(R, rows - r0), nc = std::min(C, cols - c0);
            if (nr == R && nc == C) {
                for (int64_t r = 0; r < R; ++r)
                    for (int64_t c = 0; c < C; ++c) block[c][r] = x[(r0 + r) * in_row + c0 + c];
            } else {
                for (int64_t r = 0; r < nr; ++r)
                    for (int64_t c = 0; c < nc; ++c) block[c][r] = x[(r0 + r) * in_row + c0 + c];
            }
            for (int64_t c = 0; c < nc; ++c) std::memcpy(y + (c0 + c) * out_row + r0, block[c],
                static_cast<size_t>(nr) * sizeof(T));
        }
}

// A box whose innermost axis is contiguous in the source but not in the destination (or the other way round).
void permuted_copy(int size, const char* src, const Strides& ss, char* dst, const Strides& ds, const Shape& box) {
    const int last = box.rank - 1;
    int axis = -1;                                      // the source's contiguous axis, as an axis of the result
    for (int i = 0; i < last; ++i)
        if (ss[i] == 1 && box[i] > 1) axis = i;
    if (axis < 0 || ss[last] == 1 || is_empty(box) || ds[last] != 1) return copy_box(size, src, ss, dst, ds, box);
    int64_t outer = 1;
    for (int i = 0; i < last; ++i)
        if (i != axis) outer *= box[i];
    parallel_ranges(outer, 0.5 * static_cast<double>(box.count()) * size, [&](int64_t b, int64_t e) {
        for (int64_t u = b; u < e; ++u) {
            int64_t rest = u, so = 0, dof = 0;
            for (int i = last - 1; i >= 0; --i) {
                if (i == axis) continue;
                so += rest % box[i] * ss[i];
                dof += rest % box[i] * ds[i];
                rest /= box[i];
            }
            const char* s = src + so * size;
            char* d = dst + dof * size;
            // source rows run along `last` (stride ss[last]), its columns along `axis`
            switch (size) {
                case 1: transpose_blocked<uint8_t>(s, ss[last], d, ds[axis], box[last], box[axis]); break;
                case 2: transpose_blocked<uint16_t>(s, ss[last], d, ds[axis], box[last], box[axis]); break;
                case 4: transpose_blocked<uint32_t>(s, ss[last], d, ds[axis], box[last], box[axis]); break;
                default: transpose_blocked<uint64_t>(s, ss[last], d, ds[axis], box[last], box[axis]);
            }
        }
    });
}

}  // namespace

void Machine::transpose(const Op& op) {
    const Operand x = operand(op, 0);
    const int rank = x.shape.rank;
    const Shape& shape = tensor(out_id(op, 0)).shape;
    require(op.ints.count == rank && shape.rank == rank, "transpose: the permutation does not fit");
    Shape valid = shape;
    Strides from{};
    unsigned used = 0;
    for (int i = 0; i < rank; ++i) {
        const int64_t axis = int_arg(op, i);
        require(axis >= 0 && axis < rank && !(used >> axis & 1) && shape[i] == x.shape[static_cast<int>(axis)],
            "transpose: not a permutation of the shape");
        used |= 1u << axis;
        valid[i] = x.valid[static_cast<int>(axis)];
        from[i] = x.stride[axis];
    }
    char* y = result(op, 0, valid);
    permuted_copy(static_cast<int>(x.size()), x.data, from, y, dense_strides(shape), valid);
}

void Machine::concat(const Op& op) {
    const Shape shape = tensor(out_id(op, 0)).shape;
    const int axis = static_cast<int>(int_arg(op, 0));
    require(axis >= 0 && axis < shape.rank, "concat: axis out of range");
    int64_t length = 0;
    for (int i = 0; i < op.ins.count; ++i) {
        const Shape& s = ready(in_id(op, i)).shape;
        require(s.rank == shape.rank && ready(in_id(op, i)).dtype == tensor(out_id(op, 0)).dtype,
            "concat: rank or dtype differs");
        for (int k = 0; k < shape.rank; ++k) require(k == axis || s[k] == shape[k],
            "concat: shapes differ off the axis");
        length += s[axis];
    }
    require(length == shape[axis], "concat: the lengths do not add up to the result");
    char* y = result(op, 0, shape);
    const Strides dense = dense_strides(shape);
    const int size = dtype_size_bytes(tensor(out_id(op, 0)).dtype);
    int64_t at = 0;
    for (int i = 0; i < op.ins.count; ++i) {
        const Operand x = whole(op, i);
        if (x.size() == size) copy_box(size, x.data, x.stride, y + at * dense[axis] * size, dense, x.shape);
        else convert_box(x.dtype, x.data, x.stride, tensor(out_id(op, 0)).dtype, y + at * dense[axis] * size, dense,
            x.shape);
        at += x.shape[axis];
    }
}

void Machine::fillpad(const Op& op) {
    const Operand x = operand(op, 0);
    const Shape shape = x.shape;
    require(shape == tensor(out_id(op, 0)).shape, "fillpad: shapes differ");
    char* y = result(op, 0, shape);
    const DType to = x.dtype;
    require(to == env_[out_id(op, 0)].dtype || env_[out_id(op, 0)].wide, "fillpad: dtypes differ");
    const int size = dtype_size_bytes(to);
    if (!x.full) {
        alignas(8) char one[8];
        if (is_float(to)) {
            const double v = float_arg(op, 0);
            cast_row({DType::F64, to}, &v, one, 1);
        } else {
            const int64_t v = int_or(op, 0, 0);
            cast_row({DType::I64, to}, &v, one, 1);
        }
        copy_box(size, one, Strides{}, y, dense_strides(shape), shape);
    }
    copy_box(size, x.data, x.stride, y, dense_strides(shape), x.valid);
}

void Machine::triangle(const Op& op) {
    const Operand x = operand(op, 0);
    const bool lower = op.opcode == static_cast<uint8_t>(Opcode::TRIL);
    const int rank = x.shape.rank;
    require(rank >= 2 && x.shape == tensor(out_id(op, 0)).shape, "tril, triu: shape");
    const int64_t diagonal = scalar_arg(op, 0);
    char* y = result(op, 0, x.valid);
    const DType to = env_[out_id(op, 0)].wide ? DType::F32 : env_[out_id(op, 0)].dtype;
    const Strides dense = dense_strides(x.shape);
    if (is_empty(x.valid)) return;
    convert_box(x.dtype, x.data, x.stride, to, y, dense, x.valid);
    const int64_t rows = x.valid[rank - 2], cols = x.valid[rank - 1], size = dtype_size_bytes(to);
    int64_t outer = 1;
    for (int i = 0; i < rank - 2; ++i) outer *= x.valid[i];
    for (int64_t u = 0; u < outer; ++u) {
        int64_t rest = u, o = 0;
        for (int i = rank - 3; i >= 0; --i) {
            o += rest % x.valid[i] * dense[i];
            rest /= x.valid[i];
        }
        for (int64_t r = 0; r < rows; ++r) {
            // kept columns: c <= r + diagonal (lower), c >= r + diagonal (upper)
            const int64_t edge = std::clamp<int64_t>(diagonal > INT64_MAX - r - 1 ? INT64_MAX : r + diagonal +
                (lower ? 1 : 0), 0, cols);
            char* row = y + (o + r * dense[rank - 2]) * size;
            if (lower) std::memset(row + edge * size, 0, static_cast<size_t>((cols - edge) * size));
            else std::memset(row, 0, static_cast<size_t>(edge * size));
        }
    }
}

void Machine::deinterleave(const Op& op) {
    const bool two = op.ins.count == 2;
    const Operand x = two ? whole(op, 0) : operand(op, 0);
    const int rank = x.shape.rank, last = rank - 1;
    require(rank >= 1, "deinterleave: rank 0");
    const Operand other = two ? operand(op, 1) : Operand();
    if (two) require(other.dtype == x.dtype && other.shape.rank == rank, "deinterleave: operands differ");
    // The stream along the last axis: x, then other. Positions of x decide the parity at which other starts.
    const int64_t stream = x.valid[last] + (two ? other.valid[last] : 0);
    const int size = static_cast<int>(x.size());
    for (int parity = 0; parity < 2; ++parity) {
        const Shape& shape = tensor(out_id(op, parity)).shape;
        require(shape.rank == rank && shape[last] == (x.shape[last] + (two ? other.shape[last] : 0)) / 2,
            "deinterleave: result shape");
        Shape valid = x.valid;
        for (int i = 0; two && i < last; ++i) valid[i] = std::min(valid[i], other.valid[i]);
        valid[last] = std::min((stream - parity + 1) / 2, shape[last]);
        char* y = result(op, parity, valid);
        const Strides dense = dense_strides(shape);
        const auto take = [&](const Operand& from, int64_t begin) {  // stream positions from `begin` on
            const int64_t start = (begin + parity) % 2;
            Shape box = valid;
            box[last] = std::max<int64_t>(0, (from.valid[last] - start + 1) / 2);
            const int64_t at = (begin + start - parity) / 2;
            box[last] = std::min(box[last], valid[last] - at);
            Strides step = from.stride;
            step[last] *= 2;
            if (box[last] > 0) copy_box(size, from.data + start * from.stride[last] * size, step, y + at * size,
                dense, box);
        };
        take(x, 0);
        if (two) take(other, x.shape[last]);
    }
}

void Machine::gathermask(const Op& op) {
    const Operand x = operand(op, 0);
    const int rank = x.shape.rank, last = rank - 1;
    const int64_t mode = int_arg(op, 0);
    require(mode >= 1 && mode <= 7 && rank >= 1, "gathermask: the pattern is 1 to 7");
    const int64_t period = mode == 7 ? 1 : mode <= 2 ? 2 : 4;
    const int64_t start = mode == 7 ? 0 : mode <= 2 ? mode - 1 : mode - 3;
    const Shape& shape = tensor(out_id(op, 0)).shape;
    require(shape.rank == rank && shape[last] <= (x.shape[last] - start + period - 1) / period,
        "gathermask: result shape");
    Shape valid = x.valid;
    valid[last] = std::clamp<int64_t>((x.valid[last] - start + period - 1) / period, 0, shape[last]);
    char* y = result(op, 0, valid);
    Strides step = x.stride;
    step[last] *= period;
    copy_box(static_cast<int>(x.size()), x.data + start * x.stride[last] * x.size(), step, y, dense_strides(shape),
        valid);
}

}  // namespace npu
