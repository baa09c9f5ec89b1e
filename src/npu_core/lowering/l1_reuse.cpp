// Cube sub-graphs that load the same tile into L1 become one task. Source: hicann/pypto@r0.2.0
// passes/tile_graph_pass/graph_partition/l1_copy_reuse.cpp.
#include <algorithm>
#include <map>
#include <tuple>

#include "npu_core/lowering/partition.h"
#include "npu_core/lowering/sub_graphs.h"

namespace npu::lowering {
namespace {

constexpr int64_t CUBE_SLOTS = 48;               // two per AIC
constexpr int64_t LOAD_LIMIT_BYTES = 104857600;  // mg_copyin_upper_bound

struct Load {
    std::vector<int64_t> key;   // raw tensor, offset, shape
    int64_t bytes;
};

std::vector<Load> loads_of(const Graph& g, const std::vector<int32_t>& ops) {
    std::vector<Load> loads;
    for (int32_t id : ops) {
        const Op& op = g.ops[id];
        if (op.code != Opcode::VIEW && op.code != Opcode::COPY_IN) continue;
        const Tensor& from = g.tensors[op.in[0]];
        const Tensor& to = g.tensors[op.out[0]];
        if (from.mem != Mem::GM || to.mem != Mem::L1) continue;
        Load load{{from.raw}, bytes_of(to.shape, to.dtype)};
        for (int d = 0; d < op.at.rank; ++d) {
            load.key.push_back(op.at.d[d].at + (d < from.offset.rank ? from.offset.d[d].at : 0));
            load.key.push_back(op.at.d[d].symbol);
        }
        for (int d = 0; d < to.shape.rank; ++d) load.key.push_back(to.shape[d]);
        loads.push_back(std::move(load));
    }
    return loads;
}

void merge_by_loads(Graph& g, const MergeOptions& options) {
    const SubGraphs subs = sub_graphs_of(g);
    const auto classes = iso_classes(g, subs);
    std::vector<int32_t> host(subs.size());
    for (size_t i = 0; i < host.size(); ++i) host[i] = int32_t(i);
    std::vector<int64_t> count(subs.size(), 1), load_bytes(subs.size(), 0);
    std::map<std::vector<int64_t>, int32_t> owner;
    int64_t sub_graphs = 0;                       // of all cores: the automatic factor counts them together
    for (const auto& members : classes) sub_graphs += int64_t(members.size());
    for (size_t c = 0; c < classes.size(); ++c) {
        if (!has_cube_op(g, subs.ops[classes[c][0]])) continue;
        int64_t factor = sub_graphs / CUBE_SLOTS;
        if (options.l1_reuse_set) {
            factor = 0;
            if (auto it = options.l1_reuse.find(int64_t(c)); it != options.l1_reuse.end()) factor = it->second;
            else if (auto all = options.l1_reuse.find(-1); all != options.l1_reuse.end()) factor = all->second;
        }
        for (int32_t s : classes[c]) {
            const std::vector<Load> loads = loads_of(g, subs.ops[s]);
            int64_t bytes = 0;
            for (const Load& l : loads) bytes += l.bytes;
            const int32_t latest = subs.previous[s].empty() ? -1 : host[subs.previous[s].back()];
            for (const Load& l : loads) {
                auto it = owner.find(l.key);
                if (it == owner.end()) continue;
                const int32_t h = it->second;
                if (h < latest || count[h] < 1 || count[h] > factor - 1) continue;
                if (load_bytes[h] + bytes > LOAD_LIMIT_BYTES) continue;
                host[s] = h;
                ++count[h];
                break;
            }
            load_bytes[host[s]] += bytes;
            for (const Load& l : loads) owner[l.key] = host[s];
        }
    }
    for (int32_t id : g.order)
        if (g.ops[id].sub_graph >= 0) g.ops[id].sub_graph = host[g.ops[id].sub_graph];
}

void merge_runs(Graph& g, const MergeOptions& options) {
    const SubGraphs subs = sub_graphs_of(g);
    const auto classes = iso_classes(g, subs);
    std::vector<int32_t> host(subs.size());
    for (size_t i = 0; i < host.size(); ++i) host[i] = int32_t(i);
    for (size_t c = 0; c < classes.size(); ++c) {
        if (!has_cube_op(g, subs.ops[classes[c][0]])) continue;
        int64_t factor = 1;
        if (auto it = options.cube_nbuffer.find(int64_t(c)); it != options.cube_nbuffer.end()) factor = it->second;
        else if (auto all = options.cube_nbuffer.find(-1); all != options.cube_nbuffer.end()) factor = all->second;
        int64_t bytes = 0;
        for (const Load& l : loads_of(g, subs.ops[classes[c][0]])) bytes += l.bytes;
        if (bytes) factor = std::min(factor, LOAD_LIMIT_BYTES / bytes);
        if (factor <= 1) continue;
        for (size_t i = 0; i < classes[c].size(); ++i)
            host[classes[c][i]] = classes[c][i / size_t(factor) * size_t(factor)];
    }
    for (int32_t id : g.order)
        if (g.ops[id].sub_graph >= 0) g.ops[id].sub_graph = host[g.ops[id].sub_graph];
}

}  // namespace

void merge_l1_reuse(Graph& g, const MergeOptions& options) {
    const bool off = options.l1_reuse_set && options.l1_reuse == std::map<int64_t, int64_t>{{-1, 1}};
    if (!off) merge_by_loads(g, options);
    if (!options.cube_nbuffer.empty() && options.cube_nbuffer != std::map<int64_t, int64_t>{{-1, 1}}) merge_runs(g, options);
}

}  // namespace npu::lowering
