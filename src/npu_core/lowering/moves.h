// From views and assembles to moves, and what follows until leaf functions are cut.
#pragma once
#include "npu_core/lowering/graph.h"

namespace npu::lowering {

void adapt_sub_graph_borders(Graph& graph);   // IntraSubgraphAdapter
void generate_moves(Graph& graph);            // GenerateMoveOp
void eliminate_common_ops(Graph& graph);      // CommonOperationEliminate
void count_moved_bytes(Graph& graph);         // Op::gm_bytes, before tiles are padded
void pad_local_buffers(Graph& graph);         // PadLocalBuffer
void replace_tensors(Graph& graph);           // ReplaceTensor: windows of one buffer share its storage
void pre_graph_process(Graph& graph);         // PreGraphProcess: L0C is fp32 or int32, sub-graphs renumbered

}  // namespace npu::lowering
