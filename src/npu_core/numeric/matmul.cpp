// Machine: matmul. K beyond an operand's valid box counts as zero; bias starts the accumulation in fp32; one rounding at
// the end. The result does not depend on how rows and columns are shared among threads.
#include <algorithm>
#include <cstring>
#include <vector>

#include "npu_core/base/thread_pool.h"
#include "npu_core/kernels/kernels.h"
#include "npu_core/numeric/machine.h"

namespace npu {

namespace {

// One operand seen as [batch..., rows, cols] after its transpose flag.
struct Side {
    int64_t rows, cols, valid_rows, valid_cols, row_stride, col_stride;
};
Side side(const Operand& x, bool transposed) {
    const int r = x.shape.rank - 2, c = x.shape.rank - 1;
    Side s{x.shape[r], x.shape[c], x.valid[r], x.valid[c], x.stride[r], x.stride[c]};
    if (transposed) {
        std::swap(s.rows, s.cols);
        std::swap(s.valid_rows, s.valid_cols);
        std::swap(s.row_stride, s.col_stride);
    }
    return s;
}

// Splits [0, m) x [0, n) over the threads along the longer side.
template <class F>
void split(int64_t m, int64_t n, double ns, F&& f) {
    constexpr int64_t ROWS = 16, COLS = 64;
    if (m >= n / 4) {
        parallel_ranges((m + ROWS - 1) / ROWS, ns, [&](int64_t b, int64_t e) { f(b * ROWS, std::min(m, e * ROWS), int64_t{0}, n); });
    } else {
        parallel_ranges((n + COLS - 1) / COLS, ns, [&](int64_t b, int64_t e) { f(int64_t{0}, m, b * COLS, std::min(n, e * COLS)); });
    }
}

}  // namespace

void Machine::matmul(const Op& op) {
    const Operand a = operand(op, 0), b = operand(op, 1);
    require(a.shape.rank >= 2 && b.shape.rank >= 2, "matmul: an operand has less than two axes");
    const Side sa = side(a, int_arg(op, 0) != 0), sb = side(b, int_arg(op, 1) != 0);
    const bool has_bias = int_arg(op, 2) != 0, relu = int_arg(op, 3) != 0;
    const Id out = out_id(op, 0);
    const Shape y_shape = tensor(out).shape;
    const int rank = y_shape.rank;
    require(sa.cols == sb.rows && rank >= 2 && y_shape[rank - 2] == sa.rows && y_shape[rank - 1] == sb.cols, "matmul: shapes do not fit");
    require(op.ins.count == 2 + has_bias, "matmul: number of operands");

    // Batch axes broadcast; the valid extent is that of the operand that has the axis.
    Shape valid = y_shape;
    Strides batch_a{}, batch_b{};
    const auto batch_axes = [&](const Operand& x, Strides& step, bool first) {
        const int own_batch = x.shape.rank - 2;
        require(own_batch <= rank - 2, "matmul: batch axes do not fit");
        for (int i = 0; i < own_batch; ++i) {
            const int axis = rank - 2 - own_batch + i;
            require(x.shape[i] == y_shape[axis] || x.shape[i] == 1, "matmul: batch axes do not broadcast");
            step[axis] = x.shape[i] == 1 ? 0 : x.stride[i];
            if (x.shape[i] == y_shape[axis] && (first || x.valid[i] < valid[axis])) valid[axis] = x.valid[i];
        }
    };
    batch_axes(a, batch_a, true);
    batch_axes(b, batch_b, false);
    valid[rank - 2] = sa.valid_rows;
    valid[rank - 1] = sb.valid_cols;
    const int64_t m = sa.valid_rows, n = sb.valid_cols, k = std::min(sa.valid_cols, sb.valid_rows);
    int64_t batches = 1;
    for (int i = 0; i < rank - 2; ++i) batches *= valid[i];

    const TileInfo* tile = op.tile == NONE ? nullptr : &p_.tiles[op.tile];
    int64_t k_block = tile && tile->cube.size() > 2 && tile->cube[2] > 0 ? tile->cube[2] : std::min<int64_t>(k, 128);
    k_block = std::max<int64_t>(k_block, 1);
    // Split K: one product per kL1 piece, added left to right.
    int64_t k_piece = tile && tile->split_k && tile->cube.size() > 3 && tile->cube[3] > 0 ? tile->cube[3] : k;
    k_piece = std::max<int64_t>(k_piece, 1);

    const double ns = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / 50.0;
    const Strides y_stride = dense_strides(y_shape);
    const auto batch_offset = [&](int64_t batch, const Strides& step) {
        int64_t o = 0;
        for (int i = rank - 3; i >= 0; --i) {
            o += batch % valid[i] * step[i];
            batch /= valid[i];
        }
        return o;
    };

    if (!is_float(a.dtype)) {
        const bool scaled = op.floats.count > 0;       // dequantised on the way out: relu, times the scale, one rounding
        require(a.dtype == DType::I8 && b.dtype == DType::I8 && tensor(out).dtype == (scaled ? DType::F16 : DType::I32), "matmul: dtypes do not fit");
        BufferRef bias;
        if (has_bias) {
            Shape row = env_[in_id(op, 2)].shape;
            row[row.rank - 1] = n;
            const Operand x = covering(op, 2, row);
            require(x.shape.rank >= 1 && x.shape[x.shape.rank - 1] == sb.cols, "matmul: bias does not fit");
            bias = scratch(n * 4);
            Shape box;
            box.rank = 1;
            box[0] = n;
            Strides from{x.stride[x.shape.rank - 1]};
            convert_box(x.dtype, x.data, from, DType::I32, bias.data(), dense_strides(box), box);
        }
        char* y = result(op, 0, valid);
        if (is_empty(valid)) return;
        const BufferRef sums = scaled ? scratch(m * n * 4) : BufferRef();
        std::vector<float> row(scaled ? static_cast<size_t>(n) : 0);
        for (int64_t batch = 0; batch < batches; ++batch) {
            GemmArgsI8 g{};
            g.a = reinterpret_cast<const int8_t*>(a.data) + batch_offset(batch, batch_a);
            g.a_row_stride = sa.row_stride;
            g.a_col_stride = sa.col_stride;
            g.b = reinterpret_cast<const int8_t*>(b.data) + batch_offset(batch, batch_b);
            g.b_row_stride = sb.row_stride;
            g.b_col_stride = sb.col_stride;
            g.bias = bias ? reinterpret_cast<const int32_t*>(bias.data()) : nullptr;
            const int64_t y_offset = batch_offset(batch, y_stride);
            g.c = scaled ? reinterpret_cast<int32_t*>(sums.data()) : reinterpret_cast<int32_t*>(y) + y_offset;
            g.c_row_stride = scaled ? n : y_stride[rank - 2];
            g.m = m, g.n = n, g.k = k;
            constexpr int64_t ROWS = 16;
            parallel_ranges((m + ROWS - 1) / ROWS, ns, [&](int64_t from, int64_t to) { kernels().gemm_i8(g, from * ROWS, std::min(m, to * ROWS)); });
            if (relu)
                for (int64_t r = 0; r < m; ++r)
                    for (int64_t c = 0; c < n; ++c) g.c[r * g.c_row_stride + c] = std::max(0, g.c[r * g.c_row_stride + c]);
            for (int64_t r = 0; scaled && r < m; ++r) {
                const KernelTable& rows = kernels();
                rows.i32_to_f32(g.c + r * n, row.data(), n);
                rows.binary_vs[static_cast<int>(Binary::MUL)](row.data(), static_cast<float>(float_arg(op, 0)), row.data(), n);
                rows.f32_to_f16(row.data(), reinterpret_cast<uint16_t*>(y) + y_offset + r * y_stride[rank - 2], n);
            }
        }
        return;
    }

    const auto f32_or_half = [](DType t) { return t == DType::F32 || is_half(t); };
    require(f32_or_half(a.dtype) && f32_or_half(b.dtype), "matmul: operand dtypes");
    BufferRef bias;
    if (has_bias) {
        Shape row = env_[in_id(op, 2)].shape;
        require(row.rank >= 1 && row[row.rank - 1] == sb.cols, "matmul: bias does not fit");
        row[row.rank - 1] = n;
        const Operand x = covering(op, 2, row);
        bias = scratch(n * 4);
        load_f32(x.dtype, x.data, x.stride[x.shape.rank - 1], reinterpret_cast<float*>(bias.data()), n);
    }
    char* y = result(op, 0, valid);
    const DType to = env_[out].dtype;
    require(f32_or_half(to) || to == DType::F64, "matmul: result dtype");
    const bool direct = env_[out].wide || to == DType::F32;
    if (is_empty(valid)) return;
    BufferRef product, piece;
    if (!direct) product = scratch(m * n * 4);
    if (k_piece < k) piece = scratch(m * n * 4);
    for (int64_t batch = 0; batch < batches; ++batch) {
        GemmArgs g{};
        g.a = a.data + batch_offset(batch, batch_a) * a.size();
        g.a_type = a.dtype;
        g.a_row_stride = sa.row_stride;
        g.a_col_stride = sa.col_stride;
        g.b = b.data + batch_offset(batch, batch_b) * b.size();
        g.b_type = b.dtype;
        g.b_row_stride = sb.row_stride;
        g.b_col_stride = sb.col_stride;
        g.bias = bias ? reinterpret_cast<const float*>(bias.data()) : nullptr;
        const int64_t y_offset = batch_offset(batch, y_stride);
        float* c = direct ? reinterpret_cast<float*>(y) + y_offset : reinterpret_cast<float*>(product.data());
        const int64_t c_stride = direct ? y_stride[rank - 2] : n;
        g.c = c;
        g.c_row_stride = c_stride;
        g.m = m, g.n = n, g.k = std::min(k, k_piece), g.k_block = k_block;
        const auto run = [&] { split(m, n, ns, [&](int64_t m0, int64_t m1, int64_t n0, int64_t n1) { kernels().gemm(g, m0, m1, n0, n1); }); };
        run();
        for (int64_t at = k_piece; at < k; at += k_piece) {
            g.a = static_cast<const char*>(g.a) + k_piece * sa.col_stride * a.size();
            g.b = static_cast<const char*>(g.b) + k_piece * sb.row_stride * b.size();
            g.bias = nullptr;
            g.k = std::min(k_piece, k - at);
            g.c = reinterpret_cast<float*>(piece.data());
            g.c_row_stride = n;
            run();
            for (int64_t r = 0; r < m; ++r) kernels().binary[static_cast<int>(Binary::ADD)](c + r * c_stride, g.c + r * n, c + r * c_stride, n);
        }
        if (relu)
            for (int64_t r = 0; r < m; ++r) kernels().unary[static_cast<int>(Unary::RELU)](c + r * c_stride, c + r * c_stride, n);
        if (!direct) {
            Shape box;
            box.rank = 2;
            box[0] = m;
            box[1] = n;
            Strides y_rows{y_stride[rank - 2], 1};
            convert_box(DType::F32, product.data(), dense_strides(box), to, y + y_offset * dtype_size_bytes(to), y_rows, box);
        }
    }
}

}  // namespace npu
