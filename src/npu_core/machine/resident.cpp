// One program per core: tasks in a fixed order on fixed cores, pipes that run on from task to task. A task keeps its shape:
// it starts when every pipe and memory will be free where it needs them.
#include <algorithm>

#include "npu_core/machine/memory.h"

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

struct CoreState {
    std::array<int64_t, cost::PIPES> free{};
    std::array<int64_t, plan::MEMS> held{}, half{};   // a memory is in use, is more than half full until then
    bool used = false;
    int32_t tasks = 0;
    int64_t end = 0;              // of the latest task
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

Run schedule_resident(const DeviceTask& tasks, const std::vector<LeafTiming>& leaves, const plan::Chip& chip, const Pools& pools,
                      int64_t handover, std::vector<TaskTime>* times) {
    Run run;
    if (times) times->resize(tasks.size());
    const std::vector<Unit> units = place_units(tasks, chip);
    const int32_t per_cluster = std::max(1, chip.aiv / std::max(1, chip.aic));
    // Step of a task: the round of its unit, and after its predecessors. Where work changes sides it is AHEAD steps later:
    // the cores of a cluster work on different units at the same time.
    std::vector<int32_t> open(tasks.size()), step(tasks.size(), 0), queue, core(tasks.size(), -1);
    std::vector<cost::Core> side(tasks.size(), cost::Core::ANY);      // of a hub: of what leads to it
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
    std::vector<int32_t> order = queue, rank(tasks.size(), 0);
    for (size_t i = 0; i < queue.size(); ++i) rank[queue[i]] = static_cast<int32_t>(i);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        if (step[a] != step[b]) return step[a] < step[b];
        const bool hub_a = tasks[a].leaf < 0, hub_b = tasks[b].leaf < 0;
        if (hub_a != hub_b) return hub_a;
        return hub_a ? rank[a] < rank[b] : a < b;
    });

    std::vector<CoreState> cores(static_cast<size_t>(chip.aic + chip.aiv));
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
                if (cores[c].tasks < cores[core[t]].tasks) core[t] = c;
        }
        ++cores[core[t]].tasks;
    }
    std::vector<int64_t> ready(tasks.size(), 0), depth(tasks.size(), 0);
    int64_t first = -1;
    std::vector<int64_t> reads(tasks.size(), 0);
    std::vector<Share> wave;
    Pools alone = pools;
    alone.l2 = alone.hbm_cube = alone.hbm_vector = 1e30;
    constexpr int MTE2 = static_cast<int>(cost::Pipe::MTE2);
    StepServer server(pools, cores.size());
    std::vector<int64_t> may_read;
    auto moved_by = [&](const LeafTiming& leaf, int64_t late, int64_t at) {
        // Slow reads move what follows them: a moment comes later by as much as of the reads lies before it.
        const int64_t reading = std::max<int64_t>(1, leaf.until[MTE2]);
        return late == 0 ? at : at + (at >= reading ? late : late * at / reading);
    };
    auto start_of = [&](int32_t t, const LeafTiming& leaf, int64_t late) {
        const CoreState& c = cores[core[t]];
        int64_t start = ready[t];
        for (int p = 0; p < cost::PIPES; ++p)
            if (leaf.from[p] >= 0) start = std::max(start, c.free[p] - moved_by(leaf, late, leaf.from[p]));
        for (int m = 0; m < plan::MEMS; ++m)
            if (leaf.held_from[m] >= 0) {
                start = std::max(start, c.half[m] - moved_by(leaf, late, leaf.held_from[m]));
                if (leaf.half_from[m] >= 0) start = std::max(start, c.held[m] - moved_by(leaf, late, leaf.half_from[m]));
            }
        return start;
    };
    // When the reads of a task may begin: they wait for their pipe and for room in the memory that they fill, not for
    // the rest of the task.
    auto read_of = [&](int32_t t) {
        const LeafTiming& leaf = leaves[tasks[t].leaf];
        const CoreState& c = cores[core[t]];
        const int64_t from = std::max<int64_t>(0, leaf.from[MTE2]);
        int64_t start = std::max(ready[t], c.free[MTE2] - from);
        for (const plan::Mem mem : {plan::Mem::L1, plan::Mem::UB}) {
            const int m = static_cast<int>(mem);
            if (leaf.held_from[m] < 0) continue;
            start = std::max(start, c.half[m] - leaf.held_from[m]);
            if (leaf.half_from[m] >= 0) start = std::max(start, c.held[m] - leaf.half_from[m]);
        }
        return start + from;
    };
    auto late_alone = [&](int32_t t) { return cycles_with(leaves[tasks[t].leaf], reads[t]) - leaves[tasks[t].leaf].cycles; };
    for (size_t i = 0; i < order.size();) {
        size_t last = i;
        wave.clear();
        for (; last < order.size() && step[order[last]] == step[order[i]]; ++last)
            if (tasks[order[last]].leaf >= 0) wave.push_back({order[last], core[order[last]]});
        const bool together = step[order[i]] == 0;
        share_wave(wave, tasks, leaves, together ? pools : alone, reads);
        may_read.clear();
        for (const Share& one : wave) may_read.push_back(read_of(one.task));
        server.next(wave, may_read, tasks, leaves);
        for (; i < last; ++i) {
            const int32_t t = order[i];
            const Task& task = tasks[t];
            int64_t end = ready[t], chain = depth[t];
            if (task.leaf >= 0) {
                const LeafTiming& leaf = leaves[task.leaf];
                CoreState& c = cores[core[t]];
                int64_t late = late_alone(t);
                const int64_t start = start_of(t, leaf, late);
                if (!together && leaf.read_bytes > 0) {
                    const int64_t there = server.through(core[t], task.core, leaf.read_bytes);
                    late = std::max(late, there + leaf.beside_reads - start - leaf.cycles);
                }
                const int64_t cycles = leaf.cycles + late;
                for (int p = 0; p < cost::PIPES; ++p)
                    if (leaf.from[p] >= 0) c.free[p] = start + leaf.until[p] + late;
                for (int m = 0; m < plan::MEMS; ++m)
                    if (leaf.held_from[m] >= 0) {
                        c.held[m] = std::max(c.held[m], start + leaf.held_until[m] + late);
                        if (leaf.half_from[m] >= 0) c.half[m] = std::max(c.half[m], start + leaf.half_until[m] + late);
                    }
                c.used = true;
                end = start + cycles;
                run.idle.gap(c.end, ready[t], std::max(start, c.end));
                run.idle.bandwidth += late;
                c.end = std::max(c.end, end);
                if (times) (*times)[static_cast<size_t>(t)] = {core[t], start, end};
                chain += cycles;
                (task.core == cost::Core::AIC ? run.aic_busy : run.aiv_busy) += cycles;
                if (first < 0 || start < first) first = start;
            }
            run.cycles = std::max(run.cycles, end);
            run.critical = std::max(run.critical, chain);
            for (int32_t s : tasks.successors(task)) {
                const bool crosses = tasks[s].leaf >= 0 && side[t] != cost::Core::ANY && side[s] != side[t];
                ready[s] = std::max(ready[s], end + (crosses ? handover : 0));
                depth[s] = std::max(depth[s], chain);
            }
        }
    }
    run.span = first < 0 ? 0 : run.cycles - first;
    for (size_t i = 0; i < cores.size(); ++i) {
        run.cores_used += cores[i].used;
        const bool cube = i < static_cast<size_t>(chip.aic);
        if (cube ? run.aic_busy : run.aiv_busy) run.idle.no_task += run.cycles - cores[i].end;
    }
    return run;
}

}  // namespace npu::machine
