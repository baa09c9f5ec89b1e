// Tasks over cores: each ready task goes to the core of its type that is free first; the AICPU thread that owns the core
// pays for dispatch, completion and the successors it resolves.
#include <algorithm>
#include <queue>

#include "npu_core/machine/machine.h"

namespace npu::machine {

Run schedule_cores(const std::vector<DeviceTask>& work, const std::vector<LeafTiming>& leaves, const plan::Chip& chip,
                   const DispatchCost& cost, std::vector<std::vector<TaskTime>>* times) {
    Run run;
    if (times) times->resize(work.size());
    const int threads = std::max(1, cost.threads);
    auto whole = [](double x) { return static_cast<int64_t>(x + 0.5); };
    const int64_t dispatch = whole(cost.dispatch), pickup = whole(cost.pickup), completion = whole(cost.completion),
                  resolve = whole(cost.resolve), stitch = whole(cost.stitch);
    using Slot = std::pair<int64_t, int32_t>;   // free at, core
    using Cores = std::priority_queue<Slot, std::vector<Slot>, std::greater<>>;
    std::vector<int64_t> thread_free(threads, 0), thread_busy(threads, 0);
    int64_t base = 0, first = -1, last = 0, critical = 0;
    std::vector<char> used(static_cast<size_t>(chip.aic + chip.aiv), 0);
    for (size_t d = 0; d < work.size(); ++d) {
        const DeviceTask& tasks = work[d];
        if (d > 0) base += stitch;
        Cores aic, aiv;
        for (int32_t c = 0; c < chip.aic; ++c) aic.emplace(base, c);
        for (int32_t c = 0; c < chip.aiv; ++c) aiv.emplace(base, c);
        std::fill(thread_free.begin(), thread_free.end(), base);
        if (times) (*times)[d].resize(tasks.size());
        std::vector<int32_t> open(tasks.size());
        std::vector<int64_t> ready_at(tasks.size(), base), depth(tasks.size(), 0);
        std::priority_queue<Slot, std::vector<Slot>, std::greater<>> ready;
        for (size_t t = 0; t < tasks.size(); ++t) {
            open[t] = tasks[t].predecessors;
            if (open[t] == 0) ready.emplace(base, static_cast<int32_t>(t));
        }
        int64_t end_of_all = base, longest = 0;
        while (!ready.empty()) {
            const auto [r, t] = ready.top();
            ready.pop();
            const Task& task = tasks[t];
            int64_t end = r, chain = depth[t];
            if (task.leaf >= 0) {
                const bool cube = task.core == cost::Core::AIC;
                Cores& cores = cube ? aic : aiv;
                const auto [free, core] = cores.top();
                cores.pop();
                const int thread = core % threads;
                const int64_t begin = std::max({r, free, thread_free[thread]});
                const int64_t cycles = leaves[task.leaf].cycles;
                int64_t edges = 0;   // a hub is a counter, not a task to be queued
                for (int32_t s : task.successors) edges += tasks[s].leaf >= 0;
                const int64_t serve = dispatch + completion + resolve * edges;
                thread_free[thread] = begin + serve;
                thread_busy[thread] += serve;
                const int64_t start = begin + dispatch + pickup;
                end = start + cycles;
                if (times) (*times)[d][static_cast<size_t>(t)] = {cube ? core : chip.aic + core, start, end};
                cores.emplace(end, core);
                used[static_cast<size_t>(cube ? core : chip.aic + core)] = 1;
                (cube ? run.aic_busy : run.aiv_busy) += cycles;
                if (first < 0 || start < first) first = start;
                last = std::max(last, end);
                end += completion;
                chain += cycles;
            }
            longest = std::max(longest, chain);
            end_of_all = std::max(end_of_all, end);
            // A task's owner queues its successors one by one; all threads share the fan-out of a hub, and the tasks behind
            // the hub in front of a DeviceTask are queued before it is submitted.
            const bool first_hub = task.leaf < 0 && r == base;
            int64_t delay = 0, count = 0;
            if (task.leaf < 0 && !first_hub)
                for (int64_t& busy : thread_busy) busy += resolve * static_cast<int64_t>(task.successors.size()) / threads;
            for (int32_t s : task.successors) {
                if (first_hub || tasks[s].leaf < 0) delay = 0;
                else delay = task.leaf >= 0 ? delay + resolve : resolve * (count++ / threads + 1);
                ready_at[s] = std::max(ready_at[s], end + delay);
                depth[s] = std::max(depth[s], chain);
                if (--open[s] == 0) ready.emplace(ready_at[s], s);
            }
        }
        base = end_of_all;
        critical += longest;
    }
    run.cycles = base;
    run.span = first < 0 ? 0 : last - first;
    run.critical = critical;
    run.dispatch_busy = *std::max_element(thread_busy.begin(), thread_busy.end());
    run.cores_used = static_cast<int>(std::count(used.begin(), used.end(), 1));
    return run;
}

}  // namespace npu::machine
