// topk. Source: hicann/pypto@r0.2.0 interface/operation/vector (sort).
#include <algorithm>

#include "npu_core/lowering/expand.h"

namespace npu::lowering {
namespace {

constexpr int64_t SORT_UNIT = 32, SORT_ELEMENTS = 8192;
constexpr size_t MERGE_WIDTH = 4;

int64_t round_up(int64_t x, int64_t step) { return (x + step - 1) / step * step; }

}  // namespace

void expand_topk(Expander& e) {
    const Op op = e.source();
    const Attributes given = e.attributes();
    const Ref in = e.ref(op.in[0]), values = e.ref(op.out[0]), indices = e.ref(op.out[1]);
    const int axis = given.axis;
    const int64_t k = given.ints.at(0), length = in.shape[axis];
    Shape step = e.vec_step(in.shape.rank);
    for (int d = 0; d < step.rank; ++d) step[d] = std::min(step[d], in.shape[d]);
    int64_t others = 1, tile = 1;
    for (int d = 0; d < step.rank; ++d) {
        if (d != axis) others *= step[d];
        tile *= step[d];
    }
    if (length > 2 * step[axis]) {
        if (in.shape.count() < SORT_ELEMENTS) step[axis] = length;
        else if (tile < SORT_ELEMENTS) step[axis] = std::max(SORT_UNIT, SORT_ELEMENTS / others / SORT_UNIT * SORT_UNIT);
    }
    step[axis] = round_up(step[axis], SORT_UNIT);
    Shape outer = in.shape;
    outer[axis] = 1;
    Attributes merge = given;
    merge.ints = {k, SORT_UNIT};
    e.each_tile(outer, [&](const Shape& at0, const Shape& size0) {
        std::vector<int32_t> runs;
        for (int64_t i = 0; i < length; i += step[axis]) {
            Shape at = at0, size = size0;
            at[axis] = i;
            size[axis] = std::min(step[axis], length - i);
            Shape pairs = size, scratch = size;
            pairs[axis] = 2 * round_up(size[axis], SORT_UNIT);
            for (int d = 0; d < scratch.rank; ++d) scratch[d] = d == axis ? pairs[axis] : 1;
            const int32_t from = e.in_tile(in, at, size);
            const int32_t sorted = e.fresh_tensor(pairs, in.dtype), sort_scratch = e.fresh_tensor(scratch, in.dtype);
            e.emit(Opcode::BITSORT, {from}, {sorted, sort_scratch});
            Shape kept = pairs;
            kept[axis] = std::min(pairs[axis], 2 * round_up(k, 8));
            const int32_t merged = e.fresh_tensor(kept, in.dtype), merge_scratch = e.fresh_tensor(scratch, in.dtype);
            e.emit(Opcode::MRGSORT, {sorted}, {merged, merge_scratch}, merge);
            runs.push_back(merged);
        }
        while (runs.size() > 1) {
            std::vector<int32_t> next;
            for (size_t i = 0; i < runs.size(); i += MERGE_WIDTH) {
                Ids group;
                for (size_t j = i; j < std::min(runs.size(), i + MERGE_WIDTH); ++j) group.push_back(runs[j]);
                if (group.size() == 1) { next.push_back(group[0]); continue; }
                const Shape kept = e.graph().tensors[group[0]].shape;
                Shape scratch = kept;
                for (int d = 0; d < scratch.rank; ++d) scratch[d] = d == axis ? kept[axis] * int64_t(group.size()) : 1;
                const int32_t merged = e.fresh_tensor(kept, in.dtype), held = e.fresh_tensor(scratch, in.dtype);
                e.emit(Opcode::TILEDMRGSORT, group, {merged, held}, merge);
                next.push_back(merged);
            }
            runs = std::move(next);
        }
        Shape kept = size0;
        kept[axis] = k;
        Attributes pick = given;
        for (int mode : {0, 1}) {
            const Ref& target = mode == 0 ? values : indices;
            const int32_t out = e.out_tile(target, at0, kept);
            pick.ints = {k, mode};
            e.emit(Opcode::EXTRACT, {runs[0]}, {out}, pick);
        }
    });
}

}  // namespace npu::lowering
