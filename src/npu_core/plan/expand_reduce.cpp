// Reductions as trees of tiles, and sorts.
#include <algorithm>

#include "npu_core/plan/tile_expander.h"

namespace npu::plan {

void TileExpander::reduce(const BlockOp& op) {
    const Shape& full = shape(op.in[0]);
    Shape outer = full;
    outer[op.axis] = 1;
    const int64_t length = full[op.axis];
    const int64_t tile = std::max<int64_t>(1, std::min(length, op.axis < op.tile.rank ? op.tile[op.axis] : length));
    const int64_t n = ceil_div(length, tile);
    Shape outer_tile = op.tile;
    if (op.axis < outer_tile.rank) outer_tile[op.axis] = 1;
    tiles(outer, outer_tile, [&](const Shape& at, const Shape& extent) {
        auto part = [&](int64_t j) {
            Shape a = at, e = extent;
            a[op.axis] = j * tile;
            e[op.axis] = std::min(tile, length - j * tile);
            const Produced& p = produced(op.in[0]);
            if (n > 1 && e[op.axis] < tile && p.tiles.size() == 1) {   // the last tile of a whole tensor is read in full
                e[op.axis] = tile;
                return view_of(p.tiles[0], a, e);
            }
            return ask(op.in[0], a, e);
        };
        auto pair = [&](Id x, Id y) {
            Id out = g_.add_like(x);
            g_.add_op(op.pair, {x, y}, {out}, src_);
            return out;
        };
        int64_t power = 1;
        while (power * 2 <= n) power *= 2;
        int64_t rest = n - power, next = power;
        std::vector<Id> level;   // empty: the leaves themselves
        int64_t count = power;
        while (count > 1) {
            const int64_t half = count / 2;
            std::vector<Id> up;
            for (int64_t j = 0; j < half; ++j) {
                Id x = level.empty() ? part(j) : level[j];
                Id y = level.empty() ? part(j + half) : level[j + half];
                up.push_back(pair(x, y));
            }
            if (rest >= half) {
                for (int64_t j = 0; j < half; ++j) up[j] = pair(up[j], part(next + j));
                rest -= half;
                next += half;
            }
            level = std::move(up);
            count = half;
        }
        Id x = level.empty() ? part(0) : level[0];
        Shape to = g_.tensors[x].shape;
        to[op.axis] = 1;
        std::vector<Id> out{make_tile(op.out[0], at, to)};
        if (Id tmp = reduce_scratch(op, g_.tensors[x].shape, g_.tensors[x].dtype); tmp != NONE) out.push_back(tmp);
        g_.add_op(op.code, {x}, out, src_);
    });
}

Id TileExpander::reduce_scratch(const BlockOp& op, const Shape& in, DType type) {
    const int64_t size = dtype_size_bytes(type);
    const int last = in.rank - 1;
    const int64_t rows = in.rank > 1 ? in[in.rank - 2] : 1;
    Shape s = in.rank > 1 ? zeros(2) : zeros(1);
    if (op.code == Code::ROWPROD_SINGLE) return scratch(in, type);
    if (op.axis == last) {
        const int64_t lanes = 256 / size, block = 32 / size;
        int64_t cols = in[last] <= lanes ? block : in[last] <= 2 * lanes ? lanes : (in[last] * size / 256 / 2) * lanes;
        if (in.rank > 1) s[0] = in[last] <= lanes ? 1 : rows;
        s[s.rank - 1] = cols;
        return scratch(s, type);
    }
    if (op.code != Code::ROWSUMLINE && op.code != Code::ROWPRODLINE) return NONE;
    s[0] = (in[op.axis] + 1) / 2;
    s[s.rank - 1] = round_up(in[last], 8);
    return scratch(s, type);
}

void TileExpander::topk(const BlockOp& op) {
    const Shape& full = shape(op.in[0]);
    const int last = full.rank - 1;
    Shape tile = op.tile;
    if (tile.rank <= last) tile.rank = last + 1;
    int64_t along = round_up(std::min(full[last], std::max<int64_t>(1, tile[last])), 32);
    int64_t others = 1;
    for (int i = 0; i < last; ++i) others *= std::min(full[i], tile[i]);
    if (full[last] > 2 * along) {
        if (full.count() < 8192) along = round_up(full[last], 32);
        else if (others * along < 8192) along = std::max<int64_t>(32, 8192 / others / 32 * 32);
    }
    along = std::min(along, round_up(full[last], 32));
    Shape outer = full, outer_tile = tile;
    outer[last] = 1;
    outer_tile[last] = 1;
    tiles(outer, outer_tile, [&](const Shape& at, const Shape& extent) {
        std::vector<Id> sorted;
        for (int64_t j = 0; j < full[last]; j += along) {
            Shape a = at, e = extent;
            a[last] = j;
            e[last] = std::min(along, full[last] - j);
            Shape wide = e, tmp = e, packed = e;
            wide[last] = 2 * e[last];
            for (int i = 0; i < last; ++i) tmp[i] = 1;
            tmp[last] = 2 * e[last];
            packed[last] = 2 * std::min(op.extra, e[last]);
            Id x = ask(op.in[0], a, e);
            Id b = g_.add_fresh(wide, DType::F32), m = g_.add_fresh(packed, DType::F32);
            if (g_.tensors[x].valid != NONE) {
                Shape valid = g_.valid_of(x);
                const int64_t length = valid[last];
                valid[last] = 2 * length;
                g_.set_valid(b, valid);
                valid[last] = 2 * std::min(op.extra, length);
                g_.set_valid(m, valid);
            }
            g_.add_op(Code::BITSORT, {x}, {b, scratch(tmp, DType::F32)}, src_);
            g_.add_op(Code::MRGSORT, {b}, {m, scratch(tmp, DType::F32)}, src_);
            sorted.push_back(m);
        }
        while (sorted.size() > 1) {
            std::vector<Id> up;
            for (size_t j = 0; j < sorted.size(); j += 4) {
                std::vector<Id> in(sorted.begin() + j, sorted.begin() + std::min(j + 4, sorted.size()));
                if (in.size() == 1) { up.push_back(in[0]); continue; }
                Shape all = g_.tensors[in[0]].shape, tmp = all;
                all[last] = 2 * op.extra;
                tmp[last] *= static_cast<int64_t>(in.size());
                Id out = g_.add_fresh(all, DType::F32);
                if (g_.tensors[in[0]].valid != NONE) {
                    Shape valid = g_.valid_of(in[0]);
                    valid[last] = all[last];
                    g_.set_valid(out, valid);
                }
                g_.add_op(Code::TILEDMRGSORT, in, {out, scratch(tmp, DType::F32)}, src_);
                up.push_back(out);
            }
            sorted = std::move(up);
        }
        Shape to = extent;
        to[last] = op.extra;
        for (Id y : op.out) g_.add_op(Code::EXTRACT, {sorted[0]}, {make_tile(y, at, to)}, src_);
    });
}

}  // namespace npu::plan
