// Tiles that are cut in proportion, and rows that are gathered and scattered.
#include <algorithm>
#include <tuple>

#include "npu_core/plan/tile_expander.h"

namespace npu::plan {

namespace {

Shape piece(Shape s) {   // at most 4096 elements, the last axes first
    int64_t room = 4096;
    for (int i = s.rank - 1; i >= 0; --i) {
        s[i] = std::min(s[i], room);
        room = std::max<int64_t>(1, room / s[i]);
    }
    return s;
}

// Part of [0, own) that goes with [at, at + extent) of [0, driver): parts of neighbours neither meet nor overlap.
std::pair<int64_t, int64_t> share(int64_t at, int64_t extent, int64_t driver, int64_t own) {
    const int64_t from = ceil_div(at * own, driver);
    return {from, ceil_div((at + extent) * own, driver) - from};
}

}  // namespace

void TileExpander::scatter_rows(const BlockOp& op) {
    const Id source = op.in.back();
    const Shape full = shape(source), part = piece(full);
    Id to = ask_whole(op.in[0]);
    tiles(full, part, [&](const Shape& at, const Shape& extent) {
        std::vector<Id> in{to};
        for (size_t i = 1; i + 1 < op.in.size(); ++i) in.push_back(ask_whole(op.in[i]));
        in.push_back(ask(source, at, extent));
        g_.add_op(op.code, in, {whole(op.out[0])}, src_);
    });
    register_whole(op.out[0]);
}

void TileExpander::scaled(const BlockOp& op) {
    const Id driver = op.in.empty() ? op.out[0] : op.in[0];
    const Shape full = shape(driver);
    auto window = [&](Id t, const Shape& at, const Shape& extent) {
        Shape from = zeros(shape(t).rank), size = shape(t);
        for (int i = 0; i < size.rank && i < full.rank; ++i)
            std::tie(from[i], size[i]) = share(at[i], extent[i], full[i], shape(t)[i]);
        return std::pair{from, size};
    };
    tiles(full, op.tile, [&](const Shape& at, const Shape& extent) {
        std::vector<Id> in, out;
        for (Id x : op.in) {
            auto [from, size] = window(x, at, extent);
            if (size.count()) in.push_back(ask(x, from, size));
        }
        for (Id y : op.out) {
            auto [from, size] = window(y, at, extent);
            if (size.count()) out.push_back(make_tile(y, from, size));
        }
        if (!out.empty()) g_.add_op(op.code, in, out, src_);
    });
}

void TileExpander::gather_rows(const BlockOp& op) {
    const Shape& table = shape(op.in[0]);
    const int index_rank = shape(op.in[1]).rank;
    tiles(shape(op.out[0]), op.tile, [&](const Shape& at, const Shape& extent) {
        Shape index_at = zeros(index_rank), index = shape(op.in[1]);
        for (int i = 0; i < index_rank && op.axis + i < extent.rank; ++i) {
            index_at[i] = at[op.axis + i];
            index[i] = extent[op.axis + i];
        }
        Id rows = ask(op.in[0], zeros(table.rank), table), idx = ask(op.in[1], index_at, index);
        g_.add_op(op.code, {rows, idx}, {make_tile(op.out[0], at, extent)}, src_);
    });
}

}  // namespace npu::plan
