// Memory of every tile, and copies where a reader wants another one. Source: hicann/pypto@r0.2.0
// passes/tile_graph_pass/data_path/assign_memory_type.cpp, convert_op_inserter.cpp; links of A2/A3.
#include <algorithm>
#include <array>

#include "npu_core/lowering/cleanup.h"
#include "npu_core/lowering/leaf.h"

namespace npu::lowering {
namespace {

constexpr int64_t UB_BOX_BYTES = UB_BYTES * 35 / 100, L1_BOX_BYTES = L1_BYTES / 2, ALIGN_BYTES = 32;

bool linked(Mem from, Mem to) {
    switch (from) {
        case Mem::GM: return to == Mem::UB || to == Mem::L1;
        case Mem::UB: return to == Mem::GM;
        case Mem::L1: return to == Mem::L0A || to == Mem::L0B || to == Mem::BT || to == Mem::FIX;
        case Mem::L0C: return to == Mem::GM || to == Mem::L1;
        default: return false;
    }
}

// Memories after `from` on the shortest way to `to`; empty when there is none or nothing to do.
std::vector<Mem> path(Mem from, Mem to, bool l0c_to_l1) {
    if (from == to) return {};
    std::array<int, MEM_COUNT> came;
    came.fill(-1);
    std::vector<Mem> queue{from};
    came[int(from)] = int(from);
    for (size_t head = 0; head < queue.size(); ++head)
        for (int m = 0; m < MEM_COUNT; ++m) {
            if (came[m] >= 0 || !linked(queue[head], Mem(m))) continue;
            if (queue[head] == Mem::L0C && Mem(m) == Mem::L1 && !l0c_to_l1) continue;
            came[m] = int(queue[head]);
            queue.push_back(Mem(m));
        }
    std::vector<Mem> way;
    if (came[int(to)] < 0) return way;
    for (Mem m = to; m != from; m = Mem(came[int(m)])) way.push_back(m);
    std::reverse(way.begin(), way.end());
    return way;
}

class Assign {
public:
    explicit Assign(Graph& g) : g_(g), own_(g.tensors.size(), Mem::UNKNOWN), want_(g.ops.size()), writers_left_(g.tensors.size(), -1) {}

    void run() {
        for (int32_t id : g_.order) by_table(id);
        for (int32_t id : g_.order) by_neighbours(id);
        for (const auto* ends : {&g_.inputs, &g_.outputs})
            for (int32_t t : *ends) own_[t] = Mem::GM;
        for (size_t t = 0; t < own_.size(); ++t) settle(int32_t(t));
        for (int32_t id : g_.order) reshape(id);
        for (int32_t id : g_.order) bound_box(id);
        const size_t tensors = own_.size();
        for (size_t t = 0; t < tensors; ++t) become_global(int32_t(t));
        for (size_t t = 0; t < tensors; ++t)
            if (own_[t] != Mem::UNKNOWN) g_.tensors[t].mem = own_[t];
        const size_t before = g_.ops.size();
        for (size_t t = 0; t < tensors; ++t) resolve(int32_t(t));
        if (g_.ops.size() != before) sort_ops(g_);
    }

private:
    static bool free_standing(Opcode c) {
        return c == Opcode::VIEW || c == Opcode::ASSEMBLE || c == Opcode::RESHAPE || c == Opcode::NOP;
    }

    void want(int32_t id, size_t operand, Mem m) {
        if (want_[id].size() <= operand) want_[id].resize(operand + 1, Mem::UNKNOWN);
        want_[id][operand] = m;
    }

    void by_table(int32_t id) {
        const Op& op = g_.ops[id];
        if (op.code == Opcode::VIEW && op.to != Mem::UNKNOWN) own_[op.out[0]] = op.to;
        if (free_standing(op.code)) return;
        const OpFacts& f = facts(op.code);
        for (size_t i = 0; i < op.in.size(); ++i) {
            Mem m = is_matmul(op.code) ? matmul_input(op.in[i]) : f.in.at(std::min<int>(int(i), std::max(0, f.in.count - 1)));
            if (m == Mem::UNKNOWN || m == Mem::OTHER) continue;
            if (own_[op.in[i]] == Mem::UNKNOWN) own_[op.in[i]] = m;
            want(id, i, m);
        }
        for (size_t i = 0; i < op.out.size(); ++i) {
            const Mem m = f.out.at(std::min<int>(int(i), std::max(0, f.out.count - 1)));
            if (m != Mem::UNKNOWN && m != Mem::OTHER) own_[op.out[i]] = m;
        }
    }

    Mem matmul_input(int32_t t) const {
        for (int32_t p : g_.tensors[t].producers) {
            if (is_matmul(g_.ops[p].code)) return Mem::L0C;
            if (g_.ops[p].code == Opcode::VIEW) return g_.ops[p].to;
        }
        return Mem::UNKNOWN;
    }

    bool aligned_view(const Op& op) const {
        if (op.at.rank == 0) return true;
        const Coord& last = op.at.d[op.at.rank - 1];
        return last.symbol == 0 && last.at * dtype_size_bytes(g_.tensors[op.in[0]].dtype) % ALIGN_BYTES == 0;
    }

    bool aligned_assemble(const Op& op) const {
        const Shape& whole = g_.raws[g_.tensors[op.out[0]].raw].shape;
        int64_t offset = 0;
        for (int d = 0; d < op.at.rank; ++d) {
            if (op.at.d[d].symbol) return false;
            offset = offset * (d < whole.rank ? whole[d] : 1) + op.at.d[d].at;
        }
        return offset * dtype_size_bytes(g_.tensors[op.out[0]].dtype) % ALIGN_BYTES == 0;
    }

    void by_neighbours(int32_t id) {
        const Op& op = g_.ops[id];
        if (op.code == Opcode::ASSEMBLE) {
            const int32_t out = op.out[0];
            if (writers_left_[out] < 0) writers_left_[out] = int32_t(g_.tensors[out].producers.size());
            if (--writers_left_[out]) return;        // nothing reads it before its last writer
            Mem common = own_[op.in[0]];
            bool aligned = true;
            for (int32_t p : g_.tensors[out].producers) {
                const Op& writer = g_.ops[p];
                if (writer.code != Opcode::ASSEMBLE) return;
                if (own_[writer.in[0]] != common) common = Mem::GM;
                aligned &= aligned_assemble(writer);
            }
            own_[out] = aligned ? common : Mem::GM;
        } else if (op.code == Opcode::VIEW && op.to == Mem::UNKNOWN) {
            const Mem in = own_[op.in[0]];
            Mem& out = own_[op.out[0]];
            if (out == Mem::UNKNOWN && in != Mem::UNKNOWN && in != Mem::L0C) out = in;
            if (out != Mem::UNKNOWN) want(id, 0, out);
            if (!aligned_view(op)) want(id, 0, Mem::GM);
        } else if (op.code == Opcode::VIEW) {
            want(id, 0, op.to);
        }
    }

    Mem wanted(int32_t id, int32_t t) const {
        const Op& op = g_.ops[id];
        if (size_t(id) < want_.size())
            for (size_t i = 0; i < op.in.size() && i < want_[id].size(); ++i)
                if (op.in[i] == t) return want_[id][i];
        return Mem::UNKNOWN;
    }

    void settle(int32_t t) {
        if (own_[t] != Mem::UNKNOWN || (g_.tensors[t].producers.empty() && g_.tensors[t].consumers.empty())) return;
        Mem common = Mem::UNKNOWN;
        for (int32_t c : g_.tensors[t].consumers) {
            const Mem m = wanted(c, t);
            if (m == Mem::UNKNOWN) continue;
            if (common != Mem::UNKNOWN && common != m) common = Mem::GM;
            else common = m;
        }
        own_[t] = common == Mem::UNKNOWN ? Mem::GM : common;
    }

    void reshape(int32_t id) {
        const Op& op = g_.ops[id];
        if (op.code != Opcode::RESHAPE) return;
        const int32_t in = op.in[0], out = op.out[0];
        bool local = own_[in] == Mem::UB && own_[out] == Mem::UB;
        for (int32_t p : g_.tensors[in].producers)
            local &= g_.ops[p].code != Opcode::ASSEMBLE || bytes_of(g_.tensors[in].shape, g_.tensors[in].dtype) <= UB_BOX_BYTES;
        want(id, 0, local ? Mem::UB : Mem::GM);
        if (!local) own_[out] = Mem::GM;
    }

    void bound_box(int32_t id) {
        const Op& op = g_.ops[id];
        if (op.code != Opcode::ASSEMBLE) return;
        const int32_t t = op.out[0];
        const int64_t bytes = bytes_of(g_.tensors[t].shape, g_.tensors[t].dtype);
        if ((own_[t] == Mem::UB && bytes > UB_BOX_BYTES) || (own_[t] == Mem::L1 && bytes > L1_BOX_BYTES)) own_[t] = Mem::GM;
    }

    // L0C to L1 keeps fp16 and bf16 tiles of whole blocks only.
    bool l0c_to_l1(int32_t t, int32_t reader) const {
        const Tensor& x = g_.tensors[t];
        if (!is_half(x.dtype) || x.valid || x.shape.rank != 2) return false;
        if (x.shape[0] % 16 || x.shape[1] * dtype_size_bytes(x.dtype) % ALIGN_BYTES) return false;
        const Shape& part = g_.tensors[g_.ops[reader].out[0]].shape;
        for (int d = 0; d < 2; ++d)
            if (x.shape[d] % part[d] && part[d] % x.shape[d]) return false;
        return true;
    }

    // Memories in which copies are needed before `reader` can read `t`; the reader makes the last hop if it is a move.
    std::vector<Mem> hops(int32_t t, int32_t reader) const {
        const Op& op = g_.ops[reader];
        Mem target = wanted(reader, t);
        const bool move = op.code == Opcode::VIEW || op.code == Opcode::ASSEMBLE;
        if (op.code == Opcode::ASSEMBLE) target = own_[op.out[0]];
        if (op.code == Opcode::VIEW && !(target == Mem::GM && own_[op.out[0]] != Mem::GM))
            target = op.to != Mem::UNKNOWN ? op.to : own_[op.out[0]];
        if (target == Mem::UNKNOWN || target == own_[t]) return {};
        std::vector<Mem> way = path(own_[t], target, op.code == Opcode::VIEW && l0c_to_l1(t, reader));
        const bool stops_in_global = op.code == Opcode::VIEW && target == Mem::GM && own_[op.out[0]] != Mem::GM;
        if (move && !way.empty() && !stops_in_global) way.pop_back();
        return way;
    }

    void become_global(int32_t t) {
        const Tensor& x = g_.tensors[t];
        if (own_[t] == Mem::GM || x.producers.empty() || x.consumers.empty()) return;
        for (int32_t p : x.producers)
            if (g_.ops[p].code != Opcode::ASSEMBLE) return;
        for (int32_t c : x.consumers) {
            const std::vector<Mem> way = hops(t, c);
            if (std::find(way.begin(), way.end(), Mem::GM) == way.end()) return;
        }
        own_[t] = Mem::GM;
    }

    void resolve(int32_t t) {
        for (int32_t c : Ids(g_.tensors[t].consumers)) {
            int32_t from = t;
            for (Mem m : hops(t, c)) {
                const Tensor x = g_.tensors[from];
                const int32_t to = g_.add_fresh(x.shape, x.dtype, m);
                g_.tensors[to].valid = x.valid;
                const int32_t id = g_.add_op(m == Mem::GM ? Opcode::ASSEMBLE : Opcode::VIEW, {from}, {to});
                g_.ops[id].at = zero_offset(x.shape.rank);
                g_.ops[id].scope = g_.ops[c].scope;
                g_.ops[id].source = g_.ops[c].source;
                from = to;
            }
            if (from != t) g_.replace_input(c, t, from);
        }
    }

    Graph& g_;
    std::vector<Mem> own_;
    std::vector<std::vector<Mem>> want_;
    std::vector<int32_t> writers_left_;    // of a joined tensor; -1: none seen
};

}  // namespace

void assign_memory_types(Graph& g) {
    sort_if_stale(g);
    Assign(g).run();
}

}  // namespace npu::lowering
