#include "npu_core/lowering/pipeline.h"

#include <algorithm>

#include "npu_core/base/patience.h"

#include "npu_core/lowering/breakdown.h"
#include "npu_core/lowering/cleanup.h"
#include "npu_core/lowering/expand.h"
#include "npu_core/lowering/moves.h"
#include "npu_core/lowering/partition.h"
#include "npu_core/lowering/sub_graphs.h"

namespace npu::lowering {

void run_graph_passes(Graph& g, const MergeOptions& options) {
    auto_cast(g);
    expand_function(g);
    merge_view_assemble(g);
    split_large_fanout(g);
    duplicate_ops(g);
    assign_memory_types(g);
    remove_redundant_ops(g);
    insert_ops_for_view_assemble(g);
    sort_if_stale(g);
    partition_graph(g);
    merge_vector_sub_graphs(g, options);
    merge_l1_reuse(g, options);
    adapt_sub_graph_borders(g);
    generate_moves(g);
    eliminate_common_ops(g);
    count_moved_bytes(g);
    pad_local_buffers(g);
    replace_tensors(g);
    pre_graph_process(g);
}

namespace {

// Calls with their global tensors: inner ones first, then the function's ends, in function order.
Call make_call(const Graph& g, const std::vector<int32_t>& ops, const std::vector<char>& is_end) {
    Call c;
    std::vector<int32_t> end_in, end_out;
    for (int32_t id : ops) {
        for (int32_t t : g.ops[id].in)
            if (g.tensors[t].mem == Mem::GM) (is_end[t] ? end_in : c.in).push_back(t);
        for (int32_t t : g.ops[id].out)
            if (g.tensors[t].mem == Mem::GM) (is_end[t] ? end_out : c.out).push_back(t);
    }
    c.in.insert(c.in.end(), end_in.begin(), end_in.end());
    c.out.insert(c.out.end(), end_out.begin(), end_out.end());
    return c;
}

// The part of a global tensor that an operation touches.
Window window_of(const Graph& g, const Op& op, int32_t global, int32_t local, int32_t call) {
    Window w{call, op.at, g.tensors[global].shape, op.gm_bytes, op.code == Opcode::GATHER || op.code == Opcode::INDEX_OUTCAST};
    const Shape& part = g.tensors[local].shape;
    if (w.at.rank != w.shape.rank) w.at = zero_offset(w.shape.rank);
    else if (part.rank == w.shape.rank) w.shape = part;
    return w;
}

}  // namespace

namespace {

// Tensors of global memory that live within one instance of the root function.
int64_t workspace_of(const Graph& g, const std::vector<char>& is_end) {
    std::vector<char> counted(g.raws.size(), 0);
    for (size_t t = 0; t < is_end.size(); ++t)
        if (is_end[t]) counted[g.tensors[t].raw] = 1;
    int64_t bytes = 0;
    for (int32_t id : g.order)
        for (const Ids* operands : {&g.ops[id].in, &g.ops[id].out})
            for (int32_t t : *operands) {
                const Tensor& x = g.tensors[t];
                if (x.mem != Mem::GM || counted[x.raw]) continue;
                counted[x.raw] = 1;
                bytes += bytes_of(g.raws[x.raw].shape, x.dtype);
            }
    return bytes;
}

void name_operation(CapacityFault& fault, const Program& program, const Graph& g) {
    if (fault.operation < 0) return;
    const Origin& from = g.sources[fault.operation];
    if (from.row != NONE) fault.op = npu::op_rows()[from.row].name + " (" + fault.op + ")";
    if (from.line != NONE) fault.line = program.lines[from.line];
}

}  // namespace

CompiledRoot compile_root(const Program& program, RootGraph root, LeafLibrary& library, const MergeOptions& options) {
    CompiledRoot out;
    run_graph_passes(root.graph, options);
    out.input_slots = std::move(root.input_slots);
    out.output_slots = std::move(root.output_slots);
    const Graph& g = root.graph;
    std::vector<char> is_end(g.tensors.size(), 0);
    for (int32_t t : g.inputs) is_end[t] = 1;
    for (int32_t t : g.outputs) is_end[t] = 1;
    const SubGraphs subs = sub_graphs_of(g);
    Patience patience;
    for (size_t s = 0; s < subs.size(); ++s) {
        patience.check();
        Call c = make_call(g, subs.ops[s], is_end);
        c.sub_graph = int32_t(s);
        try {
            const size_t known = library.leaves.size();
            c.leaf = library.add(g, subs.ops[s]);
            if (library.leaves.size() > known) library.leaves.back().note = note_of(program, g, subs.ops[s]);
        } catch (CapacityFault& fault) {
            name_operation(fault, program, g);
            throw;
        }
        c.core = library.leaves[c.leaf].core;
        out.calls.push_back(std::move(c));
    }
    out.tasks = build_task_graph(out.calls, g.outputs);
    out.workspace_bytes = workspace_of(g, is_end);
    out.crossings = crossings_of(program, g, subs, is_end);
    std::vector<int32_t> input_of(g.tensors.size(), -1), output_of(g.tensors.size(), -1);
    for (size_t i = 0; i < g.inputs.size(); ++i) input_of[g.inputs[i]] = int32_t(i);
    for (size_t i = 0; i < g.outputs.size(); ++i) output_of[g.outputs[i]] = int32_t(i);
    out.reads.resize(g.inputs.size());
    out.writes.resize(g.outputs.size());
    for (int32_t c : out.tasks.call_order)
        for (int32_t id : subs.ops[c]) {
            const Op& op = g.ops[id];
            for (int32_t t : op.in)
                if (input_of[t] >= 0) out.reads[input_of[t]].push_back(window_of(g, op, t, op.out.empty() ? t : op.out[0], c));
            for (int32_t t : op.out)
                if (output_of[t] >= 0) out.writes[output_of[t]].push_back(window_of(g, op, t, op.in.empty() ? t : op.in[0], c));
        }
    for (int32_t id : g.order) {
        const Op& op = g.ops[id];
        const bool writes = !op.out.empty() && g.tensors[op.out[0]].mem == Mem::GM;
        (writes ? out.gm_write_bytes : out.gm_read_bytes) += op.gm_bytes;
    }
    out.symbols = std::move(root.graph.symbols);
    return out;
}

}  // namespace npu::lowering
