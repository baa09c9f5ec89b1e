// The record that the public simulator writes of a run, with its counting.
#include "npu_core/lowering/estimate.h"

#include <algorithm>
#include <map>
#include <set>

#include "npu_core/base/json.h"
#include "npu_core/lowering/launch.h"

namespace npu::lowering {
namespace {

constexpr int64_t PIPE_LOG_CYCLES = 500000;   // longer runs write no log of pipes
constexpr size_t MOST_LENGTHS = 24;

template <class Map> std::string object(const Map& values) {
    Json j;
    for (const auto& [key, value] : values) j.integer(key, value);
    return j.text();
}

std::string memory_text(Mem m) {
    switch (m) {
        case Mem::GM: return "DDR";
        case Mem::UB: case Mem::L1: case Mem::L0A: case Mem::L0B: case Mem::L0C: return std::string(mem_name(m));
        default: return "INVALID";
    }
}

std::string operand_text(const Tensor& t) {
    std::string dims;
    Shape shape = t.shape;                       // a dynamic axis counts as -1, in the bytes too
    for (int d = 0; d < shape.rank; ++d) {
        if (t.dynamic >> d & 1) shape[d] = -1;
        dims += (d ? "," : "") + std::to_string(shape[d]);
    }
    return memory_text(t.mem) + "[" + dims + "]" + std::to_string(bytes_of(shape, t.dtype));
}

// "OP MEM[shape]bytes,...->MEM[shape]bytes". The simulator counts the commas between outputs by the number of inputs.
std::string signature(const Graph& g, const Op& op) {
    std::string in, out;
    for (int32_t t : op.in) in += (in.empty() ? "" : ",") + operand_text(g.tensors[t]);
    for (size_t i = 0; i < op.out.size(); ++i) out += operand_text(g.tensors[op.out[i]]) + (i + 1 != op.in.size() ? "," : "");
    return std::string(facts(op.code).name) + " " + in + "->" + out;
}

struct Totals {
    std::map<std::string, int64_t> task_by_core, task_cycles, ops, op_cycles, pipe_cycles, samples;
    std::map<std::string, std::map<int64_t, int64_t>> lengths;
    int64_t tasks = 0, edges = 0, hubs = 0, gm_in = 0, gm_out = 0, first = INT64_MAX, last = 0;
    std::set<int32_t> cores, leaves;
};

void add_leaf(const LeafFunction& f, int64_t times, Totals& t) {
    const Graph& g = f.leaf.graph;
    for (size_t i = 0; i < f.leaf.schedule.size(); ++i) {
        const Timing& timing = f.run.timings[i];
        if (timing.pipe == Pipe::NONE) continue;
        const Op& op = g.ops[f.leaf.schedule[i]];
        const std::string name(facts(op.code).name);
        const int64_t cycles = timing.end - timing.start;
        t.ops[name] += times;
        t.op_cycles[name] += times * cycles;
        t.pipe_cycles[std::string(pipe_name(timing.pipe))] += times * cycles;
        t.samples[signature(g, op)] = cycles;
        if (op.code == Opcode::COPY_IN) t.gm_in += times * bytes_of(g.tensors[op.out[0]].shape, g.tensors[op.out[0]].dtype);
        if (op.code == Opcode::COPY_OUT) t.gm_out += times * bytes_of(g.tensors[op.in[0]].shape, g.tensors[op.in[0]].dtype);
    }
}

std::string lengths_text(const Totals& t) {
    Json out;
    for (const auto& [core, lengths] : t.lengths) {
        std::vector<std::pair<int64_t, int64_t>> list(lengths.begin(), lengths.end());
        std::stable_sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.second > b.second; });
        if (list.size() > MOST_LENGTHS) list.resize(MOST_LENGTHS);
        std::map<std::string, int64_t> shown;
        for (auto [length, count] : list) shown[std::to_string(length)] = count;
        out.raw(core, object(shown));
    }
    return out.text();
}

std::string record(const Program& program, const std::vector<IntData>& data, const std::vector<Assumed>& assume) {
    const Launch launch = run_launch(program, data, assume, true);
    Totals t;
    std::map<int32_t, int64_t> executions;
    launch.each_task([&](const MachineTask& task, const TaskTiming& timing) {
        const std::string core(core_name(task.core));
        const int64_t length = timing.end - timing.start;
        ++t.tasks;
        ++t.task_by_core[core];
        t.task_cycles[core] += length;
        ++t.lengths[core][length];
        t.first = std::min(t.first, timing.start);
        t.last = std::max(t.last, timing.end);
        t.cores.insert(timing.core);
        t.leaves.insert(task.leaf);
        ++executions[task.leaf];
    });
    for (const auto& tasks : launch.device.tasks)
        for (const MachineTask& task : tasks) {
            t.edges += int64_t(task.successors.size());
            t.hubs += task.core == CoreType::HUB;
        }
    for (auto [leaf, times] : executions) add_leaf(launch.library.leaves[leaf], times, t);
    Json out;
    out.integer("aicore_span", t.tasks ? t.last - t.first : 0).integer("cycles", launch.run.cycles).integer("tasks", t.tasks);
    out.raw("task_by_core", object(t.task_by_core)).raw("task_cycles", object(t.task_cycles)).raw("task_lengths", lengths_text(t));
    out.integer("cores_used", int64_t(t.cores.size())).integer("leaf", int64_t(launch.library.leaves.size()));
    out.integer("leaf_executed", int64_t(t.leaves.size())).integer("device_tasks", int64_t(launch.device.tasks.size()));
    out.integer("edges", t.edges).integer("hub_tasks", t.hubs);
    if (launch.run.cycles <= PIPE_LOG_CYCLES) {
        out.integer("gm_in", t.gm_in).integer("gm_out", t.gm_out).raw("ops", object(t.ops)).raw("op_cycles", object(t.op_cycles));
        out.raw("pipe_cycles", object(t.pipe_cycles)).raw("samples", object(t.samples));
    }
    out.strings("unmodelled", {launch.unmodelled.begin(), launch.unmodelled.end()});
    return out.text();
}

}  // namespace

EstimateReport official_record(const Program& program, const std::vector<IntData>& data, const std::vector<Assumed>& assume) {
    return report_of([&] { return record(program, data, assume); });
}

}  // namespace npu::lowering
