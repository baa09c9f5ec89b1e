// Elementwise operations, broadcast, fills. Source: hicann/pypto@r0.2.0 interface/operation/vector/{unary,binary}.cpp.
#include <algorithm>

#include "npu_core/lowering/expand.h"

namespace npu::lowering {
namespace {

constexpr int64_t COMPARE_SCRATCH = 12448, NOT_SCRATCH = 20768;

// Scratch of operations that need one, by the tile of the result: shape and dtype; false when there is none.
bool scratch_of(Opcode c, const Shape& tile, Shape& shape, DType& dtype) {
    shape.rank = 1;
    switch (c) {
        case Opcode::POW:
            shape = tile;
            dtype = DType::F32;
            return true;
        case Opcode::CMP: case Opcode::CMPS:    // one bit per element
            shape[0] = (tile.count() + 7) / 8;
            dtype = DType::U8;
            return true;
        case Opcode::WHERE_TT: case Opcode::WHERE_TS: case Opcode::WHERE_ST:
        case Opcode::WHERE_SS:
            shape[0] = COMPARE_SCRATCH;
            dtype = DType::U8;
            return true;
        case Opcode::LOGICALNOT: case Opcode::LOGICALAND:
            shape[0] = NOT_SCRATCH;
            dtype = DType::I8;
            return true;
        case Opcode::SIGN: case Opcode::SIGNBIT:
            shape[0] = 16;
            dtype = DType::F16;
            return true;
        case Opcode::ROUND: case Opcode::EXPM1:
            shape[0] = 8;
            dtype = DType::F32;
            return true;
        default:
            return false;
    }
}

}  // namespace

Ref expand_to(Expander& e, const Ref& from, const Shape& to, int32_t symbolic) {
    Ref current = from;
    for (int axis = 0; axis < to.rank; ++axis) {
        if (current.shape[axis] == to[axis]) continue;
        Shape shape = current.shape;
        shape[axis] = to[axis];
        const Ref next = e.fresh(shape, current.dtype);
        Attributes a;
        a.axis = axis;
        e.each_tile(shape, [&](const Shape& at, const Shape& size) {
            const int32_t out = e.out_tile(next, at, size);
            Shape source_at = at, source_size = size;
            source_at[axis] = 0;
            source_size[axis] = std::min(size[axis], current.shape[axis]);
            const int32_t id = e.emit(Opcode::EXPAND, {e.in_tile(current, source_at, source_size)}, {out}, a);
            e.graph().ops[id].valid = symbolic;
        });
        current = next;
    }
    return current;
}

void expand_elementwise(Expander& e) {
    const Op op = e.source();
    const Ref out = e.ref(op.out[0]);
    std::vector<Ref> in;
    for (int32_t t : op.in) {
        const Ref r = e.ref(t);
        in.push_back(r.shape == out.shape ? r : expand_to(e, r, out.shape, e.graph().tensors[op.out[0]].valid));
    }
    e.each_tile(out.shape, [&](const Shape& at, const Shape& size) {
        Ids ins, outs{e.out_tile(out, at, size)};
        for (const Ref& r : in) ins.push_back(e.in_tile(r, at, size));
        Shape shape;
        DType dtype = DType::F32;
        if (scratch_of(op.code, size, shape, dtype)) outs.push_back(e.fresh_tensor(shape, dtype));
        e.emit(op.code, ins, outs);
    });
}

void expand_broadcast_axis(Expander& e) {
    const Op op = e.source();
    const Ref out = e.ref(op.out[0]), in = e.ref(op.in[0]);
    e.each_tile(out.shape, [&](const Shape& at, const Shape& size) {
        Shape source_at = at, source_size = size;
        for (int d = 0; d < out.shape.rank; ++d)
            if (in.shape[d] != out.shape[d]) {
                source_at[d] = 0;
                source_size[d] = std::min(size[d], in.shape[d]);
            }
        const int32_t to = e.out_tile(out, at, size);
        e.emit(Opcode::EXPAND, {e.in_tile(in, source_at, source_size)}, {to});
    });
}

void expand_fill(Expander& e) {
    const Op op = e.source();
    const Ref out = e.ref(op.out[0]);
    e.each_tile(out.shape, [&](const Shape& at, const Shape& size) { e.emit(op.code, {}, {e.out_tile(out, at, size)}); });
}

void expand_cumulative(Expander& e) {
    const Op op = e.source();
    const int axis = e.attributes().axis;
    const Ref out = e.ref(op.out[0]), in = e.ref(op.in[0]);
    Shape outer = out.shape;
    outer[axis] = 1;
    e.each_tile(outer, [&](const Shape& at0, const Shape& size0) {
        int32_t last = -1;
        const int64_t length = out.shape[axis], step = std::min(e.vec_step(out.shape.rank)[axis], length);
        for (int64_t i = 0; i < length; i += step) {
            Shape at = at0, size = size0;
            at[axis] = i;
            size[axis] = std::min(step, length - i);
            if (last < 0) {
                const int32_t to = e.out_tile(out, at, size);
                e.emit(op.code, {e.in_tile(in, at, size)}, {to});
                last = to;
                continue;
            }
            const int32_t part = e.fresh_tensor(size, out.dtype);
            e.emit(op.code, {e.in_tile(in, at, size)}, {part});
            Shape row = size;
            row[axis] = 1;
            const int32_t tail = e.fresh_tensor(row, out.dtype), grown = e.fresh_tensor(size, out.dtype);
            const Tensor& before = e.graph().tensors[last];
            Offset tail_at = before.offset;
            tail_at.d[axis].at += before.shape[axis] - 1;
            e.view(last, tail_at, tail, Mem::UNKNOWN);
            e.emit(Opcode::EXPAND, {tail}, {grown});
            const int32_t to = e.out_tile(out, at, size);
            e.emit(Opcode::ADD, {part, grown}, {to});
            last = to;
        }
    });
}

}  // namespace npu::lowering
