#include "npu_core/lowering/passes.h"

#include <map>
#include <stdexcept>

#include "npu_core/lowering/cleanup.h"
#include "npu_core/lowering/expand.h"
#include "npu_core/lowering/moves.h"
#include "npu_core/lowering/partition.h"

namespace npu::lowering {

void run_pass(Graph& g, const std::string& name) {
    static const std::map<std::string, void (*)(Graph&)> PASSES = {
        {"Sort", sort_ops},
        {"AutoCast", auto_cast},
        {"ExpandFunction", expand_function},
        {"MergeViewAssemble", merge_view_assemble},
        {"SplitLargeFanoutTensor", split_large_fanout},
        {"DuplicateOp", duplicate_ops},
        {"AssignMemoryType", assign_memory_types},
        {"RemoveRedundantOp", remove_redundant_ops},
        {"InsertOpForViewAssemble", insert_ops_for_view_assemble},
        {"GraphPartition", partition_graph},
        {"NBufferMerge", [](Graph& x) { merge_vector_sub_graphs(x, {}); }},
        {"L1CopyInReuseMerge", [](Graph& x) { merge_l1_reuse(x, {}); }},
        {"GenerateMoveOp", [](Graph& x) { adapt_sub_graph_borders(x); generate_moves(x); }},
        {"CommonOperationEliminate", eliminate_common_ops},
        {"PadLocalBuffer", pad_local_buffers},
        {"InferDynShape", [](Graph& x) { replace_tensors(x); pre_graph_process(x); }},
    };
    auto it = PASSES.find(name);
    if (it == PASSES.end()) throw std::invalid_argument("no pass named " + name);
    it->second(g);
}

}  // namespace npu::lowering
