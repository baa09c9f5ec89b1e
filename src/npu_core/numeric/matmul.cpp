// Machine: matmul. K beyond an operand's valid box counts as zero; bias starts the accumulation in fp32; one rounding
// at the end. The result does not depend on how batches, rows and columns are shared among threads.
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

// Dequantised on the way out: times the scale in fp32, then one rounding to fp16.
void scaled_rows(const Product& p, const int32_t* sums, float scale, uint16_t* y, int64_t y_stride) {
    const KernelTable& t = kernels();
    std::vector<float> row(static_cast<size_t>(p.n));
    for (int64_t r = 0; r < p.m; ++r) {
        t.i32_to_f32(sums + r * p.n, row.data(), p.n);
        t.binary_vs[static_cast<int>(Binary::MUL)](row.data(), scale, row.data(), p.n);
        t.f32_to_f16(row.data(), y + r * y_stride, p.n);
    }
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

void Machine::matmul(const Op& op) {
    const Operand a = operand(op, 0), b = operand(op, 1);
    require(a.shape.rank >= 2 && b.shape.rank >= 2, "matmul: an operand has less than two axes");
    const Id out = out_id(op, 0);
    const Shape y_shape = tensor(out).shape;
    const int rank = y_shape.rank;
    const bool has_bias = int_arg(op, 2) != 0;
    Product p{side(a, int_arg(op, 0) != 0), side(b, int_arg(op, 1) != 0), y_shape, dense_strides(y_shape), 0, 0, 0,
        0, 0, 1, int_arg(op, 3) != 0};
    require(p.a.cols == p.b.rows && rank >= 2 && y_shape[rank - 2] == p.a.rows && y_shape[rank - 1] == p.b.cols,
        "matmul: shapes do not fit");
    require(op.ins.count == 2 + has_bias, "matmul: number of operands");

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
    const bool scaled = int8 && op.floats.count > 0;
    const DType int8_result = scaled ? DType::F16 : DType::I32;
    if (int8) require(a.dtype == DType::I8 && b.dtype == DType::I8 && tensor(out).dtype == int8_result,
        "matmul: dtypes do not fit");
    else require(f32_or_half(a.dtype) && f32_or_half(b.dtype), "matmul: operand dtypes");
    BufferRef bias;                                       // one row, in the dtype of the accumulator
    if (has_bias) {
        Shape row = ready(in_id(op, 2)).shape, box;
        require(row.rank >= 1 && row[row.rank - 1] == p.b.cols, "matmul: bias does not fit");
        row[row.rank - 1] = p.n;
        const Operand x = covering(op, 2, row);
        bias = scratch(p.n * 4);
        box.rank = 1;
        box[0] = p.n;
        const Strides from{x.stride[x.shape.rank - 1]};
        convert_box(x.dtype, x.data, from, int8 ? DType::I32 : DType::F32, bias.data(), dense_strides(box), box);
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
            scaled_rows(p, c, static_cast<float>(float_arg(op, 0)), reinterpret_cast<uint16_t*>(y) + at, stride);
        });
        return;
    }

    const DType to = env_[out].dtype;
    require(f32_or_half(to) || to == DType::F64, "matmul: result dtype");
    if (is_empty(p.valid)) return;
    const bool direct = env_[out].wide || to == DType::F32;
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
