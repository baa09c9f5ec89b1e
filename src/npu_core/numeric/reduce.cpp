// Machine: sum, amax, amin, prod over the valid box of one axis.
//
// fp32 order: whole tiles along the axis are combined as the PAIR tree (halving to a power of two, the remainder folded
// in when it is at least half as long), then the last tile: on the last axis by the kernels' fixed lane order, on
// another axis by halving vector adds. The tile length is that of the vector tile at the axis. Under numerics "0.2.0"
// the last tile is summed in the order of that release's interpreter.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "npu_core/base/thread_pool.h"
#include "npu_core/kernels/kernels.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/integer.h"
#include "npu_core/numeric/interpreter_sum.h"
#include "npu_core/numeric/machine.h"
#include "npu_core/program/opcodes.h"

namespace npu {

namespace {

constexpr int64_t BLOCK_FLOATS = 1 << 18;  // of a block of columns: 1 MiB, inside L2

struct Geometry {
    int axis;
    int64_t length, tile;
    int64_t last_tile;               // tile length of the last axis
    bool interpreter;                // order of the 0.2.0 interpreter inside a tile
};

Binary pair_op(Opcode code) {
    switch (code) {
        case Opcode::SUM: return Binary::ADD;
        case Opcode::PROD: return Binary::MUL;
        case Opcode::AMAX: return Binary::MAX;
        default: return Binary::MIN;
    }
}

float neutral(Opcode code) {
    constexpr float INF = std::numeric_limits<float>::infinity();
    return code == Opcode::SUM ? 0.0f : code == Opcode::PROD ? 1.0f : code == Opcode::AMAX ? -INF : INF;
}

// `at` rows of `width` floats; tiles of `tile` rows are combined into the first one. Returns the rows of that tile.
int64_t pair_tree(float* x, int64_t length, int64_t tile, int64_t width, Binary op) {
    const auto combine = [&](int64_t into, int64_t from) {
        const int64_t rows = std::min(tile, length - from * tile);
        float* a = x + into * tile * width;
        kernels().binary[static_cast<int>(op)](a, x + from * tile * width, a, rows * width);
    };
    const int64_t tiles = (length + tile - 1) / tile;
    int64_t whole = 1;
    while (whole * 2 <= tiles) whole *= 2;
    int64_t remainder = whole, rest = tiles - whole;
    while (whole > 1) {
        const int64_t half = whole / 2;
        for (int64_t j = 0; j < half; ++j) combine(j, j + half);
        if (rest >= half) {
            for (int64_t j = 0; j < half; ++j) combine(j, remainder + j);
            remainder += half;
            rest -= half;
        }
        whole = half;
    }
    return std::min(tile, length);
}

constexpr int64_t LANES = 64;

// A length that halving leaves whole down to the kernels' 64 lanes.
bool halves_to_lanes(int64_t n) { return n >= LANES && n % LANES == 0 && (n & (n - 1)) == 0; }

float one_nan(float y) { return y == y ? y : std::numeric_limits<float>::quiet_NaN(); }   // which of several NaNs comes through differs between ISA levels

float row_in_tile(float* x, int64_t n, Opcode code, bool interpreter) {
    const KernelTable& k = kernels();
    if (code == Opcode::SUM) return one_nan(interpreter ? interpreter_row_sum(x, n) : k.row_sum(x, n));
    if (code == Opcode::AMAX) return k.row_max(x, n);
    if (code == Opcode::AMIN) return k.row_min(x, n);
    while (n > LANES && !halves_to_lanes(n)) {
        const int64_t half = (n + 1) / 2;
        k.binary[static_cast<int>(Binary::MUL)](x, x + half, x, n - half);
        n = half;
    }
    if (halves_to_lanes(n)) return one_nan(k.row_product(x, n / LANES));
    for (; n > 1; n = (n + 1) / 2)                      // short rows: without the calls
        for (int64_t i = 0, half = (n + 1) / 2; i < n - half; ++i) x[i] *= x[i + half];
    return one_nan(x[0]);
}

// Index of the outer axes (all but `skip_a`, `skip_b`) from a running number, as offsets into x and y.
struct Outer {
    int count = 0;
    int64_t n[MAX_RANK], sx[MAX_RANK], sy[MAX_RANK];
    void add(int64_t extent, int64_t stride_x, int64_t stride_y) {
        n[count] = extent;
        sx[count] = stride_x;
        sy[count++] = stride_y;
    }
    int64_t total() const {
        int64_t t = 1;
        for (int i = 0; i < count; ++i) t *= n[i];
        return t;
    }
    void offsets(int64_t at, int64_t* x, int64_t* y) const {
        *x = *y = 0;
        for (int i = count - 1; i >= 0; --i) {
            *x += at % n[i] * sx[i];
            *y += at % n[i] * sy[i];
            at /= n[i];
        }
    }
};

template <class T>
T fold(Opcode code, const T* x, int64_t stride, int64_t n) {
    constexpr bool FLOAT = std::is_floating_point_v<T>;
    using L = std::numeric_limits<T>;
    T acc{};
    if (code == Opcode::PROD) acc = 1;
    if (code == Opcode::AMAX) acc = FLOAT ? -L::infinity() : L::lowest();
    if (code == Opcode::AMIN) acc = FLOAT ? L::infinity() : L::max();
    for (int64_t i = 0; i < n; ++i) {
        const T v = x[i * stride];
        switch (code) {
            case Opcode::SUM: if constexpr (FLOAT) acc += v; else acc = wrap_add(acc, v); break;
            case Opcode::PROD: if constexpr (FLOAT) acc *= v; else acc = wrap_mul(acc, v); break;
            case Opcode::AMAX: acc = acc != acc || acc > v ? acc : v; break;
            default: acc = acc != acc || acc < v ? acc : v;
        }
    }
    return acc;
}

template <class T>
void fold_all(Opcode code, const Operand& x, const Geometry& g, const Outer& outer, char* y) {
    parallel_ranges(outer.total(), 0.5 * static_cast<double>(outer.total() * g.length), [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i) {
            int64_t ox, oy;
            outer.offsets(i, &ox, &oy);
            reinterpret_cast<T*>(y)[oy] = fold(code, reinterpret_cast<const T*>(x.data) + ox, x.stride[g.axis],
                g.length);
        }
    });
}

// Last axis: a row at a time.
void fp32_rows(Opcode code, const Operand& x, const Geometry& g, const Outer& outer, DType to, char* y) {
    const int to_size = dtype_size_bytes(to);
    const bool tiled = g.length > g.tile;
    const bool in_place = x.dtype == DType::F32 && x.stride[g.axis] == 1 && !tiled &&
                          (code != Opcode::PROD || halves_to_lanes(g.length));
    parallel_ranges(outer.total(), static_cast<double>(outer.total()) * (10 + 0.3 * static_cast<double>(g.length)),
        [&](int64_t b, int64_t e) {
        std::vector<float> row(in_place ? 0 : static_cast<size_t>(g.length));
        for (int64_t i = b; i < e; ++i) {
            int64_t ox, oy;
            outer.offsets(i, &ox, &oy);
            float v = neutral(code);
            if (in_place) {
                v = row_in_tile(const_cast<float*>(reinterpret_cast<const float*>(x.data)) + ox, g.length, code,
                    g.interpreter);
            } else if (code == Opcode::PROD && x.dtype == DType::F32 && x.stride[g.axis] == 1 && !tiled && g.length > 1) {
                const auto* from = reinterpret_cast<const float*>(x.data) + ox;
                const int64_t half = (g.length + 1) / 2;    // the first halving, out of place
                kernels().binary[static_cast<int>(Binary::MUL)](from, from + half, row.data(), g.length - half);
                if (g.length % 2) row[half - 1] = from[half - 1];
                v = row_in_tile(row.data(), half, code, g.interpreter);
            } else if (g.length > 0) {
                load_f32(x.dtype, x.data + ox * x.size(), x.stride[g.axis], row.data(), g.length);
                const int64_t n = tiled ? pair_tree(row.data(), g.length, g.tile, 1, pair_op(code)) : g.length;
                v = row_in_tile(row.data(), n, code, g.interpreter);
            }
            cast_row({DType::F32, to}, &v, y + oy * to_size, 1);
        }
    });
}

// Columns `col` .. of a row of `width`, cut at the tiles of the last axis. The sums replace the first row.
void interpreter_columns(float* x, int64_t rows, int64_t n, int64_t col, int64_t width, int64_t tile) {
    std::vector<float> sums(static_cast<size_t>(n));
    for (int64_t c = 0; c < n;) {
        const int64_t start = (col + c) / tile * tile, first = col + c - start;
        const int64_t in_tile = std::min(tile, width - start), count = std::min(n - c, in_tile - first);
        if (in_tile == 1) {
            std::vector<float> column(static_cast<size_t>(rows));
            for (int64_t r = 0; r < rows; ++r) column[r] = x[r * n + c];
            sums[c] = interpreter_row_sum(column.data(), rows);
        } else {
            interpreter_column_sums(x + c, rows, n, count, first, in_tile, sums.data() + c);
        }
        c += count;
    }
    std::copy(sums.begin(), sums.end(), x);
}

// Another axis: columns of the last axis in blocks that stay in cache; the bits do not depend on the blocks.
void fp32_columns(Opcode code, const Operand& x, const Geometry& g, const Outer& outer, int64_t width, DType to,
    char* y) {
    const int last = x.shape.rank - 1;
    const int to_size = dtype_size_bytes(to);
    const Binary op = pair_op(code);
    // The order matters for sums and products; for max and min halving pays when rows are short.
    const bool ordered = code == Opcode::SUM || code == Opcode::PROD || width < 64;
    const int64_t block = std::clamp<int64_t>(ordered ? BLOCK_FLOATS / std::max<int64_t>(g.length, 1) : 1024, 16, 1024);
    const int64_t blocks = (width + block - 1) / block, units = outer.total() * blocks;
    parallel_ranges(units, 0.4 * static_cast<double>(outer.total() * width * g.length), [&](int64_t b, int64_t e) {
        std::vector<float> work(static_cast<size_t>(block * (ordered ? std::max<int64_t>(g.length, 1) : 2)));
        for (int64_t u = b; u < e; ++u) {
            int64_t ox, oy;
            outer.offsets(u / blocks, &ox, &oy);
            const int64_t col = u % blocks * block, n = std::min(block, width - col);
            ox += col * x.stride[last];
            float* acc = work.data();
            if (g.length == 0) kernels().fill_f32(neutral(code), acc, n);
            const bool together = ordered && n == width && x.stride[last] == 1 && x.stride[g.axis] == n;
            if (together) load_f32(x.dtype, x.data + ox * x.size(), 1, acc, g.length * n);
            for (int64_t r = 0; r < (together ? 0 : g.length); ++r) {
                float* into = ordered ? acc + r * n : r == 0 ? acc : acc + block;
                load_f32(x.dtype, x.data + (ox + r * x.stride[g.axis]) * x.size(), x.stride[last], into, n);
                if (!ordered && r > 0) kernels().binary[static_cast<int>(op)](acc, into, acc, n);
            }
            if (ordered && g.length > 0) {
                int64_t rows = pair_tree(acc, g.length, g.tile, n, op);
                if (g.interpreter && code == Opcode::SUM) {
                    interpreter_columns(acc, rows, n, col, width, g.last_tile);
                    rows = 1;
                }
                while (rows > 1) {
                    const int64_t half = (rows + 1) / 2;
                    kernels().binary[static_cast<int>(op)](acc, acc + half * n, acc, (rows - half) * n);
                    rows = half;
                }
            }
            store_f32(to, acc, y + (oy + col) * to_size, n);
        }
    });
}

}  // namespace

void Machine::reduce(const Op& op) {
    const Opcode code = static_cast<Opcode>(op.opcode);
    const Operand x = operand(op, 0);
    const int rank = x.shape.rank, last = rank - 1;
    Geometry g{static_cast<int>(int_arg(op, 0)), 0, 0, x.valid[last], p_.numerics == Numerics::V0_2_0};
    require(g.axis >= 0 && g.axis < rank, "reduction: axis out of range");
    g.length = g.tile = x.valid[g.axis];
    if (op.tile != NONE) {
        const auto& vec = p_.tiles[op.tile].vec;
        if (static_cast<size_t>(g.axis) < vec.size() && vec[g.axis] > 0) g.tile = vec[g.axis];
        if (static_cast<size_t>(last) < vec.size() && vec[last] > 0) g.last_tile = vec[last];
    }
    g.tile = std::max<int64_t>(g.tile, 1);
    g.last_tile = std::max<int64_t>(g.last_tile, 1);
    // The result keeps the axis with extent 1, drops it, or (a vector reduced without keepdim) is [1].
    const Shape& y_shape = tensor(out_id(op, 0)).shape;
    Shape valid = y_shape;
    const bool drops = y_shape.rank == rank - 1;
    require(drops || (y_shape.rank == rank && y_shape[g.axis] == 1), "reduction: result rank does not fit");
    for (int i = 0, o = 0; i < rank; ++i) {
        if (i == g.axis) {
            if (!drops) valid[o++] = 1;
            continue;
        }
        require(y_shape[o] == x.shape[i], "reduction: result shape does not fit");
        valid[o++] = x.valid[i];
    }
    char* y = result(op, 0, valid);
    const DType to = op.wide_out && is_half(env_[out_id(op, 0)].dtype) ? DType::F32 : env_[out_id(op, 0)].dtype;
    if (is_empty(valid)) return;
    const Strides y_stride = dense_strides(y_shape);
    const auto y_axis = [&](int i) { return y_stride[drops && i > g.axis ? i - 1 : i]; };
    const bool fp32 = is_float(x.dtype) && x.dtype != DType::F64;
    const bool columns = fp32 && g.axis != last;
    Outer outer;
    for (int i = 0; i < rank; ++i)
        if (i != g.axis && !(columns && i == last)) outer.add(x.valid[i], x.stride[i], y_axis(i));
    if (fp32) {
        require(is_float(to) && to != DType::F64, "reduction: result dtype does not fit");
        if (columns) fp32_columns(code, x, g, outer, x.valid[last], to, y);
        else fp32_rows(code, x, g, outer, to, y);
        return;
    }
    require(to == x.dtype, "reduction: result dtype does not fit");
    switch (x.dtype) {
        case DType::F64: return fold_all<double>(code, x, g, outer, y);
        case DType::I8: return fold_all<int8_t>(code, x, g, outer, y);
        case DType::I16: return fold_all<int16_t>(code, x, g, outer, y);
        case DType::I32: return fold_all<int32_t>(code, x, g, outer, y);
        case DType::I64: return fold_all<int64_t>(code, x, g, outer, y);
        case DType::U8:
        case DType::BOOL: return fold_all<uint8_t>(code, x, g, outer, y);
        case DType::U16: return fold_all<uint16_t>(code, x, g, outer, y);
        case DType::U32: return fold_all<uint32_t>(code, x, g, outer, y);
        default: return fold_all<uint64_t>(code, x, g, outer, y);
    }
}

}  // namespace npu
