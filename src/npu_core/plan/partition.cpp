// Partition of the tile graph into sub-graphs, each one a task: super-nodes, isomorphic groups, growth and merging.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "npu_core/plan/hash.h"
#include "npu_core/plan/stages.h"

namespace npu::plan {

namespace {

struct UnionFind {
    std::vector<int32_t> parent;
    explicit UnionFind(size_t n) : parent(n) { std::iota(parent.begin(), parent.end(), 0); }
    int32_t find(int32_t x) {
        while (parent[x] != x) x = parent[x] = parent[parent[x]];
        return x;
    }
    void join(int32_t a, int32_t b) { parent[find(a)] = find(b); }
};

struct Node {
    std::vector<Id> ops;
    std::vector<int32_t> pred, succ;   // ascending
    int64_t latency = 0;
    cost::Core core = cost::Core::ANY;
    bool mergeable = true;
    Hash hash = 0;
    int32_t scope = -1;
};

struct Group {
    std::vector<std::vector<int32_t>> graphs;
    int64_t latency = 0;               // of one graph
    cost::Core core = cost::Core::ANY;
    bool mergeable = true;
    int32_t scope = -1;
};

bool compatible(cost::Core a, cost::Core b) {
    using cost::Core;
    if (a == Core::HUB || b == Core::HUB) return false;
    return a == b || a == Core::ANY || b == Core::ANY;
}
cost::Core joined(cost::Core a, cost::Core b) { return a == cost::Core::ANY ? b : a; }

class Partitioner {
public:
    Partitioner(Graph& g, const PartitionOptions& options) : g_(g), o_(options), index_(g.ops.size(), -1) {
        for (size_t i = 0; i < g.order.size(); ++i) index_[g.order[i]] = static_cast<int32_t>(i);
    }

    void run() {
        super_nodes();
        hash_nodes();
        grow();
        merge(true);
        merge(false);
        number();
    }

private:
    Graph& g_;
    const PartitionOptions& o_;
    std::vector<int32_t> index_;          // op -> position in the list
    std::vector<Node> nodes_;
    std::vector<int32_t> node_of_;        // position -> node
    std::vector<Group> groups_;
    std::vector<int32_t> group_of_, graph_of_;   // node -> group, graph

    void super_nodes() {
        const size_t n = g_.order.size();
        UnionFind uf(n);
        auto first = [&](const Ids& ops) {
            int32_t best = -1;
            for (Id o : ops)
                if (best < 0 || index_[o] < best) best = index_[o];
            return best;
        };
        for (size_t i = 0; i < n; ++i) {
            const Op& op = g_.ops[g_.order[i]];
            const auto cls = cost::info(op.code).cls;
            const Tensor& out = g_.tensors[op.out[0]];
            const bool moved = op.code == Code::VIEW || op.code == Code::ASSEMBLE;
            if (out.mem == Mem::L1 || out.mem == Mem::BT || out.mem == Mem::FB) {
                for (Id c : out.consumers) uf.join(index_[c], static_cast<int32_t>(i));
                if (moved && g_.tensors[op.in[0]].mem == Mem::L0C)
                    for (Id p : g_.tensors[op.in[0]].producers) uf.join(index_[p], static_cast<int32_t>(i));
            } else if (op.code == Code::ASSEMBLE) {
                const Tensor& in = g_.tensors[op.in[0]];
                if (in.mem != Mem::GM && out.mem == Mem::GM)
                    for (Id p : in.producers) uf.join(index_[p], static_cast<int32_t>(i));
                else if (int32_t p = first(in.producers); p >= 0) uf.join(p, static_cast<int32_t>(i));
            } else if (cls == cost::Class::MOVE_OUT) {
                for (Id t : op.in)
                    for (Id p : g_.tensors[t].producers) uf.join(index_[p], static_cast<int32_t>(i));
            } else if (cls == cost::Class::MOVE_IN || cls == cost::Class::MOVE_LOCAL) {
                int32_t best = -1;
                for (Id t : op.out)
                    if (const int32_t c = first(g_.tensors[t].consumers); c >= 0 && (best < 0 || c < best)) best = c;
                if (best >= 0) uf.join(best, static_cast<int32_t>(i));
            }
        }
        // Edges inside a scope join computations of one core type; moves go with what they serve.
        for (size_t i = 0; i < n; ++i) {
            const Op& op = g_.ops[g_.order[i]];
            if (op.scope < 0) continue;
            for (Id t : op.in)
                for (Id p : g_.tensors[t].producers) {
                    const cost::Core a = cost::info(g_.ops[p].code).core, b = cost::info(op.code).core;
                    if (g_.ops[p].scope == op.scope && a == b && a != cost::Core::ANY)
                        uf.join(index_[p], static_cast<int32_t>(i));
                }
        }
        // Node cycles are absorbed: strongly connected nodes become one.
        bool again = true;
        while (again) {
            build(uf);
            again = absorb_cycles(uf);
        }
        for (Node& node : nodes_) {
            node.latency = 0;
            for (Id o : node.ops) {
                const Op& op = g_.ops[o];
                node.latency += op.latency;
                if (node.core == cost::Core::ANY && op.code != Code::RESHAPE) node.core = cost::info(op.code).core;
                node.scope = std::max(node.scope, op.scope);
            }
            const Op& only = g_.ops[node.ops[0]];
            if (node.ops.size() == 1 && only.code == Code::RESHAPE) {
                node.core = cost::Core::HUB;
                const size_t in = node.pred.size(), out = node.succ.size();
                if ((in > 1 && out > 1) || (in > 1 && out == 0) || (in == 0 && out > 1)) node.mergeable = false;
            } else if (node.core == cost::Core::ANY) {
                node.core = cost::Core::AIV;
            }
            if (node.scope >= 0) node.mergeable = false;
        }
    }

    void build(UnionFind& uf) {
        const size_t n = g_.order.size();
        std::vector<int32_t> id(n, -1);
        nodes_.clear();
        node_of_.assign(n, -1);
        for (size_t i = 0; i < n; ++i) {
            int32_t root = uf.find(static_cast<int32_t>(i));
            if (id[root] < 0) {
                id[root] = static_cast<int32_t>(nodes_.size());
                nodes_.emplace_back();
            }
            node_of_[i] = id[root];
            nodes_[id[root]].ops.push_back(g_.order[i]);
        }
        for (size_t i = 0; i < n; ++i)
            for (Id t : g_.ops[g_.order[i]].in)
                for (Id p : g_.tensors[t].producers) {
                    const int32_t from = node_of_[index_[p]], to = node_of_[i];
                    if (from == to) continue;
                    nodes_[from].succ.push_back(to);
                    nodes_[to].pred.push_back(from);
                }
        for (Node& node : nodes_)
            for (std::vector<int32_t>* list : {&node.pred, &node.succ}) {
                std::sort(list->begin(), list->end());
                list->erase(std::unique(list->begin(), list->end()), list->end());
            }
    }

    bool absorb_cycles(UnionFind& uf) {   // Tarjan, iterative
        const int32_t n = static_cast<int32_t>(nodes_.size());
        std::vector<int32_t> low(n, -1), number(n, -1), stack, component(n, -1), next(n, 0);
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
                if (next[v] < static_cast<int32_t>(nodes_[v].succ.size())) {
                    int32_t w = nodes_[v].succ[next[v]++];
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
                        uf.join(index_[nodes_[w].ops[0]], index_[nodes_[v].ops[0]]);
                    }
                } while (w != v);
            }
        }
        return merged;
    }

    Hash tensor_hash(const Tensor& t) const {
        Hash h = mix(static_cast<Hash>(t.mem) * 31 + static_cast<Hash>(t.dtype), t.shape);
        return h;
    }

    void hash_nodes() {
        const size_t n = g_.order.size();
        std::vector<Hash> own(n), front(n, 0), back(n, 0);
        std::vector<Hash> t_front(g_.tensors.size(), 0), t_back(g_.tensors.size(), 0);
        // Members of a tree of equal pair operations count as one node, so that they get comparable hashes.
        UnionFind tree(n);
        for (size_t i = 0; i < n; ++i) {
            const Op& op = g_.ops[g_.order[i]];
            own[i] = static_cast<Hash>(op.code) + 1;
            for (Id t : op.in) own[i] = mix(own[i], tensor_hash(g_.tensors[t]));
            for (Id t : op.out) own[i] = mix(own[i], tensor_hash(g_.tensors[t]) + 7);
            if (op.mm != NONE) {
                const Matmul& m = g_.matmuls[op.mm];
                for (int64_t v : {m.m, m.n, m.k, m.k_l0, m.k_l1a, m.k_l1b, static_cast<int64_t>(m.a_trans) * 2 + m.b_trans,
                                  static_cast<int64_t>(m.bias)})
                    own[i] = mix(own[i], static_cast<uint64_t>(v));
            }
            if (is_pair(op.code)) {
                const Tensor& out = g_.tensors[op.out[0]];
                if (out.consumers.size() == 1 && g_.ops[out.consumers[0]].code == op.code)
                    tree.join(static_cast<int32_t>(i), index_[out.consumers[0]]);
            }
        }
        // A tree's hash seen from outside does not depend on where in the tree an edge ends; inside, each member adds its
        // local position.
        std::vector<Hash> local_front(n, 0), local_back(n, 0), tree_in(n, 0), tree_own(n, 0);   // tree_*: by root
        auto inner = [&](size_t i) {   // the result feeds another member of the same tree
            const Tensor& out = g_.tensors[g_.ops[g_.order[i]].out[0]];
            return out.consumers.size() == 1 && g_.ops[out.consumers[0]].code == g_.ops[g_.order[i]].code;
        };
        for (size_t i = 0; i < n; ++i) {
            const Op& op = g_.ops[g_.order[i]];
            auto seen = [&](Id t) { return g_.tensors[t].producers.empty() ? Hash{11} : t_front[t]; };
            if (!is_pair(op.code)) {
                front[i] = own[i];
                for (Id t : op.in) front[i] = mix(front[i], seen(t));
            } else {
                const int32_t root = tree.find(static_cast<int32_t>(i));
                tree_own[root] += own[i] * 0x9E3779B97F4A7C15ull;
                local_front[i] = own[i];
                for (Id t : op.in) {
                    const Ids& from = g_.tensors[t].producers;
                    const bool member = from.size() == 1 && is_pair(g_.ops[from[0]].code) && tree.find(index_[from[0]]) == root;
                    local_front[i] = mix(local_front[i], member ? local_front[index_[from[0]]] : 1);
                    if (!member) tree_in[root] += mix(5, seen(t));
                }
                if (!inner(i)) front[i] = mix(tree_own[root], tree_in[root]);
            }
            for (Id t : op.out) t_front[t] += mix(3, front[i]);
        }
        for (size_t k = n; k-- > 0;) {
            const Op& op = g_.ops[g_.order[k]];
            if (is_pair(op.code) && inner(k)) {
                const int32_t up = index_[g_.tensors[op.out[0]].consumers[0]];
                back[k] = back[up];
                front[k] = front[up];
                local_back[k] = mix(own[k], local_back[up]);
            } else {
                back[k] = own[k];
                for (Id t : op.out) back[k] = mix(back[k], g_.tensors[t].consumers.empty() ? 13 : t_back[t]);
                if (is_pair(op.code)) local_back[k] = own[k];
            }
            for (Id t : op.in) t_back[t] += mix(17, back[k]);
        }
        for (Node& node : nodes_) {
            Hash h = 23;
            for (Id o : node.ops) {
                const int32_t i = index_[o];
                h = mix(h, mix(mix(front[i], back[i]), mix(local_front[i], local_back[i])));
            }
            node.hash = h;
        }
    }
    static bool is_pair(Code c) {
        return c == Code::PAIRSUM || c == Code::PAIRMAX || c == Code::PAIRMIN || c == Code::PAIRPROD || c == Code::PAIRARG;
    }
    void take(Group& group, int32_t group_id, int32_t graph, int32_t node, std::vector<int32_t>& waiting, std::vector<int32_t>& queue) {
        group.graphs[graph].push_back(node);
        group_of_[node] = group_id;
        graph_of_[node] = graph;
        for (int32_t s : nodes_[node].succ)
            if (--waiting[s] == 0) queue.push_back(s);
    }

    void grow() {
        const int32_t n = static_cast<int32_t>(nodes_.size());
        group_of_.assign(n, -1);
        graph_of_.assign(n, -1);
        std::unordered_map<Hash, std::vector<int32_t>> by_hash;
        std::vector<int32_t> waiting(n), queue;
        for (int32_t i = 0; i < n; ++i) {
            by_hash[nodes_[i].hash].push_back(i);
            waiting[i] = static_cast<int32_t>(nodes_[i].pred.size());
        }
        for (int32_t i = n - 1; i >= 0; --i)
            if (waiting[i] == 0) queue.push_back(i);
        for (size_t head = 0; head < queue.size(); ++head) {
            const int32_t x = queue[head];
            if (group_of_[x] >= 0) continue;
            const std::vector<int32_t>& s = by_hash[nodes_[x].hash];
            bool ready = true;
            for (int32_t v : s) ready = ready && waiting[v] == 0 && group_of_[v] < 0;
            if (!ready) {
                bool later = false;   // another member becomes ready later and brings this one back
                for (int32_t v : s) later = later || waiting[v] > 0;
                if (later) continue;
            }
            std::vector<int32_t> members;
            if (ready) members = s;
            else members = {x};
            const int32_t group_id = static_cast<int32_t>(groups_.size());
            Group group;
            group.graphs.resize(members.size());
            group.core = nodes_[x].core;
            group.latency = nodes_[x].latency;
            group.mergeable = nodes_[x].mergeable;
            group.scope = nodes_[x].scope;
            for (size_t i = 0; i < members.size(); ++i)
                take(group, group_id, static_cast<int32_t>(i), members[i], waiting, queue);
            if (group.mergeable) grow_group(group, group_id, by_hash, waiting, queue);
            groups_.push_back(std::move(group));
        }
    }

    void grow_group(Group& group, int32_t group_id, std::unordered_map<Hash, std::vector<int32_t>>& by_hash,
                    std::vector<int32_t>& waiting, std::vector<int32_t>& queue) {
        const size_t size = group.graphs.size();
        std::vector<int32_t> c(size);
        std::vector<int32_t> stamp(nodes_.size(), -1);
        int32_t round = 0;
        for (size_t i = 0; i < group.graphs[0].size(); ++i) {
            for (size_t j = 0;; ++j) {
                const std::vector<int32_t>& first = nodes_[group.graphs[0][i]].succ;
                if (j >= first.size()) break;
                const int32_t c0 = first[j];
                const Node& n0 = nodes_[c0];
                if (!n0.mergeable || group_of_[c0] >= 0 || waiting[c0] != 0) continue;
                if (by_hash[n0.hash].size() != size) continue;
                if (group.latency + n0.latency > o_.cycle_bound || n0.scope != group.scope) continue;
                if (!compatible(group.core, n0.core)) continue;
                bool ok = true;
                ++round;
                for (size_t graph = 0; graph < size && ok; ++graph) {
                    const std::vector<int32_t>& succ = nodes_[group.graphs[graph][i]].succ;
                    if (j >= succ.size()) { ok = false; break; }
                    const int32_t v = succ[j];
                    ok = nodes_[v].hash == n0.hash && group_of_[v] < 0 && waiting[v] == 0 && stamp[v] != round;
                    stamp[v] = round;
                    for (int32_t p : nodes_[v].pred)
                        ok = ok && (group_of_[p] != group_id || graph_of_[p] == static_cast<int32_t>(graph));
                    c[graph] = v;
                }
                if (!ok) continue;
                group.latency += n0.latency;
                group.core = joined(group.core, n0.core);
                for (size_t graph = 0; graph < size; ++graph)
                    take(group, group_id, static_cast<int32_t>(graph), c[graph], waiting, queue);
            }
        }
    }

    void merge(bool singles) {
        std::vector<char> gone(groups_.size(), 0);
        for (size_t i = 0; i < groups_.size(); ++i) gone[i] = groups_[i].graphs.empty();
        for (int round = 0; round < 100; ++round) {
            bool changed = false;
            for (int32_t a = 0; a < static_cast<int32_t>(groups_.size()); ++a) {
                if (gone[a] || !eligible(a, singles)) continue;
                bool again = true;
                while (again) {
                    again = false;
                    std::set<int32_t> pred, succ;
                    for (const auto& graph : groups_[a].graphs)
                        for (int32_t v : graph) {
                            for (int32_t p : nodes_[v].pred)
                                if (group_of_[p] != a) pred.insert(group_of_[p]);
                            for (int32_t s : nodes_[v].succ)
                                if (group_of_[s] != a) succ.insert(group_of_[s]);
                        }
                    for (const std::set<int32_t>* side : {&pred, &succ}) {
                        if (side->size() != 1) continue;
                        const int32_t b = *side->begin();
                        if (!eligible(b, singles) || !try_merge(a, b, singles)) continue;
                        gone[b] = 1;
                        again = changed = true;
                        break;
                    }
                }
            }
            if (!changed) break;
        }
    }
    bool eligible(int32_t g, bool singles) const {
        return groups_[g].mergeable && (groups_[g].graphs.size() == 1) == singles;
    }

    bool try_merge(int32_t a, int32_t b, bool singles) {
        const bool a_small = groups_[a].graphs.size() <= groups_[b].graphs.size();
        const int32_t s = a_small ? a : b, l = a_small ? b : a;
        const Group &small = groups_[s], &large = groups_[l];
        if (small.scope >= 0 || large.scope >= 0 || !compatible(small.core, large.core)) return false;
        const int64_t ratio = static_cast<int64_t>(large.graphs.size() / small.graphs.size());
        if (small.latency + large.latency * ratio > o_.cycle_bound) return false;
        if (!singles) {
            const bool equal = small.graphs.size() == large.graphs.size();
            const int64_t least = std::min(small.latency, large.latency);
            if (!equal && static_cast<int64_t>(small.graphs.size()) < o_.merge_parallel_lower_bound && least > o_.merge_lower_bound)
                return false;
        }
        std::vector<int32_t> host(large.graphs.size(), -1);
        std::vector<char> covered(small.graphs.size(), 0);
        for (size_t i = 0; i < large.graphs.size(); ++i) {
            for (int32_t v : large.graphs[i])
                for (const std::vector<int32_t>* side : {&nodes_[v].pred, &nodes_[v].succ})
                    for (int32_t w : *side) {
                        if (group_of_[w] != s) continue;
                        if (host[i] >= 0 && host[i] != graph_of_[w]) return false;
                        host[i] = graph_of_[w];
                    }
            if (host[i] < 0) return false;
            covered[host[i]] = 1;
        }
        for (char c : covered)
            if (!c) return false;
        Group merged;
        merged.graphs = small.graphs;
        merged.latency = small.latency + large.latency * ratio;
        merged.core = joined(small.core, large.core);
        for (size_t i = 0; i < large.graphs.size(); ++i)
            merged.graphs[host[i]].insert(merged.graphs[host[i]].end(), large.graphs[i].begin(), large.graphs[i].end());
        groups_[b] = Group{};
        groups_[a] = std::move(merged);
        for (size_t i = 0; i < groups_[a].graphs.size(); ++i)
            for (int32_t v : groups_[a].graphs[i]) {
                group_of_[v] = a;
                graph_of_[v] = static_cast<int32_t>(i);
            }
        return true;
    }

    void number() {
        Id next = 0;
        for (const Group& group : groups_)
            for (const auto& graph : group.graphs) {
                if (graph.empty()) continue;
                for (int32_t v : graph)
                    for (Id o : nodes_[v].ops) g_.ops[o].sub = next;
                ++next;
            }
    }
};

}  // namespace

std::vector<SubGraph> collect_sub_graphs(Graph& g) {
    Id count = 0;
    for (Id id : g.order) count = std::max(count, g.ops[id].sub + 1);
    std::vector<SubGraph> subs(count);
    for (Id id : g.order) subs[g.ops[id].sub].ops.push_back(id);
    for (SubGraph& s : subs) {
        s.core = cost::Core::ANY;
        bool only_reshape = true;
        for (Id id : s.ops) {
            only_reshape = only_reshape && g.ops[id].code == Code::RESHAPE;
            if (s.core == cost::Core::ANY && g.ops[id].code != Code::RESHAPE) s.core = cost::info(g.ops[id].code).core;
        }
        if (only_reshape) s.core = cost::Core::HUB;
        else if (s.core == cost::Core::ANY) s.core = cost::Core::AIV;
    }
    std::erase_if(subs, [](const SubGraph& s) { return s.ops.empty(); });
    for (size_t i = 0; i < subs.size(); ++i)
        for (Id id : subs[i].ops) g.ops[id].sub = static_cast<Id>(i);
    return subs;
}

std::vector<SubGraph> partition(Graph& g, const Block&, const PartitionOptions& options, const Chip& chip) {
    if (g.order.empty()) return {};
    Partitioner(g, options).run();
    std::vector<SubGraph> subs = collect_sub_graphs(g);
    merge_vector_sub_graphs(g, subs, options);
    merge_cube_sub_graphs(g, subs, options, chip);
    return subs;
}

}  // namespace npu::plan
