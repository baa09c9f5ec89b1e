// Source: hicann/pypto@r0.2.0 passes/tile_graph_pass/graph_partition/iso_partitioner.cpp.
#include <algorithm>
#include <deque>
#include <numeric>
#include <unordered_map>

#include "npu_core/lowering/partition.h"

namespace npu::lowering {
namespace {

uint64_t own_hash(const Graph& g, const Op& op) {
    uint64_t h = mix_hash(0x51ed270b, uint64_t(op.code));
    for (const Ids* operands : {&op.in, &op.out}) {
        h = mix_hash(h, operands->size());
        for (int32_t t : *operands) {
            const Tensor& x = g.tensors[t];
            h = mix_hash(h, uint64_t(x.mem) * 64 + uint64_t(x.dtype));
            for (int d = 0; d < x.shape.rank; ++d) h = mix_hash(h, uint64_t(x.shape[d]));
        }
    }
    return h;
}

// Members of a reduction tree and of a matmul chain share one hash node (reduce balance).
std::vector<int32_t> hash_nodes(const Graph& g, const OpEdges& e) {
    std::vector<int32_t> parent(g.order.size());
    std::iota(parent.begin(), parent.end(), 0);
    auto find = [&](int32_t x) {
        while (parent[x] != x) x = parent[x] = parent[parent[x]];
        return x;
    };
    for (size_t i = 0; i < g.order.size(); ++i) {
        const Opcode code = g.ops[g.order[i]].code;
        for (int32_t j : e.next[i]) {
            const Opcode next = g.ops[g.order[j]].code;
            const bool pair = is_pair(code) && next == code && e.next[i].size() == 1;
            const bool accumulate = is_matmul(code) && (next == Opcode::A_MULACC_B || next == Opcode::A_MULACC_Bt);
            if (!pair && !accumulate) continue;
            const int32_t a = find(int32_t(i)), b = find(j);
            if (a != b) parent[std::max(a, b)] = std::min(a, b);
        }
    }
    for (size_t i = 0; i < parent.size(); ++i) parent[i] = find(int32_t(i));
    return parent;
}

struct HashGraph {
    std::vector<Ids> members, next, previous;   // by smallest member; empty for others
    std::vector<int32_t> topological;
};

HashGraph hash_graph(const OpEdges& e, const std::vector<int32_t>& node_of) {
    const size_t n = node_of.size();
    HashGraph h;
    h.members.resize(n);
    h.next.resize(n);
    h.previous.resize(n);
    std::vector<int32_t> open(n, 0);
    for (size_t i = 0; i < n; ++i) {
        h.members[node_of[i]].push_back(int32_t(i));
        for (int32_t j : e.next[i])
            if (node_of[i] != node_of[j]) {
                h.next[node_of[i]].push_back(node_of[j]);
                h.previous[node_of[j]].push_back(node_of[i]);
            }
    }
    for (size_t i = 0; i < n; ++i) {
        h.next[i].sort_unique();
        h.previous[i].sort_unique();
    }
    for (size_t i = 0; i < n; ++i) {
        open[i] = int32_t(h.previous[i].size());
        if (!h.members[i].empty() && open[i] == 0) h.topological.push_back(int32_t(i));
    }
    for (size_t head = 0; head < h.topological.size(); ++head)
        for (int32_t j : h.next[h.topological[head]])
            if (--open[j] == 0) h.topological.push_back(j);
    return h;
}

// Hashes of the operations of one hash node along its inner edges.
void local_hashes(const Ids& members, const std::vector<Ids>& edges,
                  const std::vector<int32_t>& node_of, const std::vector<uint64_t>& own, bool forward,
                  std::vector<uint64_t>& out) {
    auto one = [&](int32_t i) {
        uint64_t h = own[i];
        for (int32_t j : edges[i])
            if (node_of[j] == node_of[i]) h = mix_hash(h, out[j]);
        out[i] = h;
    };
    if (forward) for (int32_t i : members) one(i);
    else for (size_t k = members.size(); k-- > 0;) one(members[k]);
}

}  // namespace

void hash_super_nodes(const Graph& g, const OpEdges& e, std::vector<SuperNode>& nodes) {
    const size_t n = g.order.size();
    std::vector<uint64_t> own(n), front(n, 0), back(n, 0), local_front(n, 0), local_back(n, 0), final_hash(n);
    for (size_t i = 0; i < n; ++i) own[i] = own_hash(g, g.ops[g.order[i]]);
    const std::vector<int32_t> node_of = hash_nodes(g, e);
    const HashGraph h = hash_graph(e, node_of);
    std::vector<uint64_t> node_own(n, 0);
    for (int32_t v : h.topological)
        for (int32_t i : h.members[v]) node_own[v] = mix_hash(node_own[v], own[i]);
    for (int32_t v : h.topological) {
        front[v] = node_own[v];
        for (int32_t p : h.previous[v]) front[v] = mix_hash(front[v], front[p]);
    }
    for (size_t k = h.topological.size(); k-- > 0;) {
        const int32_t v = h.topological[k];
        back[v] = node_own[v];
        for (int32_t s : h.next[v]) back[v] = mix_hash(back[v], back[s]);
    }
    for (int32_t v : h.topological) {
        const uint64_t whole = mix_hash(front[v], back[v]);
        if (h.members[v].size() == 1) {
            final_hash[v] = whole;
            continue;
        }
        local_hashes(h.members[v], e.previous, node_of, own, true, local_front);
        local_hashes(h.members[v], e.next, node_of, own, false, local_back);
        for (int32_t i : h.members[v]) final_hash[i] = mix_hash(mix_hash(whole, local_front[i]), local_back[i]);
    }
    for (SuperNode& s : nodes) {
        s.hash = 0;
        for (int32_t i : s.members) s.hash = mix_hash(s.hash, final_hash[i]);
    }
}

namespace {

class Grower {
public:
    explicit Grower(const std::vector<SuperNode>& nodes) : nodes_(nodes), group_of_(nodes.size(), -1), graph_of_(nodes.size(), -1) {
        for (size_t i = 0; i < nodes.size(); ++i) {
            same_hash_[nodes[i].hash].push_back(int32_t(i));
            open_.push_back(int32_t(nodes[i].previous.size()));
            if (open_[i] == 0) queue_.push_front(int32_t(i));
        }
    }

    std::vector<Group> run() {
        while (!queue_.empty()) {
            const int32_t x = queue_.front();
            queue_.pop_front();
            const std::vector<int32_t>& set = same_hash_[nodes_[x].hash];
            if (std::any_of(set.begin(), set.end(), [&](int32_t i) { return open_[i] || group_of_[i] >= 0; })) continue;
            Group g;
            g.graphs.resize(set.size());
            g.core = nodes_[set[0]].core;
            g.scope = nodes_[set[0]].scope;
            g.mergeable = nodes_[set[0]].mergeable;
            groups_.push_back(std::move(g));
            add(set);
            if (groups_.back().mergeable) grow();
        }
        return std::move(groups_);
    }

private:
    void add(const std::vector<int32_t>& set) {
        Group& g = groups_.back();
        g.latency += nodes_[set[0]].latency;
        for (size_t k = 0; k < set.size(); ++k) {
            g.graphs[k].push_back(set[k]);
            group_of_[set[k]] = int32_t(groups_.size()) - 1;
            graph_of_[set[k]] = int32_t(k);
        }
        for (int32_t i : set)
            for (int32_t s : nodes_[i].next)
                if (--open_[s] == 0) queue_.push_back(s);
    }

    void grow() {
        std::vector<int32_t> candidates;
        for (size_t i = 0; i < groups_.back().graphs[0].size(); ++i)
            for (size_t j = 0;; ++j) {
                candidates.clear();
                for (const auto& graph : groups_.back().graphs) {
                    const auto& next = nodes_[graph[i]].next;
                    if (j < next.size()) candidates.push_back(next[j]);
                }
                if (candidates.size() < groups_.back().graphs.size()) break;
                if (fits(candidates)) add(candidates);
            }
    }

    bool fits(const std::vector<int32_t>& c) {
        const Group& g = groups_.back();
        const SuperNode& first = nodes_[c[0]];
        if (!first.mergeable || first.scope != g.scope || first.core != g.core) return false;
        if (same_hash_[first.hash].size() != g.graphs.size()) return false;
        if (g.latency + first.latency > CYCLE_BOUND) return false;
        const int32_t group = int32_t(groups_.size()) - 1;
        for (size_t k = 0; k < c.size(); ++k) {
            if (open_[c[k]] || group_of_[c[k]] >= 0 || nodes_[c[k]].hash != first.hash) return false;
            for (int32_t p : nodes_[c[k]].previous)
                if (group_of_[p] == group && graph_of_[p] != int32_t(k)) return false;
        }
        std::vector<int32_t> sorted = c;
        std::sort(sorted.begin(), sorted.end());
        return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
    }

    const std::vector<SuperNode>& nodes_;
    std::vector<int32_t> group_of_, graph_of_, open_;
    std::deque<int32_t> queue_;
    std::unordered_map<uint64_t, std::vector<int32_t>> same_hash_;
    std::vector<Group> groups_;
};

}  // namespace

std::vector<Group> grow_groups(const std::vector<SuperNode>& nodes) { return Grower(nodes).run(); }

void partition_graph(Graph& g) {
    const OpEdges edges = op_edges(g);
    std::vector<SuperNode> nodes = build_super_nodes(g, edges);
    hash_super_nodes(g, edges, nodes);
    std::vector<Group> groups = grow_groups(nodes);
    merge_groups(nodes, groups);
    int32_t number = 0;
    for (const Group& group : groups)
        for (const auto& graph : group.graphs) {
            for (int32_t node : graph)
                for (int32_t i : nodes[node].members) g.ops[g.order[i]].sub_graph = number;
            ++number;
        }
}

}  // namespace npu::lowering
