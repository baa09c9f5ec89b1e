// Tasks over cores under the AICPU. The tasks of a DeviceTask are served in one order, by the earliest start that the
// graph and the nominal latencies allow: a task goes to the core of its type, and to the scheduler thread, that is free
// first. The order does not depend on the device's rates, so that a faster part never delays the whole.
#include <algorithm>
#include <queue>
#include <tuple>

#include "npu_core/machine/memory.h"

namespace npu::machine {

namespace {

// Position of every task: by earliest start in nominal cycles, then the longest first, then as listed. Predecessors come
// first. Long tasks first: the end does not hang on which of several small ones happens to be listed last.
std::vector<int32_t> serving_order(const DeviceTask& tasks, const std::vector<LeafTiming>& leaves) {
    std::vector<int32_t> open(tasks.size()), order;
    std::vector<int64_t> at(tasks.size(), 0);
    auto length = [&](int32_t t) { return tasks[t].leaf < 0 ? 0 : std::max<int64_t>(1, leaves[tasks[t].leaf].latency); };
    using Entry = std::tuple<int64_t, int64_t, int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (size_t t = 0; t < tasks.size(); ++t)
        if ((open[t] = tasks[t].predecessors) == 0) ready.emplace(0, -length(static_cast<int32_t>(t)), static_cast<int32_t>(t));
    order.reserve(tasks.size());
    while (!ready.empty()) {
        const auto [start, longest, t] = ready.top();
        ready.pop();
        order.push_back(t);
        const int64_t end = start - longest;
        for (int32_t s : tasks[t].successors) {
            at[s] = std::max(at[s], end);
            if (--open[s] == 0) ready.emplace(at[s], -length(s), s);
        }
    }
    return order;
}

// Reads of the first tasks, as many of a type as it has cores: they start together and share the pools. Later ones are
// spread over time; for them the pools bound the whole launch, not the single task.
std::vector<int64_t> shared_reads(const DeviceTask& tasks, const std::vector<int32_t>& order, const std::vector<LeafTiming>& leaves,
                                  const plan::Chip& chip, const Pools& pools) {
    std::vector<int64_t> cycles(tasks.size(), 0);
    std::vector<Share> wave;
    int32_t left[2] = {chip.aic, chip.aiv};
    for (int32_t t : order) {
        if (tasks[t].leaf < 0) continue;
        int32_t& cores = left[tasks[t].core == cost::Core::AIC ? 0 : 1];
        if (cores > 0) wave.push_back({t, --cores});
    }
    share_wave(wave, tasks, leaves, pools, cycles);
    return cycles;
}

}  // namespace

Run schedule_cores(const std::vector<DeviceTask>& work, const std::vector<LeafTiming>& leaves, const plan::Chip& chip,
                   const DispatchCost& cost, const Pools& pools, std::vector<std::vector<TaskTime>>* times) {
    Run run;
    if (times) times->resize(work.size());
    const int threads = std::max(1, cost.threads);
    auto whole = [](double x) { return static_cast<int64_t>(x + 0.5); };
    const int64_t dispatch = whole(cost.dispatch), pickup = whole(cost.pickup), completion = whole(cost.completion),
                  resolve = whole(cost.resolve), stitch = whole(cost.stitch);
    using Slot = std::pair<int64_t, int32_t>;   // free at, core or thread
    using Slots = std::priority_queue<Slot, std::vector<Slot>, std::greater<>>;
    std::vector<int64_t> thread_busy(threads, 0);
    int64_t base = 0, first = -1, last = 0, critical = 0, no_task_aic = 0, no_task_aiv = 0;
    std::vector<char> used(static_cast<size_t>(chip.aic + chip.aiv), 0);
    for (size_t d = 0; d < work.size(); ++d) {
        const DeviceTask& tasks = work[d];
        if (d > 0) {
            base += stitch;
            no_task_aic += stitch * chip.aic;
            no_task_aiv += stitch * chip.aiv;
        }
        const std::vector<int32_t> order = serving_order(tasks, leaves);
        const std::vector<int64_t> reads = shared_reads(tasks, order, leaves, chip, pools);
        Slots aic, aiv, servers;
        for (int32_t c = 0; c < chip.aic; ++c) aic.emplace(base, c);
        for (int32_t c = 0; c < chip.aiv; ++c) aiv.emplace(base, c);
        if (times) (*times)[d].resize(tasks.size());
        for (int32_t t = 0; t < threads; ++t) servers.emplace(base, t);
        std::vector<int64_t> ready_at(tasks.size(), base), depth(tasks.size(), 0);
        int64_t end_of_all = base, longest = 0;
        for (int32_t t : order) {
            const Task& task = tasks[t];
            const int64_t r = ready_at[t];
            int64_t end = r, chain = depth[t];
            if (task.leaf >= 0) {
                const bool cube = task.core == cost::Core::AIC;
                Slots& cores = cube ? aic : aiv;
                const auto [free, core] = cores.top();
                cores.pop();
                const auto [served, thread] = servers.top();
                servers.pop();
                const int64_t begin = std::max({r, free, served});
                const int64_t cycles = cycles_with(leaves[task.leaf], reads[t]);
                int64_t edges = 0;   // a hub is a counter, not a task to be queued
                for (int32_t s : task.successors) edges += tasks[s].leaf >= 0;
                const int64_t serve = dispatch + completion + resolve * edges;
                // a thread that waits for a core serves others meanwhile
                servers.emplace(std::max(served, r) + serve, thread);
                thread_busy[thread] += serve;
                const int64_t start = begin + dispatch + pickup;
                end = start + cycles;
                run.idle.gap(free, r, start);
                run.idle.bandwidth += cycles - leaves[task.leaf].cycles;
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
            }
        }
        for (Slots* cores : {&aic, &aiv})
            for (; !cores->empty(); cores->pop()) (cores == &aic ? no_task_aic : no_task_aiv) += end_of_all - cores->top().first;
        base = end_of_all;
        critical += longest;
    }
    run.idle.no_task = (run.aic_busy ? no_task_aic : 0) + (run.aiv_busy ? no_task_aiv : 0);
    run.cycles = base;
    run.span = first < 0 ? 0 : last - first;
    run.critical = critical;
    run.dispatch_busy = *std::max_element(thread_busy.begin(), thread_busy.end());
    run.cores_used = static_cast<int>(std::count(used.begin(), used.end(), 1));
    return run;
}

}  // namespace npu::machine
