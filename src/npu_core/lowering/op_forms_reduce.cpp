// Reductions, sorts, running sums.
#include "npu_core/lowering/op_forms.h"

namespace npu::lowering {
namespace {

using Source = npu::Opcode;

Opcode reduction_of(Source c, bool last) {
    switch (c) {
        case Source::SUM: return last ? Opcode::ROWSUM_SINGLE : Opcode::ROWSUMLINE;
        case Source::AMAX: return last ? Opcode::ROWMAX_SINGLE : Opcode::ROWMAXLINE;
        case Source::AMIN: return last ? Opcode::ROWMIN_SINGLE : Opcode::ROWMINLINE;
        default: return last ? Opcode::ROWPROD_SINGLE : Opcode::ROWPRODLINE;
    }
}

void reduce(TensorGraphBuilder& b, const npu::Op& op, Source code) {
    const Program& p = b.program();
    Attributes a;
    a.axis = int(p.ints[op.ints.begin]);
    const bool keep = p.ints[op.ints.begin + 1];
    const int32_t in = b.use(p.id_at(op.ins)[0]);
    const Tensor source = b.graph().tensors[in];
    const Opcode c = reduction_of(code, a.axis == source.shape.rank - 1);
    Shape kept = source.shape;
    kept[a.axis] = 1;
    const int32_t out = b.result(p.id_at(op.outs)[0]);
    if (keep || source.shape.rank == 1) {
        b.emit(c, {in}, {out}, a);
        return;
    }
    const int32_t middle = b.fresh(kept, source.dtype);
    b.emit(c, {in}, {middle}, a);
    b.emit(Opcode::RESHAPE, {middle}, {out});
}

}  // namespace

bool emit_reduction(TensorGraphBuilder& b, const npu::Op& op, npu::Opcode code) {
    const Program& p = b.program();
    switch (code) {
        case Source::SUM: case Source::AMAX: case Source::AMIN: case Source::PROD: reduce(b, op, code); return true;
        case Source::CUMSUM: {
            Attributes a;
            a.axis = int(p.ints[op.ints.begin]);
            const int32_t in = b.use(p.id_at(op.ins)[0]);
            b.emit(Opcode::CUM_SUM, {in}, {b.result(p.id_at(op.outs)[0])}, a);
            return true;
        }
        case Source::TOPK: {
            const int32_t in = b.use(p.id_at(op.ins)[0]);
            Attributes a;
            a.axis = b.graph().tensors[in].shape.rank - 1;
            a.ints = {p.ints[op.ints.begin], p.ints[op.ints.begin + 1]};
            const int32_t values = b.result(p.id_at(op.outs)[0]), indices = b.result(p.id_at(op.outs)[1]);
            b.emit(Opcode::TOPK, {in}, {values, indices}, a);
            return true;
        }
        default: return false;
    }
}

}  // namespace npu::lowering
