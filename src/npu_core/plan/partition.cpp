// Partition of the tile graph into sub-graphs, each one a task: isomorphic groups of super-nodes, growth and merging.
#include <algorithm>
#include <unordered_map>

#include "npu_core/plan/super_nodes.h"

namespace npu::plan {

namespace {

struct Group {
    std::vector<Ids> graphs;           // nodes of each
    int64_t latency = 0;               // of one graph
    cost::Core core = cost::Core::ANY;
    bool mergeable = true;
    int32_t scope = -1;
};

// A value if there is only one.
struct Only {
    int32_t value = -1;
    bool several = false;
    void add(int32_t x) {
        several = several || (value >= 0 && value != x);
        value = x;
    }
};

bool compatible(cost::Core a, cost::Core b) {
    using cost::Core;
    if (a == Core::HUB || b == Core::HUB) return false;
    return a == b || a == Core::ANY || b == Core::ANY;
}
cost::Core joined(cost::Core a, cost::Core b) { return a == cost::Core::ANY ? b : a; }

class Partitioner {
public:
    Partitioner(Graph& g, const PartitionOptions& options) : g_(g), o_(options) {}

    void run() {
        {
            const std::vector<int32_t> position = positions_of(g_);
            nodes_ = super_nodes(g_, position);
            hash_nodes(g_, position, nodes_);
        }
        grow();
        merge(true);
        merge(false);
        number();
    }

private:
    Graph& g_;
    const PartitionOptions& o_;
    std::vector<Node> nodes_;
    std::vector<Group> groups_;
    std::vector<int32_t> group_of_, graph_of_;   // node -> group, graph
    std::vector<int32_t> taken_;          // node -> the last try to grow a group that asked for it
    int32_t round_ = 0;

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
        taken_.assign(n, -1);
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
        for (size_t i = 0; i < group.graphs[0].size(); ++i) {
            for (size_t j = 0;; ++j) {
                const Ids& first = nodes_[group.graphs[0][i]].succ;
                if (j >= first.size()) break;
                const int32_t c0 = first[j];
                const Node& n0 = nodes_[c0];
                if (!n0.mergeable || group_of_[c0] >= 0 || waiting[c0] != 0) continue;
                if (by_hash[n0.hash].size() != size) continue;
                if (group.latency + n0.latency > o_.cycle_bound || n0.scope != group.scope) continue;
                if (!compatible(group.core, n0.core)) continue;
                bool ok = true;
                ++round_;
                for (size_t graph = 0; graph < size && ok; ++graph) {
                    const Ids& succ = nodes_[group.graphs[graph][i]].succ;
                    if (j >= succ.size()) { ok = false; break; }
                    const int32_t v = succ[j];
                    ok = nodes_[v].hash == n0.hash && group_of_[v] < 0 && waiting[v] == 0 && taken_[v] != round_;
                    taken_[v] = round_;
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
                    Only pred, succ;
                    for (const Ids& graph : groups_[a].graphs)
                        for (int32_t v : graph) {
                            for (int32_t p : nodes_[v].pred)
                                if (group_of_[p] != a) pred.add(group_of_[p]);
                            for (int32_t s : nodes_[v].succ)
                                if (group_of_[s] != a) succ.add(group_of_[s]);
                        }
                    for (const Only& side : {pred, succ}) {
                        if (side.value < 0 || side.several) continue;
                        const int32_t b = side.value;
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
                for (const Ids* side : {&nodes_[v].pred, &nodes_[v].succ})
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
            for (int32_t v : large.graphs[i]) merged.graphs[host[i]].push_back(v);
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
