// Cut of the tile graph into sub-graphs, the future tasks.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "npu_core/lowering/graph.h"

namespace npu::lowering {

constexpr int64_t CYCLE_BOUND = 10000;        // pg_upper_bound of 0.2.0
constexpr int64_t SMALL_LATENCY = 512;        // pg_lower_bound
constexpr size_t PARALLEL_LOWER_BOUND = 20;   // pg_parallel_lower_bound

// Operations that must stay together. Positions count in list order.
struct SuperNode {
    std::vector<int32_t> members;      // positions, ascending
    int64_t latency = 0;
    CoreType core = CoreType::AIV;
    int32_t scope = -1;
    bool mergeable = true;
    uint64_t hash = 0;
    Ids next, previous;                // super-nodes, ascending
};

// Edges between operations by list position.
struct OpEdges {
    std::vector<Ids> next, previous;   // ascending, each once
};
OpEdges op_edges(const Graph& graph);

std::vector<SuperNode> build_super_nodes(const Graph& graph, const OpEdges& edges);
void hash_super_nodes(const Graph& graph, const OpEdges& edges, std::vector<SuperNode>& nodes);

// Isomorphic graphs: graphs[g] lists the super-nodes of graph g.
struct Group {
    std::vector<std::vector<int32_t>> graphs;
    int64_t latency = 0;               // of one graph
    CoreType core = CoreType::AIV;
    int32_t scope = -1;
    bool mergeable = true;
};
std::vector<Group> grow_groups(const std::vector<SuperNode>& nodes);
void merge_groups(const std::vector<SuperNode>& nodes, std::vector<Group>& groups);

void partition_graph(Graph& graph);    // sets sub_graph of every operation

// Merges and numbers after the partition.
struct MergeOptions {
    std::map<int64_t, int64_t> vec_nbuffer, l1_reuse, cube_nbuffer;
    bool l1_reuse_set = false;         // an explicit cube_l1_reuse_setting
};
void merge_vector_sub_graphs(Graph& graph, const MergeOptions& options);   // NBufferMerge, renumbers
void merge_l1_reuse(Graph& graph, const MergeOptions& options);            // L1CopyInReuseMerge
void renumber_breadth_first(Graph& graph);
void renumber_depth_first(Graph& graph);

// Structural mixing of 64-bit values.
inline uint64_t mix_hash(uint64_t a, uint64_t b) {
    a ^= b + 0x9e3779b97f4a7c15ull + (a << 12) + (a >> 4);
    a *= 0xff51afd7ed558ccdull;
    a ^= a >> 32;
    a *= 0xc4ceb9fe1a85ec53ull;
    return a ^ (a >> 29);
}

}  // namespace npu::lowering
