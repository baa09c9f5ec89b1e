#include "npu_core/machine/placement.h"

#include <algorithm>

namespace npu::machine {

namespace {

constexpr int32_t AHEAD = 2;  // units that one side of a cluster may be ahead of the other

struct Unit {
    bool aic = false, aiv = false;
    int32_t before = -1;      // unit that hands it data
    int32_t after = -1;       // the one unit that it hands data to; -2: several
    int32_t cluster = -1;
    int32_t round = 0;        // place in the cluster's sequence
};

int32_t least(const std::vector<int32_t>& load) {
    return static_cast<int32_t>(std::min_element(load.begin(), load.end()) - load.begin());
}

// Units go to clusters in program order: after the unit that hands them data, else where fewest are.
std::vector<Unit> place_units(const DeviceTask& tasks, const plan::Chip& chip) {
    std::vector<Unit> units;
    for (const Task& t : tasks) {
        if (t.leaf < 0) continue;
        if (static_cast<size_t>(t.unit) >= units.size()) units.resize(static_cast<size_t>(t.unit) + 1);
        (t.core == cost::Core::AIC ? units[t.unit].aic : units[t.unit].aiv) = true;
    }
    for (const Task& t : tasks)
        for (int32_t s : tasks.successors(t))
            if (t.leaf >= 0 && tasks[s].leaf >= 0 && tasks[s].unit != t.unit) {
                units[tasks[s].unit].before = std::max(units[tasks[s].unit].before, t.unit);
                int32_t& after = units[t.unit].after;
                after = after == -1 || after == tasks[s].unit ? tasks[s].unit : -2;
            }
    std::vector<int32_t> clusters(static_cast<size_t>(chip.aic), 0), vectors(static_cast<size_t>(chip.aiv), 0);
    for (size_t u = 0; u < units.size(); ++u) {
        Unit& unit = units[u];
        const Unit* before = unit.before >= 0 && unit.before < static_cast<int32_t>(u) ? &units[unit.before] : nullptr;
        const bool alike = before && (unit.aic || before->after != -2) && before->aic == unit.aic && before->aiv == unit.aiv;
        std::vector<int32_t>& load = unit.aic ? clusters : vectors;    // of a unit without cube work: one vector core
        unit.cluster = alike ? before->cluster : least(load);
        // A chain on both sides of a cluster begins one step late: less of it overlaps with the chain before.
        const int32_t gap = unit.aic && unit.aiv && !alike && load[unit.cluster] > 0;
        unit.round = std::max(load[unit.cluster] + gap, before ? before->round + 1 : 0);
        load[unit.cluster] = unit.round + 1;
    }
    return units;
}

}  // namespace

Placement place_tasks(const DeviceTask& tasks, const plan::Chip& chip) {
    const std::vector<Unit> units = place_units(tasks, chip);
    const int32_t per_cluster = std::max(1, chip.aiv / std::max(1, chip.aic));
    // Step of a task: the round of its unit, and after its predecessors. Where work changes sides it is AHEAD steps later:
    // the cores of a cluster work on different units at the same time.
    Placement placed{{}, std::vector<int32_t>(tasks.size(), 0), std::vector<int32_t>(tasks.size(), -1),
                     std::vector<cost::Core>(tasks.size(), cost::Core::ANY)};
    std::vector<int32_t>&order = placed.order, &step = placed.step, &core = placed.core;
    std::vector<cost::Core>& side = placed.side;
    std::vector<int32_t> open(tasks.size()), queue;
    for (size_t t = 0; t < tasks.size(); ++t) {
        if (tasks[t].leaf >= 0) {
            step[t] = units[tasks[t].unit].round;
            side[t] = tasks[t].core;
        }
        if ((open[t] = tasks[t].predecessors) == 0) queue.push_back(static_cast<int32_t>(t));
    }
    for (size_t head = 0; head < queue.size(); ++head) {
        const int32_t t = queue[head];
        for (int32_t s : tasks.successors(tasks[t])) {
            if (tasks[s].leaf < 0) side[s] = side[t];
            const int32_t apart = tasks[s].leaf >= 0 && side[t] != cost::Core::ANY && side[s] != side[t] ? AHEAD : 1;
            step[s] = std::max(step[s], step[t] + (tasks[t].leaf >= 0 ? apart : tasks[s].leaf >= 0 ? apart - 1 : 0));
            if (--open[s] == 0) queue.push_back(s);
        }
    }
    // Within a step hubs come first: what leads to one has an earlier step.
    order = queue;
    std::vector<int32_t> rank(tasks.size(), 0);
    for (size_t i = 0; i < queue.size(); ++i) rank[queue[i]] = static_cast<int32_t>(i);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        if (step[a] != step[b]) return step[a] < step[b];
        const bool hub_a = tasks[a].leaf < 0, hub_b = tasks[b].leaf < 0;
        if (hub_a != hub_b) return hub_a;
        return hub_a ? rank[a] < rank[b] : a < b;
    });

    std::vector<int32_t> load(static_cast<size_t>(chip.aic + chip.aiv), 0);     // tasks of a core
    for (int32_t t : order) {
        const Task& task = tasks[t];
        if (task.leaf < 0) continue;
        const Unit& unit = units[task.unit];
        if (task.core == cost::Core::AIC) core[t] = unit.cluster;
        else if (!unit.aic) core[t] = chip.aic + unit.cluster;
        else {
            const int32_t first = chip.aic + unit.cluster * per_cluster;
            core[t] = first;
            for (int32_t c = first + 1; c < std::min(first + per_cluster, chip.aic + chip.aiv); ++c)
                if (load[c] < load[core[t]]) core[t] = c;
        }
        ++load[core[t]];
    }
    return placed;
}

}  // namespace npu::machine
