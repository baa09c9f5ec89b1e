// Equal operations of one sub-graph collapse. Source: hicann/pypto@r0.2.0 passes/tile_graph_pass
// (CommonOperationEliminate).
#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "npu_core/lowering/leaf.h"
#include "npu_core/lowering/moves.h"
#include "npu_core/lowering/partition.h"

namespace npu::lowering {
namespace {

using Key = std::vector<int64_t>;

void add_offset(Key& key, const Offset& at) {
    key.push_back(at.rank);
    for (int d = 0; d < at.rank; ++d) {
        key.push_back(at.d[d].at);
        key.push_back(at.d[d].symbol);
    }
}

void add_shape(Key& key, const Tensor& t) {
    key.push_back(int64_t(t.dtype) * 16 + int64_t(t.mem));
    key.push_back(t.shape.rank);
    for (int d = 0; d < t.shape.rank; ++d) key.push_back(t.shape[d]);
}

bool never_collapses(Opcode c) {
    const OpFacts& f = facts(c);
    if (c == Opcode::L0C_COPY_L1) return false;
    return f.schedule_pipe == SchedulePipe::MTE1 || c == Opcode::VIEW || c == Opcode::ASSEMBLE || c == Opcode::COPY_OUT ||
           f.klass == OpClass::MOVE_OUT;
}

// Operations by what makes two of them equal.
class SameOps {
public:
    explicit SameOps(const Graph& g) : g_(g), table_(std::bit_ceil(std::max<size_t>(16, g.order.size() * 2)), {0, -1}) {}

    // The operation equal to this one that was seen first: itself if there is none.
    int32_t first(int32_t id) {
        const uint64_t h = hash(g_.ops[id]);
        for (size_t i = h & (table_.size() - 1);; i = (i + 1) & (table_.size() - 1)) {
            Entry& e = table_[i];
            if (e.op < 0) {
                e = {h, id};
                return id;
            }
            if (e.hash == h && equal(g_.ops[e.op], g_.ops[id])) return e.op;
        }
    }

private:
    struct Entry {
        uint64_t hash;
        int32_t op;
    };

    uint64_t hash(const Op& op) const {
        uint64_t h = mix_hash(uint64_t(op.code), uint64_t(uint32_t(op.sub_graph)));
        for (int32_t t : op.in) h = mix_hash(h, uint64_t(t));
        for (int d = 0; d < op.at.rank; ++d) h = mix_hash(h, uint64_t(op.at.d[d].at) * 31 + uint64_t(op.at.d[d].symbol));
        return h;
    }

    bool equal(const Op& a, const Op& b) const {
        if (a.code != b.code || a.sub_graph != b.sub_graph || a.valid != b.valid || a.transpose != b.transpose || !(a.in == b.in) ||
            !(a.at == b.at) || a.out.size() != b.out.size())
            return false;
        for (size_t i = 0; i < a.out.size(); ++i) {
            const Tensor &x = g_.tensors[a.out[i]], &y = g_.tensors[b.out[i]];
            if (x.dtype != y.dtype || x.mem != y.mem || !(x.shape == y.shape)) return false;
        }
        const Attributes *p = g_.attrs(a), *q = g_.attrs(b);
        if (!p || !q || p == q) return p == q;
        return p->axis == q->axis && p->has_scalar == q->has_scalar && std::bit_cast<uint64_t>(p->scalar) == std::bit_cast<uint64_t>(q->scalar) &&
               p->trans_a == q->trans_a && p->trans_b == q->trans_b && p->ints == q->ints;
    }

    const Graph& g_;
    std::vector<Entry> table_;
};

void read_instead(Graph& g, int32_t dropped, int32_t kept) {
    for (int32_t c : Ids(g.tensors[dropped].consumers)) g.replace_input(c, dropped, kept);
}

// Boxes filled by the same tiles at the same places become one.
bool collapse_boxes(Graph& g, const std::vector<char>& fixed) {
    std::map<Key, int32_t> first;
    std::set<int32_t> boxes;
    bool any = false;
    for (int32_t id : g.order) {
        const Op& op = g.ops[id];
        if (op.dead || (op.code != Opcode::COPY_OUT && op.code != Opcode::ASSEMBLE)) continue;
        const int32_t box = op.out[0];
        if (fixed[box] || !boxes.insert(box).second) continue;
        Key key;
        add_shape(key, g.tensors[box]);
        std::vector<Key> parts;
        for (int32_t p : g.tensors[box].producers) {
            const Op& w = g.ops[p];
            Key part{int64_t(w.code), w.sub_graph, w.in.empty() ? -1 : w.in[0]};
            add_offset(part, w.at);
            if (w.in.size() != 1 || (w.code != Opcode::COPY_OUT && w.code != Opcode::ASSEMBLE)) part.push_back(-1 - p);
            parts.push_back(std::move(part));
        }
        std::sort(parts.begin(), parts.end());
        for (const Key& part : parts) key.insert(key.end(), part.begin(), part.end());
        auto [it, fresh] = first.try_emplace(std::move(key), box);
        if (fresh) continue;
        read_instead(g, box, it->second);
        for (int32_t p : Ids(g.tensors[box].producers)) g.kill(p);
        any = true;
    }
    return any;
}

bool collapse_ops(Graph& g) {
    SameOps seen(g);
    bool any = false;
    for (int32_t id : g.order) {
        const Op& op = g.ops[id];
        if (op.dead || op.out.empty() || op.valid || never_collapses(op.code)) continue;   // valid: symbolic sizes never compare equal
        const int32_t kept = seen.first(id);
        if (kept == id) continue;
        bool sole = true;
        for (int32_t t : op.out) sole &= g.tensors[t].producers.size() == 1;
        if (!sole) continue;
        for (size_t i = 0; i < op.out.size(); ++i) read_instead(g, op.out[i], g.ops[kept].out[i]);
        g.kill(id);
        any = true;
    }
    return any;
}

}  // namespace

void eliminate_common_ops(Graph& g) {
    std::vector<char> fixed(g.tensors.size(), 0);
    for (int32_t t : g.inputs) fixed[t] = 1;
    for (int32_t t : g.outputs) fixed[t] = 1;
    while (true) {
        const bool ops = collapse_ops(g), boxes = collapse_boxes(g, fixed);
        if (!ops && !boxes) break;
    }
    g.drop_dead();
    erase_dead_ops(g);
}

}  // namespace npu::lowering
