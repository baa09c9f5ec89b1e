// One leaf on one core with in-order pipes and finite memory: an operation starts when its pipe is free, its operands are
// there and its destination is released.
#include <algorithm>
#include <queue>

#include "npu_core/machine/machine.h"

namespace npu::machine {

using cost::Code;
using cost::Pipe;

LeafTiming run_calibrated(const plan::Leaf& leaf, const cost::Calibrated& cost, const plan::Chip& chip,
                          std::vector<OpTime>* times) {
    LeafTiming timing;
    std::array<int64_t, cost::PIPES> free{};
    std::array<char, cost::PIPES> used{};
    std::vector<int64_t> written(leaf.tensors.size(), 0);
    std::vector<int32_t> last(leaf.buffer_bytes.size(), -1);
    for (int32_t i = 0; i < static_cast<int32_t>(leaf.ops.size()); ++i)
        for (const plan::Operands* side : {&leaf.ops[i].in, &leaf.ops[i].out})
            for (int32_t t : *side)
                if (leaf.tensors[t].buffer >= 0) last[leaf.tensors[t].buffer] = i;
    std::vector<char> live(leaf.buffer_bytes.size(), 0);
    std::vector<int64_t> used_until(leaf.buffer_bytes.size(), 0);
    using Release = std::pair<int64_t, int64_t>;   // time, bytes
    std::array<std::priority_queue<Release, std::vector<Release>, std::greater<>>, plan::MEMS> released;
    std::array<int64_t, plan::MEMS> occupied{};
    for (int32_t i = 0; i < static_cast<int32_t>(leaf.ops.size()); ++i) {
        const plan::LeafOp& op = leaf.ops[i];
        const cost::Cycles c = cost.cycles(leaf, op);
        const bool gathers = op.code == Code::GATHER;
        const int p = static_cast<int>(gathers ? Pipe::MTE2 : op.pipe);
        int64_t start = 0;
        for (int32_t t : op.in) start = std::max(start, written[t]);
        for (int32_t t : op.out) {
            const int32_t b = leaf.tensors[t].buffer;
            if (b < 0) continue;
            if (live[b]) { start = std::max(start, used_until[b]); continue; }
            live[b] = 1;
            const int m = static_cast<int>(leaf.buffer_mem[b]);
            occupied[m] += leaf.buffer_bytes[b];
            while (chip.capacity[m] && occupied[m] > chip.capacity[m] && !released[m].empty()) {
                start = std::max(start, released[m].top().first);
                occupied[m] -= released[m].top().second;
                released[m].pop();
            }
        }
        const bool idle = !used[p] || start > free[p];
        start = std::max(start, free[p]);
        const int64_t busy = c.busy + (idle && p == static_cast<int>(Pipe::VEC) ? c.head : 0);
        // The first byte of a read is late only when the queue was empty; the pipe itself is not held up by it.
        const int64_t late = p == static_cast<int>(Pipe::MTE2) ? (idle ? c.head : c.tail) : c.tail;
        const int64_t end = start + busy;
        free[p] = end;
        used[p] = 1;
        if (times) times->push_back({static_cast<Pipe>(p), start, end});
        timing.busy[p] += busy;
        auto& [count, sum] = timing.ops[op.code];
        ++count;
        sum += busy;
        for (int32_t t : op.out) written[t] = std::max(written[t], end + late);
        timing.cycles = std::max(timing.cycles, end + late);
        for (const plan::Operands* side : {&op.in, &op.out})
            for (int32_t t : *side) {
                const int32_t b = leaf.tensors[t].buffer;
                if (b < 0) continue;
                used_until[b] = std::max(used_until[b], end);
                if (last[b] == i && live[b]) {
                    live[b] = 0;
                    released[static_cast<int>(leaf.buffer_mem[b])].emplace(used_until[b], leaf.buffer_bytes[b]);
                }
            }
    }
    return timing;
}

}  // namespace npu::machine
