// Vector sub-graphs of equal structure become one task. Source: hicann/pypto@r0.2.0
// passes/tile_graph_pass/graph_partition/n_buffer_merge.cpp.
#include <algorithm>
#include <map>

#include "npu_core/lowering/partition.h"
#include "npu_core/lowering/sub_graphs.h"

namespace npu::lowering {
namespace {

constexpr int64_t VECTOR_CORES = 48;   // mg_vec_parallel_lb
using Setting = std::map<int64_t, int64_t>;

int64_t automatic_factor(int64_t members) {
    if (members <= VECTOR_CORES) return 1;
    int64_t f = (members + VECTOR_CORES - 1) / VECTOR_CORES;
    while (f > 1 && (members + f - 1) / f < VECTOR_CORES) --f;
    return f;
}

// Members by shared sub-graph on one side; members with none get a key of their own.
std::map<int64_t, std::vector<int32_t>> by_neighbour(const std::vector<int32_t>& members,
                                                     const std::vector<std::vector<int32_t>>& neighbours) {
    std::map<int64_t, std::vector<int32_t>> keys;
    for (int32_t m : members) {
        if (neighbours[m].empty()) keys[-1 - int64_t(m)].push_back(m);
        for (int32_t n : neighbours[m]) keys[n].push_back(m);
    }
    return keys;
}

std::vector<std::vector<int32_t>> sharing_lists(const std::vector<int32_t>& members, const SubGraphs& subs) {
    auto before = by_neighbour(members, subs.previous), after = by_neighbour(members, subs.next);
    std::vector<char> listed(subs.size(), 0);
    std::vector<std::vector<int32_t>> lists;
    for (const auto& [key, list] : after.size() < before.size() ? after : before) {
        lists.emplace_back();
        for (int32_t m : list) {
            if (listed[m]) continue;
            listed[m] = 1;
            lists.back().push_back(m);
        }
    }
    return lists;
}

}  // namespace

void merge_vector_sub_graphs(Graph& g, const MergeOptions& options) {
    const Setting& setting = options.vec_nbuffer;
    if (!(setting == Setting{{-1, 1}})) {
        const bool automatic = setting.empty() || setting == Setting{{-2, 0}};
        auto mode = setting.find(-2);
        const bool sharing = !(mode != setting.end() && (mode->second == 1 || setting.size() == 1));
        const SubGraphs subs = sub_graphs_of(g);
        std::vector<int32_t> host(subs.size());
        for (size_t i = 0; i < host.size(); ++i) host[i] = int32_t(i);
        const auto classes = iso_classes(g, subs);
        for (size_t c = 0; c < classes.size(); ++c) {
            const auto& example = subs.ops[classes[c][0]];
            if (has_cube_op(g, example) || only_reshapes(g, example)) continue;
            int64_t factor = 1;
            if (automatic) factor = automatic_factor(int64_t(classes[c].size()));
            else if (auto it = setting.find(int64_t(c)); it != setting.end()) factor = it->second;
            else if (auto all = setting.find(-1); all != setting.end()) factor = all->second;
            if (factor <= 1) continue;
            const auto lists = sharing ? sharing_lists(classes[c], subs) : std::vector<std::vector<int32_t>>{classes[c]};
            for (const auto& list : lists)
                for (size_t i = 0; i < list.size(); ++i) host[list[i]] = list[i / size_t(factor) * size_t(factor)];
        }
        for (int32_t id : g.order)
            if (g.ops[id].sub_graph >= 0) g.ops[id].sub_graph = host[g.ops[id].sub_graph];
    }
    renumber_breadth_first(g);
}

}  // namespace npu::lowering
