// One program per core: tasks in a fixed order on fixed cores, pipes that run on from task to task. A task keeps its shape:
// it starts when every pipe and memory will be free where it needs them.
#include <algorithm>

#include "npu_core/machine/memory.h"
#include "npu_core/machine/placement.h"

namespace npu::machine {

namespace {

struct CoreState {
    std::array<int64_t, cost::PIPES> free{};
    std::array<int64_t, plan::MEMS> held{}, half{};   // a memory is in use, is more than half full until then
    bool used = false;
    int64_t end = 0;              // of the latest task
};

}  // namespace

Run schedule_resident(const DeviceTask& tasks, const std::vector<LeafTiming>& leaves, const plan::Chip& chip, const Pools& pools,
                      int64_t handover, std::vector<TaskTime>* times) {
    Run run;
    if (times) times->resize(tasks.size());
    const Placement placed = place_tasks(tasks, chip);
    const std::vector<int32_t>&order = placed.order, &step = placed.step, &core = placed.core;
    const std::vector<cost::Core>& side = placed.side;
    std::vector<CoreState> cores(static_cast<size_t>(chip.aic + chip.aiv));
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
            run.longest = std::max(run.longest, cycles);
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
