// Merges neighbouring groups. Source: hicann/pypto@r0.2.0 passes/tile_graph_pass/graph_partition/iso_partitioner.cpp.
#include <algorithm>
#include <set>

#include "npu_core/lowering/partition.h"

namespace npu::lowering {
namespace {

constexpr int MAX_ROUNDS = 100;

class Merger {
public:
    Merger(const std::vector<SuperNode>& nodes, std::vector<Group>& groups)
        : nodes_(nodes), groups_(groups), group_of_(nodes.size()), graph_of_(nodes.size()) {
        for (size_t i = 0; i < groups.size(); ++i) place(i);
    }

    void run() {
        for (bool single : {true, false})
            for (int round = 0; round < MAX_ROUNDS && one_round(single); ++round) {}
        std::erase_if(groups_, [](const Group& g) { return g.graphs.empty(); });
    }

private:
    void place(size_t group) {
        for (size_t k = 0; k < groups_[group].graphs.size(); ++k)
            for (int32_t node : groups_[group].graphs[k]) {
                group_of_[node] = int32_t(group);
                graph_of_[node] = int32_t(k);
            }
    }

    bool in_class(const Group& g, bool single) const { return single ? g.graphs.size() == 1 : g.graphs.size() > 1; }

    bool one_round(bool single) {
        bool changed = false;
        for (size_t i = 0; i < groups_.size(); ++i)
            while (in_class(groups_[i], single) && try_group(i, single)) changed = true;
        return changed;
    }

    bool try_group(size_t i, bool single) {
        if (!groups_[i].mergeable) return false;
        std::set<int32_t> before, after;
        for (const auto& graph : groups_[i].graphs)
            for (int32_t node : graph) {
                for (int32_t p : nodes_[node].previous)
                    if (group_of_[p] != int32_t(i)) before.insert(group_of_[p]);
                for (int32_t s : nodes_[node].next)
                    if (group_of_[s] != int32_t(i)) after.insert(group_of_[s]);
            }
        if (before.size() == 1 && try_pair(size_t(*before.begin()), i, i, single)) return true;
        return after.size() == 1 && try_pair(i, size_t(*after.begin()), i, single);
    }

    // `first` feeds `second`; the result stays at `current`.
    bool try_pair(size_t first, size_t second, size_t current, bool single) {
        const Group& a = groups_[first];
        const Group& b = groups_[second];
        if (!a.mergeable || !b.mergeable || !in_class(a, single) || !in_class(b, single)) return false;
        if (a.scope >= 0 || b.scope >= 0 || a.core != b.core) return false;
        const size_t small = std::min(a.graphs.size(), b.graphs.size()), large = std::max(a.graphs.size(), b.graphs.size());
        const bool a_small = a.graphs.size() == small;
        const int64_t ratio = int64_t(large / small);
        const int64_t latency = (a_small ? a : b).latency + (a_small ? b : a).latency * ratio;
        if (latency > CYCLE_BOUND) return false;
        if (!single && small != large && small < PARALLEL_LOWER_BOUND && std::min(a.latency, b.latency) > SMALL_LATENCY)
            return false;
        std::vector<int32_t> target(large, -1);   // graph of the larger group -> graph of the smaller one
        for (const auto& graph : a.graphs)
            for (int32_t node : graph)
                for (int32_t s : nodes_[node].next) {
                    if (group_of_[s] != int32_t(second)) continue;
                    const int32_t from = a_small ? graph_of_[s] : graph_of_[node];
                    const int32_t to = a_small ? graph_of_[node] : graph_of_[s];
                    if (target[from] >= 0 && target[from] != to) return false;
                    target[from] = to;
                }
        std::vector<char> covered(small, 0);
        for (int32_t t : target) {
            if (t < 0) return false;
            covered[t] = 1;
        }
        if (std::find(covered.begin(), covered.end(), 0) != covered.end()) return false;

        Group merged = a_small ? a : b;
        const Group& other = a_small ? b : a;
        merged.latency = latency;
        for (size_t k = 0; k < large; ++k)
            merged.graphs[target[k]].insert(merged.graphs[target[k]].end(), other.graphs[k].begin(), other.graphs[k].end());
        groups_[first].graphs.clear();
        groups_[second].graphs.clear();
        groups_[current] = std::move(merged);
        place(current);
        return true;
    }

    const std::vector<SuperNode>& nodes_;
    std::vector<Group>& groups_;
    std::vector<int32_t> group_of_, graph_of_;
};

}  // namespace

void merge_groups(const std::vector<SuperNode>& nodes, std::vector<Group>& groups) { Merger(nodes, groups).run(); }

}  // namespace npu::lowering
