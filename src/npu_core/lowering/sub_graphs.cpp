#include "npu_core/lowering/sub_graphs.h"

#include <algorithm>
#include <unordered_map>

#include "npu_core/lowering/partition.h"

namespace npu::lowering {

SubGraphs sub_graphs_of(const Graph& g) {
    SubGraphs s;
    int32_t count = 0;
    for (int32_t id : g.order) count = std::max(count, g.ops[id].sub_graph + 1);
    s.ops.resize(count);
    s.next.resize(count);
    s.previous.resize(count);
    for (int32_t id : g.order) {
        const Op& op = g.ops[id];
        if (op.sub_graph < 0) continue;
        s.ops[op.sub_graph].push_back(id);
        for (int32_t t : op.out)
            for (int32_t c : g.tensors[t].consumers) {
                const int32_t to = g.ops[c].sub_graph;
                if (to < 0 || to == op.sub_graph) continue;
                s.next[op.sub_graph].push_back(to);
                s.previous[to].push_back(op.sub_graph);
            }
    }
    for (auto* lists : {&s.next, &s.previous})
        for (auto& list : *lists) {
            std::sort(list.begin(), list.end());
            list.erase(std::unique(list.begin(), list.end()), list.end());
        }
    return s;
}

uint64_t sequence_hash(const Graph& g, const std::vector<int32_t>& ops) {
    static thread_local std::vector<uint64_t> place;      // 0 between calls
    if (place.size() < g.ops.size()) place.resize(g.ops.size(), 0);
    uint64_t hash = 0x27220a95;
    for (size_t i = 0; i < ops.size(); ++i) {
        const Op& op = g.ops[ops[i]];
        hash = mix_hash(hash, uint64_t(op.code));
        for (int32_t t : op.in)
            for (int32_t p : g.tensors[t].producers) hash = mix_hash(hash, place[p]);
        place[ops[i]] = i + 1;
    }
    for (int32_t id : ops) place[id] = 0;
    return hash;
}

bool has_cube_op(const Graph& g, const std::vector<int32_t>& ops) {
    return std::any_of(ops.begin(), ops.end(), [&](int32_t id) { return facts(g.ops[id].code).core == CoreType::AIC; });
}

bool only_reshapes(const Graph& g, const std::vector<int32_t>& ops) {
    return std::all_of(ops.begin(), ops.end(), [&](int32_t id) { return g.ops[id].code == Opcode::RESHAPE; });
}

std::vector<std::vector<int32_t>> iso_classes(const Graph& g, const SubGraphs& subs) {
    std::unordered_map<uint64_t, size_t> class_of;
    std::vector<std::vector<int32_t>> classes;
    for (size_t i = 0; i < subs.size(); ++i) {
        if (subs.ops[i].empty()) continue;
        auto [it, fresh] = class_of.try_emplace(sequence_hash(g, subs.ops[i]), classes.size());
        if (fresh) classes.emplace_back();
        classes[it->second].push_back(int32_t(i));
    }
    return classes;
}

}  // namespace npu::lowering
