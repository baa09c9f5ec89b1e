// Tile expansion: every tensor operation becomes tile operations in the tile shape in force at its call, and every tile
// that is asked for is linked to the tiles that were produced.
#include <algorithm>

#include "npu_core/plan/tile_expander.h"

namespace npu::plan {

Graph TileExpander::run() {
    for (size_t i = 0; i < b_.ops.size(); ++i) {
        src_ = static_cast<Id>(i);
        expand_op(b_.ops[i]);
    }
    return std::move(g_);
}

Produced& TileExpander::produced(Id t) {
    Produced& p = made_[t];
    if (p.raw == NONE) p.raw = g_.add_raw(shape(t), dtype(t), b_.tensors[t].external);
    return p;
}

Id TileExpander::window(Id t, const Shape& at, const Shape& extent) {
    const Id id = g_.add_tensor(produced(t).raw, extent, at);
    if (partial(t)) g_.set_valid(id, within(b_.tensors[t].valid, at, extent));
    return id;
}

Id TileExpander::whole(Id t) {
    Produced& p = produced(t);
    if (p.self == NONE) {
        p.self = window(t, zeros(shape(t).rank), shape(t));
        g_.tensors[p.self].fn_in = b_.tensors[t].fn_in;
        g_.tensors[p.self].fn_out = b_.tensors[t].fn_out;
    }
    return p.self;
}

Id TileExpander::make_tile(Id t, const Shape& at, const Shape& extent) {
    const Id id = window(t, at, extent);
    Produced& p = made_[t];
    p.tiles.push_back(id);
    p.by_offset.emplace(at, id);
    return id;
}

void TileExpander::register_whole(Id t) {
    Produced& p = produced(t);
    Id id = whole(t);
    if (p.tiles.empty()) {
        p.tiles.push_back(id);
        p.by_offset.emplace(zeros(shape(t).rank), id);
    }
}

Id TileExpander::ask(Id t, const Shape& at, const Shape& extent) {
    Produced& p = produced(t);
    if (p.tiles.empty()) {
        if (extent == shape(t)) return whole(t);
        return window(t, at, extent);
    }
    if (auto it = p.by_offset.find(at); it != p.by_offset.end() && g_.tensors[it->second].shape == extent) return it->second;
    std::vector<Id> hits;
    for (Id id : p.tiles) {
        const Tensor& tile = g_.tensors[id];
        if (!overlaps(tile.offset, tile.shape, at, extent)) continue;
        if (contains(tile.offset, tile.shape, at, extent)) return view_of(id, minus(at, tile.offset), extent);
        hits.push_back(id);
    }
    if (hits.empty()) return window(t, at, extent);
    Shape lo = at, hi = plus(at, extent);
    for (Id id : hits) {
        const Tensor& tile = g_.tensors[id];
        for (int i = 0; i < lo.rank; ++i) {
            lo[i] = std::min(lo[i], tile.offset[i]);
            hi[i] = std::max(hi[i], tile.offset[i] + tile.shape[i]);
        }
    }
    std::sort(hits.begin(), hits.end(), [&](Id x, Id y) {
        const Shape &a = g_.tensors[x].offset, &b = g_.tensors[y].offset;
        for (int i = 0; i < a.rank; ++i)
            if (a[i] != b[i]) return a[i] < b[i];
        return x < y;
    });
    Id box = g_.add_fresh(minus(hi, lo), dtype(t));
    if (partial(t)) g_.set_valid(box, within(b_.tensors[t].valid, lo, minus(hi, lo)));
    for (Id id : hits) {
        Id op = g_.add_op(Code::ASSEMBLE, {id}, {box}, src_);
        g_.ops[op].at = minus(g_.tensors[id].offset, lo);
    }
    if (g_.tensors[box].shape == extent) return box;
    return view_of(box, minus(at, lo), extent);
}

Id TileExpander::view_of(Id from, const Shape& at, const Shape& extent) {
    Id to = g_.add_fresh(extent, g_.tensors[from].dtype);
    if (g_.tensors[from].valid != NONE) g_.set_valid(to, within(g_.valid_of(from), at, extent));
    g_.ops[g_.add_op(Code::VIEW, {from}, {to}, src_)].at = at;
    return to;
}

Id TileExpander::scratch(const Shape& s, DType type) {
    Id id = g_.add_fresh(s, type);
    g_.tensors[id].scratch = true;
    return id;
}

Id TileExpander::flat_scratch(int64_t bytes) {
    Shape s = zeros(1);
    s[0] = bytes;
    return scratch(s, DType::U8);
}

void TileExpander::tiles(const Shape& full, const Shape& tile, const std::function<void(const Shape&, const Shape&)>& f) {
    Shape step = full;
    for (int i = 0; i < full.rank; ++i) step[i] = std::max<int64_t>(1, std::min(full[i], i < tile.rank ? tile[i] : full[i]));
    Shape at = zeros(full.rank);
    while (true) {
        Shape extent = full;
        for (int i = 0; i < full.rank; ++i) extent[i] = std::min(step[i], full[i] - at[i]);
        f(at, extent);
        int i = full.rank - 1;
        for (; i >= 0; --i) {
            at[i] += step[i];
            if (at[i] < full[i]) break;
            at[i] = 0;
        }
        if (i < 0) return;
    }
}

void TileExpander::expand_op(const BlockOp& op) {
    switch (op.family) {
        case Family::VIEW:
        case Family::ASSEMBLE: {
            Id from = ask_whole(op.in[0]);
            Id id = g_.add_op(op.family == Family::VIEW ? Code::VIEW : Code::ASSEMBLE, {from}, {whole(op.out[0])}, src_);
            g_.ops[id].at = op.at;
            g_.ops[id].dyn = g_.dyn_of(op.dyn);
            register_whole(op.out[0]);
            return;
        }
        case Family::RESHAPE: {
            Id from = ask_whole(op.in[0]);
            g_.add_op(Code::RESHAPE, {from}, {whole(op.out[0])}, src_);
            register_whole(op.out[0]);
            return;
        }
        case Family::ELEMENTWISE: case Family::FILL:
            tiles(shape(op.out[0]), op.tile, [&](const Shape& at, const Shape& extent) {
                std::vector<Id> in;
                for (Id x : op.in) in.push_back(ask(x, at, extent));
                std::vector<Id> out{make_tile(op.out[0], at, extent)};
                if (op.scratch_bytes < 0) out.push_back(scratch(extent, dtype(op.out[0])));
                else if (op.scratch_bytes) out.push_back(flat_scratch(scratch_bytes(op, extent)));
                g_.add_op(op.code, in, out, src_);
            });
            return;
        case Family::EXPAND:
            tiles(shape(op.out[0]), op.tile, [&](const Shape& at, const Shape& extent) {
                Shape from_at = at, from = extent;
                from_at[op.axis] = 0;
                from[op.axis] = 1;
                Id x = ask(op.in[0], from_at, from);
                g_.add_op(op.code, {x}, {make_tile(op.out[0], at, extent)}, src_);
            });
            return;
        case Family::REDUCE: return reduce(op);
        case Family::MATMUL: return matmul(op);
        case Family::TRANSPOSE: case Family::TRANSPOSE_OUT:
            tiles(shape(op.in[0]), op.tile, [&](const Shape& at, const Shape& extent) {
                Shape to_at = at, to = extent;
                std::swap(to_at[op.axis], to_at[op.axis2]);
                std::swap(to[op.axis], to[op.axis2]);
                std::vector<Id> in{ask(op.in[0], at, extent)};
                std::vector<Id> out{make_tile(op.out[0], to_at, to)};
                if (op.family == Family::TRANSPOSE) {
                    Shape tmp = to;
                    const int64_t lanes = 32 / dtype_size_bytes(dtype(op.in[0]));
                    tmp[tmp.rank - 2] = round_up(extent[extent.rank - 2], 16);
                    tmp[tmp.rank - 1] = round_up(extent[extent.rank - 1], lanes);
                    out.push_back(scratch(tmp, dtype(op.in[0])));
                }
                g_.add_op(op.code, in, out, src_);
            });
            return;
        case Family::GATHER: return gather_rows(op);
        case Family::GATHER_AXIS:
            tiles(shape(op.out[0]), op.tile, [&](const Shape& at, const Shape& extent) {
                Shape from_at = at, from = extent;
                from_at[op.axis] = 0;
                from[op.axis] = shape(op.in[0])[op.axis];
                std::vector<Id> in{ask(op.in[0], from_at, from), ask(op.in[1], at, extent)};
                std::vector<Id> out{make_tile(op.out[0], at, extent), flat_scratch(2 * extent[extent.rank - 1] * 4)};
                g_.add_op(op.code, in, out, src_);
            });
            return;
        case Family::TOPK: return topk(op);
        case Family::SCALED: return scaled(op);
        case Family::SCATTER: {
            if (op.code == Code::INDEX_OUTCAST && shape(op.in.back()).count() > 4096) return scatter_rows(op);
            std::vector<Id> in;
            for (Id x : op.in) in.push_back(ask_whole(x));
            g_.add_op(op.code, in, {whole(op.out[0])}, src_);
            register_whole(op.out[0]);
            return;
        }
        case Family::WHOLE_AXIS:
            tiles(shape(op.out[0]), op.tile, [&](const Shape& at, const Shape& extent) {
                std::vector<Id> in, out;
                const int last = extent.rank - 1;
                for (Id x : op.in) {
                    Shape from_at = at, from = extent;
                    from_at[last] = 0;
                    from[last] = shape(x)[last];
                    in.push_back(ask(x, from_at, from));
                }
                for (Id y : op.out) out.push_back(make_tile(y, at, extent));
                g_.add_op(op.code, in, out, src_);
            });
            return;
    }
}

int64_t TileExpander::scratch_bytes(const BlockOp& op, const Shape& extent) {
    if (op.code == Code::CMP || op.code == Code::CMPS) return std::max<int64_t>(extent[extent.rank - 1], 32);
    return op.scratch_bytes;
}

Graph expand(const Block& block, const Chip& chip) { return TileExpander(block, chip).run(); }

}  // namespace npu::plan
