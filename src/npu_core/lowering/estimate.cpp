#include "npu_core/lowering/estimate.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "npu_core/base/json.h"
#include "npu_core/lowering/breakdown.h"
#include "npu_core/lowering/timeline.h"
#include "npu_core/plan/traffic.h"

namespace npu::lowering {
namespace {

constexpr double CYCLES_PER_US = 1800;       // of the public simulator's reports
constexpr double MOST_OF_THE_TIME = 0.5, CHAIN_SHARE = 0.6;

// Pipes as an estimate names them.
enum Busy { MTE2, MTE1, CUBE, FIX, VEC, MTE3, SCALAR, BUSY_COUNT };
constexpr const char* BUSY_NAMES[] = {"MTE2", "MTE1", "CUBE", "FIX", "VEC", "MTE3", "SCALAR"};

Busy busy_of(const Graph& g, const Op& op, Pipe pipe) {
    switch (pipe) {
        case Pipe::MTE_IN: return MTE2;
        case Pipe::MTE1: return MTE1;
        case Pipe::CUBE: return CUBE;
        case Pipe::VECTOR_ALU: return VEC;
        case Pipe::MTE_OUT: return !op.in.empty() && g.tensors[op.in[0]].mem == Mem::L0C ? FIX : MTE3;
        default: return SCALAR;
    }
}

struct Totals {
    std::array<int64_t, BUSY_COUNT> busy{};
    std::array<int64_t, MEM_COUNT> peak{};
    std::map<std::string, int64_t> ops, op_cycles;
    std::map<std::string, std::map<std::string, int64_t>> lengths;
    int64_t aic = 0, aiv = 0, aic_cycles = 0, aiv_cycles = 0, first = INT64_MAX, last = 0, edges = 0, hubs = 0;
    int64_t gm_read = 0, gm_write = 0, spill = 0, hbm_read = 0, hbm_write = 0, workspace = 0;
    std::set<int32_t> cores;
    std::vector<int64_t> executions;         // by leaf
    Breakdown parts;
    int64_t span() const { return aic + aiv ? last - first : 0; }
};

void add_tasks(const Launch& launch, Totals& t) {
    t.executions.assign(launch.library.leaves.size(), 0);
    launch.each_task([&](const MachineTask& task, const TaskTiming& timing) {
        const int64_t length = timing.end - timing.start;
        const bool cube = task.core == CoreType::AIC;
        ++(cube ? t.aic : t.aiv);
        (cube ? t.aic_cycles : t.aiv_cycles) += length;
        ++t.lengths[cube ? "AIC" : "AIV"][std::to_string(length)];
        t.first = std::min(t.first, timing.start);
        t.last = std::max(t.last, timing.end);
        t.cores.insert(timing.core);
        ++t.executions[task.leaf];
    });
    for (const auto& tasks : launch.device.tasks)
        for (const MachineTask& task : tasks) {
            t.edges += int64_t(task.successors.size());
            t.hubs += task.core == CoreType::HUB;
        }
}

void add_leaves(const LeafLibrary& library, Totals& t) {
    for (size_t l = 0; l < library.leaves.size(); ++l) {
        const LeafFunction& f = library.leaves[l];
        const int64_t times = t.executions[l];
        TaskKind kind{f.core == CoreType::AIC, f.note, f.core == CoreType::HUB ? 0 : times, f.run.cycles, f.spill_read_bytes,
                      f.spill_write_bytes, f.spill_read_bytes + f.spill_write_bytes, {}, {}};
        std::array<int64_t, BUSY_COUNT> busy{};
        for (int m = 0; m < MEM_COUNT; ++m) t.peak[m] = std::max(t.peak[m], f.leaf.peak_bytes[m]);
        if (times == 0) continue;
        t.gm_read += times * f.spill_read_bytes;
        t.gm_write += times * f.spill_write_bytes;
        t.spill += times * (f.spill_read_bytes + f.spill_write_bytes);
        for (size_t i = 0; i < f.leaf.schedule.size(); ++i) {
            const Timing& timing = f.run.timings[i];
            if (timing.pipe == Pipe::NONE) continue;
            const Op& op = f.leaf.graph.ops[f.leaf.schedule[i]];
            const int64_t cycles = times * (timing.end - timing.start);
            t.busy[busy_of(f.leaf.graph, op, timing.pipe)] += cycles;
            busy[busy_of(f.leaf.graph, op, timing.pipe)] += timing.end - timing.start;
            const bool writes = !op.out.empty() && f.leaf.graph.tensors[op.out[0]].mem == Mem::GM;
            (writes ? kind.gm_write : kind.gm_read) += op.gm_bytes;
            const std::string name(facts(op.code).name);
            t.ops[name] += times;
            t.op_cycles[name] += cycles;
        }
        for (int p = 0; p < BUSY_COUNT; ++p) kind.busy.emplace_back(BUSY_NAMES[p], busy[p]);
        for (Mem m : {Mem::UB, Mem::L1, Mem::L0A, Mem::L0B, Mem::L0C, Mem::BT}) kind.peak.emplace_back(mem_name(m), f.leaf.peak_bytes[int(m)]);
        t.parts.kinds.push_back(std::move(kind));
    }
}

// Traffic of the instances: what is read or written for the first time crosses HBM, the rest is in L2.
void add_traffic(const Program& program, const Launch& launch, Totals& t) {
    std::vector<int64_t> sizes;
    for (const TensorInfo& x : program.tensors) sizes.push_back(bytes_of(x.shape, x.dtype));
    plan::Traffic traffic(sizes);
    std::set<Id> slots;
    auto place = [&](const CompiledRoot& root, const Window& w, const Instance& instance) {
        Shape at;
        at.rank = w.shape.rank;
        for (int d = 0; d < at.rank; ++d) {
            at[d] = w.at.d[d].at;
            for (auto [expr, copy] : root.symbols[w.at.d[d].symbol].terms) at[d] += value_of(program, expr, instance.scalars[copy]);
        }
        return at;
    };
    for (size_t d = 0; d < launch.device.instances.size(); ++d) {
        int64_t workspace = 0;
        for (int32_t i : launch.device.instances[d]) {
            const Instance& instance = launch.flow.instances[i];
            const CompiledRoot& root = launch.roots[instance.root];
            t.gm_read += root.gm_read_bytes;
            t.gm_write += root.gm_write_bytes;
            workspace += root.workspace_bytes;
            add_crossings(t.parts.crossings, root.crossings, 1);
            for (size_t s = 0; s < root.input_slots.size(); ++s) {
                const Id tensor = root.input_slots[s];
                for (const Window& w : root.reads[s]) t.parts.tensors[tensor].read += w.bytes;
                if (!program.tensors[tensor].global() || traffic.written(tensor)) continue;
                for (const Window& w : root.reads[s])
                    t.hbm_read += w.picked ? traffic.random_touch(tensor, w.bytes)
                                           : traffic.touch(tensor, place(root, w, instance), w.shape, w.bytes);
            }
            for (size_t s = 0; s < root.output_slots.size(); ++s) {
                const Id tensor = root.output_slots[s];
                const bool argument = program.tensors[tensor].global();
                for (const Window& w : root.writes[s]) t.parts.tensors[tensor].write += w.bytes;
                if (!argument && slots.insert(tensor).second) t.workspace += sizes[tensor];
                for (const Window& w : root.writes[s]) {
                    if (!argument) break;
                    const Shape at = place(root, w, instance);
                    t.hbm_write += w.picked ? traffic.random_touch(tensor, w.bytes) : traffic.touch(tensor, at, w.shape, w.bytes);
                    traffic.mark_written(tensor);
                }
            }
        }
        t.workspace = std::max(t.workspace, workspace);
    }
}

// Longest chain of tasks over all DeviceTasks, without waiting for cores or dispatch, and longest task.
struct Chain { int64_t cycles = 0, task = 0, device_tasks = 0; };
Chain longest_chain(const Launch& launch) {
    Chain sum{0, 0, int64_t(launch.device.tasks.size())};
    for (const auto& tasks : launch.device.tasks) {
        std::vector<int64_t> start(tasks.size(), 0);
        std::vector<int32_t> open(tasks.size()), ready;
        for (size_t i = 0; i < tasks.size(); ++i)
            if ((open[i] = tasks[i].predecessors) == 0) ready.push_back(int32_t(i));
        int64_t longest = 0, task_cycles = 0;
        for (size_t head = 0; head < ready.size(); ++head) {
            const MachineTask& task = tasks[ready[head]];
            const int64_t cycles = task.leaf < 0 ? 0 : launch.library.leaves[task.leaf].run.cycles, end = start[ready[head]] + cycles;
            longest = std::max(longest, end);
            task_cycles = std::max(task_cycles, cycles);
            for (int32_t s : task.successors) {
                start[s] = std::max(start[s], end);
                if (--open[s] == 0) ready.push_back(s);
            }
        }
        sum.cycles += longest;
        sum.task += task_cycles;
    }
    return sum;
}

std::string bound_of(const Totals& t, int64_t cycles, const Chain& chain) {
    const double span = double(std::max<int64_t>(1, t.span()));
    if (span < MOST_OF_THE_TIME * double(cycles)) return "dispatch";
    double best = 0;
    const char* pipe = "";
    for (int p = 0; p < BUSY_COUNT; ++p) {
        const bool cube = p == MTE1 || p == CUBE || p == FIX || (p == MTE2 && t.aiv_cycles == 0);
        const double share = double(t.busy[p]) / (cube ? AIC_COUNT : AIV_COUNT);
        if (share > best) { best = share; pipe = BUSY_NAMES[p]; }
    }
    if (best >= MOST_OF_THE_TIME * span) return pipe;
    if (double(chain.cycles) >= CHAIN_SHARE * span)      // single tasks: of one DeviceTask, or of many in a row
        return chain.cycles > chain.task ? "dependencies" : chain.device_tasks > 1 ? "dispatch" : "tasks";
    const double cores = std::max(double(t.aic_cycles) / AIC_COUNT, double(t.aiv_cycles) / AIV_COUNT);
    return cores >= MOST_OF_THE_TIME * span ? "tasks" : "dispatch";
}

template <class Map> std::string object(const Map& values) {
    Json j;
    for (const auto& [key, value] : values) j.integer(key, value);
    return j.text();
}

std::vector<std::string> unmodelled_text(const Launch& launch) {
    std::vector<std::string> out;
    for (const std::string& name : launch.unmodelled)
        out.push_back(name + " is absent from the public 0.2.0 package; one tile operation of the default latency is used");
    for (const std::string& name : launch.library.default_pipe)
        out.push_back(name + " has no pipe in the public 0.2.0 simulator; the vector pipe and the default latency are used");
    return out;
}

std::string estimate(const Program& program, const std::vector<IntData>& data, const std::vector<Assumed>& assume,
                     int64_t timeline_tasks) {
    const Launch launch = run_launch(program, data, assume, false);
    Totals t;
    add_tasks(launch, t);
    add_leaves(launch.library, t);
    add_traffic(program, launch, t);
    const Chain chain = longest_chain(launch);
    std::set<std::string> assumptions = launch.assumptions;
    assumptions.insert("the chip of the public simulator: 24 AIC and 48 AIV at 1.8 GHz whatever the device, no bandwidth limit shared by the cores");
    assumptions.insert("arguments start in HBM; what is read again comes from L2, which does not change the time");
    if (launch.flow.tails) assumptions.insert("tail tiles (valid shape below the tile) cost as full tiles");

    Json tasks, peaks, pipes, lengths, detail, out;
    tasks.integer("AIC", t.aic).integer("AIV", t.aiv);
    for (Mem m : {Mem::UB, Mem::L1, Mem::L0A, Mem::L0B, Mem::L0C, Mem::BT}) peaks.integer(std::string(mem_name(m)), t.peak[int(m)]);
    peaks.integer("FB", t.peak[int(Mem::FIX)]);
    for (int p = 0; p < BUSY_COUNT; ++p) pipes.integer(BUSY_NAMES[p], t.busy[p]);
    for (const auto& [core, table] : t.lengths) lengths.raw(core, object(table));
    Json bounds;
    bounds.number("core_us", double(t.span()) / CYCLES_PER_US).number("critical_us", double(chain.cycles) / CYCLES_PER_US);
    bounds.number("launch_us", double(launch.run.cycles - t.span()) / CYCLES_PER_US);
    detail.raw("ops", object(t.ops)).raw("op_cycles", object(t.op_cycles)).raw("task_lengths", lengths.text());
    detail.integer("edges", t.edges).integer("hub_tasks", t.hubs).integer("cores_used", int64_t(t.cores.size()));
    detail.integer("leaf_executed", std::count_if(t.executions.begin(), t.executions.end(), [](int64_t n) { return n > 0; }));
    detail.integer("aic_busy_cycles", t.aic_cycles).integer("aiv_busy_cycles", t.aiv_cycles).raw("bounds", bounds.text());

    out.number("time_us", double(launch.run.cycles) / CYCLES_PER_US).integer("cycles", launch.run.cycles);
    out.integer("core_span_cycles", t.span()).integer("launches", 1).integer("device_tasks", int64_t(launch.device.tasks.size()));
    out.integer("root_functions", int64_t(launch.roots.size())).integer("leaf_functions", int64_t(launch.library.leaves.size()));
    out.raw("tasks", tasks.text()).integer("gm_read_bytes", t.gm_read).integer("gm_write_bytes", t.gm_write);
    out.integer("hbm_read_bytes", t.hbm_read).integer("hbm_write_bytes", t.hbm_write);
    out.integer("l2_hit_bytes", std::max<int64_t>(0, t.gm_read - t.hbm_read)).integer("spill_bytes", t.spill);
    out.integer("workspace_bytes", t.workspace).raw("peak_bytes", peaks.text()).raw("pipe_busy_cycles", pipes.text());
    out.string("bound_by", bound_of(t, launch.run.cycles, chain)).strings("unmodelled", unmodelled_text(launch));
    out.strings("assumptions", {assumptions.begin(), assumptions.end()}).strings("device_keys", {});
    t.parts.idle = idle_of(launch);
    t.parts.capacity = capacity_of();
    out.raw("breakdown", breakdown_json(program, t.parts));
    out.integer("instances", int64_t(launch.flow.instances.size())).raw("detail", detail.text());
    if (timeline_tasks > 0) out.raw("timeline", timeline_of(launch, timeline_tasks).json());
    return out.text();
}

}  // namespace

EstimateReport official_estimate(const Program& program, const std::vector<IntData>& data, const std::vector<Assumed>& assume,
                                 int64_t timeline_tasks) {
    return report_of([&] { return estimate(program, data, assume, timeline_tasks); });
}

}  // namespace npu::lowering
