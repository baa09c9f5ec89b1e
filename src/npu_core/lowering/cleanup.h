// Clean-up of the tile graph between expansion and partition.
#pragma once
#include "npu_core/lowering/graph.h"

namespace npu::lowering {

void merge_view_assemble(Graph& graph);          // MergeViewAssemble: chains of views, chains of assembles
void split_raw_tensors(Graph& graph);            // every tensor but the function's ends gets its own storage
void split_large_fanout(Graph& graph);           // SplitLargeFanoutTensor
void duplicate_ops(Graph& graph);                // DuplicateOp
void remove_redundant_ops(Graph& graph);         // RemoveRedundantOp
void insert_ops_for_view_assemble(Graph& graph); // InsertOpForViewAssemble
void assign_memory_types(Graph& graph);          // AssignMemoryType

}  // namespace npu::lowering
