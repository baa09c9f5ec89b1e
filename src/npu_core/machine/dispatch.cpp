// The AICPU machine of the public 0.2.0 simulator: 6 AICPUs, each owning 4 AIC and 8 AIV, polling and dispatching in steps.
#include <algorithm>
#include <deque>
#include <queue>

#include "npu_core/machine/machine.h"

namespace npu::machine {

namespace {

constexpr int AICPUS = 6, AIC_EACH = 4, AIV_EACH = 8, CORES_EACH = AIC_EACH + AIV_EACH;
constexpr int64_t START = 542, POLL = 240, RESOLVE = 390, DISPATCH = 200;

struct Core {
    int32_t task = -1;
    bool running = false, done = false, seen = false;   // seen: finished in an earlier step
    int64_t arrives = 0, start = 0, end = 0;
    std::vector<int64_t> wake;                           // events of a first execution, descending
};

struct Aicpu {
    int64_t pe = 0, de = 0;
    bool polled = false, dispatched = false, reset_next = false;
    std::deque<std::pair<int32_t, int64_t>> local;      // task, delay
    int64_t clock = 0;
    Core cores[CORES_EACH];
};

}  // namespace

Run dispatch_official(const std::vector<DeviceTask>& work, const std::vector<LeafTiming>& leaves) {
    Run run;
    std::vector<Aicpu> cpus(AICPUS);
    std::deque<int32_t> ready[3], incoming[3];           // AIV, AIC, HUB
    auto kind = [](const Task& t) { return t.core == cost::Core::AIC ? 1 : t.leaf < 0 || t.core == cost::Core::HUB ? 2 : 0; };
    size_t next_device_task = 0;
    std::vector<Task> tasks;
    int64_t alive = 0, now = START, previous = START;
    std::vector<char> executed(leaves.size(), 0);
    std::vector<char> used(AICPUS * CORES_EACH, 0);
    int64_t first_start = -1, last_end = 0;
    for (Aicpu& a : cpus) a.de = a.pe = 0;

    while (true) {
        // Device.
        for (Aicpu& a : cpus) {
            if (a.local.empty()) continue;
            a.clock += now - previous;
            if (a.clock >= a.local.front().second) {
                const int32_t t = a.local.front().first;
                a.local.pop_front();
                incoming[kind(tasks[t])].push_back(t);
                if (a.local.empty()) a.clock = 0;
            }
        }
        if (alive == 0) {
            if (next_device_task == work.size()) break;
            tasks = work[next_device_task++];
            alive = static_cast<int64_t>(tasks.size());
            for (size_t t = 0; t < tasks.size(); ++t)
                if (tasks[t].predecessors == 0) incoming[kind(tasks[t])].push_back(static_cast<int32_t>(t));
        }
        int64_t wake = INT64_MAX;
        for (int id = 0; id < AICPUS; ++id) {
            Aicpu& a = cpus[id];
            auto resolve = [&](const Task& t, int64_t& acc) {
                for (int32_t s : t.successors) {
                    if (tasks[s].predecessors <= 0) continue;
                    acc += RESOLVE;
                    if (--tasks[s].predecessors == 0) {
                        if (a.local.empty()) a.clock = 0;
                        a.local.emplace_back(s, acc);
                    }
                }
            };
            if (alive > 0) {
                if (a.reset_next) a.polled = a.dispatched = a.reset_next = false;
                if (!a.polled && now >= a.de && now > a.pe) {
                    int64_t acc = 0;
                    for (Core& c : a.cores) {
                        acc += POLL;
                        if (c.task >= 0 && c.seen) {
                            resolve(tasks[c.task], acc);
                            c = Core{};
                            --alive;
                        }
                    }
                    a.pe = now + acc;
                    a.polled = true;
                }
                bool idle = false;
                for (Core& c : a.cores) idle = idle || c.task < 0;
                if (!a.dispatched && now >= a.pe && now > a.de && idle) {
                    int64_t acc = 0;
                    while (!ready[2].empty()) {
                        const int32_t t = ready[2].front();
                        ready[2].pop_front();
                        resolve(tasks[t], acc);
                        --alive;
                    }
                    int64_t n = 0;
                    for (int i = 0; i < CORES_EACH; ++i) {
                        Core& c = a.cores[i];
                        std::deque<int32_t>& q = ready[i < AIC_EACH ? 1 : 0];
                        if (c.task >= 0 || q.empty()) continue;
                        c.task = q.front();
                        q.pop_front();
                        c.arrives = now + DISPATCH * ++n;
                        used[id * CORES_EACH + i] = 1;
                    }
                    a.de = now + DISPATCH * n;
                    a.dispatched = true;
                    if (n == 0) wake = std::min(wake, now + 1);
                }
                if (now >= a.de) a.reset_next = true;
                if (a.pe > now) wake = std::min(wake, a.pe);
                if (a.de > now) wake = std::min(wake, a.de);
                if (a.pe <= now && !a.polled) wake = std::min(wake, now + 1);
                if (a.polled && a.pe <= now && a.de <= now) wake = std::min(wake, now + 1);
            }
            for (Core& c : a.cores) {
                if (c.task < 0) continue;
                if (c.done) { c.seen = true; continue; }
                if (!c.running && now >= c.arrives) {
                    c.running = true;
                    c.start = now + 1;
                    const int32_t leaf = tasks[c.task].leaf;
                    c.end = c.start + leaves[leaf].cycles;
                    if (!executed[leaf]) {
                        c.wake = leaves[leaf].events;
                        for (int64_t& e : c.wake) e += now;
                        std::reverse(c.wake.begin(), c.wake.end());
                    }
                    if (first_start < 0) first_start = c.start;
                }
                if (!c.running) { wake = std::min(wake, c.arrives); continue; }
                if (now >= c.end) {
                    c.done = true;
                    executed[tasks[c.task].leaf] = 1;
                    last_end = std::max(last_end, c.end);
                    wake = std::min(wake, now + 1);
                    (tasks[c.task].core == cost::Core::AIC ? run.aic_busy : run.aiv_busy) += leaves[tasks[c.task].leaf].cycles;
                    continue;
                }
                while (!c.wake.empty() && c.wake.back() <= now) c.wake.pop_back();
                wake = std::min(wake, c.wake.empty() ? c.end : std::min(c.wake.back(), c.end));
            }
        }
        for (int k = 0; k < 3; ++k)
            while (!incoming[k].empty()) {
                ready[k].push_back(incoming[k].front());
                incoming[k].pop_front();
            }
        if (alive == 0 && next_device_task == work.size()) break;
        if (alive == 0) wake = std::min(wake, now + 1);
        previous = now;
        if (wake == INT64_MAX) wake = now + 1;
        now = wake;
    }
    run.cycles = now;
    run.span = first_start < 0 ? 0 : last_end - first_start;
    run.cores_used = static_cast<int>(std::count(used.begin(), used.end(), 1));
    return run;
}

}  // namespace npu::machine
