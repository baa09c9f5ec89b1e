// Source: hicann/pypto@r0.2.0 interface/operation/cube_operation_impl.cpp (ConstructTileGraph).
#include <algorithm>

#include "npu_core/lowering/expand.h"

namespace npu::lowering {
namespace {

// One operand: L1 tiles in its stored orientation, L0 tiles cut from them.
struct Operand {
    Ref whole;
    bool transposed;      // stored with the k axis where the other one is expected
    bool left;
    int64_t l1_step;      // kAL1 or kBL1
    int32_t l1 = -1;
    int64_t l1_at = 0;

    // `along`: offset and length on the m or n axis.
    void load_l1(Expander& e, int64_t along, int64_t length, int64_t k, int64_t depth) {
        const int64_t size = std::min(l1_step, depth - k);
        const bool k_last = left != transposed;
        const Shape shape = k_last ? shape2(length, size) : shape2(size, length);
        const Offset at = k_last ? offset2(along, k) : offset2(k, along);
        const int32_t from = e.in_whole(whole);
        l1 = e.fresh_tensor(shape, whole.dtype);
        e.view(from, at, l1, Mem::L1);
        l1_at = k;
    }

    int32_t load_l0(Expander& e, int64_t length, int64_t k, int64_t size) {
        const bool k_last = left != transposed;
        const Offset at = k_last ? offset2(0, k - l1_at) : offset2(k - l1_at, 0);
        const Shape shape = left ? shape2(length, size) : shape2(size, length);
        const int32_t to = e.fresh_tensor(shape, whole.dtype);
        e.view(l1, at, to, left ? Mem::L0A : Mem::L0B, transposed);
        return to;
    }
};

}  // namespace

void expand_matmul(Expander& e) {
    const Op op = e.source();
    const Attributes attributes = e.attributes();
    const TileShapes t = e.tiles();
    const Ref out = e.ref(op.out[0]);
    Operand a{e.ref(op.in[0]), attributes.trans_a, true, t.ka}, b{e.ref(op.in[1]), attributes.trans_b, false, t.kb};
    const int64_t M = out.shape[0], N = out.shape[1], K = a.whole.shape[attributes.trans_a ? 0 : 1];
    for (int64_t n = 0; n < N; n += t.n) {
        const int64_t nl = std::min(t.n, N - n);
        Ids tables;
        for (size_t i = 2; i < op.in.size(); ++i) {   // bias, then scale
            const Ref table = e.ref(op.in[i]);
            const bool bias = table.dtype != DType::U64 && table.dtype != DType::I64;
            const int32_t from = e.in_whole(table);
            const int32_t l1 = e.fresh_tensor(shape2(1, nl), table.dtype);
            e.view(from, offset2(0, n), l1, Mem::L1);
            const DType wide = !bias ? table.dtype : table.dtype == DType::I32 ? DType::I32 : DType::F32;
            const int32_t held = e.fresh_tensor(shape2(1, nl), wide);
            e.view(l1, offset2(0, 0), held, bias ? Mem::BT : Mem::FIX);
            tables.push_back(held);
        }
        for (int64_t m = 0; m < M; m += t.m) {
            const int64_t ml = std::min(t.m, M - m);
            int32_t before = -1;
            const int32_t result = e.out_tile(out, shape2(m, n), shape2(ml, nl));
            for (int64_t k = 0; k < K; k += t.k) {
                const int64_t kl = std::min(t.k, K - k);
                if (k % t.ka == 0) a.load_l1(e, m, ml, k, K);
                const int32_t left = a.load_l0(e, ml, k, kl);
                if (k % t.kb == 0) b.load_l1(e, n, nl, k, K);
                const int32_t right = b.load_l0(e, nl, k, kl);
                const bool last = k + t.k >= K;
                const int32_t c = last ? result : e.fresh_tensor(shape2(ml, nl), out.dtype);
                Ids in{left, right};
                if (k == 0) for (int32_t x : tables) in.push_back(x);
                else in.push_back(before);
                e.emit(k == 0 ? Opcode::A_MUL_B : Opcode::A_MULACC_B, in, {c});
                before = c;
            }
        }
    }
}

}  // namespace npu::lowering
