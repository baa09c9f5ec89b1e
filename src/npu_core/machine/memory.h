// L2 and HBM as pools that the cores of a wave share.
#pragma once
#include <cstdint>
#include <vector>

#include "npu_core/machine/machine.h"
#include "npu_core/machine/order.h"

namespace npu::machine {

// Rates in bytes per cycle of the core clock, all cores together.
struct Pools {
    double l2 = 0;          // reads of all cores
    double hbm_cube = 0;    // bytes that miss L2, read by cube cores
    double hbm_vector = 0;  // and by vector cores, whose streams the prefetcher follows
    double hbm_write = 0;   // bytes that L2 does not absorb
    double row_cycles = 0;  // more per contiguous run that a cube core reads from HBM
};

// One task of a wave: tasks that run at the same time, at most one after another on a core.
struct Share {
    int32_t task;
    int32_t core;
};

// Cycles that a task's reads take when the cores of its wave read at the same time. L2: every core moves its bytes at the
// rate of an equal split or, where it has more than others, until the wave's bytes are through. HBM: the bytes that miss
// L2 hold up the whole wave, for tiles are shared and who asks second waits for the first; what hits follows at the rate of
// the port. Result by task.
void share_wave(const std::vector<Share>& wave, const DeviceTask& tasks, const std::vector<LeafTiming>& leaves, const Pools& pools,
                std::vector<int64_t>& read_cycles);

// Cycles of a leaf whose reads take `read_cycles` in all.
inline int64_t cycles_with(const LeafTiming& t, int64_t read_cycles) {
    return read_cycles <= t.busy[static_cast<int>(cost::Pipe::MTE2)] ? t.cycles : std::max(t.cycles, t.beside_reads + read_cycles);
}

// The pools under programs that stay on their core, cube and vector cores apart: they work off the bytes of one step after
// another, from the moment when its first task may read. What a core reads in a step comes at the rate of all of them, in the
// order in which its tasks run.
class StepServer {
public:
    StepServer(const Pools& pools, size_t cores) : pools_(pools), bytes_(cores, 0), read_(cores, 0) {}
    // Next step; may_read: when the reads of a task may begin, by place in the wave.
    void next(const std::vector<Share>& wave, const std::vector<int64_t>& may_read, const DeviceTask& tasks,
              const std::vector<LeafTiming>& leaves);
    // When the pools are through with the reads of the core's next task of this step.
    int64_t through(int32_t core, cost::Core type, int64_t read_bytes);

private:
    struct Step { int64_t begin = 0; double cycles = 0; };
    const Pools& pools_;
    std::vector<int64_t> bytes_, read_;          // of the core in this step: all, those read so far
    Step step_[2];
};

// Cycles of every task under the AICPU (hubs: 0), from the tasks that run beside it: those next to it in the order of
// service, as many as the chip has cores of the type, that none of them waits for by nominal times. Tasks of the first wave
// start together and read together (`share_wave`). Later waves have drifted apart, one core reads while another computes:
// a task takes at least as long as the pools need for its wave.
std::vector<int64_t> shared_cycles(const DeviceTask& tasks, const Order& order, const std::vector<LeafTiming>& leaves,
                                   const plan::Chip& chip, const Pools& pools);

}  // namespace npu::machine
