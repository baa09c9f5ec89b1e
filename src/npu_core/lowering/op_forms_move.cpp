// Views, reshapes, transposes, concat, expand, indexed access.
#include <algorithm>

#include "npu_core/lowering/op_forms.h"

namespace npu::lowering {
namespace {

using Source = npu::Opcode;

void reshape(TensorGraphBuilder& b, int32_t in, int32_t out) {
    b.emit(Opcode::RESHAPE, {in}, {out});
}

void transpose(TensorGraphBuilder& b, const npu::Op& op) {
    const Program& p = b.program();
    const int32_t in = b.use(p.id_at(op.ins)[0]);
    const Shape shape = b.graph().tensors[in].shape;
    std::vector<int> moved;
    for (int d = 0; d < op.ints.count; ++d)
        if (p.ints[op.ints.begin + d] != d) moved.push_back(d);
    const int32_t out = b.result(p.id_at(op.outs)[0]);
    if (moved.empty()) return reshape(b, in, out);
    if (moved.size() != 2) fail("not_lowered", "transpose of more than two axes");
    const int a = moved[0], c = moved[1], last = shape.rank - 1;
    Attributes attributes;
    Shape tile = b.tiles().vec;
    auto step = [&](Opcode code, int32_t from, int x, int y, int32_t to) {
        attributes.ints = {x, y};
        b.emit(code, {from}, {to}, attributes);
        if (y >= tile.rank) return;
        std::swap(tile[x], tile[y]);          // the next step works on what this one turned
        b.set_vec_tile(tile);
    };
    auto swapped = [&](int32_t t, int x, int y) {
        Shape s = b.graph().tensors[t].shape;
        std::swap(s[x], s[y]);
        return b.fresh(s, b.graph().tensors[t].dtype);
    };
    if (a == last - 1 && c == last) return step(Opcode::TRANSPOSE_VNCHWCONV, in, a, c, out);
    if (c != last) return step(Opcode::TRANSPOSE_MOVEOUT, in, a, c, out);
    // axis a and the last one: bring a next to the last, swap, bring it back
    const int32_t near = swapped(in, a, last - 1);
    step(Opcode::TRANSPOSE_MOVEIN, in, a, last - 1, near);
    const int32_t turned = swapped(near, last - 1, last);
    step(Opcode::TRANSPOSE_VNCHWCONV, near, last - 1, last, turned);
    step(Opcode::TRANSPOSE_MOVEOUT, turned, a, last - 1, out);
}

void concat(TensorGraphBuilder& b, const npu::Op& op) {
    const Program& p = b.program();
    const int axis = int(p.ints[op.ints.begin]);
    const int32_t out = b.result(p.id_at(op.outs)[0]);
    const Shape shape = b.graph().tensors[out].shape;
    const DType dtype = b.graph().tensors[out].dtype;
    const int32_t raw = b.graph().add_raw(shape, dtype);
    std::vector<int32_t> parts;
    std::vector<Offset> places;
    int64_t at = 0;
    for (int i = 0; i < op.ins.count; ++i) {
        const int32_t in = b.use(p.id_at(op.ins)[i]);
        Offset place = zero_offset(shape.rank);
        place.d[axis].at = at;
        const Shape size = b.graph().tensors[in].shape;
        at += size[axis];
        const int32_t part = b.graph().add_tensor(raw, size, place, dtype);
        b.emit(Opcode::REGISTER_COPY, {in}, {part});
        parts.push_back(part);
        places.push_back(place);
    }
    const int32_t joined = b.fresh(shape, dtype);
    for (size_t i = 0; i < parts.size(); ++i) b.graph().ops[b.emit(Opcode::ASSEMBLE, {parts[i]}, {joined})].at = places[i];
    b.graph().ops[b.emit(Opcode::ASSEMBLE, {joined}, {out})].at = zero_offset(shape.rank);
}

void expand(TensorGraphBuilder& b, const npu::Op& op) {
    const Program& p = b.program();
    int32_t current = b.use(p.id_at(op.ins)[0]);
    const int32_t out = b.result(p.id_at(op.outs)[0]);
    const Shape to = b.graph().tensors[out].shape;
    const DType dtype = b.graph().tensors[out].dtype;
    std::vector<int> axes;
    for (int d = 0; d < to.rank; ++d)
        if (b.graph().tensors[current].shape[d] != to[d]) axes.push_back(d);
    if (axes.empty()) {
        b.emit(Opcode::REGISTER_COPY, {current}, {out});
        return;
    }
    for (size_t i = 0; i < axes.size(); ++i) {
        Shape shape = b.graph().tensors[current].shape;
        shape[axes[i]] = to[axes[i]];
        const int32_t next = i + 1 == axes.size() ? out : b.fresh(shape, dtype);
        Attributes a;
        a.axis = axes[i];
        b.emit(Opcode::EXPAND, {current}, {next}, a);
        current = next;
    }
}

void index(TensorGraphBuilder& b, const npu::Op& op, Opcode code) {
    const Program& p = b.program();
    Attributes a;
    a.axis = int(p.ints[op.ints.begin]);
    Ids in;
    for (int i = 0; i < op.ins.count; ++i) in.push_back(b.use(p.id_at(op.ins)[i]));
    if (code == Opcode::INDEX_OUTCAST) in = {in[2], in[1], in[0]};      // source, index, cache: the cache stays in GM
    b.emit(code, in, {b.result(p.id_at(op.outs)[0])}, a);
}

}  // namespace

bool emit_movement(TensorGraphBuilder& b, const npu::Op& op, npu::Opcode code) {
    const Program& p = b.program();
    switch (code) {
        case Source::VIEW: {
            const int32_t in = b.use(p.id_at(op.ins)[0]);
            const int rank = b.graph().tensors[in].shape.rank;
            const int32_t id = b.emit(Opcode::VIEW, {in}, {b.result(p.id_at(op.outs)[0])});
            b.graph().ops[id].at = b.offset({op.scalars.begin, rank});
            for (int d = 0; p.ints[op.ints.begin] && d < rank; ++d)
                if (!is_constant(p, p.id_at(op.scalars)[rank + d])) b.graph().ops[id].valid = 1;
            return true;
        }
        case Source::RESHAPE: case Source::UNSQUEEZE: case Source::SQUEEZE: {
            const int32_t in = b.use(p.id_at(op.ins)[0]);
            reshape(b, in, b.result(p.id_at(op.outs)[0]));
            return true;
        }
        case Source::TRANSPOSE: transpose(b, op); return true;
        case Source::CONCAT: concat(b, op); return true;
        case Source::EXPAND: expand(b, op); return true;
        case Source::GATHER: index(b, op, Opcode::GATHER_ELEMENT); return true;
        case Source::INDEX_SELECT: index(b, op, Opcode::GATHER); return true;
        case Source::SCATTER: index(b, op, Opcode::SCATTER_ELEMENT); return true;
        case Source::SCATTER_UPDATE: index(b, op, Opcode::INDEX_OUTCAST); return true;
        default: return false;
    }
}

}  // namespace npu::lowering
