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
#include "npu_core/plan/options.h"
#include "npu_core/plan/root.h"
#include "npu_core/plan/timeline.h"
#include "npu_core/plan/traffic.h"
#include "npu_core/plan/walk.h"

namespace npu::plan {

namespace {

using cost::Core;
using machine::DeviceTask;
using machine::Task;

constexpr int64_t MOST_TASKS = int64_t{1} << 25;   // of one launch: about 3 GB
constexpr int64_t STITCH_CALLS = 20000;          // call operations of one DeviceTask (stitch_function_size)
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

struct Totals {
    int64_t instances = 0, aic = 0, aiv = 0, gm_read = 0, gm_write = 0, hbm_read = 0, hbm_write = 0, l2_hit = 0;
    int64_t workspace = 0, workspace_now = 0, slots = 0, edges = 0, hubs = 0, miss_cube = 0, miss_vector = 0;
};

struct Start {
    int32_t device_task, first;                      // place of the instance's first task
    const Root* root;
};

class Planner {
public:
    Planner(const Program& p, const cost::Device& device, int64_t timeline_tasks)
        : p_(p), device_(device), timeline_tasks_(timeline_tasks), resident_(device.get("planner.static", 0) != 0),
          warm_(device.get("planner.warm", 0) != 0 && argument_bytes(p) <= device["capacity.l2"]),
          absorbed_(absorbed_bytes(p, device)),
          chip_(chip_of(device)), crossing_(crossing_locals(p)), leaves_(p, chip_),
          traffic_(tensor_bytes(p), static_cast<int64_t>(device["capacity.l2"])) {}

    void instance(const Instance& i) {
        const Root& root = root_of(i);
        const RunOptions& options = options_of(i.options);
        const bool full = static_cast<int64_t>(in_device_task_) >= options.stitch_max ||
                          calls_now_ + root.calls > STITCH_CALLS;
        if (work_.empty() || (!resident_ && in_device_task_ > 0 && (full || i.submit_before))) {
            work_.emplace_back();
            in_device_task_ = 0;
            calls_now_ = 0;
            totals_.workspace_now = 0;
            units_ = 0;
        }
        sched_mode_ = options.sched_mode;
        ++in_device_task_;
        ++totals_.instances;
        calls_now_ += root.calls;
        DeviceTask& tasks = work_.back();
        const int32_t base = static_cast<int32_t>(tasks.size());
        const int64_t device_task = static_cast<int64_t>(work_.size()) << 40;
        totals_.workspace_now += root.workspace_bytes;
        totals_.workspace = std::max(totals_.workspace, totals_.workspace_now);
        totals_.gm_read += root.gm_read;
        totals_.gm_write += root.gm_write;
        totals_.aic += root.aic_calls;
        totals_.aiv += root.calls - root.aic_calls;
        if (totals_.aic + totals_.aiv > MOST_TASKS)
            throw Fault("usage", "estimate: the launch has more than " + std::to_string(MOST_TASKS) + " tasks; every one is "
                                 "scheduled. Use larger tiles, unroll or merge tasks, or estimate fewer iterations");
        totals_.edges += root.edges;
        totals_.hubs += root.hubs;
        executed_[&root] += 1;
        if (timeline_tasks_) starts_.push_back({static_cast<int32_t>(work_.size()) - 1, base, &root});
        for (const Task& t : root.tasks) {
            tasks.push_back(t);
            for (int32_t& s : tasks.back().successors) s += base;
            if (t.unit >= 0) tasks.back().unit += units_;
        }
        units_ += root.units;
        shift_.assign(root.dyn_sets.size(), Shape{});
        for (size_t s = 0; s < root.dyn_sets.size(); ++s)
            for (Id access : root.dyn_sets[s]) {
                const Shape d = minus(i.offsets[access], root.first_offsets[access]);
                shift_[s] = shift_[s].rank ? plus(shift_[s], d) : d;
            }
        for (size_t t = 0; t < root.tasks.size(); ++t) {
            if (root.reads[t].empty()) continue;
            const int32_t me = base + static_cast<int32_t>(t);
            std::vector<int32_t> waits;
            for (const Access& a : root.reads[t]) {
                const External& e = root.externals[a.external];
                const Shape at = a.dyn == NONE ? a.at : plus(a.at, shift_[a.dyn]);
                const bool written = traffic_.written(e.tensor);
                if (written)
                    traffic_.writers(e.tensor, at, a.shape, [&](int64_t w) {
                        if ((w >> 40) != (device_task >> 40)) return;
                        const int32_t from = static_cast<int32_t>(w & 0xFFFFFFFFFF);
                        if (from >= base) return;
                        waits.push_back(from);
                    });
                int64_t fresh = 0;
                if (e.argument && !written && !warm_)
                    fresh = a.unknown_rows ? traffic_.random_touch(e.tensor, a.bytes)
                                           : traffic_.touch(e.tensor, at, a.shape, a.bytes);
                totals_.hbm_read += fresh;
                tasks[me].miss_bytes += fresh;
                if (a.row_bytes > 0) tasks[me].miss_rows += fresh / a.row_bytes;
                (tasks[me].core == Core::AIC ? totals_.miss_cube : totals_.miss_vector) += fresh;
                tensors_[e.tensor].read += a.bytes;
            }
            std::sort(waits.begin(), waits.end());
            waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
            for (int32_t w : waits) {
                tasks[w].successors.push_back(me);
                ++tasks[me].predecessors;
                ++totals_.edges;
            }
        }
        for (size_t t = 0; t < root.tasks.size(); ++t)
            for (const Access& a : root.writes[t]) {
                const External& e = root.externals[a.external];
                const Shape at = a.dyn == NONE ? a.at : plus(a.at, shift_[a.dyn]);
                tensors_[e.tensor].write += a.bytes;
                traffic_.write(e.tensor, at, a.shape, device_task | (base + static_cast<int64_t>(t)));
                if (e.argument && !warm_) {
                    const int64_t before = std::max<int64_t>(0, totals_.hbm_write - absorbed_);
                    totals_.hbm_write += traffic_.touch(e.tensor, at, a.shape, a.bytes);
                    tasks[base + static_cast<int32_t>(t)].through_bytes += std::max<int64_t>(0, totals_.hbm_write - absorbed_) - before;
                }
                if (!e.argument && slots_.insert(e.tensor).second)
                    totals_.slots += bytes_of(p_.tensors[e.tensor].shape, p_.tensors[e.tensor].dtype);
            }
    }

    const std::unordered_set<Id>& crossing() const { return crossing_; }
    std::string finish(const WalkNotes& notes);
    Timeline timeline(const std::vector<std::vector<machine::TaskTime>>& times, const cost::Calibrated& cost, double launch_us) const;

private:
    const Program& p_;
    const cost::Device& device_;
    const int64_t timeline_tasks_;                   // 0: no timeline
    const bool resident_;             // one program per core instead of tasks under the AICPU
    const bool warm_;                 // the arguments lie in L2 when the launch starts, and stay there
    const int64_t absorbed_;
    const Chip chip_;
    const std::unordered_set<Id> crossing_;
    LeafTable leaves_;
    Traffic traffic_;
    std::map<std::pair<uint64_t, uint64_t>, std::unique_ptr<Root>> roots_;
    const Root* last_root_ = nullptr;
    uint64_t last_key_[2] = {0, 0};
    std::map<Id, RunOptions> options_;
    std::vector<DeviceTask> work_;
    size_t in_device_task_ = 0;
    int32_t units_ = 0;
    int64_t calls_now_ = 0;
    int sched_mode_ = 0;                             // of the kernel
    Totals totals_;
    std::map<const Root*, int64_t> executed_;
    std::set<Id> slots_;
    std::vector<Shape> shift_;
    std::set<std::string> unmodelled_;
    std::map<Id, TensorTraffic> tensors_;
    std::vector<Start> starts_;                      // of the instances, for a timeline

    static double argument_bytes(const Program& p) {
        double sum = 0;
        for (const TensorInfo& t : p.tensors)
            if (t.arg_index >= 0) sum += static_cast<double>(bytes_of(t.shape, t.dtype));
        return sum;
    }
    static std::vector<int64_t> tensor_bytes(const Program& p) {
        std::vector<int64_t> b;
        for (const TensorInfo& t : p.tensors) b.push_back(bytes_of(t.shape, t.dtype));
        return b;
    }
    const RunOptions& options_of(Id id) {
        auto it = options_.find(id);
        if (it == options_.end()) it = options_.emplace(id, id == NONE ? RunOptions{} : parse_options(p_.options[id])).first;
        return it->second;
    }
    const Root& root_of(const Instance& i) {
        if (last_root_ && last_key_[0] == i.key[0] && last_key_[1] == i.key[1]) return *last_root_;
        std::unique_ptr<Root>& slot = roots_[{i.key[0], i.key[1]}];
        if (!slot) {
            slot = std::make_unique<Root>(plan_root(p_, i.visits, i.valids, i.offsets, crossing_, p_.numerics, chip_,
                                                    options_of(i.options).partition, leaves_));
            unmodelled_.insert(slot->unmodelled.begin(), slot->unmodelled.end());
        }
        last_root_ = slot.get();
        last_key_[0] = i.key[0];
        last_key_[1] = i.key[1];
        return *slot;
    }
};

std::string Planner::finish(const WalkNotes& notes) {
    std::vector<machine::LeafTiming> timings;
    const cost::Calibrated calibrated(device_);
    for (const Leaf& leaf : leaves_.leaves()) timings.push_back(machine::run_calibrated(leaf, calibrated, chip_));
    std::vector<int64_t> runs(timings.size(), 0);
    std::set<int32_t> leaves_run;
    for (const auto& [root, times] : executed_)
        for (const Task& t : root->tasks)
            if (t.leaf >= 0) runs[t.leaf] += times;

    std::array<int64_t, cost::PIPES> busy{};
    std::array<int64_t, MEMS> peak{};
    std::map<cost::Code, std::pair<int64_t, int64_t>> ops;
    int64_t spill = 0;
    std::map<std::string, std::map<int64_t, int64_t>> lengths;
    for (size_t l = 0; l < timings.size(); ++l) {
        const Leaf& leaf = leaves_.leaves()[l];
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
    totals_.l2_hit = std::max<int64_t>(0, totals_.gm_read - totals_.hbm_read);

    machine::Run run;
    std::vector<std::vector<machine::TaskTime>> times;
    double time_us = 0, launch_us = 0;
    std::string bound;
    Json bounds;
    {
        const double scale = ghz / SCHEDULER_GHZ;
        machine::DispatchCost dc{device_["pypto_runtime.scheduler_cycles"] * scale, 140 * scale,
                                 device_["pypto_runtime.completion_cycles"] * scale, device_["pypto_runtime.resolve_cycles"] * scale,
                                 device_["pypto_runtime.stitch_latency"] * scale,
                                 static_cast<int>(device_["pypto_runtime.aicpu_machines"]),
                                 (sched_mode_ & 1) != 0, (sched_mode_ & 2) != 0};
        const double gbs_to_bpc = 1 / ghz;       // GB/s over GHz: bytes per cycle
        const bool cube = totals_.aic > 0;       // numbers that only cube work needs are read, and reported, with it
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
        std::vector<std::vector<machine::TaskTime>>* wanted = timeline_tasks_ ? &times : nullptr;
        if (resident_) {
            if (wanted) wanted->resize(work_.size());
            if (!work_.empty())
                run = machine::schedule_resident(work_[0], timings, chip_, pools,
                                                 static_cast<int64_t>(device_.get("latency.cross_core_tile_sync", 220)),
                                                 wanted ? &times[0] : nullptr);
        } else {
            machine::Sequence sequence(chip_, dc);
            for (size_t d = 0; d < work_.size(); ++d) {
                if (wanted) wanted->emplace_back();
                const machine::DeviceRun one = machine::schedule_cores(work_[d], timings, chip_, dc, pools, wanted ? &wanted->back() : nullptr);
                if (wanted)
                    for (machine::TaskTime& t : wanted->back()) { t.start += sequence.next_start(); t.end += sequence.next_start(); }
                sequence.add(one, 1);
            }
            run = sequence.finish();
        }
        launch_us = streams ? device_["vector_stream.launch_us"]
                    : device_.has("launch.kernel_fixed_us") ? device_["launch.kernel_fixed_us"] : device_["latency.launch_fixed_us"];
        // Hand-written kernels: the launch of both core types together, and of cube cores, as measured on such kernels.
        if (resident_ && cube && totals_.aiv > 0) launch_us = device_["stream_model.decode_attention.0"];
        else if (resident_ && cube && device_.has("latency.flash_attn_launch"))
            launch_us = device_["latency.flash_attn_launch"] / (ghz * 1000);
        const double core_us = static_cast<double>(run.cycles) / (ghz * 1000);
        const double absorb = (streams ? device_["vector_stream.l2_absorb_mb"] : device_["stream_model.l2_absorb_mb"]) * 1e6;
        const double l2_write = streams ? device_["vector_stream.absorb_gbs"]
                                : device_.has("chip_bandwidth.l2_write_absorb_gbs") ? device_["chip_bandwidth.l2_write_absorb_gbs"]
                                                                                    : device_["stream_model.l2_write_gbs"];
        const double w = static_cast<double>(totals_.hbm_write);
        const double misses = static_cast<double>(std::max<int64_t>(1, totals_.miss_cube + totals_.miss_vector));
        const double cube_part = static_cast<double>(totals_.miss_cube) / misses;
        // before the first byte comes and after the last one left
        const double ends_us = streams ? (device_["latency.gm_read_latency"] + device_["latency.gm_write_latency"]) / (ghz * 1000) : 0;
        const double hbm_us = static_cast<double>(totals_.hbm_read) * (cube_part / cube_rate + (1 - cube_part) / vector_rate) * 1e-3 +
                              std::min(w, absorb) / l2_write * 1e-3 + std::max(0.0, w - absorb) / write_rate * 1e-3 + ends_us;
        const double l2_us = std::max(static_cast<double>(totals_.gm_read) / l2_read, static_cast<double>(totals_.gm_write) / l2_write) * 1e-3;
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
                const int cores = cube || (pp == cost::Pipe::MTE2 && totals_.aiv == 0) ? chip_.aic : chip_.aiv;
                if (double x = share(pp, cores); x > best) { best = x; pipe = cost::pipe_name(pp); }
            }
            const double cycles = static_cast<double>(run.cycles);
            if (best >= 0.5 * cycles) bound = pipe;
            else if (static_cast<double>(run.dispatch_busy) >= 0.6 * cycles) bound = "dispatch";
            else if (static_cast<double>(run.critical) >= 0.6 * cycles) bound = "dependencies";
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
    tasks.integer("AIC", totals_.aic).integer("AIV", totals_.aiv);
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
    detail.integer("edges", totals_.edges).integer("hub_tasks", totals_.hubs).integer("cores_used", run.cores_used).integer("leaf_executed", static_cast<int64_t>(leaves_run.size()));
    detail.integer("aic_busy_cycles", run.aic_busy).integer("aiv_busy_cycles", run.aiv_busy);
    detail.raw("bounds", bounds.text());
    std::set<std::string> notes_out = notes.assumptions;
    if (chip_.direct_cv && totals_.aic > 0 && totals_.aiv > 0)
        notes_out.insert("cube and vector tasks hand tiles over directly (L0C to UB, UB to L1); that the pair runs in one cluster is assumed");
    if (chip_.direct_cv && totals_.aiv > 0)
        notes_out.insert("vector operations of a task that read each other's results element by element run as one vector function");
    notes_out.insert(warm_ ? "arguments lie in L2 before and after the launch (planner.warm)"
                           : "inputs start in HBM; results that the kernel reads back come from L2");
    if (traffic_.overflows()) notes_out.insert("the data of the launch exceeds L2: the least recently used tiles come from HBM again");
    notes_out.insert("AICPU constants are cycles of a 2 GHz clock; its threads share the fan-out of a hub");

    out.number("time_us", time_us);
    out.integer("cycles", std::llround(time_us * ghz * 1000));
    out.integer("core_span_cycles", run.span).integer("launches", 1).integer("device_tasks", static_cast<int64_t>(work_.size()));
    std::set<uint64_t> functions;                // tails of one function are planned apart and are the same function
    for (const auto& [key, root] : roots_) functions.insert(key.second);
    out.integer("root_functions", static_cast<int64_t>(functions.size())).integer("leaf_functions", static_cast<int64_t>(leaves_.leaves().size()));
    out.raw("tasks", tasks.text()).integer("gm_read_bytes", totals_.gm_read).integer("gm_write_bytes", totals_.gm_write);
    out.integer("hbm_read_bytes", totals_.hbm_read).integer("hbm_write_bytes", totals_.hbm_write).integer("l2_hit_bytes", totals_.l2_hit);
    out.integer("spill_bytes", spill).integer("workspace_bytes", totals_.workspace + totals_.slots);
    out.raw("peak_bytes", peaks.text()).raw("pipe_busy_cycles", pipes.text()).string("bound_by", bound);
    out.strings("unmodelled", {unmodelled_.begin(), unmodelled_.end()}).strings("assumptions", {notes_out.begin(), notes_out.end()});
    out.strings("device_keys", {device_.used().begin(), device_.used().end()});
    Breakdown parts;
    for (size_t l = 0; l < timings.size(); ++l) parts.kinds.push_back(kind_of(leaves_.leaves()[l], timings[l], runs[l]));
    for (const auto& [root, times] : executed_) add_crossings(parts.crossings, root->crossings, times);
    parts.tensors = tensors_;
    parts.idle = run.idle;
    parts.capacity = capacity_of(chip_);
    out.raw("breakdown", breakdown_json(p_, parts));
    out.integer("instances", totals_.instances).raw("detail", detail.text());
    if (timeline_tasks_) out.raw("timeline", timeline(times, calibrated, launch_us).json());
    return out.text();
}

Timeline Planner::timeline(const std::vector<std::vector<machine::TaskTime>>& times, const cost::Calibrated& cost,
                           double launch_us) const {
    Timeline out;
    out.aic = chip_.aic;
    out.aiv = chip_.aiv;
    out.cycles_per_us = device_["cores.freq_ghz"] * 1000;
    out.launch_us = launch_us;
    for (const Leaf& leaf : leaves_.leaves()) out.leaves.push_back(timeline_leaf(leaf, cost, chip_));
    std::map<const Root*, int32_t> root_number;
    int32_t instance = 0;
    for (size_t k = 0; k < starts_.size(); ++k) {
        const auto [d, base, root] = starts_[k];
        const size_t device_task = static_cast<size_t>(d);
        instance = k && starts_[k - 1].device_task == d ? instance + 1 : 0;
        const int32_t number = root_number.try_emplace(root, static_cast<int32_t>(root_number.size())).first->second;
        for (size_t id = 0; id < root->tasks.size(); ++id) {
            const machine::TaskTime& t = times[device_task][static_cast<size_t>(base) + id];
            const int32_t place = static_cast<int32_t>(id), leaf = root->tasks[id].leaf;
            out.tasks.push_back({d, instance, place, number, leaf, leaf < 0 ? -1 : place, t.core, t.start, t.end, -1});
        }
        if (k + 1 < starts_.size() && starts_[k + 1].device_task == d) continue;
        out.link(out.tasks.size() - work_[device_task].size(),
                 [&](size_t i) -> const std::vector<int32_t>& { return work_[device_task][i].successors; });
        if (static_cast<int64_t>(out.tasks.size()) < timeline_tasks_) continue;
        for (size_t rest = device_task + 1; rest < work_.size(); ++rest) out.tasks_left_out += static_cast<int64_t>(work_[rest].size());
        break;
    }
    out.keep_first(timeline_tasks_);
    return out;
}

}  // namespace

EstimateReport plan_and_cost(const Program& program, const std::unordered_map<std::string, double>& values,
                             const std::vector<IntData>& data, const std::vector<Assumed>& assume, int64_t timeline_tasks) {
    return report_of([&] {
        const cost::Device device(values);
        Planner planner(program, device, timeline_tasks);
        WalkNotes notes;
        walk(program, planner.crossing(), data, assume, [&](const Instance& i) { planner.instance(i); }, notes);
        return planner.finish(notes);
    });
}

}  // namespace npu::plan
