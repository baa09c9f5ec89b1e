// Machine: matmul. K beyond an operand's valid box counts as zero; bias starts the accumulation in fp32; one rounding
// at the end. The result does not depend on how batches, rows and columns are shared among threads.
#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <vector>

#include "npu_core/base/thread_pool.h"
#include "npu_core/kernels/kernels.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/indexing.h"
#include "npu_core/numeric/machine.h"
#include "npu_core/numeric/small_floats.h"
#include "npu_core/program/opcodes.h"

namespace npu {

namespace {

// One operand seen as [batch..., rows, cols] after its transpose flag.
struct Side {
    const char* data;
    DType dtype;
    int64_t rows, cols, valid_rows, valid_cols, row_stride, col_stride;
    Strides batch{};                       // per result axis
    int64_t size() const { return dtype_size_bytes(dtype); }
};
Side side(const Operand& x, bool transposed) {
    const int r = x.shape.rank - 2, c = x.shape.rank - 1;
    Side s{x.data, x.dtype, x.shape[r], x.shape[c], x.valid[r], x.valid[c], x.stride[r], x.stride[c]};
    if (transposed) {
        std::swap(s.rows, s.cols);
        std::swap(s.valid_rows, s.valid_cols);
        std::swap(s.row_stride, s.col_stride);
    }
    return s;
}

struct Product {
    Side a, b;
    Shape valid;                           // of the result
    Strides y_stride;
    int64_t m, n, k, k_block, k_piece, batches = 1;
    bool relu;
    double ns() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / 50.0; }
    int64_t offset(int64_t batch, const Strides& step) const {
        int64_t o = 0;
        for (int i = valid.rank - 3; i >= 0; --i) {
            o += batch % valid[i] * step[i];
            batch /= valid[i];
        }
        return o;
    }
    // Many small products share the threads by batch, few large ones by rows or columns.
    template <class F>
    void for_batches(F&& f) const {
        const double each = ns();
        const bool share = batches >= thread_count() && each < 1e6;
        parallel_ranges(batches, share ? each * static_cast<double>(batches) : 0.0, [&](int64_t from, int64_t to) {
            for (int64_t batch = from; batch < to; ++batch) f(batch);
        });
    }
};

// Splits [0, m) x [0, n) over the threads along the longer side.
template <class F>
void split(int64_t m, int64_t n, double ns, F&& f) {
    constexpr int64_t ROWS = 16, COLS = 64;
    if (m >= n / 4) {
        parallel_ranges((m + ROWS - 1) / ROWS, ns, [&](int64_t from, int64_t to) { f(from * ROWS, std::min(m,
            to * ROWS), int64_t{0}, n); });
    } else {
        parallel_ranges((n + COLS - 1) / COLS, ns, [&](int64_t from, int64_t to) { f(int64_t{0}, m, from * COLS,
            std::min(n, to * COLS)); });
    }
}

// INT32 sums of one batch at c.
void int8_batch(const Product& p, int64_t batch, const int32_t* bias, int32_t* c, int64_t c_stride) {
    GemmArgsI8 g{};
    g.a = reinterpret_cast<const int8_t*>(p.a.data) + p.offset(batch, p.a.batch);
    g.a_row_stride = p.a.row_stride;
    g.a_col_stride = p.a.col_stride;
    g.b = reinterpret_cast<const int8_t*>(p.b.data) + p.offset(batch, p.b.batch);
    g.b_row_stride = p.b.row_stride;
    g.b_col_stride = p.b.col_stride;
    g.bias = bias;
    g.c = c;
    g.c_row_stride = c_stride;
    g.m = p.m, g.n = p.n, g.k = p.k;
    constexpr int64_t ROWS = 16;
    parallel_ranges((p.m + ROWS - 1) / ROWS, p.ns(), [&](int64_t from, int64_t to) {
        kernels().gemm_i8(g, from * ROWS, std::min(p.m, to * ROWS));
    });
    for (int64_t r = 0; p.relu && r < p.m; ++r)
        for (int64_t c = 0; c < p.n; ++c) g.c[r * g.c_row_stride + c] = std::max(0, g.c[r * g.c_row_stride + c]);
}

// Requantised on the way out: times the scale of the column in fp32, then one rounding (INT8 saturates).
template <class T>
void scaled_rows(const Product& p, const T* sums, const float* scales, DType to, char* y, int64_t y_stride) {
    const KernelTable& t = kernels();
    const CastSpec cast{DType::F32, to, CastMode::RINT, !is_float(to)};
    std::vector<float> row(static_cast<size_t>(p.n));
    for (int64_t r = 0; r < p.m; ++r) {
        const float* sum = row.data();
        if constexpr (std::is_same_v<T, float>) sum = sums + r * p.n;
        else t.i32_to_f32(sums + r * p.n, row.data(), p.n);
        t.binary[static_cast<int>(Binary::MUL)](sum, scales, row.data(), p.n);
        cast_row(cast, row.data(), y + r * y_stride * dtype_size_bytes(to), p.n);
    }
}

// What the fix pipe keeps of a scale: sign, exponent and ten mantissa bits.
float shortened(float scale) { return std::bit_cast<float>(std::bit_cast<uint32_t>(scale) & 0xFFFFE000u); }

// Scales of the columns: fp32, or the bits of an fp32 in the low half of 64.
void column_scale_values(const Operand& x, int axis, std::vector<float>& scales) {
    if (x.dtype == DType::I64 || x.dtype == DType::U64) {
        for (size_t i = 0; i < scales.size(); ++i) {
            uint64_t bits;
            std::memcpy(&bits, x.data + static_cast<int64_t>(i) * x.stride[axis] * 8, 8);
            scales[i] = std::bit_cast<float>(static_cast<uint32_t>(bits));
        }
    } else {
        load_f32(x.dtype, x.data, x.stride[axis], scales.data(), static_cast<int64_t>(scales.size()));
    }
    for (float& s : scales) s = shortened(s);
}

// fp32 to ten mantissa bits: nearest even, or half away from zero.
float tf32(float x, bool away) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    if ((bits & 0x7f800000u) == 0x7f800000u) return x;
    const uint32_t half = away ? 0x1000u : 0xfffu + (bits >> 13 & 1u);
    return std::bit_cast<float>((bits + half) & 0xFFFFE000u);
}

// fp32 result of one batch at c. With split K every kL1 piece is a product of its own, added left to right.
void float_batch(const Product& p, int64_t batch, const float* bias, float* c, int64_t c_stride, float* piece) {
    const KernelTable& t = kernels();
    GemmArgs g{};
    g.a = p.a.data + p.offset(batch, p.a.batch) * p.a.size();
    g.a_type = p.a.dtype;
    g.a_row_stride = p.a.row_stride;
    g.a_col_stride = p.a.col_stride;
    g.b = p.b.data + p.offset(batch, p.b.batch) * p.b.size();
    g.b_type = p.b.dtype;
    g.b_row_stride = p.b.row_stride;
    g.b_col_stride = p.b.col_stride;
    g.bias = bias;
    g.c = c;
    g.c_row_stride = c_stride;
    g.m = p.m, g.n = p.n, g.k = std::min(p.k, p.k_piece), g.k_block = p.k_block;
    const auto run = [&] {
        split(p.m, p.n, p.ns(), [&](int64_t m0, int64_t m1, int64_t n0, int64_t n1) { t.gemm(g, m0, m1, n0, n1); });
    };
    run();
    for (int64_t at = p.k_piece; at < p.k; at += p.k_piece) {
        g.a = static_cast<const char*>(g.a) + p.k_piece * p.a.col_stride * p.a.size();
        g.b = static_cast<const char*>(g.b) + p.k_piece * p.b.row_stride * p.b.size();
        g.bias = nullptr;
        g.k = std::min(p.k_piece, p.k - at);
        g.c = piece;
        g.c_row_stride = p.n;
        run();
        for (int64_t r = 0; r < p.m; ++r)
            t.binary[static_cast<int>(Binary::ADD)](c + r * c_stride, piece + r * p.n, c + r * c_stride, p.n);
    }
    for (int64_t r = 0; p.relu && r < p.m; ++r) t.unary[static_cast<int>(Unary::RELU)](c + r * c_stride,
        c + r * c_stride, p.n);
}

bool f32_or_half(DType t) { return t == DType::F32 || is_half(t); }

}  // namespace

// An operand as the multiplier reads it: 8-bit floats and fp32 under TF32 as a dense fp32 copy, everything else as
// it is.
Operand Machine::product_operand(const Op& op, int i) {
    Operand x = operand(op, i);
    const int64_t trans_mode = int_or(op, 4, 0);
    const bool shorten = x.dtype == DType::F32 && trans_mode != 0;
    if (!is_float8(x.dtype) && !shorten) return x;
    BufferRef copy = scratch(x.shape.count() * 4);
    const Strides dense = dense_strides(x.shape);
    convert_box(x.dtype, x.data, x.stride, DType::F32, copy.data(), dense, x.valid);
    if (shorten) {
        const Strides* strides[1] = {&dense};
        auto* p = reinterpret_cast<float*>(copy.data());
        walk(x.valid, 1, strides, [&](const Shape&, const int64_t* o) { p[o[0]] = tf32(p[o[0]], trans_mode == 2); });
    }
    x.dtype = DType::F32;
    x.data = copy.data();
    x.stride = dense;
    x.dense = true;
    x.keep = std::move(copy);
    return x;
}

// A block-scaled operand in fp32: every group of 32 along K times its power of two. scale: [rows, K / 64, 2], or
// [K / 64, rows, 2] when `k_first`; pairs of 4-bit floats are taken apart.
Operand Machine::scaled_operand(const Op& op, int i, int scale, bool k_last, bool k_first) {
    Operand x = operand(op, i);
    const Operand s = whole(op, scale);
    const int rank = x.shape.rank, last = rank - 1;
    require(rank >= 2 && s.dtype == DType::F8E8M0 && s.shape.rank == rank + 1 && s.shape[rank] == 2,
        "scaled_mm: scale");
    const bool packed = is_packed4(x.dtype);
    require(packed || is_float8(x.dtype), "scaled_mm: operand dtype");
    Shape shape = x.shape, valid = x.valid;
    if (packed) shape[last] *= 2, valid[last] *= 2;
    const int k_axis = k_last ? last : last - 1, row_axis = k_last ? last - 1 : last;
    const int s_group = k_first ? rank - 2 : rank - 1, s_row = k_first ? rank - 1 : rank - 2;
    require(s.shape[s_row] == shape[row_axis] && s.shape[s_group] * 64 >= shape[k_axis], "scaled_mm: shape of a scale");
    BufferRef copy = scratch(shape.count() * 4);
    const Strides dense = dense_strides(shape);
    auto* y = reinterpret_cast<float*>(copy.data());
    const Strides* strides[1] = {&dense};
    walk(valid, 1, strides, [&](const Shape& at, const int64_t* o) {
        int64_t from = 0, to_scale = at[row_axis] * s.stride[s_row] + at[k_axis] / 64 * s.stride[s_group]
            + at[k_axis] / 32 % 2 * s.stride[rank];
        for (int axis = 0; axis < rank; ++axis)
            from += (packed && axis == last ? at[axis] / 2 : at[axis]) * x.stride[axis];
        for (int axis = 0; axis < rank - 2; ++axis) to_scale += at[axis] * s.stride[axis];
        const auto code = static_cast<uint8_t>(x.data[from]);
        float v, power;
        if (packed) v = packed4_value(x.dtype, at[last] % 2 ? code >> 4u : code & 15u);
        else float8_values(x.dtype, &code, &v, 1);
        float8_values(DType::F8E8M0, reinterpret_cast<const uint8_t*>(s.data) + to_scale, &power, 1);
        y[o[0]] = v * power;
    });
    x.dtype = DType::F32;
    x.full = valid == shape;
    x.dense = true;
    x.shape = shape;
    x.valid = valid;
    x.data = copy.data();
    x.stride = dense;
    x.keep = std::move(copy);
    return x;
}

void Machine::matmul(const Op& op) {
    const bool block_scaled = op.opcode == static_cast<uint8_t>(Opcode::SCALED_MATMUL);
    const bool a_trans = int_arg(op, 0) != 0, b_trans = int_arg(op, 1) != 0;
    const Operand a = block_scaled ? scaled_operand(op, 0, 2, !a_trans, int_arg(op, 4) != 0) : product_operand(op, 0);
    const Operand b = block_scaled ? scaled_operand(op, 1, 3, b_trans, int_arg(op, 5) == 0) : product_operand(op, 1);
    require(a.shape.rank >= 2 && b.shape.rank >= 2, "matmul: an operand has less than two axes");
    const Id out = out_id(op, 0);
    const Shape y_shape = tensor(out).shape;
    const int rank = y_shape.rank;
    const bool has_bias = int_arg(op, 2) != 0;
    Product p{side(a, a_trans), side(b, b_trans), y_shape, dense_strides(y_shape), 0, 0, 0, 0, 0, 1,
        int_arg(op, 3) != 0};
    require(p.a.cols == p.b.rows && rank >= 2 && y_shape[rank - 2] == p.a.rows && y_shape[rank - 1] == p.b.cols,
        "matmul: shapes do not fit");
    const bool column_scales = int_or(op, block_scaled ? 6 : 5, 0) != 0;
    const int extras = block_scaled ? 4 : 2;               // bias, then the scales of the columns
    require(op.ins.count == extras + has_bias + column_scales, "matmul: number of operands");

    // Batch axes broadcast; the valid extent is that of the operand that has the axis.
    const auto batch_axes = [&](const Operand& x, Strides& step, bool first) {
        const int own = x.shape.rank - 2;
        require(own <= rank - 2, "matmul: batch axes do not fit");
        for (int i = 0; i < own; ++i) {
            const int axis = rank - 2 - own + i;
            require(x.shape[i] == y_shape[axis] || x.shape[i] == 1, "matmul: batch axes do not broadcast");
            step[axis] = x.shape[i] == 1 ? 0 : x.stride[i];
            if (x.shape[i] == y_shape[axis] && (first || x.valid[i] < p.valid[axis])) p.valid[axis] = x.valid[i];
        }
    };
    batch_axes(a, p.a.batch, true);
    batch_axes(b, p.b.batch, false);
    p.m = p.valid[rank - 2] = p.a.valid_rows;
    p.n = p.valid[rank - 1] = p.b.valid_cols;
    p.k = std::min(p.a.valid_cols, p.b.valid_rows);
    for (int i = 0; i < rank - 2; ++i) p.batches *= p.valid[i];
    const TileInfo* tile = op.tile == NONE ? nullptr : &p_.tiles[op.tile];
    const auto cube = [&](size_t i) { return tile && tile->cube.size() > i && tile->cube[i] > 0 ? tile->cube[i] : 0; };
    p.k_block = std::max<int64_t>(cube(2) ? cube(2) : std::min<int64_t>(p.k, 128), 1);
    p.k_piece = std::max<int64_t>(tile && tile->split_k && cube(3) ? cube(3) : p.k, 1);

    const bool int8 = !is_float(a.dtype);
    const bool scaled = op.floats.count > 0 || column_scales;
    const DType made = tensor(out).dtype;
    const bool int8_fits = scaled ? made == DType::F16 || made == DType::I8 : made == DType::I32;
    if (int8) require(a.dtype == DType::I8 && b.dtype == DType::I8 && int8_fits, "matmul: dtypes do not fit");
    else require(f32_or_half(a.dtype) && f32_or_half(b.dtype), "matmul: operand dtypes");
    BufferRef bias;                                       // one row, in the dtype of the accumulator
    if (has_bias) {
        Shape row = ready(in_id(op, extras)).shape, box;
        require(row.rank >= 1 && row[row.rank - 1] == p.b.cols, "matmul: bias does not fit");
        row[row.rank - 1] = p.n;
        const Operand x = covering(op, extras, row);
        bias = scratch(p.n * 4);
        box.rank = 1;
        box[0] = p.n;
        const Strides from{x.stride[x.shape.rank - 1]};
        convert_box(x.dtype, x.data, from, int8 ? DType::I32 : DType::F32, bias.data(), dense_strides(box), box);
    }
    std::vector<float> scales(scaled ? static_cast<size_t>(p.n) : 0, static_cast<float>(float_arg(op, 0)));
    if (column_scales) {
        const int at = extras + has_bias;
        Shape needed = ready(in_id(op, at)).shape;
        const int axis = needed.rank - 1;
        require(needed[axis] == p.b.cols && needed.count() == p.b.cols, "matmul: the scales do not fit");
        needed[axis] = p.n;
        column_scale_values(covering(op, at, needed), axis, scales);
    }
    char* y = result(op, 0, p.valid);
    if (int8) {
        if (is_empty(p.valid)) return;
        const auto* row = bias ? reinterpret_cast<const int32_t*>(bias.data()) : nullptr;
        const int64_t stride = p.y_stride[rank - 2];
        const BufferRef sums = scaled ? scratch(p.m * p.n * 4 * p.batches) : BufferRef();
        p.for_batches([&](int64_t batch) {
            const int64_t at = p.offset(batch, p.y_stride);
            if (!scaled) return int8_batch(p, batch, row, reinterpret_cast<int32_t*>(y) + at, stride);
            int32_t* c = reinterpret_cast<int32_t*>(sums.data()) + batch * p.m * p.n;
            int8_batch(p, batch, row, c, p.n);
            scaled_rows(p, c, scales.data(), made, y + at * dtype_size_bytes(made), stride);
        });
        return;
    }

    const DType to = env_[out].dtype;
    require(scaled ? made == DType::I8 : f32_or_half(to) || to == DType::F64, "matmul: result dtype");
    if (is_empty(p.valid)) return;
    const bool direct = !scaled && (env_[out].wide || to == DType::F32);
    const int64_t area = p.m * p.n;
    BufferRef products, pieces;
    if (!direct) products = scratch(area * 4 * p.batches);
    if (p.k_piece < p.k) pieces = scratch(area * 4 * p.batches);
    const auto* row = bias ? reinterpret_cast<const float*>(bias.data()) : nullptr;
    p.for_batches([&](int64_t batch) {
        const int64_t at = p.offset(batch, p.y_stride);
        float* c = direct ? reinterpret_cast<float*>(y) + at : reinterpret_cast<float*>(products.data()) + batch * area;
        float* piece = pieces ? reinterpret_cast<float*>(pieces.data()) + batch * area : nullptr;
        float_batch(p, batch, row, c, direct ? p.y_stride[rank - 2] : p.n, piece);
        if (direct) return;
        if (scaled)
            return scaled_rows(p, c, scales.data(), made, y + at * dtype_size_bytes(made), p.y_stride[rank - 2]);
        Shape box;
        box.rank = 2;
        box[0] = p.m;
        box[1] = p.n;
        const Strides y_rows{p.y_stride[rank - 2], 1};
        convert_box(DType::F32, reinterpret_cast<const char*>(c), dense_strides(box), to,
            y + at * dtype_size_bytes(to), y_rows, box);
    });
}

}  // namespace npu
