// Matrix products: plain, batched, split along k.
#include <algorithm>

#include "npu_core/lowering/leaf.h"
#include "npu_core/lowering/op_forms.h"

namespace npu::lowering {
namespace {

constexpr int64_t SPLIT_TILE = 128;

struct Product {
    TensorGraphBuilder& b;
    bool trans_a, trans_b;
    Ids tables;               // bias

    DType wide(int32_t a) const { return b.graph().tensors[a].dtype == DType::I8 ? DType::I32 : DType::F32; }

    void plain(int32_t a, int32_t c, int32_t out) {
        Attributes attributes;
        attributes.trans_a = trans_a;
        attributes.trans_b = trans_b;
        Ids in{a, c};
        for (int32_t t : tables) in.push_back(t);
        b.emit(Opcode::A_MUL_B, in, {out}, attributes);
    }

    int32_t part(int32_t t, const Offset& at, const Shape& shape) {
        const int32_t out = b.fresh(shape, b.graph().tensors[t].dtype);
        b.graph().ops[b.emit(Opcode::VIEW, {t}, {out})].at = at;
        return out;
    }

    // One product per L1 chunk of k, added from left to right as vectors.
    void split(int32_t a, int32_t c, int32_t out, int64_t chunk) {
        const Shape A = b.graph().tensors[a].shape, B = b.graph().tensors[c].shape, O = b.graph().tensors[out].shape;
        const int64_t K = A[trans_a ? 0 : 1];
        std::vector<int32_t> parts;
        for (int64_t k = 0; k < K; k += chunk) {
            const int64_t size = std::min(chunk, K - k);
            const int32_t left = part(a, trans_a ? offset2(k, 0) : offset2(0, k), trans_a ? shape2(size, A[1]) : shape2(A[0], size));
            const int32_t right = part(c, trans_b ? offset2(0, k) : offset2(k, 0), trans_b ? shape2(B[0], size) : shape2(size, B[1]));
            const int32_t sum = b.fresh(O, wide(a));
            plain(left, right, sum);
            parts.push_back(sum);
        }
        const TileShapes& t = b.tiles();
        b.set_vec_tile(2 * t.m * t.n * 4 <= UB_BYTES ? shape2(t.m, t.n) : shape2(SPLIT_TILE, SPLIT_TILE));
        const bool cast = b.graph().tensors[out].dtype != wide(a);
        int32_t sum = parts[0];
        for (size_t i = 1; i < parts.size(); ++i) {
            const int32_t next = i + 1 == parts.size() && !cast ? out : b.fresh(O, wide(a));
            b.emit(Opcode::ADD, {sum, parts[i]}, {next});
            sum = next;
        }
        if (cast) b.emit(Opcode::CAST, {sum}, {out});
    }
};

int32_t flat(TensorGraphBuilder& b, int32_t t) {
    const Tensor x = b.graph().tensors[t];
    const int last = x.shape.rank - 1;
    const int32_t out = b.fresh(shape2(x.shape.count() / x.shape[last], x.shape[last]), x.dtype);
    b.emit(Opcode::RESHAPE, {t}, {out});
    return out;
}

}  // namespace

void emit_matmul(TensorGraphBuilder& b, const npu::Op& op) {
    const Program& p = b.program();
    Product m{b, p.ints[op.ints.begin] != 0, p.ints[op.ints.begin + 1] != 0, {}};
    const int32_t a = b.use(p.id_at(op.ins)[0]), c = b.use(p.id_at(op.ins)[1]);
    for (int i = 2; i < op.ins.count; ++i) m.tables.push_back(b.use(p.id_at(op.ins)[i]));
    const TensorInfo& result = p.tensors[p.id_at(op.outs)[0]];
    const int32_t out = b.result(p.id_at(op.outs)[0]);
    const TileShapes t = b.tiles();
    if (result.shape.rank == 2) {
        const Shape A = b.graph().tensors[a].shape;
        const int64_t K = A[m.trans_a ? 0 : 1], chunk = std::min(t.ka, t.kb);
        if (t.split_k && chunk > 0 && chunk < K) m.split(a, c, out, chunk);
        else m.plain(a, c, out);
        return;
    }
    const Shape A = b.graph().tensors[a].shape, B = b.graph().tensors[c].shape;
    const int r = result.shape.rank;
    int64_t batches = 1, a_batches = 1, b_batches = 1;
    for (int d = 0; d + 2 < r; ++d) batches *= result.shape[d];
    for (int d = 0; d + 2 < A.rank; ++d) a_batches *= A[d];
    for (int d = 0; d + 2 < B.rank; ++d) b_batches *= B[d];
    for (int64_t i = 0; i < batches; ++i) {
        auto operand = [&](int32_t t2, const Shape& s, int64_t count) {
            const int32_t whole = flat(b, t2);
            if (count == 1) return whole;
            const int64_t rows = s[s.rank - 2];
            return m.part(whole, offset2((i % count) * rows, 0), shape2(rows, s[s.rank - 1]));
        };
        const int32_t left = operand(a, A, a_batches), right = operand(c, B, b_batches);
        const int32_t product = b.fresh(shape2(result.shape[r - 2], result.shape[r - 1]), result.dtype);
        m.plain(left, right, product);
        Shape one = result.shape;
        Offset at = zero_offset(r);
        int64_t rest = i;
        for (int d = r - 3; d >= 0; --d) {
            at.d[d].at = rest % result.shape[d];
            rest /= result.shape[d];
            one[d] = 1;
        }
        const int32_t shaped = b.fresh(one, result.dtype);
        b.emit(Opcode::RESHAPE, {product}, {shaped});
        b.graph().ops[b.emit(Opcode::ASSEMBLE, {shaped}, {out})].at = at;
    }
}

}  // namespace npu::lowering
