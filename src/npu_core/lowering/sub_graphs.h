// Sub-graphs of a partitioned graph as lists, with the edges between them.
#pragma once
#include <vector>

#include "npu_core/lowering/graph.h"

namespace npu::lowering {

struct SubGraphs {
    std::vector<std::vector<int32_t>> ops;               // operation ids in list order, by sub-graph number
    std::vector<std::vector<int32_t>> next, previous;    // ascending, each once
    size_t size() const { return ops.size(); }
};
SubGraphs sub_graphs_of(const Graph& graph);

// Sequence hash over opcodes and the places of producers: equal for sub-graphs that differ in offsets only.
uint64_t sequence_hash(const Graph& graph, const std::vector<int32_t>& ops);
bool has_cube_op(const Graph& graph, const std::vector<int32_t>& ops);
bool only_reshapes(const Graph& graph, const std::vector<int32_t>& ops);

// Members of each class of equal sequence hash, classes by first member; the number of a class counts all of them.
std::vector<std::vector<int32_t>> iso_classes(const Graph& graph, const SubGraphs& subs);

}  // namespace npu::lowering
