// Equal operations of one sub-graph collapse. Source: hicann/pypto@r0.2.0 passes/tile_graph_pass
// (CommonOperationEliminate).
#include <algorithm>
#include <map>
#include <set>

#include "npu_core/lowering/leaf.h"
#include "npu_core/lowering/moves.h"

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

Key key_of(const Graph& g, const Op& op) {
    Key key{int64_t(op.code), op.sub_graph, op.valid, op.transpose, int64_t(op.in.size())};
    for (int32_t t : op.in) key.push_back(t);
    add_offset(key, op.at);
    for (int32_t t : op.out) add_shape(key, g.tensors[t]);
    if (const Attributes* a = g.attrs(op)) {
        int64_t bits;
        static_assert(sizeof bits == sizeof a->scalar);
        std::copy_n(reinterpret_cast<const char*>(&a->scalar), sizeof bits, reinterpret_cast<char*>(&bits));
        key.insert(key.end(), {a->axis, a->has_scalar, bits, a->trans_a, a->trans_b});
        key.insert(key.end(), a->ints.begin(), a->ints.end());
    }
    return key;
}

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
    std::map<Key, int32_t> first;
    bool any = false;
    for (int32_t id : g.order) {
        const Op& op = g.ops[id];
        if (op.dead || op.out.empty() || op.valid || never_collapses(op.code)) continue;   // valid: symbolic sizes never compare equal
        auto [it, fresh] = first.try_emplace(key_of(g, op), id);
        if (fresh) continue;
        bool sole = true;
        for (int32_t t : op.out) sole &= g.tensors[t].producers.size() == 1;
        if (!sole) continue;
        for (size_t i = 0; i < op.out.size(); ++i) read_instead(g, op.out[i], g.ops[it->second].out[i]);
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
