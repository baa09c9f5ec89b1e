// Where every tile lives, and the copies that the paths of the chip require.
#include <algorithm>

#include "npu_core/plan/stages.h"

namespace npu::plan {

namespace {

constexpr double UB_ASSEMBLE_SHARE = 0.35, L1_ASSEMBLE_SHARE = 0.5;   // share of the memory an assembled tensor may take

// Memory an operation wants its operand in; NONE: no opinion.
Mem wants(const Graph& g, const Op& op, size_t i) {
    switch (op.code) {
        case Code::VIEW: case Code::ASSEMBLE: case Code::RESHAPE: return Mem::NONE;
        case Code::MATMUL_TILE: {
            const Matmul& mm = g.matmuls[op.mm];
            size_t a = mm.a_direct ? 1 : ceil_div(mm.k, mm.k_l1a), b = mm.b_direct ? 1 : ceil_div(mm.k, mm.k_l1b);
            if (i < a) return mm.a_direct ? Mem::GM : Mem::L1;
            if (i < a + b) return mm.b_direct ? Mem::GM : Mem::L1;
            return Mem::GM;
        }
        case Code::GATHER: return Mem::GM;
        case Code::INDEX_OUTCAST: case Code::SCATTER_ELEMENT: return i == 0 && op.code == Code::INDEX_OUTCAST ? Mem::GM : Mem::UB;
        default: return Mem::UB;
    }
}

Mem makes(const Op& op) {
    switch (op.code) {
        case Code::VIEW: return op.to;
        case Code::ASSEMBLE: case Code::RESHAPE: return Mem::NONE;
        case Code::MATMUL_TILE: return Mem::L0C;
        case Code::INDEX_OUTCAST: case Code::TRANSPOSE_MOVEOUT: return Mem::GM;
        default: return Mem::UB;
    }
}

}  // namespace

void assign_memory(Graph& g, const Chip& chip) {
    std::vector<size_t> first_want(g.ops.size(), 0);
    size_t operands = 0;
    for (size_t id = 0; id < g.ops.size(); ++id) {
        first_want[id] = operands;
        operands += g.ops[id].in.size();
    }
    std::vector<Mem> wanted(operands, Mem::NONE);
    auto want = [&](Id op, size_t operand) -> Mem& { return wanted[first_want[op] + operand]; };
    for (Id id : g.order) {
        Op& op = g.ops[id];
        for (size_t i = 0; i < op.in.size(); ++i) {
            want(id, i) = wants(g, op, i);
            Tensor& t = g.tensors[op.in[i]];
            if (t.mem == Mem::NONE && !(op.code == Code::MATMUL_TILE && want(id, i) == Mem::GM)) t.mem = want(id, i);
        }
        const Mem made = makes(op);
        for (Id t : op.out)
            if (made != Mem::NONE) g.tensors[t].mem = made;
    }
    // Views and assembles without a target of their own.
    std::vector<int32_t> assembled(g.tensors.size(), 0);
    for (Id id : g.order) {
        Op& op = g.ops[id];
        if (op.code == Code::ASSEMBLE) {
            Tensor& out = g.tensors[op.out[0]];
            if (++assembled[op.out[0]] < static_cast<int32_t>(out.producers.size())) continue;   // decided at the last one
            Mem common = g.tensors[op.in[0]].mem;
            for (Id p : out.producers) {
                const Op& other = g.ops[p];
                if (other.code != Code::ASSEMBLE || g.tensors[other.in[0]].mem != common) { common = Mem::GM; break; }
                int64_t linear = 0;
                for (int d = 0; d < other.at.rank; ++d) linear = linear * g.raws[out.raw].shape[d] + other.at[d];
                if (linear * dtype_size_bytes(out.dtype) % 32 != 0) { common = Mem::GM; break; }
            }
            // tiles of L0C are put together where they go next: on a chip with a direct path that is UB
            if (common == Mem::L0C && chip.direct_cv && out.producers.size() > 1) common = Mem::UB;
            if (common != Mem::NONE) out.mem = common;
        } else if (op.code == Code::VIEW) {
            Tensor &in = g.tensors[op.in[0]], &out = g.tensors[op.out[0]];
            if (out.mem != Mem::NONE) want(id, 0) = out.mem;
            else if (in.mem != Mem::NONE && in.mem != Mem::L0C) out.mem = in.mem;
            const int last = op.at.rank - 1;
            if (last >= 0 && op.at[last] * dtype_size_bytes(in.dtype) % 32 != 0) want(id, 0) = Mem::GM;
        }
    }
    for (Tensor& t : g.tensors)
        if (t.fn_in || t.fn_out) t.mem = Mem::GM;
    for (size_t i = 0; i < g.tensors.size(); ++i) {
        Tensor& t = g.tensors[i];
        if (t.mem != Mem::NONE || (t.producers.empty() && t.consumers.empty())) continue;
        Mem single = Mem::NONE;
        bool unanimous = true;
        for (Id c : t.consumers)
            for (size_t k = 0; k < g.ops[c].in.size(); ++k)
                if (g.ops[c].in[k] == static_cast<Id>(i)) {
                    Mem w = want(c, k);
                    if (w == Mem::NONE) continue;
                    unanimous = unanimous && (single == Mem::NONE || single == w);
                    single = w;
                }
        t.mem = unanimous && single != Mem::NONE ? single : Mem::GM;
    }
    for (Id id : g.order) {
        Op& op = g.ops[id];
        if (op.code != Code::RESHAPE) continue;
        Tensor &in = g.tensors[op.in[0]], &out = g.tensors[op.out[0]];
        if (in.mem == Mem::UB && out.mem == Mem::UB) { want(id, 0) = Mem::UB; continue; }
        want(id, 0) = Mem::GM;
        out.mem = Mem::GM;
    }
    for (Tensor& t : g.tensors) {
        if (t.producers.empty() || g.ops[t.producers[0]].code != Code::ASSEMBLE) continue;
        const int64_t bytes = bytes_of(t.shape, t.dtype);
        if (t.mem == Mem::UB && static_cast<double>(bytes) > UB_ASSEMBLE_SHARE * static_cast<double>(chip.capacity[static_cast<int>(Mem::UB)])) t.mem = Mem::GM;
        if (t.mem == Mem::L1 && static_cast<double>(bytes) > L1_ASSEMBLE_SHARE * static_cast<double>(chip.capacity[static_cast<int>(Mem::L1)])) t.mem = Mem::GM;
    }

    // Conflicts. A view or assemble is itself a copy where its two ends are linked directly.
    auto linked = [&](Mem from, Mem to) {
        if (from == to) return true;
        if (from == Mem::GM) return to == Mem::UB || to == Mem::L1;
        if (to == Mem::GM) return true;
        if (from == Mem::L0C) return to == Mem::L1 || (chip.direct_cv && to == Mem::UB);
        return from == Mem::UB && to == Mem::L1 && chip.direct_cv;
    };
    // L0C to L1 only for 16-bit tiles of whole fractals.
    auto l0c_to_l1 = [&](const Tensor& from, const Tensor& to) {
        if (!is_half(from.dtype) || !is_half(to.dtype)) return false;
        for (const Tensor* t : {&from, &to})
            if (t->shape.rank != 2 || t->shape[0] % 16 || t->shape[1] * dtype_size_bytes(t->dtype) % 32) return false;
        return from.shape[0] % to.shape[0] == 0 || to.shape[0] % from.shape[0] == 0;
    };
    const std::vector<Id> list = g.order;
    const size_t count = g.tensors.size();
    for (size_t i = 0; i < count; ++i) {
        if (g.tensors[i].consumers.empty()) continue;
        const bool assembled = [&] {
            if (g.tensors[i].producers.empty()) return false;
            for (Id p : g.tensors[i].producers)
                if (g.ops[p].code != Code::ASSEMBLE) return false;
            return true;
        }();
        struct Need { Id op; size_t operand; Mem to; bool by_gm; };
        std::vector<Need> needs;
        bool all_by_gm = true, any_other = false;
        const Mem own = g.tensors[i].mem;
        for (Id c : g.tensors[i].consumers) {
            const Op& op = g.ops[c];
            if (c >= static_cast<Id>(first_want.size())) continue;
            for (size_t k = 0; k < op.in.size(); ++k) {
                if (op.in[k] != static_cast<Id>(i)) continue;
                Mem to = want(c, k);
                bool by_gm = false, conflict = false;
                if (op.code == Code::VIEW) {
                    const Mem out = g.tensors[op.out[0]].mem;
                    bool ok = linked(own, out);
                    if (ok && own == Mem::L0C && out == Mem::L1) ok = l0c_to_l1(g.tensors[i], g.tensors[op.out[0]]);
                    if (own == Mem::UB && to == Mem::GM && out == Mem::UB) ok = false;   // unaligned column offset
                    conflict = !ok;
                    by_gm = true;
                    to = Mem::GM;
                } else if (op.code == Code::ASSEMBLE) {
                    const Mem out = g.tensors[op.out[0]].mem;
                    bool ok = linked(own, out);
                    if (ok && own == Mem::L0C && out == Mem::L1) ok = l0c_to_l1(g.tensors[i], g.tensors[op.out[0]]);
                    conflict = !ok;
                    by_gm = true;
                    to = Mem::GM;
                } else if (to != Mem::NONE && to != own) {
                    conflict = true;
                    by_gm = !(linked(own, to) && own != Mem::GM) && to != Mem::GM ? own != Mem::GM : to == Mem::GM;
                }
                if (!conflict) { any_other = any_other || own != Mem::GM; continue; }
                all_by_gm = all_by_gm && (by_gm || own == Mem::GM);
                needs.push_back({c, k, to, by_gm});
            }
        }
        if (needs.empty()) continue;
        if (assembled && own != Mem::GM && all_by_gm && !any_other) g.tensors[i].mem = Mem::GM;
        for (const Need& need : needs) {
            const Mem now = g.tensors[i].mem;
            if (g.ops[need.op].in[need.operand] != static_cast<Id>(i)) continue;
            const Op consumer = g.ops[need.op];
            if (now == need.to) continue;
            if (consumer.code == Code::VIEW && linked(now, g.tensors[consumer.out[0]].mem) && now == Mem::GM) continue;
            Id from = static_cast<Id>(i);
            const Shape shape = g.tensors[i].shape;
            auto hop = [&](Code code, Mem to) {
                Id copy = g.add_like(from);
                g.tensors[copy].mem = to;
                Id op = g.add_op(code, {from}, {copy}, consumer.src);
                g.ops[op].at = zeros(shape.rank);
                if (code == Code::VIEW) g.ops[op].to = to;
                from = copy;
            };
            const bool direct = now != Mem::GM && linked(now, need.to) && need.to != Mem::GM;
            if (direct) hop(Code::ASSEMBLE, need.to);
            else {
                if (now != Mem::GM) hop(Code::ASSEMBLE, Mem::GM);
                if (need.to != Mem::GM) hop(Code::VIEW, need.to);
            }
            g.lead_input(need.op, static_cast<Id>(i), from);
        }
        g.forget_consumers(static_cast<Id>(i));
    }
    if (g.stale) g.sort();
}

}  // namespace npu::plan
