#include "npu_core/plan/estimate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <set>

#include "npu_core/base/fault.h"
#include "npu_core/base/json.h"
#include "npu_core/machine/memory.h"
#include "npu_core/machine/order.h"
#include "npu_core/plan/launch.h"
#include "npu_core/plan/walk.h"

namespace npu::plan {

namespace {

using cost::Core;
using machine::Task;

constexpr double SCHEDULER_GHZ = 2.0;            // base of the AICPU cycle constants; not stated by their source

Chip chip_of(const cost::Device& d) {
    Chip c;
    c.skip_repeats = d.get("planner.full", 0) == 0;
    auto set = [&](Mem m, const char* key) { c.capacity[static_cast<int>(m)] = static_cast<int64_t>(d[key]); };
    set(Mem::UB, "capacity.ub");
    set(Mem::L1, "capacity.l1");
    set(Mem::L0A, "capacity.l0a");
    set(Mem::L0B, "capacity.l0b");
    set(Mem::L0C, "capacity.l0c");
    set(Mem::BT, "capacity.bt");
    c.direct_cv = d.get("chip.is_950", 0) != 0;
    c.aic = static_cast<int>(d["cores.aic"]);
    c.aiv = static_cast<int>(d["cores.aiv"]);
    return c;
}

// Bytes of the launch's writes that L2 keeps for itself.
int64_t absorbed_bytes(const Program& p, const cost::Device& d) {
    const bool cube = std::any_of(p.ops.begin(), p.ops.end(), [](const auto& op) {
        const std::string& kernel = op_rows()[op.row].kernel;
        return kernel == "matmul" || kernel == "scaled_matmul" || kernel == "conv";
    });
    return static_cast<int64_t>(d[!cube && d.has("vector_stream.l2_absorb_mb") ? "vector_stream.l2_absorb_mb"
                                                                              : "stream_model.l2_absorb_mb"] * 1e6);
}

LaunchSettings settings_of(const cost::Device& d, const Program& p, bool timeline) {
    const double l2 = d["capacity.l2"];
    return {timeline, d.get("planner.static", 0) != 0, d.get("planner.warm", 0) != 0 && Launch::arguments_fit(p, l2), static_cast<int64_t>(l2),
            absorbed_bytes(p, d)};
}

class Planner {
public:
    Planner(const Program& p, const cost::Device& device, int64_t timeline_tasks)
        : p_(p), device_(device), timeline_tasks_(timeline_tasks), settings_(settings_of(device, p, timeline_tasks > 0)),
          chip_(chip_of(device)), launch_(p, chip_, device, settings_) {}

    Launch& launch() { return launch_; }
    std::string finish(const WalkNotes& notes);

private:
    using Timings = std::vector<machine::LeafTiming>;

    const Program& p_;
    const cost::Device& device_;
    const int64_t timeline_tasks_;                   // 0: no timeline
    const LaunchSettings settings_;
    const Chip chip_;
    Launch launch_;

    machine::Run schedule(const Timings& timings, const machine::DispatchCost& dispatch, const machine::Pools& pools,
                          Timeline* timeline) const;
    struct Like { machine::Order order; std::vector<int64_t> taken; machine::DeviceRun run; };   // the latest of a shape
    using Shapes = std::map<std::vector<int64_t>, Like>;
    machine::DeviceRun scheduled(int32_t device_task, const machine::DeviceTask& tasks, const Timings& timings,
                                 const machine::DispatchCost& dispatch, const machine::Pools& pools, Shapes& shapes,
                                 std::vector<machine::TaskTime>* times) const;
    void add_to(Timeline& timeline, std::map<const Root*, int32_t>& numbers, int32_t device_task, int64_t place,
                const machine::DeviceTask& tasks, const std::vector<machine::TaskTime>& times, int64_t start) const;
};

std::string Planner::finish(const WalkNotes& notes) {
    const std::vector<Leaf>& leaves = launch_.leaves().leaves();
    const Timings& timings = launch_.leaves().timings();
    const Totals& totals = launch_.totals();
    std::vector<int64_t> runs(timings.size(), 0);
    std::set<int32_t> leaves_run;
    for (const Planned* planned : launch_.planned())
        for (const Task& t : planned->root.tasks)
            if (t.leaf >= 0) runs[t.leaf] += planned->executed;

    std::array<int64_t, cost::PIPES> busy{};
    std::array<int64_t, MEMS> peak{};
    std::map<cost::Code, std::pair<int64_t, int64_t>> ops;
    int64_t spill = 0;
    std::map<std::string, std::map<int64_t, int64_t>> lengths;
    for (size_t l = 0; l < timings.size(); ++l) {
        const Leaf& leaf = leaves[l];
        if (runs[l]) leaves_run.insert(static_cast<int32_t>(l));
        for (int p = 0; p < cost::PIPES; ++p) busy[p] += timings[l].busy[p] * runs[l];
        for (int m = 0; m < MEMS; ++m) peak[m] = std::max(peak[m], leaf.peak[m]);
        for (const auto& [code, entry] : timings[l].ops) {
            ops[code].first += entry.first * runs[l];
            ops[code].second += entry.second * runs[l];
        }
        spill += leaf.spill_bytes * runs[l];
        if (runs[l]) lengths[leaf.core == Core::AIC ? "AIC" : "AIV"][timings[l].cycles] += runs[l];
    }

    const double ghz = device_["cores.freq_ghz"];
    const int64_t l2_hit = std::max<int64_t>(0, totals.gm_read - totals.hbm_read);

    machine::Run run;
    Timeline timeline;
    double time_us = 0, launch_us = 0;
    std::string bound;
    Json bounds;
    {
        const double scale = ghz / SCHEDULER_GHZ;
        machine::DispatchCost dc{device_["pypto_runtime.scheduler_cycles"] * scale, 140 * scale,
                                 device_["pypto_runtime.completion_cycles"] * scale, device_["pypto_runtime.resolve_cycles"] * scale,
                                 device_["pypto_runtime.stitch_latency"] * scale,
                                 static_cast<int>(device_["pypto_runtime.aicpu_machines"]),
                                 (launch_.sched_mode() & 1) != 0, (launch_.sched_mode() & 2) != 0};
        const double gbs_to_bpc = 1 / ghz;       // GB/s over GHz: bytes per cycle
        const bool cube = totals.aic > 0;       // numbers that only cube work needs are read, and reported, with it
        // Kernels of vector work alone: one rate for what HBM reads and what L2 writes back to it.
        const bool streams = !cube && device_.has("vector_stream.hbm_gbs");
        const char* efficiency = device_.has("chip_bandwidth.hbm_eff_read") ? "chip_bandwidth.hbm_eff_read" : "chip_bandwidth.hbm_eff_decode";
        const double cube_rate = cube ? device_["chip_bandwidth.hbm_gbs"] * device_.get(efficiency, 0.9) : 1;
        // The measured rate is what the ports of the cube cores draw; the documented one is the pool's.
        const double l2_read = std::max(device_["chip_bandwidth.l2_read_gbs"], device_.get("chip_bandwidth.l2_read_gbs_alt", 0));
        const double vector_rate = streams ? device_["vector_stream.hbm_gbs"] : device_["stream_model.hbm_read_gbs"];
        const double write_rate = streams ? vector_rate : device_["stream_model.hbm_write_gbs"];
        const machine::Pools pools{l2_read * gbs_to_bpc, cube_rate * gbs_to_bpc, vector_rate * gbs_to_bpc,
                                   write_rate * gbs_to_bpc, cube ? device_.get("latency.hbm_row_cycles", 0) : 0};
        run = schedule(timings, dc, pools, timeline_tasks_ ? &timeline : nullptr);
        launch_us = streams ? device_["vector_stream.launch_us"]
                    : device_.has("launch.kernel_fixed_us") ? device_["launch.kernel_fixed_us"] : device_["latency.launch_fixed_us"];
        // Hand-written kernels: the launch of both core types together, and of cube cores, as measured on such kernels.
        if (settings_.resident && cube && totals.aiv > 0) launch_us = device_["stream_model.decode_attention.0"];
        else if (settings_.resident && cube && device_.has("latency.flash_attn_launch"))
            launch_us = device_["latency.flash_attn_launch"] / (ghz * 1000);
        const double core_us = static_cast<double>(run.cycles) / (ghz * 1000);
        const double absorb = (streams ? device_["vector_stream.l2_absorb_mb"] : device_["stream_model.l2_absorb_mb"]) * 1e6;
        const double l2_write = streams ? device_["vector_stream.absorb_gbs"]
                                : device_.has("chip_bandwidth.l2_write_absorb_gbs") ? device_["chip_bandwidth.l2_write_absorb_gbs"]
                                                                                    : device_["stream_model.l2_write_gbs"];
        const double w = static_cast<double>(totals.hbm_write);
        const double misses = static_cast<double>(std::max<int64_t>(1, totals.miss_cube + totals.miss_vector));
        const double cube_part = static_cast<double>(totals.miss_cube) / misses;
        // before the first byte comes and after the last one left
        const double ends_us = streams ? (device_["latency.gm_read_latency"] + device_["latency.gm_write_latency"]) / (ghz * 1000) : 0;
        const double hbm_us = static_cast<double>(totals.hbm_read) * (cube_part / cube_rate + (1 - cube_part) / vector_rate) * 1e-3 +
                              std::min(w, absorb) / l2_write * 1e-3 + std::max(0.0, w - absorb) / write_rate * 1e-3 + ends_us;
        const double l2_us = std::max(static_cast<double>(totals.gm_read) / l2_read, static_cast<double>(totals.gm_write) / l2_write) * 1e-3;
        time_us = launch_us + std::max({core_us, hbm_us, l2_us});
        auto share = [&](const cost::Pipe p, int cores) { return static_cast<double>(busy[static_cast<int>(p)]) / cores; };
        if (launch_us > std::max({core_us, hbm_us, l2_us})) bound = "launch";
        else if (std::max(hbm_us, l2_us) >= core_us || 2 * run.idle.bandwidth >= run.aic_busy + run.aiv_busy)
            bound = hbm_us >= l2_us ? "HBM" : "L2";      // longer than the cores, or most of their time is waiting for it
        else {
            double best = 0;
            std::string pipe = "VEC";
            for (int p = 0; p < cost::PIPES; ++p) {
                const auto pp = static_cast<cost::Pipe>(p);
                const bool cube = pp == cost::Pipe::CUBE || pp == cost::Pipe::MTE1 || pp == cost::Pipe::FIX;
                const int cores = cube || (pp == cost::Pipe::MTE2 && totals.aiv == 0) ? chip_.aic : chip_.aiv;
                if (double x = share(pp, cores); x > best) { best = x; pipe = cost::pipe_name(pp); }
            }
            const double cycles = static_cast<double>(run.cycles);
            if (best >= 0.5 * cycles) bound = pipe;
            else if (static_cast<double>(std::max(run.dispatch_busy, run.critical)) >= 0.6 * cycles)
                bound = run.dispatch_busy > run.critical ? "dispatch" : run.critical > run.longest   ? "dependencies"
                                                              : launch_.device_tasks() > 1 ? "dispatch"
                                                                                           : "tasks";
            else {
                const double cores = std::max(static_cast<double>(run.aic_busy) / chip_.aic, static_cast<double>(run.aiv_busy) / chip_.aiv);
                bound = cores >= 0.5 * cycles ? "tasks" : "dispatch";   // cores busy on no one pipe, or idle without a chain
            }
        }
        bounds.number("core_us", core_us).number("hbm_us", hbm_us).number("l2_us", l2_us).number("launch_us", launch_us);
        bounds.number("critical_us", static_cast<double>(run.critical) / (ghz * 1000));
        bounds.number("dispatch_us", static_cast<double>(run.dispatch_busy) / (ghz * 1000));
    }

    Json tasks, peaks, pipes, op_counts, op_cycles, task_lengths, detail, out;
    tasks.integer("AIC", totals.aic).integer("AIV", totals.aiv);
    for (Mem m : {Mem::UB, Mem::L1, Mem::L0A, Mem::L0B, Mem::L0C, Mem::BT, Mem::FB}) peaks.integer(mem_name(m), peak[static_cast<int>(m)]);
    for (cost::Pipe p : {cost::Pipe::MTE2, cost::Pipe::MTE1, cost::Pipe::CUBE, cost::Pipe::FIX, cost::Pipe::VEC, cost::Pipe::MTE3, cost::Pipe::S})
        pipes.integer(cost::pipe_name(p), busy[static_cast<int>(p)]);
    for (const auto& [code, entry] : ops) {
        op_counts.integer(cost::info(code).name, entry.first);
        op_cycles.integer(cost::info(code).name, entry.second);
    }
    for (const auto& [core, table] : lengths) {
        Json j;
        for (const auto& [cycles, count] : table) j.integer(std::to_string(cycles), count);
        task_lengths.raw(core, j.text());
    }
    detail.raw("ops", op_counts.text()).raw("op_cycles", op_cycles.text()).raw("task_lengths", task_lengths.text());
    detail.integer("edges", totals.edges).integer("hub_tasks", totals.hubs).integer("cores_used", run.cores_used).integer("leaf_executed", static_cast<int64_t>(leaves_run.size()));
    detail.integer("aic_busy_cycles", run.aic_busy).integer("aiv_busy_cycles", run.aiv_busy);
    detail.raw("bounds", bounds.text());
    std::set<std::string> notes_out = notes.assumptions;
    if (chip_.direct_cv && totals.aic > 0 && totals.aiv > 0)
        notes_out.insert("cube and vector tasks hand tiles over directly (L0C to UB, UB to L1); that the pair runs in one cluster is assumed");
    if (chip_.direct_cv && totals.aiv > 0)
        notes_out.insert("vector operations of a task that read each other's results element by element run as one vector function");
    notes_out.insert(settings_.warm ? "arguments lie in L2 before and after the launch (planner.warm)"
                           : "inputs start in HBM; results that the kernel reads back come from L2");
    if (launch_.overflows()) notes_out.insert("the data of the launch exceeds L2: the least recently used tiles come from HBM again");
    if (const int mode = settings_.resident ? 0 : launch_.sched_mode())
        notes_out.insert("device_sched_mode " + std::to_string(mode) + ": " +
                         (mode & 1 ? "of the ready tasks the one readied last goes first" : "tasks go in the order in which they are ready") +
                         (mode & 2 ? ", to the AICPU threads in turn, each with cores of its own" : ""));
    notes_out.insert("AICPU constants are cycles of a 2 GHz clock; its threads share the fan-out of a hub");

    out.number("time_us", time_us);
    out.integer("cycles", std::llround(time_us * ghz * 1000));
    out.integer("core_span_cycles", run.span).integer("launches", 1).integer("device_tasks", launch_.device_tasks());
    out.integer("root_functions", launch_.root_functions()).integer("leaf_functions", static_cast<int64_t>(leaves.size()));
    out.raw("tasks", tasks.text()).integer("gm_read_bytes", totals.gm_read).integer("gm_write_bytes", totals.gm_write);
    out.integer("hbm_read_bytes", totals.hbm_read).integer("hbm_write_bytes", totals.hbm_write).integer("l2_hit_bytes", l2_hit);
    out.integer("spill_bytes", spill).integer("workspace_bytes", totals.workspace + totals.slots);
    out.raw("peak_bytes", peaks.text()).raw("pipe_busy_cycles", pipes.text()).string("bound_by", bound);
    out.strings("unmodelled", {launch_.unmodelled().begin(), launch_.unmodelled().end()}).strings("assumptions", {notes_out.begin(), notes_out.end()});
    out.strings("device_keys", {device_.used().begin(), device_.used().end()});
    Breakdown parts;
    for (size_t l = 0; l < timings.size(); ++l) parts.kinds.push_back(kind_of(leaves[l], timings[l], runs[l]));
    for (const Planned* planned : launch_.planned()) {
        add_crossings(parts.crossings, planned->root.crossings, planned->executed);
        for (const auto& [tensor, one] : planned->tensors) {
            parts.tensors[tensor].read += one.read * planned->executed;
            parts.tensors[tensor].write += one.write * planned->executed;
        }
    }
    parts.idle = run.idle;
    parts.capacity = capacity_of(chip_);
    out.raw("breakdown", breakdown_json(p_, parts));
    out.integer("instances", totals.instances).raw("detail", detail.text());
    if (timeline_tasks_) {
        timeline.launch_us = launch_us;
        timeline.leaves = launch_.leaves().timelines();
        timeline.keep_first(timeline_tasks_);
        out.raw("timeline", timeline.json());
    }
    return out.text();
}

machine::Run Planner::schedule(const Timings& timings, const machine::DispatchCost& dispatch, const machine::Pools& pools,
                               Timeline* timeline) const {
    if (timeline) {
        timeline->aic = chip_.aic;
        timeline->aiv = chip_.aiv;
        timeline->cycles_per_us = device_["cores.freq_ghz"] * 1000;
    }
    std::map<const Root*, int32_t> numbers;
    std::vector<machine::TaskTime> times;
    const int64_t handover = settings_.resident ? static_cast<int64_t>(device_.get("latency.cross_core_tile_sync", 220)) : 0;
    machine::Run resident;
    machine::Sequence sequence(chip_, dispatch);
    Patience patience;
    Shapes shapes;
    std::vector<machine::DeviceRun> known(launch_.kinds());
    std::vector<char> done(launch_.kinds(), 0);
    int64_t place = 0;
    for (const Stretch& stretch : launch_.sequence()) {
        int64_t left = stretch.times;
        while (left > 0) {
            const bool shown = timeline && static_cast<int64_t>(timeline->tasks.size()) < timeline_tasks_;
            const int64_t start = sequence.next_start(), take = shown ? 1 : left;
            const int32_t kind = stretch.device_task;
            if (shown || !done[kind]) {
                patience.check();
                const machine::DeviceTask tasks = launch_.tasks_of(kind);
                times.clear();
                if (settings_.resident) resident = machine::schedule_resident(tasks, timings, chip_, pools, handover, shown ? &times : nullptr);
                else known[kind] = scheduled(kind, tasks, timings, dispatch, pools, shapes, shown ? &times : nullptr);
                done[kind] = 1;
                if (shown) add_to(*timeline, numbers, kind, place, tasks, times, start);
            }
            if (timeline && !shown) timeline->tasks_left_out += take * launch_.task_count(kind);
            if (!settings_.resident) sequence.add(known[kind], take);
            place += take;
            left -= take;
        }
    }
    return settings_.resident ? resident : sequence.finish();
}

// DeviceTasks that differ in what misses L2 only are served in one order, and run alike where no task takes longer for it.
machine::DeviceRun Planner::scheduled(int32_t device_task, const machine::DeviceTask& tasks, const Timings& timings,
                                      const machine::DispatchCost& dispatch, const machine::Pools& pools, Shapes& shapes,
                                      std::vector<machine::TaskTime>* times) const {
    std::vector<int64_t> key;
    if (chip_.skip_repeats)
        for (const Piece& p : launch_.pieces(device_task)) {
            key.push_back(launch_.record(p.record).shape);
            key.push_back(p.times);
        }
    const auto [it, added] = shapes.try_emplace(std::move(key));
    Like& like = it->second;
    if (added || !chip_.skip_repeats) like = {machine::serving_order(tasks, timings, chip_, dispatch.last_first), {}, {}};
    std::vector<int64_t> taken = machine::shared_cycles(tasks, like.order, timings, chip_, pools);
    if (taken == like.taken && !times) return like.run;
    like.taken = std::move(taken);
    return like.run = machine::schedule_cores(tasks, like.order, like.taken, timings, chip_, dispatch, times);
}

// The tasks of a DeviceTask that starts at `start`.
void Planner::add_to(Timeline& timeline, std::map<const Root*, int32_t>& numbers, int32_t device_task, int64_t place,
                     const machine::DeviceTask& tasks, const std::vector<machine::TaskTime>& times, int64_t start) const {
    const size_t begin = timeline.tasks.size();
    int32_t instance = 0;
    for (const Piece& piece : launch_.pieces(device_task)) {
        const Root& root = launch_.record(piece.record).planned->root;
        const int32_t number = numbers.try_emplace(&root, static_cast<int32_t>(numbers.size())).first->second;
        for (int64_t k = 0; k < piece.times; ++k, ++instance)
            for (size_t id = 0; id < root.tasks.size(); ++id) {
                const machine::TaskTime& t = times[timeline.tasks.size() - begin];
                const int32_t at = static_cast<int32_t>(id), leaf = root.tasks[id].leaf;
                timeline.tasks.push_back({static_cast<int32_t>(place), instance, at, number, leaf, leaf < 0 ? -1 : at, t.core,
                                          t.start + start, t.end + start, -1});
            }
    }
    timeline.link(begin, [&](size_t i) { return tasks.successors(tasks[i]); });
}

}  // namespace

EstimateReport plan_and_cost(const Program& program, const std::unordered_map<std::string, double>& values,
                             const std::vector<IntData>& data, const std::vector<Assumed>& assume, int64_t timeline_tasks) {
    return report_of([&] {
        const cost::Device device(values);
        Planner planner(program, device, timeline_tasks);
        WalkNotes notes;
        Launch& launch = planner.launch();
        walk(program, launch.crossing(), data, assume, [&](const Instance& i) { return launch.instance(i); }, notes);
        launch.end();
        return planner.finish(notes);
    });
}

}  // namespace npu::plan
