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
        const double cold = std::max(static_cast<double>(t.miss_rows), part * static_cast<double>(w.rows) / cores);
        const double rows = kind == 0 ? cold * pools.row_cycles : 0;
        const double hbm = std::max(part * pool + port * (1 - missed), port + rows);
        read_cycles[s.task] = whole(std::max(part * l2, hbm));
    }
}

}  // namespace npu::machine
