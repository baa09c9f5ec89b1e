// Super-nodes: what copies serve, what is joined by scope, and cycles between them.
#include <algorithm>

#include "npu_core/plan/super_nodes.h"

namespace npu::plan {

namespace {

std::vector<Node> build(const Graph& g, const std::vector<int32_t>& position, UnionFind& uf) {
    const size_t n = g.order.size();
    std::vector<int32_t> id(n, -1), node_of(n, -1);
    std::vector<Node> nodes;
    for (size_t i = 0; i < n; ++i) {
        int32_t root = uf.find(static_cast<int32_t>(i));
        if (id[root] < 0) {
            id[root] = static_cast<int32_t>(nodes.size());
            nodes.emplace_back();
        }
        node_of[i] = id[root];
        nodes[id[root]].ops.push_back(g.order[i]);
    }
    for (size_t i = 0; i < n; ++i)
        for (Id t : g.ops[g.order[i]].in)
            for (Id p : g.tensors[t].producers) {
                const int32_t from = node_of[position[p]], to = node_of[i];
                if (from == to) continue;
                nodes[from].succ.push_back(to);
                nodes[to].pred.push_back(from);
            }
    for (Node& node : nodes)
        for (Ids* list : {&node.pred, &node.succ}) list->sort_unique();
    return nodes;
}

bool absorb_cycles(const std::vector<Node>& nodes, const std::vector<int32_t>& position, UnionFind& uf) {   // Tarjan, iterative
    const int32_t n = static_cast<int32_t>(nodes.size());
    std::vector<int32_t> low(n, -1), number(n, -1), stack, next(n, 0);
    std::vector<char> on(n, 0);
    int32_t counter = 0;
    bool merged = false;
    for (int32_t root = 0; root < n; ++root) {
        if (number[root] >= 0) continue;
        std::vector<int32_t> call{root};
        while (!call.empty()) {
            int32_t v = call.back();
            if (number[v] < 0) {
                number[v] = low[v] = counter++;
                stack.push_back(v);
                on[v] = 1;
            }
            if (next[v] < static_cast<int32_t>(nodes[v].succ.size())) {
                int32_t w = nodes[v].succ[next[v]++];
                if (number[w] < 0) call.push_back(w);
                else if (on[w]) low[v] = std::min(low[v], number[w]);
                continue;
            }
            call.pop_back();
            if (!call.empty()) low[call.back()] = std::min(low[call.back()], low[v]);
            if (low[v] != number[v]) continue;
            int32_t w;
            do {
                w = stack.back();
                stack.pop_back();
                on[w] = 0;
                if (w != v) {
                    merged = true;
                    uf.join(position[nodes[w].ops[0]], position[nodes[v].ops[0]]);
                }
            } while (w != v);
        }
    }
    return merged;
}

}  // namespace

std::vector<int32_t> positions_of(const Graph& g) {
    std::vector<int32_t> position(g.ops.size(), -1);
    for (size_t i = 0; i < g.order.size(); ++i) position[g.order[i]] = static_cast<int32_t>(i);
    return position;
}

std::vector<Node> super_nodes(const Graph& g, const std::vector<int32_t>& position) {
    const size_t n = g.order.size();
    UnionFind uf(n);
    auto first = [&](const Ids& ops) {
        int32_t best = -1;
        for (Id o : ops)
            if (best < 0 || position[o] < best) best = position[o];
        return best;
    };
    for (size_t i = 0; i < n; ++i) {
        const Op& op = g.ops[g.order[i]];
        const auto cls = cost::info(op.code).cls;
        const Tensor& out = g.tensors[op.out[0]];
        const bool moved = op.code == Code::VIEW || op.code == Code::ASSEMBLE;
        if (out.mem == Mem::L1 || out.mem == Mem::BT || out.mem == Mem::FB) {
            for (Id c : out.consumers) uf.join(position[c], static_cast<int32_t>(i));
            if (moved && g.tensors[op.in[0]].mem == Mem::L0C)
                for (Id p : g.tensors[op.in[0]].producers) uf.join(position[p], static_cast<int32_t>(i));
        } else if (op.code == Code::ASSEMBLE) {
            const Tensor& in = g.tensors[op.in[0]];
            if (in.mem != Mem::GM && out.mem == Mem::GM)
                for (Id p : in.producers) uf.join(position[p], static_cast<int32_t>(i));
            else if (int32_t p = first(in.producers); p >= 0) uf.join(p, static_cast<int32_t>(i));
        } else if (cls == cost::Class::MOVE_OUT) {
            for (Id t : op.in)
                for (Id p : g.tensors[t].producers) uf.join(position[p], static_cast<int32_t>(i));
        } else if (cls == cost::Class::MOVE_IN || cls == cost::Class::MOVE_LOCAL) {
            int32_t best = -1;
            for (Id t : op.out)
                if (const int32_t c = first(g.tensors[t].consumers); c >= 0 && (best < 0 || c < best)) best = c;
            if (best >= 0) uf.join(best, static_cast<int32_t>(i));
        }
    }
    // Edges inside a scope join computations of one core type; moves go with what they serve.
    for (size_t i = 0; i < n; ++i) {
        const Op& op = g.ops[g.order[i]];
        if (op.scope < 0) continue;
        for (Id t : op.in)
            for (Id p : g.tensors[t].producers) {
                const cost::Core a = cost::info(g.ops[p].code).core, b = cost::info(op.code).core;
                if (g.ops[p].scope == op.scope && a == b && a != cost::Core::ANY)
                    uf.join(position[p], static_cast<int32_t>(i));
            }
    }
    // Node cycles are absorbed: strongly connected nodes become one.
    std::vector<Node> nodes = build(g, position, uf);
    while (absorb_cycles(nodes, position, uf)) nodes = build(g, position, uf);
    for (Node& node : nodes) {
        node.latency = 0;
        for (Id o : node.ops) {
            const Op& op = g.ops[o];
            node.latency += op.latency;
            if (node.core == cost::Core::ANY && op.code != Code::RESHAPE) node.core = cost::info(op.code).core;
            node.scope = std::max(node.scope, op.scope);
        }
        const Op& only = g.ops[node.ops[0]];
        if (node.ops.size() == 1 && only.code == Code::RESHAPE) {
            node.core = cost::Core::HUB;
            const size_t in = node.pred.size(), out = node.succ.size();
            if ((in > 1 && out > 1) || (in > 1 && out == 0) || (in == 0 && out > 1)) node.mergeable = false;
        } else if (node.core == cost::Core::ANY) {
            node.core = cost::Core::AIV;
        }
        if (node.scope >= 0) node.mergeable = false;
    }
    return nodes;
}

}  // namespace npu::plan
