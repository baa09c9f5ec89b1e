#include "npu_core/machine/memory.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace npu::machine {

void share_wave(const std::vector<Share>& wave, const DeviceTask& tasks, const std::vector<LeafTiming>& leaves, const Pools& pools,
                std::vector<int64_t>& read_cycles) {
    struct Sum { int64_t read = 0, miss = 0, rows = 0; int32_t cores = 0; };
    Sum all[2];
    std::unordered_map<int32_t, int64_t> of_core[2];
    for (const Share& s : wave) {
        const Task& t = tasks[s.task];
        if (t.leaf < 0) continue;
        const int kind = t.core == cost::Core::AIC ? 0 : 1;
        all[kind].read += leaves[t.leaf].read_bytes;
        all[kind].miss += t.miss_bytes;
        all[kind].rows += t.miss_rows;
        of_core[kind][s.core] += leaves[t.leaf].read_bytes;
    }
    for (int k = 0; k < 2; ++k) all[k].cores = static_cast<int32_t>(of_core[k].size());
    auto whole = [](double x) { return static_cast<int64_t>(std::ceil(x)); };
    for (const Share& s : wave) {
        const Task& t = tasks[s.task];
        if (t.leaf < 0) continue;
        const int kind = t.core == cost::Core::AIC ? 0 : 1;
        const double own = static_cast<double>(leaves[t.leaf].read_bytes), core = static_cast<double>(of_core[kind][s.core]);
        if (core <= 0) continue;
        const Sum& w = all[kind];
        const double part = own / core, cores = w.cores;
        const double l2 = std::min(core * cores, static_cast<double>(w.read)) / pools.l2;
        const double pool = static_cast<double>(w.miss) / (kind == 0 ? pools.hbm_cube : pools.hbm_vector);
        const double missed = std::min(1.0, static_cast<double>(w.miss) / static_cast<double>(w.read));
        const double port = static_cast<double>(leaves[t.leaf].busy[static_cast<int>(cost::Pipe::MTE2)]);
        // rows of its own, or as many as the others of the wave have on average: they share tiles
        const double cold = std::max(static_cast<double>(t.miss_rows), std::ceil(part * static_cast<double>(w.rows) / cores));
        const double rows = kind == 0 ? cold * pools.row_cycles : 0;
        const double hbm = std::max(part * pool + port * (1 - missed), port + rows);
        read_cycles[s.task] = whole(std::max(part * l2, hbm));
    }
}

void StepServer::next(const std::vector<Share>& wave, const std::vector<int64_t>& may_read, const DeviceTask& tasks,
                      const std::vector<LeafTiming>& leaves) {
    int64_t first[2] = {-1, -1};
    double hbm[2] = {0, 0}, l2[2] = {0, 0};
    for (const Share& s : wave) bytes_[s.core] = read_[s.core] = 0;
    for (size_t i = 0; i < wave.size(); ++i) {
        const Task& task = tasks[wave[i].task];
        const int64_t bytes = leaves[task.leaf].read_bytes;
        if (bytes == 0) continue;
        const int kind = task.core == cost::Core::AIC ? 0 : 1;
        bytes_[wave[i].core] += bytes;
        first[kind] = first[kind] < 0 ? may_read[i] : std::min(first[kind], may_read[i]);
        hbm[kind] += static_cast<double>(task.miss_bytes) / (kind == 0 ? pools_.hbm_cube : pools_.hbm_vector) +
                     static_cast<double>(task.through_bytes) / pools_.hbm_write;
        l2[kind] += static_cast<double>(bytes) / pools_.l2;
    }
    for (int kind = 0; kind < 2; ++kind)
        if (first[kind] >= 0)
            step_[kind] = {std::max(first[kind], step_[kind].begin + static_cast<int64_t>(step_[kind].cycles)), std::max(hbm[kind], l2[kind])};
}

int64_t StepServer::through(int32_t core, cost::Core type, int64_t read_bytes) {
    const Step& step = step_[type == cost::Core::AIC ? 0 : 1];
    read_[core] += read_bytes;
    return step.begin + static_cast<int64_t>(step.cycles * static_cast<double>(read_[core]) / static_cast<double>(bytes_[core]));
}

namespace {

// Cycles of the tasks of a wave that is not the first: at least those that the pools need for all its bytes.
void drifted(const std::vector<Share>& wave, const DeviceTask& tasks, const std::vector<LeafTiming>& leaves, const Pools& pools,
             std::vector<int64_t>& cycles) {
    const bool cube = tasks[wave.front().task].core == cost::Core::AIC;
    int64_t read = 0, miss = 0, rows = 0, through = 0;
    for (const Share& s : wave) {
        through += tasks[s.task].through_bytes;
        read += leaves[tasks[s.task].leaf].read_bytes;
        miss += tasks[s.task].miss_bytes;
        rows += tasks[s.task].miss_rows;
    }
    const double cores = static_cast<double>(wave.size());
    const double pool = static_cast<double>(miss) / (cube ? pools.hbm_cube : pools.hbm_vector) + static_cast<double>(through) / pools.hbm_write;
    for (const Share& s : wave) {
        const LeafTiming& leaf = leaves[tasks[s.task].leaf];
        if (leaf.read_bytes == 0 && tasks[s.task].through_bytes == 0) {   // waits for none of them
            cycles[s.task] = leaf.cycles;
            continue;
        }
        const double l2 = std::min(static_cast<double>(leaf.read_bytes) * cores, static_cast<double>(read)) / pools.l2;
        int64_t own = leaf.busy[static_cast<int>(cost::Pipe::MTE2)];
        if (cube) {
            const int64_t cold = std::max(tasks[s.task].miss_rows, (rows + static_cast<int64_t>(wave.size()) - 1) / static_cast<int64_t>(wave.size()));
            own += static_cast<int64_t>(std::ceil(static_cast<double>(cold) * pools.row_cycles));
        }
        cycles[s.task] = std::max(cycles_with(leaf, own), static_cast<int64_t>(std::ceil(std::max(l2, pool))));
    }
}

}  // namespace

std::vector<int64_t> shared_cycles(const DeviceTask& tasks, const Order& order, const std::vector<LeafTiming>& leaves,
                                   const plan::Chip& chip, const Pools& pools) {
    std::vector<int64_t> cycles(tasks.size(), 0), reads(tasks.size(), 0);
    std::vector<Share> wave[2];
    bool first[2] = {true, true};
    int64_t earliest_end[2] = {0, 0};
    auto close = [&](int kind) {
        if (wave[kind].empty()) return;
        if (first[kind]) {
            share_wave(wave[kind], tasks, leaves, pools, reads);
            for (const Share& s : wave[kind]) cycles[s.task] = cycles_with(leaves[tasks[s.task].leaf], reads[s.task]);
        } else {
            drifted(wave[kind], tasks, leaves, pools, cycles);
        }
        first[kind] = false;
        wave[kind].clear();
    };
    for (int32_t t : order.tasks) {
        if (tasks[t].leaf < 0) continue;
        const int kind = tasks[t].core == cost::Core::AIC ? 0 : 1;
        const int64_t start = order.start[t], end = start + std::max<int64_t>(1, leaves[tasks[t].leaf].latency);
        const size_t cores = static_cast<size_t>(kind == 0 ? chip.aic : chip.aiv);
        if (wave[kind].size() == cores || (!wave[kind].empty() && start >= earliest_end[kind])) close(kind);
        earliest_end[kind] = wave[kind].empty() ? end : std::min(earliest_end[kind], end);
        wave[kind].push_back({t, static_cast<int32_t>(wave[kind].size())});
    }
    close(0);
    close(1);
    return cycles;
}

}  // namespace npu::machine
