// Tasks over cores under the AICPU. The tasks of a DeviceTask are served in one order, by the earliest start that the
// graph and the nominal latencies allow: a task goes to the core of its type, and to the scheduler thread, that is free
// first. The order does not depend on the device's rates, so that a faster part never delays the whole.
#include <algorithm>

#include "npu_core/machine/order.h"

namespace npu::machine {

namespace {

int64_t whole(double cycles) { return static_cast<int64_t>(cycles + 0.5); }

struct Slot {
    int64_t free;           // at this time
    int32_t id;             // core or thread
    bool operator<(const Slot& o) const { return free != o.free ? free < o.free : id < o.id; }
};

// Cores or threads, the one that is free first on top: a heap.
class Slots {
public:
    void add(int32_t id) { heap_.push_back({0, id}); }       // in ascending order
    const Slot& top() const { return heap_[0]; }
    void busy_until(int64_t time) {                           // the one on top
        const Slot slot{time, heap_[0].id};
        size_t hole = 0;
        for (size_t child = 1; child < heap_.size(); child = 2 * hole + 1) {
            if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
            if (!(heap_[child] < slot)) break;
            heap_[hole] = heap_[child];
            hole = child;
        }
        heap_[hole] = slot;
    }
    const std::vector<Slot>& all() const { return heap_; }

private:
    std::vector<Slot> heap_;
};

}  // namespace

DeviceRun schedule_cores(const DeviceTask& tasks, const Order& order, const std::vector<int64_t>& taken,
                         const std::vector<LeafTiming>& leaves, const plan::Chip& chip, const DispatchCost& cost,
                         std::vector<TaskTime>* times) {
    DeviceRun run;
    const int threads = std::max(1, cost.threads);
    const int64_t dispatch = whole(cost.dispatch), pickup = whole(cost.pickup), completion = whole(cost.completion),
                  resolve = whole(cost.resolve);
    run.thread_busy.assign(static_cast<size_t>(threads), 0);
    run.used.assign(static_cast<size_t>(chip.aic + chip.aiv), 0);
    // Cores and threads that a task may go to: all of them, or, in turn, one thread with its range of cores.
    std::vector<Slots> free_cores[2], servers(static_cast<size_t>(cost.in_turn ? threads : 1));
    size_t turn[2] = {0, 0};
    for (int kind = 0; kind < 2; ++kind) {
        const int32_t count = kind == 0 ? chip.aic : chip.aiv, owners = cost.in_turn ? std::min(threads, std::max(1, count)) : 1;
        free_cores[kind].resize(static_cast<size_t>(owners));
        for (int32_t c = 0; c < count; ++c) free_cores[kind][static_cast<size_t>(c * owners / count)].add(c);
    }
    for (int32_t t = 0; t < threads; ++t) servers[cost.in_turn ? static_cast<size_t>(t) : 0].add(t);
    if (times) times->resize(tasks.size());
    std::vector<int64_t> ready_at(tasks.size(), 0), depth(tasks.size(), 0);
    for (int32_t t : order.tasks) {
        const Task& task = tasks[t];
        const int64_t r = ready_at[t];
        int64_t end = r, chain = depth[t];
        if (task.leaf >= 0) {
            const bool cube = task.core == cost::Core::AIC;
            std::vector<Slots>& ranges = free_cores[cube ? 0 : 1];
            size_t& next = turn[cube ? 0 : 1];
            const size_t owner = next;
            if (++next == ranges.size()) next = 0;
            Slots& cores = ranges[owner];
            Slots& thread_of = servers[cost.in_turn ? owner : 0];
            const auto [free, core] = cores.top();
            const auto [served, thread] = thread_of.top();
            const int64_t begin = std::max({r, free, served});
            const int64_t cycles = taken[t];
            int64_t edges = 0;   // a hub is a counter, not a task to be queued
            for (int32_t s : tasks.successors(task)) edges += tasks[s].leaf >= 0;
            const int64_t serve = dispatch + completion + resolve * edges;
            // a thread that waits for a core serves others meanwhile
            thread_of.busy_until(std::max(served, r) + serve);
            run.thread_busy[thread] += serve;
            const int64_t start = begin + dispatch + pickup;
            end = start + cycles;
            run.idle.gap(free, r, start);
            run.idle.bandwidth += cycles - leaves[task.leaf].cycles;
            if (times) (*times)[static_cast<size_t>(t)] = {cube ? core : chip.aic + core, start, end};
            cores.busy_until(end);
            run.used[static_cast<size_t>(cube ? core : chip.aic + core)] = 1;
            (cube ? run.aic_busy : run.aiv_busy) += cycles;
            if (run.first < 0 || start < run.first) run.first = start;
            run.last = std::max(run.last, end);
            end += completion;
            chain += cycles;
            run.longest = std::max(run.longest, cycles);
        }
        run.critical = std::max(run.critical, chain);
        run.cycles = std::max(run.cycles, end);
        // A task's owner queues its successors one by one; all threads share the fan-out of a hub, and the tasks behind
        // the hub in front of a DeviceTask are queued before it is submitted.
        const bool first_hub = task.leaf < 0 && r == 0;
        int64_t delay = 0, count = 0;
        if (task.leaf < 0 && !first_hub)
            for (int64_t& busy : run.thread_busy) busy += resolve * static_cast<int64_t>(task.edges) / threads;
        for (int32_t s : tasks.successors(task)) {
            if (first_hub || tasks[s].leaf < 0) delay = 0;
            else delay = task.leaf >= 0 ? delay + resolve : resolve * (count++ / threads + 1);
            ready_at[s] = std::max(ready_at[s], end + delay);
            depth[s] = std::max(depth[s], chain);
        }
    }
    for (int kind = 0; kind < 2; ++kind)
        for (Slots& cores : free_cores[kind])
            for (const Slot& core : cores.all()) (kind == 0 ? run.no_task_aic : run.no_task_aiv) += run.cycles - core.free;
    return run;
}

Sequence::Sequence(const plan::Chip& chip, const DispatchCost& cost)
    : chip_(chip), stitch_(whole(cost.stitch)), thread_busy_(static_cast<size_t>(std::max(1, cost.threads)), 0),
      used_(static_cast<size_t>(chip.aic + chip.aiv), 0) {}

void Sequence::add(const DeviceRun& one, int64_t times) {
    if (times <= 0) return;
    const int64_t stitches = empty_ ? times - 1 : times, start = next_start();
    empty_ = false;
    if (one.first >= 0) {
        if (first_ < 0) first_ = start + one.first;
        last_ = start + (times - 1) * (one.cycles + stitch_) + one.last;
    }
    run_.cycles = start + times * one.cycles + (times - 1) * stitch_;
    run_.idle.predecessors += times * one.idle.predecessors;
    run_.idle.schedule += times * one.idle.schedule;
    run_.idle.bandwidth += times * one.idle.bandwidth;
    no_task_aic_ += times * one.no_task_aic + stitches * stitch_ * chip_.aic;
    no_task_aiv_ += times * one.no_task_aiv + stitches * stitch_ * chip_.aiv;
    run_.aic_busy += times * one.aic_busy;
    run_.aiv_busy += times * one.aiv_busy;
    run_.critical += times * one.critical;
    run_.longest += times * one.longest;
    for (size_t t = 0; t < thread_busy_.size(); ++t) thread_busy_[t] += times * one.thread_busy[t];
    for (size_t c = 0; c < used_.size(); ++c) used_[c] |= one.used[c];
}

Run Sequence::finish() const {
    Run run = run_;
    run.idle.no_task = (run.aic_busy ? no_task_aic_ : 0) + (run.aiv_busy ? no_task_aiv_ : 0);
    run.span = first_ < 0 ? 0 : last_ - first_;
    run.dispatch_busy = *std::max_element(thread_busy_.begin(), thread_busy_.end());
    run.cores_used = static_cast<int>(std::count(used_.begin(), used_.end(), 1));
    return run;
}

}  // namespace npu::machine
