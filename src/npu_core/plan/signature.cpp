// What makes two sub-graphs one leaf, and runs of equal output tiles.
#include <array>
#include <map>
#include <unordered_map>

#include "npu_core/plan/leaf.h"

namespace npu::plan {

std::vector<int64_t> signature(const Graph& g, const SubGraph& s) {
    std::vector<int64_t> sig{static_cast<int64_t>(s.core)};
    sig.reserve(s.ops.size() * 12);
    std::unordered_map<Id, int64_t> seen;
    std::map<std::array<int64_t, 6>, int64_t> windows;
    auto put_tensor = [&](Id id) {
        auto [it, added] = seen.try_emplace(id, static_cast<int64_t>(seen.size()));
        sig.push_back(it->second);
        if (!added) return;
        const Tensor& t = g.tensors[id];
        sig.push_back(static_cast<int64_t>(t.mem) * 64 + static_cast<int64_t>(t.dtype));
        for (int i = 0; i < t.shape.rank; ++i) sig.push_back(t.shape[i]);
        if (t.valid != NONE) {
            sig.push_back(-3);
            for (int i = 0; i < t.shape.rank; ++i) sig.push_back(g.valid_of(id)[i]);
        }
        sig.push_back(-1);
    };
    auto put_window = [&](std::array<int64_t, 6> w) {
        auto [it, added] = windows.try_emplace(w, static_cast<int64_t>(windows.size()));
        sig.push_back(it->second);
    };
    for (Id id : s.ops) {
        const Op& op = g.ops[id];
        sig.push_back(1000 + static_cast<int64_t>(op.code) + (op.inlined ? 1000 : 0));
        for (Id t : op.in) put_tensor(t);
        sig.push_back(-2);
        for (Id t : op.out) put_tensor(t);
        if (op.valid != NONE) {
            sig.push_back(-4);
            for (int i = 0; i < g.moved(op).rank; ++i) sig.push_back(g.moved(op)[i]);
        }
        if (op.mm == NONE) continue;
        const Matmul& m = g.matmuls[op.mm];
        for (int64_t v : {m.m, m.n, m.k, m.valid_m, m.valid_n, m.valid_k, m.k_l0, m.k_l1a, m.k_l1b, static_cast<int64_t>(m.in), static_cast<int64_t>(m.acc),
                          static_cast<int64_t>(m.a_trans * 16 + m.b_trans * 8 + m.bias * 4 + m.a_direct * 2 + m.b_direct)})
            sig.push_back(v);
        if (m.a_direct) put_window({op.in[0], m.a_at[0], m.a_at[1], m.m, m.k, m.a_dyn});
        if (m.b_direct) put_window({op.in[m.a_direct ? 1 : ceil_div(m.k, m.k_l1a)], m.b_at[0], m.b_at[1], m.n, m.k, m.b_dyn});
    }
    return sig;
}

int64_t streamed_tiles(const Graph& g, const SubGraph& s, const Chip& chip) {
    const Matmul* first = nullptr;
    int64_t tiles = 0;
    for (Id id : s.ops) {
        const Op& op = g.ops[id];
        if (op.mm == NONE) {
            if (op.code != Code::COPY_OUT || g.tensors[op.in[0]].mem != Mem::L0C) return 0;
            continue;
        }
        const Matmul& m = g.matmuls[op.mm];
        if (!m.a_direct || !m.b_direct) return 0;
        if (!first) first = &m;
        Matmul same = m;
        same.a_at = first->a_at; same.b_at = first->b_at; same.bias_at = first->bias_at;
        same.a_dyn = first->a_dyn; same.b_dyn = first->b_dyn; same.bias_dyn = first->bias_dyn;
        if (!(same == *first)) return 0;
        ++tiles;
    }
    if (!first) return 0;
    const int64_t one = (first->m + first->n) * first->k * dtype_size_bytes(first->in);
    return one > chip.capacity[static_cast<int>(Mem::L1)] ? tiles : 0;
}

}  // namespace npu::plan
