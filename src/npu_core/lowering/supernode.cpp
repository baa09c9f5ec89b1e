// Source: hicann/pypto@r0.2.0 passes/tile_graph_pass/graph_partition/supernode_graph_builder.cpp.
#include <algorithm>
#include <numeric>

#include "npu_core/lowering/leaf.h"
#include "npu_core/lowering/partition.h"

namespace npu::lowering {
namespace {

class UnionFind {
public:
    explicit UnionFind(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0); }
    int32_t find(int32_t x) {
        while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
        return x;
    }
    void unite(int32_t a, int32_t b) {
        a = find(a);
        b = find(b);
        if (a != b) parent_[std::max(a, b)] = std::min(a, b);
    }

private:
    std::vector<int32_t> parent_;
};

Mem first_mem(const Graph& g, const Ids& operands) {
    return operands.empty() ? Mem::UNKNOWN : g.tensors[operands[0]].mem;
}

void unite_by_rule(const Graph& g, const OpEdges& e, int32_t i, UnionFind& sets) {
    const Op& op = g.ops[g.order[i]];
    auto all = [&](const Ids& list) {
        for (int32_t j : list) sets.unite(i, j);
    };
    const Mem in = first_mem(g, op.in), out = first_mem(g, op.out);
    if (op.code == Opcode::CONVERT) {
        all(e.previous[i]);
        return;
    }
    if (out == Mem::L1 || out == Mem::BT || out == Mem::FIX) {
        all(e.next[i]);
        if ((op.code == Opcode::VIEW || op.code == Opcode::ASSEMBLE) && in == Mem::L0C) all(e.previous[i]);
        return;
    }
    if (op.code == Opcode::ASSEMBLE) {
        if (out == Mem::GM && (in == Mem::UB || in == Mem::L1 || in == Mem::L0C)) all(e.previous[i]);
        else if (!e.previous[i].empty()) sets.unite(i, e.previous[i].front());
        return;
    }
    const OpClass klass = facts(op.code).klass;
    if (klass == OpClass::MOVE_OUT) {
        all(e.previous[i]);
        return;
    }
    if ((klass == OpClass::MOVE_IN || klass == OpClass::MOVE_LOCAL) && !e.next[i].empty()) {
        sets.unite(i, e.next[i].front());
        return;
    }
    if (is_matmul(op.code)) {
        for (int32_t p : e.previous[i])
            if (is_matmul(g.ops[g.order[p]].code)) sets.unite(i, p);
        for (int32_t n : e.next[i]) {
            const Op& reader = g.ops[g.order[n]];
            if (reader.code == Opcode::VIEW && first_mem(g, reader.out) == Mem::L0C) sets.unite(i, n);
        }
    }
}

// Strongly connected components of the node graph become one node: nothing may lie between two members.
void close_cycles(const OpEdges& e, UnionFind& sets) {
    const int32_t n = int32_t(e.next.size());
    std::vector<Ids> next(n);
    for (int32_t i = 0; i < n; ++i)
        for (int32_t j : e.next[i]) {
            const int32_t a = sets.find(i), b = sets.find(j);
            if (a != b) next[a].push_back(b);
        }
    std::vector<int32_t> index(n, -1), low(n, 0), stack;
    std::vector<char> on_stack(n, 0);
    struct Frame { int32_t node; size_t edge; };
    std::vector<Frame> frames;
    int32_t counter = 0;
    for (int32_t root = 0; root < n; ++root) {
        if (sets.find(root) != root || index[root] >= 0) continue;
        frames.push_back({root, 0});
        while (!frames.empty()) {
            auto& [v, edge] = frames.back();
            if (edge == 0) {
                index[v] = low[v] = counter++;
                stack.push_back(v);
                on_stack[v] = 1;
            }
            if (edge < next[v].size()) {
                const int32_t w = next[v][edge++];
                if (index[w] < 0) frames.push_back({w, 0});
                else if (on_stack[w]) low[v] = std::min(low[v], index[w]);
                continue;
            }
            const int32_t node = v;
            frames.pop_back();
            if (!frames.empty()) low[frames.back().node] = std::min(low[frames.back().node], low[node]);
            if (low[node] != index[node]) continue;
            while (true) {
                const int32_t w = stack.back();
                stack.pop_back();
                on_stack[w] = 0;
                if (w == node) break;
                sets.unite(node, w);
            }
        }
    }
}

}  // namespace

OpEdges op_edges(const Graph& g) {
    std::vector<int32_t> place(g.ops.size(), -1);
    for (size_t i = 0; i < g.order.size(); ++i) place[g.order[i]] = int32_t(i);
    OpEdges e;
    e.next.resize(g.order.size());
    e.previous.resize(g.order.size());
    for (size_t i = 0; i < g.order.size(); ++i) {
        for (int32_t t : g.ops[g.order[i]].out)
            for (int32_t c : g.tensors[t].consumers)
                if (place[c] >= 0) e.next[i].push_back(place[c]);
        e.next[i].sort_unique();
        for (int32_t n : e.next[i]) e.previous[n].push_back(int32_t(i));
    }
    return e;
}

std::vector<SuperNode> build_super_nodes(const Graph& g, const OpEdges& e) {
    const int32_t n = int32_t(g.order.size());
    UnionFind sets{size_t(n)};
    for (int32_t i = 0; i < n; ++i) {
        const int32_t scope = g.ops[g.order[i]].scope;
        if (scope >= 0)
            for (int32_t j : e.next[i])
                if (g.ops[g.order[j]].scope == scope) sets.unite(i, j);
    }
    for (int32_t i = 0; i < n; ++i) unite_by_rule(g, e, i, sets);
    close_cycles(e, sets);
    std::vector<int32_t> node_of(n, -1);
    std::vector<SuperNode> nodes;
    for (int32_t i = 0; i < n; ++i) {
        const int32_t root = sets.find(i);
        if (node_of[root] < 0) {
            node_of[root] = int32_t(nodes.size());
            nodes.emplace_back();
            nodes.back().core = CoreType::ANY;
        }
        node_of[i] = node_of[root];
        SuperNode& s = nodes[node_of[i]];
        const Op& op = g.ops[g.order[i]];
        s.members.push_back(i);
        s.latency += op.latency;
        const CoreType core = facts(op.code).core;
        if (s.core == CoreType::ANY && (core == CoreType::AIV || core == CoreType::AIC || core == CoreType::HUB)) s.core = core;
        if (op.scope >= 0) s.scope = op.scope;
    }
    for (int32_t i = 0; i < n; ++i)
        for (int32_t j : e.next[i])
            if (node_of[i] != node_of[j]) {
                nodes[node_of[i]].next.push_back(node_of[j]);
                nodes[node_of[j]].previous.push_back(node_of[i]);
            }
    for (SuperNode& s : nodes) {
        s.next.sort_unique();
        s.previous.sort_unique();
        if (s.core == CoreType::ANY) s.core = CoreType::AIV;
        if (s.members.size() == 1 && g.ops[g.order[s.members[0]]].code == Opcode::RESHAPE) {
            const size_t in = s.previous.size(), out = s.next.size();
            if ((in > 1 && out > 1) || (in > 1 && out == 0) || (in == 0 && out > 1)) s.mergeable = false;
        }
        if (s.scope >= 0) s.mergeable = false;
    }
    return nodes;
}

}  // namespace npu::lowering
