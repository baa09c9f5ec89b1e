// A root function through all passes: leaf functions, calls, task graph.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "npu_core/lowering/leaf.h"
#include "npu_core/lowering/leaf_machine.h"
#include "npu_core/lowering/options.h"
#include "npu_core/lowering/task_graph.h"
#include "npu_core/lowering/tensor_graph.h"
#include "npu_core/program/breakdown.h"

namespace npu::lowering {

struct LeafFunction {
    LeafNote note;
    Leaf leaf;
    CoreType core = CoreType::AIV;
    LeafRun run;                      // timings parallel to leaf.schedule; empty for hubs
    int64_t spill_read_bytes = 0, spill_write_bytes = 0;
};

// Distinct leaf functions of a kernel, over all its root functions.
struct LeafLibrary {
    std::vector<LeafFunction> leaves;
    std::map<std::vector<int64_t>, int32_t> by_content;
    bool strict = false;                                                // refuse what the public simulator cannot run
    std::set<std::string> default_pipe;                                 // otherwise: operations it has no pipe for
    int32_t add(const Graph& graph, const std::vector<int32_t>& ops);   // sub-graph in function order
};

// What one call reads or writes of a slot.
struct Window {
    int32_t call = 0;
    Offset at;
    Shape shape;
    int64_t bytes = 0;
    bool picked = false;        // rows chosen by an index tensor: anywhere in the slot
};

struct CompiledRoot {
    std::vector<Symbol> symbols;                  // of the offsets of reads and writes
    int64_t gm_read_bytes = 0, gm_write_bytes = 0;   // of one instance, without spills
    Crossings crossings;                          // of one instance
    int64_t workspace_bytes = 0;                  // tensors in global memory that do not leave the root function
    int32_t iterations = 1;                       // of the unrolled loop body
    std::vector<Id> input_slots, output_slots;
    std::vector<Call> calls;                      // by sub-graph
    RootTasks tasks;
    std::vector<std::vector<Window>> reads, writes;   // per function input / output, calls in task-graph order
};

void run_graph_passes(Graph& graph, const MergeOptions& options);
CompiledRoot compile_root(const Program& program, RootGraph root, LeafLibrary& library, const MergeOptions& options);

}  // namespace npu::lowering
