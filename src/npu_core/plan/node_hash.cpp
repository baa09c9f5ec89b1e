// Hashes of super-nodes by what they are, what leads to them and what follows.
#include "npu_core/plan/super_nodes.h"

namespace npu::plan {

namespace {

Hash tensor_hash(const Tensor& t) {
    Hash h = mix(static_cast<Hash>(t.mem) * 31 + static_cast<Hash>(t.dtype), t.shape);
    return h;
}

bool is_pair(Code c) {
    return c == Code::PAIRSUM || c == Code::PAIRMAX || c == Code::PAIRMIN || c == Code::PAIRPROD || c == Code::PAIRARG;
}

}  // namespace

void hash_nodes(const Graph& g, const std::vector<int32_t>& position, std::vector<Node>& nodes) {
    const size_t n = g.order.size();
    std::vector<Hash> own(n), front(n, 0), back(n, 0);
    std::vector<Hash> t_front(g.tensors.size(), 0), t_back(g.tensors.size(), 0);
    // Members of a tree of equal pair operations count as one node, so that they get comparable hashes.
    UnionFind tree(n);
    for (size_t i = 0; i < n; ++i) {
        const Op& op = g.ops[g.order[i]];
        own[i] = static_cast<Hash>(op.code) + 1;
        for (Id t : op.in) own[i] = mix(own[i], tensor_hash(g.tensors[t]));
        for (Id t : op.out) own[i] = mix(own[i], tensor_hash(g.tensors[t]) + 7);
        if (op.mm != NONE) {
            const Matmul& m = g.matmuls[op.mm];
            for (int64_t v : {m.m, m.n, m.k, m.k_l0, m.k_l1a, m.k_l1b, static_cast<int64_t>(m.a_trans) * 2 + m.b_trans,
                              static_cast<int64_t>(m.bias)})
                own[i] = mix(own[i], static_cast<uint64_t>(v));
        }
        if (is_pair(op.code)) {
            const Tensor& out = g.tensors[op.out[0]];
            if (out.consumers.size() == 1 && g.ops[out.consumers[0]].code == op.code)
                tree.join(static_cast<int32_t>(i), position[out.consumers[0]]);
        }
    }
    // A tree's hash seen from outside does not depend on where in the tree an edge ends; inside, each member adds its
    // local position.
    std::vector<Hash> local_front(n, 0), local_back(n, 0), tree_in(n, 0), tree_own(n, 0);   // tree_*: by root
    auto inner = [&](size_t i) {   // the result feeds another member of the same tree
        const Tensor& out = g.tensors[g.ops[g.order[i]].out[0]];
        return out.consumers.size() == 1 && g.ops[out.consumers[0]].code == g.ops[g.order[i]].code;
    };
    for (size_t i = 0; i < n; ++i) {
        const Op& op = g.ops[g.order[i]];
        auto seen = [&](Id t) { return g.tensors[t].producers.empty() ? Hash{11} : t_front[t]; };
        if (!is_pair(op.code)) {
            front[i] = own[i];
            for (Id t : op.in) front[i] = mix(front[i], seen(t));
        } else {
            const int32_t root = tree.find(static_cast<int32_t>(i));
            tree_own[root] += own[i] * 0x9E3779B97F4A7C15ull;
            local_front[i] = own[i];
            for (Id t : op.in) {
                const Ids& from = g.tensors[t].producers;
                const bool member = from.size() == 1 && is_pair(g.ops[from[0]].code) && tree.find(position[from[0]]) == root;
                local_front[i] = mix(local_front[i], member ? local_front[position[from[0]]] : 1);
                if (!member) tree_in[root] += mix(5, seen(t));
            }
            if (!inner(i)) front[i] = mix(tree_own[root], tree_in[root]);
        }
        for (Id t : op.out) t_front[t] += mix(3, front[i]);
    }
    for (size_t k = n; k-- > 0;) {
        const Op& op = g.ops[g.order[k]];
        if (is_pair(op.code) && inner(k)) {
            const int32_t up = position[g.tensors[op.out[0]].consumers[0]];
            back[k] = back[up];
            front[k] = front[up];
            local_back[k] = mix(own[k], local_back[up]);
        } else {
            back[k] = own[k];
            for (Id t : op.out) back[k] = mix(back[k], g.tensors[t].consumers.empty() ? 13 : t_back[t]);
            if (is_pair(op.code)) local_back[k] = own[k];
        }
        for (Id t : op.in) t_back[t] += mix(17, back[k]);
    }
    for (Node& node : nodes) {
        Hash h = 23;
        for (Id o : node.ops) {
            const int32_t i = position[o];
            h = mix(h, mix(mix(front[i], back[i]), mix(local_front[i], local_back[i])));
        }
        node.hash = h;
    }
}

}  // namespace npu::plan
