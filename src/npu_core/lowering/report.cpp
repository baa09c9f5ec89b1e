#include "npu_core/lowering/report.h"

#include <algorithm>
#include <map>
#include <set>

#include "npu_core/lowering/stitch.h"

namespace npu::lowering {
namespace {

constexpr int64_t PIPE_LOG_CYCLES = 500000;   // longer runs write no log of pipes
constexpr size_t MOST_LENGTHS = 24;

std::string quoted(const std::string& s) { return "\"" + s + "\""; }

template <class Map> std::string object(const Map& m) {
    std::string out;
    for (const auto& [key, value] : m) out += (out.empty() ? "" : ",") + quoted(std::string(key)) + ":" + std::to_string(value);
    return "{" + out + "}";
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
    for (int d = 0; d < t.shape.rank; ++d) dims += (d ? "," : "") + std::to_string(t.shape[d]);
    return memory_text(t.mem) + "[" + dims + "]" + std::to_string(bytes_of(t.shape, t.dtype));
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
    std::string out;
    for (const auto& [core, lengths] : t.lengths) {
        std::vector<std::pair<int64_t, int64_t>> list(lengths.begin(), lengths.end());
        std::stable_sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.second > b.second; });
        if (list.size() > MOST_LENGTHS) list.resize(MOST_LENGTHS);
        std::map<std::string, int64_t> shown;
        for (auto [length, count] : list) shown[std::to_string(length)] = count;
        out += (out.empty() ? "" : ",") + quoted(core) + ":" + object(shown);
    }
    return "{" + out + "}";
}

// Every slot that is read has a root that writes it.
void check_written(const Program& program, const std::vector<CompiledRoot>& roots) {
    std::set<Id> written;
    for (const CompiledRoot& r : roots) written.insert(r.output_slots.begin(), r.output_slots.end());
    for (const CompiledRoot& r : roots)
        for (Id slot : r.input_slots)
            if (!program.tensors[slot].global() && !written.count(slot))
                throw ReadBeforeWrite("local tensor " + program.tensors[slot].name + " is read before any write");
}

std::string run(const Program& program, const std::vector<ArgumentData>& data) {
    const ControlFlow flow = run_control_flow(program, data);
    std::set<Id> crossing;
    for (const RootPath& path : flow.roots) crossing.merge(outside_reads(program, path));
    for (size_t i = 0; i < program.tensors.size(); ++i)
        if (program.tensors[i].global()) crossing.insert(Id(i));
    LeafLibrary library;
    std::set<std::string> unmodelled;
    std::vector<CompiledRoot> roots;
    LoweringOptions options;
    for (const RootPath& path : flow.roots) {
        RootGraph root = build_tensor_graph(program, path, crossing, unmodelled);
        options = lowering_options(root.options);
        roots.push_back(compile_root(std::move(root), library, options.merges));
    }
    check_written(program, roots);
    const DeviceTasks device = stitch(program, flow, roots, options.stitch_max);
    std::vector<LeafCost> costs;
    for (const LeafFunction& f : library.leaves) costs.push_back({f.run.cycles, &f.run.events});
    const DeviceRun result = run_device(device.tasks, costs);

    Totals t;
    std::map<int32_t, int64_t> executions;
    for (size_t d = 0; d < device.tasks.size(); ++d)
        for (size_t i = 0; i < device.tasks[d].size(); ++i) {
            const MachineTask& task = device.tasks[d][i];
            t.edges += int64_t(task.successors.size());
            if (task.core == CoreType::HUB) { ++t.hubs; continue; }
            const TaskTiming& timing = result.tasks[d][i];
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
        }
    for (auto [leaf, times] : executions) add_leaf(library.leaves[leaf], times, t);
    std::string out;
    auto field = [&](const char* key, const std::string& value) { out += (out.empty() ? "" : ",") + quoted(key) + ":" + value; };
    field("aicore_span", std::to_string(t.tasks ? t.last - t.first : 0));
    field("cycles", std::to_string(result.cycles));
    field("tasks", std::to_string(t.tasks));
    field("task_by_core", object(t.task_by_core));
    field("task_cycles", object(t.task_cycles));
    field("task_lengths", lengths_text(t));
    field("cores_used", std::to_string(t.cores.size()));
    field("leaf", std::to_string(library.leaves.size()));
    field("leaf_executed", std::to_string(t.leaves.size()));
    field("device_tasks", std::to_string(device.tasks.size()));
    field("edges", std::to_string(t.edges));
    field("hub_tasks", std::to_string(t.hubs));
    if (result.cycles <= PIPE_LOG_CYCLES) {
        field("gm_in", std::to_string(t.gm_in));
        field("gm_out", std::to_string(t.gm_out));
        field("ops", object(t.ops));
        field("op_cycles", object(t.op_cycles));
        field("pipe_cycles", object(t.pipe_cycles));
        field("samples", object(t.samples));
    }
    std::string list;
    for (const std::string& name : unmodelled) list += (list.empty() ? "" : ",") + quoted(name);
    field("unmodelled", "[" + list + "]");
    return "{" + out + "}";
}

}  // namespace

OfficialReport official_report(const Program& program, const std::vector<ArgumentData>& data) {
    OfficialReport r;
    try {
        r.json = run(program, data);
    } catch (const CapacityFailure& e) {
        r.code = "capacity";
        r.message = e.what();
        r.memory = std::string(mem_name(e.mem));
        r.bytes = e.bytes;
        r.limit = e.limit;
    } catch (const MissingData& e) {
        r.code = "needs_data";
        r.message = e.what();
        r.line = e.line;
    } catch (const NotLowered& e) {
        r.code = "not_lowered";
        r.message = e.what();
    } catch (const ReadBeforeWrite& e) {
        r.code = "read_before_write";
        r.message = e.what();
    } catch (const std::runtime_error& e) {
        r.code = "not_simulated";
        r.message = e.what();
    }
    return r;
}

}  // namespace npu::lowering
