// Reductions: tiles are combined in a tree of pairs, then within the last tile.
// Source: hicann/pypto@r0.2.0 interface/operation/vector/reduction.cpp (TileReduceNew).
#include <algorithm>

#include "npu_core/lowering/expand.h"

namespace npu::lowering {
namespace {

Opcode pair_of(Opcode c) {
    switch (c) {
        case Opcode::ROWSUM_SINGLE: case Opcode::ROWSUMLINE: return Opcode::PAIRSUM;
        case Opcode::ROWMAX_SINGLE: case Opcode::ROWMAXLINE: return Opcode::PAIRMAX;
        case Opcode::ROWMIN_SINGLE: case Opcode::ROWMINLINE: return Opcode::PAIRMIN;
        default: return Opcode::PAIRPROD;
    }
}

struct Column {
    Ref in;
    int axis;
    int64_t step;      // tile along the axis
    Shape at, size;    // of the column; size[axis] is the tile
    Opcode pair;
};

int32_t source_tile(Expander& e, const Column& c, int64_t number) {
    Shape at = c.at;
    at[c.axis] = number * c.step;
    return e.in_tile(c.in, at, c.size);
}

// The one tile that is left after combining all tiles along the axis.
int32_t combine(Expander& e, const Column& c) {
    const int64_t count = (c.in.shape[c.axis] + c.step - 1) / c.step;
    if (count == 1) return source_tile(e, c, 0);
    int64_t power = 1;
    while (power * 2 <= count) power *= 2;
    int64_t rest = count - power, next_rest = power;
    std::vector<int32_t> current;
    bool first = true;
    while (power > 1) {
        const int64_t half = power / 2;
        auto level = [&](auto&& left, auto&& right) {
            const Ref storage = e.fresh(c.in.shape, c.in.dtype);
            std::vector<int32_t> out;
            for (int64_t j = 0; j < half; ++j) {
                Shape at = c.at;
                at[c.axis] = j * c.step;
                const int32_t to = e.out_tile(storage, at, c.size);
                const int32_t a = left(j), b = right(j);
                e.emit(c.pair, {a, b}, {to});
                out.push_back(to);
            }
            current = std::move(out);
        };
        const std::vector<int32_t> previous = current;
        if (first) level([&](int64_t j) { return source_tile(e, c, j); }, [&](int64_t j) { return source_tile(e, c, j + half); });
        else level([&](int64_t j) { return previous[j]; }, [&](int64_t j) { return previous[j + half]; });
        first = false;
        if (rest >= half) {
            const std::vector<int32_t> results = current;
            level([&](int64_t j) { return results[j]; }, [&](int64_t j) { return source_tile(e, c, next_rest + j); });
            rest -= half;
            next_rest += half;
        }
        power = half;
    }
    return current[0];
}

Shape last_axis_scratch(Opcode code, const Shape& tile, DType dtype) {
    if (code == Opcode::ROWPROD_SINGLE) return tile;
    const int64_t size = dtype_size_bytes(dtype), block = 256 / size, unit = 32 / size;
    const int64_t length = tile[tile.rank - 1], rows = tile.rank > 1 ? tile[tile.rank - 2] : 1;
    Shape s;
    s.rank = 2;
    if (length <= block) { s[0] = 1; s[1] = unit; }
    else if (length <= 2 * block) { s[0] = rows; s[1] = block; }
    else { s[0] = rows; s[1] = length * size / 256 / 2 * block; }
    if (tile.rank == 1) { s.rank = 1; s[0] = s[1]; }
    return s;
}

void reduce(Expander& e, bool line) {
    const Op op = e.source();
    const Ref in = e.ref(op.in[0]), out = e.ref(op.out[0]);
    const int axis = e.attributes().axis;
    Shape outer = in.shape;
    outer[axis] = 1;
    const int64_t step = std::min(e.vec_step(in.shape.rank)[axis], in.shape[axis]);
    e.each_tile(outer, [&](const Shape& at, const Shape& size) {
        const int32_t to = e.out_tile(out, at, size);
        Column c{in, axis, step, at, size, pair_of(op.code)};
        c.size[axis] = step;
        const int32_t tile = combine(e, c);
        const Shape shape = e.graph().tensors[tile].shape;
        Ids outs{to};
        if (!line) {
            outs.push_back(e.fresh_tensor(last_axis_scratch(op.code, shape, in.dtype), in.dtype));
        } else if (op.code == Opcode::ROWSUMLINE) {
            Shape scratch;
            scratch.rank = 2;
            scratch[0] = (shape[axis] + 1) / 2;
            scratch[1] = (shape[shape.rank - 1] + 7) / 8 * 8;
            outs.push_back(e.fresh_tensor(scratch, in.dtype));
        }
        e.emit(op.code, {tile}, outs);
    });
}

}  // namespace

bool is_reduce_line(Opcode c) {
    return c == Opcode::ROWSUMLINE || c == Opcode::ROWMAXLINE || c == Opcode::ROWMINLINE || c == Opcode::ROWPRODLINE;
}

void expand_reduce_last(Expander& e) { reduce(e, false); }
void expand_reduce_line(Expander& e) { reduce(e, true); }

}  // namespace npu::lowering
