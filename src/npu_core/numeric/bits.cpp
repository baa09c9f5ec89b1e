// Machine: operations on the bits of elements: reinterpretation, packed 4-bit numbers, bit masks; and interleave.
#include "npu_core/base/thread_pool.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/indexing.h"
#include "npu_core/numeric/machine.h"
#include "npu_core/numeric/small_floats.h"

namespace npu {

namespace {

// Offsets of the first elements of row `r` of a box without its last axis, in two arrays.
std::pair<int64_t, int64_t> row_offsets(int64_t r, const Shape& box, const Strides& a, const Strides& b) {
    int64_t x = 0, y = 0;
    for (int i = box.rank - 2; i >= 0; --i) {
        x += r % box[i] * a[i];
        y += r % box[i] * b[i];
        r /= box[i];
    }
    return {x, y};
}

int64_t rows_of(const Shape& box) {
    int64_t n = 1;
    for (int i = 0; i < box.rank - 1; ++i) n *= box[i];
    return n;
}

}  // namespace

// The same bytes as another dtype: row by row when the ranks agree, else of the flattened tensor.
void Machine::bitcast(const Op& op) {
    const TensorInfo out = tensor(out_id(op, 0));
    const int to_size = dtype_size_bytes(out.dtype);
    const Shape given = ready(in_id(op, 0)).shape;
    const bool flat = given.rank != out.shape.rank;
    const Operand x = flat ? contiguous(whole(op, 0)) : operand(op, 0);
    const int size = static_cast<int>(x.size()), last = x.shape.rank - 1;
    if (flat) {
        require(out.shape.rank == 1 && out.shape[0] * to_size == x.shape.count() * size, "bitcast: sizes differ");
        char* y = result(op, 0, out.shape);
        std::memcpy(y, x.data, static_cast<size_t>(x.shape.count() * size));
        return;
    }
    require(out.shape[last] * to_size == x.shape[last] * size, "bitcast: row sizes differ");
    Shape valid = x.valid;
    valid[last] = x.valid[last] * size / to_size;
    char* y = result(op, 0, valid);
    Strides rows = dense_strides(out.shape);             // in elements of the source
    for (int i = 0; i < last; ++i) rows[i] = rows[i] * to_size / size;
    copy_box(size, x.data, x.stride, y, rows, x.valid);
}

// Two numbers of the last axis to a byte, the first in the low four bits.
void Machine::pack4(const Op& op) {
    const TensorInfo out = tensor(out_id(op, 0));
    const Operand x = operand(op, 0);
    const int last = x.shape.rank - 1;
    const auto mode = static_cast<CastMode>(int_arg(op, 0));
    const bool saturate = int_arg(op, 1) != 0;
    require(is_packed4(out.dtype) && out.shape.rank == last + 1 && out.shape[last] * 2 == x.shape[last],
        "pack4: result");
    Shape valid = x.valid;
    valid[last] = (x.valid[last] + 1) / 2;
    auto* y = reinterpret_cast<uint8_t*>(result(op, 0, valid));
    const Strides dense = dense_strides(out.shape);
    const int64_t n = x.valid[last];
    parallel_ranges(rows_of(x.valid), 10.0 * static_cast<double>(x.valid.count()), [&](int64_t b, int64_t e) {
        std::vector<float> row(static_cast<size_t>(n));
        for (int64_t r = b; r < e; ++r) {
            const auto [from, to] = row_offsets(r, x.valid, x.stride, dense);
            load_f32(x.dtype, x.data + from * x.size(), x.stride[last], row.data(), n);
            for (int64_t i = 0; i < n; i += 2) {
                const unsigned low = packed4_code(out.dtype, row[i], mode, saturate);
                const unsigned high = i + 1 < n ? packed4_code(out.dtype, row[i + 1], mode, saturate) : 0;
                y[to + i / 2] = static_cast<uint8_t>(low | high << 4);
            }
        }
    });
}

void Machine::unpack4(const Op& op) {
    const TensorInfo out = tensor(out_id(op, 0));
    const Operand x = operand(op, 0);
    const int last = x.shape.rank - 1;
    require(is_packed4(x.dtype) && out.shape.rank == last + 1 && out.shape[last] == 2 * x.shape[last],
        "unpack4: result");
    Shape valid = x.valid;
    valid[last] *= 2;
    char* y = result(op, 0, valid);
    const DType kind = env_[out_id(op, 0)].wide ? DType::F32 : out.dtype;
    const Strides dense = dense_strides(out.shape);
    const int64_t n = valid[last];
    std::vector<float> row(static_cast<size_t>(n));
    for (int64_t r = 0, rows = n ? rows_of(valid) : 0; r < rows; ++r) {
        const auto [from, to] = row_offsets(r, x.valid, x.stride, dense);
        for (int64_t i = 0; i < n; i += 2) {
            const auto byte = static_cast<uint8_t>(x.data[from + i / 2 * x.stride[last]]);
            row[i] = packed4_value(x.dtype, byte & 15u);
            row[i + 1] = packed4_value(x.dtype, byte >> 4u);
        }
        cast_row({DType::F32, kind}, row.data(), y + to * dtype_size_bytes(kind), n);
    }
}

// A mask of one bit per element, the first in bit 0, to BOOL.
void Machine::unpack_bits(const Op& op) {
    const Shape shape = tensor(out_id(op, 0)).shape;
    const Operand x = operand(op, 0);
    const int last = x.shape.rank - 1;
    require(x.dtype == DType::U8 && tensor(out_id(op, 0)).dtype == DType::BOOL && shape.rank == last + 1
        && shape[last] == 8 * x.shape[last], "unpack_bits: result");
    Shape valid = x.valid;
    valid[last] *= 8;
    char* y = result(op, 0, valid);
    const Strides dense = dense_strides(shape);
    for (int64_t r = 0, rows = valid[last] ? rows_of(valid) : 0; r < rows; ++r) {
        const auto [from, to] = row_offsets(r, x.valid, x.stride, dense);
        for (int64_t i = 0; i < valid[last]; ++i) {
            const char byte = x.data[from + i / 8 * x.stride[last]];
            y[to + i] = static_cast<char>(byte >> (i % 8) & 1);
        }
    }
}

// x0 y0 x1 y1 ... along the last axis, cut into halves.
void Machine::interleave(const Op& op) {
    Shape box = ready(in_id(op, 0)).shape;
    const int last = box.rank - 1;
    const Shape shape = tensor(out_id(op, 0)).shape;
    const bool equal = shape == box && tensor(out_id(op, 1)).shape == box && ready(in_id(op, 1)).shape == box;
    require(box.rank >= 1 && equal && box[last] % 2 == 0, "interleave: shapes do not fit");
    for (int i = 0; i < last; ++i) box[i] = std::min(ready(in_id(op, 0)).valid[i], ready(in_id(op, 1)).valid[i]);
    const Operand sides[2] = {covering(op, 0, box), covering(op, 1, box)};
    require(sides[0].dtype == sides[1].dtype, "interleave: dtypes differ");
    const int size = static_cast<int>(sides[0].size());
    Shape half = box;
    half[last] /= 2;
    for (int out = 0; out < 2; ++out) {
        char* y = result(op, out, box);
        const Strides dense = dense_strides(shape);
        Strides step = dense;
        step[last] = 2;
        for (int side = 0; side < 2; ++side)
            copy_box(size, sides[side].data + out * half[last] * sides[side].stride[last] * size, sides[side].stride,
                y + side * size, step, half);
    }
}

}  // namespace npu
