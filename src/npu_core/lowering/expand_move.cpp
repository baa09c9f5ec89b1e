// Transposes and indexed reads and writes. Source: hicann/pypto@r0.2.0 interface/operation/vector.
#include <algorithm>
#include <utility>

#include "npu_core/lowering/expand.h"

namespace npu::lowering {
namespace {

int64_t round_up(int64_t x, int64_t step) { return (x + step - 1) / step * step; }

Shape swapped(Shape s, int a, int b) {
    std::swap(s[a], s[b]);
    return s;
}

}  // namespace

// Attributes: ints = the two axes that change places.
void expand_transpose(Expander& e) {
    const Op op = e.source();
    const int a = int(e.attributes().ints.at(0)), b = int(e.attributes().ints.at(1));
    const Ref in = e.ref(op.in[0]), out = e.ref(op.out[0]);
    e.each_tile(in.shape, [&](const Shape& at, const Shape& size) {
        const int32_t to = e.out_tile(out, swapped(at, a, b), swapped(size, a, b));
        Ids outs{to};
        const int32_t from = e.in_tile(in, at, size);
        if (op.code == Opcode::TRANSPOSE_VNCHWCONV) {
            Shape scratch = size;
            scratch[size.rank - 2] = round_up(size[size.rank - 2], 16);
            scratch[size.rank - 1] = round_up(size[size.rank - 1], 32 / dtype_size_bytes(in.dtype));
            outs.push_back(e.fresh_tensor(scratch, in.dtype));
        }
        e.emit(op.code, {from}, outs);
    });
}

void expand_index(Expander& e) {
    const Op op = e.source();
    const int axis = e.attributes().axis;
    const Ref out = e.ref(op.out[0]), table = e.ref(op.in[0]);
    if (op.code == Opcode::GATHER) {
        // rows of the table by an index tensor that replaces `axis`
        const Ref index = e.ref(op.in[1]);
        e.each_tile(out.shape, [&](const Shape& at, const Shape& size) {
            Shape index_at = Expander::zeros(index.shape.rank), index_size = index.shape;
            for (int d = 0; d < index.shape.rank; ++d) {
                index_at[d] = at[axis + d];
                index_size[d] = size[axis + d];
            }
            Shape table_at = Expander::zeros(table.shape.rank), table_size = table.shape;
            for (int d = 0; d < table.shape.rank; ++d) {
                if (d == axis) continue;
                const int from = d < axis ? d : d + index.shape.rank - 1;
                table_at[d] = at[from];
                table_size[d] = size[from];
            }
            const int32_t to = e.out_tile(out, at, size);
            const int32_t rows = e.in_tile(table, table_at, table_size), picks = e.in_tile(index, index_at, index_size);
            e.emit(op.code, {rows, picks}, {to});
        });
        return;
    }
    if (op.code == Opcode::GATHER_ELEMENT) {
        const Ref index = e.ref(op.in[1]);
        e.each_tile(out.shape, [&](const Shape& at, const Shape& size) {
            Shape table_at = at, table_size = size;
            table_at[axis] = 0;
            table_size[axis] = table.shape[axis];
            const int32_t to = e.out_tile(out, at, size);
            const int32_t from = e.in_tile(table, table_at, table_size), picks = e.in_tile(index, at, size);
            Shape scratch;
            scratch.rank = 1;
            scratch[0] = 2 * size[size.rank - 1];
            const int32_t held = e.fresh_tensor(scratch, index.dtype);
            e.emit(op.code, {from, picks}, {to, held});
        });
        return;
    }
    Ids in;
    for (int32_t t : op.in) in.push_back(e.in_whole(e.ref(t)));
    e.emit(op.code, in, op.out);
}

}  // namespace npu::lowering
