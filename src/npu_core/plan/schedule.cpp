// In-core order of a leaf: depth-first list, then a list schedule on the pipes with allocation; spills and peaks.
#include <array>

#include "npu_core/plan/leaf_links.h"

namespace npu::plan {

namespace {

using cost::Pipe;

// Distinct local buffers of every operation.
Lists buffers_by_op(const Leaf& leaf) {
    Lists lists;
    lists.begin.reserve(leaf.ops.size() + 1);
    lists.begin.push_back(0);
    lists.items.reserve(2 * leaf.ops.size());
    for (const LeafOp& op : leaf.ops) {
        const Buffers b = buffers_of(leaf, op);
        lists.items.insert(lists.items.end(), b.begin(), b.end());
        lists.begin.push_back(static_cast<int32_t>(lists.items.size()));
    }
    return lists;
}

// Sequential order: peaks by lifetime.
std::array<int64_t, MEMS> peaks_in_order(const Leaf& leaf, const Lists& buffers) {
    const int32_t n = static_cast<int32_t>(leaf.ops.size());
    std::vector<int32_t> first(leaf.buffer_bytes.size(), -1), last(leaf.buffer_bytes.size(), -1);
    for (int32_t i = 0; i < n; ++i)
        for (int32_t b : buffers[i]) {
            if (first[b] < 0) first[b] = i;
            last[b] = i;
        }
    std::array<int64_t, MEMS> used{}, peak{};
    for (int32_t i = 0; i < n; ++i) {
        for (int32_t b : buffers[i])
            if (first[b] == i) {
                const int m = static_cast<int>(leaf.buffer_mem[b]);
                used[m] += leaf.buffer_bytes[b];
                peak[m] = std::max(peak[m], used[m]);
            }
        for (int32_t b : buffers[i])
            if (last[b] == i) used[static_cast<int>(leaf.buffer_mem[b])] -= leaf.buffer_bytes[b];
    }
    return peak;
}

// Event-driven list schedule; falls back to the given order where allocation in list order cannot proceed.
void list_schedule(Leaf& leaf, const Chip& chip) {
    const Links l = link(leaf);
    const Lists buffers = buffers_by_op(leaf);
    const int32_t n = static_cast<int32_t>(leaf.ops.size());
    std::vector<int32_t> refs(leaf.buffer_bytes.size(), 0);   // operations that still need a buffer
    Lists waiters;
    waiters.fill(leaf.buffer_bytes.size(), [&](auto put) {
        for (int32_t i = 0; i < n; ++i)
            for (int32_t b : buffers[i]) put(b, i);
    });
    std::vector<int32_t> waiting(n), latency(n);
    std::vector<uint8_t> pipe(n);
    std::array<std::vector<int32_t>, MEMS> queue;
    std::array<size_t, MEMS> head{};
    for (int32_t i = 0; i < n; ++i) {
        waiting[i] = static_cast<int32_t>(l.pred[i].size() + buffers[i].size());
        latency[i] = std::max<int32_t>(1, leaf.ops[i].latency);
        pipe[i] = static_cast<uint8_t>(leaf.ops[i].pipe);
        for (int32_t b : buffers[i])
            if (refs[b]++ == 0) queue[static_cast<int>(leaf.buffer_mem[b])].push_back(b);
    }
    std::array<int64_t, MEMS> used{};
    std::vector<FirstSet> ready(cost::PIPES, FirstSet(static_cast<size_t>(n)));
    std::array<int32_t, cost::PIPES> running;
    std::array<int64_t, cost::PIPES> end{};
    running.fill(-1);
    std::vector<int32_t> emitted;
    emitted.reserve(n);
    std::array<int64_t, MEMS> peak{};
    auto wake = [&](int32_t i) {
        if (--waiting[i] == 0) ready[pipe[i]].insert(i);
    };
    auto retire = [&](int32_t i) {
        for (int32_t b : buffers[i])
            if (--refs[b] == 0) used[static_cast<int>(leaf.buffer_mem[b])] -= leaf.buffer_bytes[b];
        for (int32_t s : l.succ[i]) wake(s);
    };
    for (int32_t i = 0; i < n; ++i)
        if (waiting[i] == 0) ready[pipe[i]].insert(i);
    constexpr Pipe pipe_order[] = {Pipe::S, Pipe::VEC, Pipe::CUBE, Pipe::MTE1, Pipe::MTE2, Pipe::MTE3, Pipe::FIX};
    int64_t now = 0;
    while (static_cast<int32_t>(emitted.size()) < n) {
        for (Pipe p : pipe_order) {
            const int k = static_cast<int>(p);
            if (running[k] >= 0 && end[k] <= now) {
                const int32_t i = running[k];
                running[k] = -1;
                retire(i);
            }
        }
        for (int m = 0; m < MEMS; ++m)
            while (head[m] < queue[m].size()) {
                const int32_t b = queue[m][head[m]];
                if (chip.capacity[m] && used[m] + leaf.buffer_bytes[b] > chip.capacity[m]) break;
                ++head[m];
                used[m] += leaf.buffer_bytes[b];
                peak[m] = std::max(peak[m], used[m]);
                for (int32_t i : waiters[b]) wake(i);
            }
        bool busy = false;
        for (Pipe p : pipe_order) {
            const int k = static_cast<int>(p);
            if (running[k] < 0 && !ready[k].empty()) {
                const int32_t i = ready[k].take_first();
                running[k] = i;
                end[k] = now + latency[i];
                emitted.push_back(i);
            }
            busy = busy || running[k] >= 0;
        }
        if (!busy) break;
        int64_t next = INT64_MAX;
        for (int k = 0; k < cost::PIPES; ++k)
            if (running[k] >= 0) next = std::min(next, end[k]);
        now = next;
    }
    if (static_cast<int32_t>(emitted.size()) == n) {
        reorder(leaf, emitted);
        leaf.peak = peak;
        return;
    }
    leaf.peak = peaks_in_order(leaf, buffers);
}

}  // namespace

void schedule_leaf(Leaf& leaf, const Block& block, const Program& program, const Chip& chip) {
    reorder(leaf, backwards_order(leaf));
    {
        const Links l = link(leaf);
        share_buffers(leaf, l);
        check_capacity(leaf, block, program, chip);
        reorder(leaf, depth_first(leaf, l));
    }
    try {
        insert_spills(leaf, chip);
    } catch (CapacityFault& fault) {
        name_operation(fault, fault.operation, block, program);
        throw;
    }
    list_schedule(leaf, chip);
}

}  // namespace npu::plan
