// Super-nodes of the partition: operations that belong to one task in any case.
#pragma once
#include <numeric>
#include <vector>

#include "npu_core/plan/hash.h"
#include "npu_core/plan/stages.h"

namespace npu::plan {

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
    Ids ops;
    Ids pred, succ;                    // ascending
    int64_t latency = 0;
    cost::Core core = cost::Core::ANY;
    bool mergeable = true;
    Hash hash = 0;
    int32_t scope = -1;
};

std::vector<int32_t> positions_of(const Graph& g);        // operation -> place in the list, -1 for none
std::vector<Node> super_nodes(const Graph& g, const std::vector<int32_t>& position);
// Equal hashes: nodes that stand alike in the graph.
void hash_nodes(const Graph& g, const std::vector<int32_t>& position, std::vector<Node>& nodes);

}  // namespace npu::plan
