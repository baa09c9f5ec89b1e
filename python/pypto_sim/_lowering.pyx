# cython: language_level=3
"""Stages of the graph lowering on plain rows, for tests: one graph in, one pass, rows out."""

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector


cdef extern from "npu_core/lowering/rows.h" namespace "npu::lowering" nogil:
    cdef cppclass TensorRow:
        int32_t id, raw
        vector[int64_t] shape, offset, raw_shape
        string dtype, mem

    cdef cppclass OpRow:
        int32_t id
        string code
        vector[int32_t] inputs "in", out
        int32_t sub_graph, latency
        vector[int64_t] at
        vector[string] at_symbols
        string to
        cbool transpose, has_scalar, trans_a, trans_b, direct
        int32_t axis
        double scalar
        vector[int64_t] ints, vec_tile, cube_tile
        int32_t scope

    cdef cppclass CGraph "npu::lowering::Graph":
        vector[int32_t] order
        vector[int32_t] inputs, outputs

    CGraph graph_from_rows(const vector[TensorRow]&, const vector[OpRow]&, const vector[int32_t]&,
                           const vector[int32_t]&) except +
    vector[TensorRow] tensor_rows(const CGraph&)
    vector[OpRow] op_rows_of(const CGraph&)

cdef extern from "npu_core/lowering/leaf_machine.h" namespace "npu::lowering" nogil:
    cdef cppclass CTiming "npu::lowering::Timing":
        int64_t start, end

    cdef cppclass LeafRun:
        vector[CTiming] timings
        int64_t cycles
        vector[int64_t] events

    LeafRun run_leaf(const CGraph&, const vector[int32_t]&) except +

cdef extern from "npu_core/lowering/device_machine.h" namespace "npu::lowering" nogil:
    cdef cppclass LeafCost:
        int64_t cycles
        const vector[int64_t]* events

    cdef cppclass TaskTiming:
        int32_t core
        int64_t start, end

    cdef cppclass DeviceRun:
        vector[vector[TaskTiming]] tasks
        int64_t cycles

cdef extern from *:
    """
    #include "npu_core/lowering/device_machine.h"
    #include "npu_core/lowering/leaf_machine.h"
    using namespace npu::lowering;
    static std::string timing_pipe(const Timing& t) { return std::string(pipe_name(t.pipe)); }
    static void push_task(std::vector<std::vector<MachineTask>>& all, const std::string& core, int leaf,
                          const std::vector<int32_t>& successors) {
        MachineTask t;
        t.core = core == "AIV" ? CoreType::AIV : core == "AIC" ? CoreType::AIC : CoreType::HUB;
        t.leaf = leaf;
        t.successors = successors;
        all.back().push_back(std::move(t));
    }
    static DeviceRun run_rows(std::vector<std::vector<MachineTask>>& all, const std::vector<LeafRun>& leaves) {
        std::vector<LeafCost> costs;
        for (const LeafRun& l : leaves) costs.push_back({l.cycles, &l.events});
        for (auto& tasks : all)
            for (auto& t : tasks)
                for (int32_t s : t.successors) ++tasks[s].predecessors;
        return run_device(all, costs);
    }
    """
    string timing_pipe(const CTiming&)
    cdef cppclass MachineTask:
        pass
    void push_task(vector[vector[MachineTask]]&, const string&, int, const vector[int32_t]&)
    DeviceRun run_rows(vector[vector[MachineTask]]&, const vector[LeafRun]&) except +


cdef TensorRow tensor_row(tuple row):
    cdef TensorRow t
    t.id, t.raw, t.shape, t.offset, t.dtype, t.mem, t.raw_shape = row
    return t


cdef OpRow op_row(dict row):
    cdef OpRow o
    o.id = row["id"]
    o.code = row["code"]
    o.inputs = row["in"]
    o.out = row["out"]
    o.sub_graph = row.get("sub_graph", -1)
    o.latency = row.get("latency", 0)
    o.at = row.get("at", [])
    o.at_symbols = row.get("at_symbols", [])
    o.to = row.get("to", b"")
    o.transpose = row.get("transpose", False)
    o.has_scalar = "scalar" in row
    o.scalar = row.get("scalar", 0.0)
    o.trans_a = row.get("trans_a", False)
    o.trans_b = row.get("trans_b", False)
    o.direct = row.get("direct", False)
    o.axis = row.get("axis", -100)
    o.ints = row.get("ints", [])
    o.vec_tile = row.get("vec_tile", [])
    o.cube_tile = row.get("cube_shape", [])
    o.scope = row.get("scope", -1)
    return o


cdef class Graph:
    """A graph built from rows: tensors (id, raw, shape, offset, dtype, mem, raw_shape), operations as dicts."""

    cdef CGraph graph

    def __init__(self, list tensors, list ops, list inputs, list outputs):
        cdef vector[TensorRow] ts
        cdef vector[OpRow] os
        for row in tensors:
            ts.push_back(tensor_row(row))
        for row in ops:
            os.push_back(op_row(row))
        self.graph = graph_from_rows(ts, os, inputs, outputs)

    def tensors(self):
        return [(r.id, r.raw, list(r.shape), list(r.offset), r.dtype.decode(), r.mem.decode(), list(r.raw_shape))
                for r in tensor_rows(self.graph)]

    def ops(self):
        return [{"id": r.id, "code": r.code.decode(), "in": list(r.inputs), "out": list(r.out),
                 "sub_graph": r.sub_graph, "latency": r.latency, "at": list(r.at),
                 "at_symbols": [s.decode() for s in r.at_symbols], "to": r.to.decode(), "transpose": r.transpose,
                 "vec_tile": list(r.vec_tile), "cube_tile": list(r.cube_tile), "axis": r.axis}
                for r in op_rows_of(self.graph)]

    def run_leaf(self, list order):
        """(pipe, start, end) of each operation of `order` and the task's cycles."""
        cdef LeafRun run = run_leaf(self.graph, order)
        return [(timing_pipe(t).decode(), t.start, t.end) for t in run.timings], run.cycles


def run_device(list graphs, list orders, list device_tasks):
    """Task timings: `device_tasks` is a list of lists of (core, leaf, successor positions)."""
    cdef vector[LeafRun] leaves
    cdef vector[vector[MachineTask]] tasks
    cdef LeafRun empty
    for graph, order in zip(graphs, orders, strict=True):
        leaves.push_back(empty if graph is None else run_leaf((<Graph>graph).graph, order))
    for rows in device_tasks:
        tasks.resize(tasks.size() + 1)
        for core, leaf, successors in rows:
            push_task(tasks, core.encode(), leaf, successors)
    cdef DeviceRun run = run_rows(tasks, leaves)
    return [[(t.core, t.start, t.end) for t in rows] for rows in run.tasks], run.cycles


cdef extern from *:
    """
    #include "npu_core/lowering/task_graph.h"
    static void push_call(std::vector<Call>& calls, int sub_graph, int leaf, const std::string& core,
                          const std::vector<int32_t>& in, const std::vector<int32_t>& out) {
        calls.push_back({sub_graph, leaf, core == "AIV" ? CoreType::AIV : core == "AIC" ? CoreType::AIC : CoreType::HUB,
                         in, out});
    }
    static std::string task_core(const RootTask& t) { return std::string(core_name(t.core)); }
    """
    cdef cppclass Call:
        pass

    cdef cppclass RootTask:
        int32_t call
        vector[int32_t] successors

    cdef cppclass RootTasks:
        vector[RootTask] tasks

    void push_call(vector[Call]&, int, int, const string&, const vector[int32_t]&, const vector[int32_t]&)
    string task_core(const RootTask&)
    RootTasks build_task_graph(const vector[Call]&, const vector[int32_t]&) except +


def task_graph(list calls, list outputs):
    """Rows (core, call index, successor ids) by task id; calls are (sub_graph, leaf, core, inputs, outputs)."""
    cdef vector[Call] rows
    for sub_graph, leaf, core, inputs, outs in calls:
        push_call(rows, sub_graph, leaf, core.encode(), inputs, outs)
    cdef RootTasks result = build_task_graph(rows, outputs)
    return [(task_core(t).decode(), t.call, list(t.successors)) for t in result.tasks]


cdef extern from "npu_core/lowering/leaf.h" namespace "npu::lowering" nogil:
    cdef cppclass CBuffer "npu::lowering::Buffer":
        vector[int32_t] tensors

    cdef cppclass CLeaf "npu::lowering::Leaf":
        CGraph graph
        vector[CBuffer] buffers
        vector[int32_t] schedule
        int32_t spills

    void lower_leaf(CLeaf&) except +


def schedule_leaf(Graph graph):
    """(final order as operation ids, shared buffers, spill copies, operations and tensors afterwards)."""
    cdef CLeaf leaf
    leaf.graph = graph.graph
    lower_leaf(leaf)
    after = Graph([], [], [], [])
    after.graph = leaf.graph
    shared = [sorted(b.tensors) for b in leaf.buffers if b.tensors.size() > 1]
    return list(leaf.schedule), shared, leaf.spills, after


cdef extern from "npu_core/lowering/partition.h" namespace "npu::lowering" nogil:
    void partition_graph(CGraph&) except +

cdef extern from "npu_core/lowering/passes.h" namespace "npu::lowering" nogil:
    void run_pass(CGraph&, const string&) except +


def run(Graph graph, str name):
    """Runs one pass on the graph, in place."""
    run_pass(graph.graph, name.encode())
