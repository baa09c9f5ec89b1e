#include "npu_core/machine/order.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace npu::machine {

namespace {

int64_t length_of(const Task& t, const std::vector<LeafTiming>& leaves) {
    return t.leaf < 0 ? 0 : std::max<int64_t>(1, leaves[t.leaf].latency);
}

// Long tasks first: the end does not hang on which of several small ones happens to be listed last.
Order first_in_first_out(const DeviceTask& tasks, const std::vector<LeafTiming>& leaves) {
    Order order{{}, std::vector<int64_t>(tasks.size(), 0)};
    std::vector<int32_t> open(tasks.size());
    using Entry = std::tuple<int64_t, int64_t, int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (size_t t = 0; t < tasks.size(); ++t)
        if ((open[t] = tasks[t].predecessors) == 0) ready.emplace(0, -length_of(tasks[t], leaves), static_cast<int32_t>(t));
    order.tasks.reserve(tasks.size());
    while (!ready.empty()) {
        const auto [start, longest, t] = ready.top();
        ready.pop();
        order.tasks.push_back(t);
        order.start[t] = start;
        const int64_t end = start - longest;
        for (int32_t s : tasks.successors(tasks[t])) {
            order.start[s] = std::max(order.start[s], end);
            if (--open[s] == 0) ready.emplace(order.start[s], -length_of(tasks[s], leaves), s);
        }
    }
    return order;
}

Order last_in_first_out(const DeviceTask& tasks, const std::vector<LeafTiming>& leaves, const plan::Chip& chip) {
    Order order{{}, std::vector<int64_t>(tasks.size(), 0)};
    std::vector<int32_t> open(tasks.size());
    using Entry = std::tuple<int64_t, int64_t, int32_t>;   // readied (negative), length (negative), task
    using Queue = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;
    Queue ready[2], running;                              // running: end, 0, task
    int32_t idle[2] = {chip.aic, chip.aiv};
    auto kind_of = [&](int32_t t) { return tasks[t].core == cost::Core::AIC ? 0 : 1; };
    auto readied = [&](int32_t t, int64_t now) {
        if (tasks[t].leaf >= 0) {
            ready[kind_of(t)].emplace(-now, -length_of(tasks[t], leaves), t);
            return;
        }
        order.tasks.push_back(t);                         // a hub is a counter: it ends at once
        order.start[t] = now;
        running.emplace(now, 0, t);
    };
    for (size_t t = 0; t < tasks.size(); ++t) open[t] = tasks[t].predecessors;
    for (size_t t = 0; t < tasks.size(); ++t)
        if (open[t] == 0) readied(static_cast<int32_t>(t), 0);
    for (int64_t now = 0; ; now = std::get<0>(running.top())) {
        while (!running.empty() && std::get<0>(running.top()) == now) {
            const int32_t t = std::get<2>(running.top());
            running.pop();
            if (tasks[t].leaf >= 0) ++idle[kind_of(t)];
            for (int32_t s : tasks.successors(tasks[t]))
                if (--open[s] == 0) readied(s, now);
        }
        for (int kind = 0; kind < 2; ++kind)
            for (; idle[kind] > 0 && !ready[kind].empty(); --idle[kind]) {
                const int32_t t = std::get<2>(ready[kind].top());
                ready[kind].pop();
                order.tasks.push_back(t);
                order.start[t] = now;
                running.emplace(now + length_of(tasks[t], leaves), 0, t);
            }
        if (running.empty()) return order;
    }
}

}  // namespace

Order serving_order(const DeviceTask& tasks, const std::vector<LeafTiming>& leaves, const plan::Chip& chip, bool last_first) {
    return last_first ? last_in_first_out(tasks, leaves, chip) : first_in_first_out(tasks, leaves);
}

}  // namespace npu::machine
