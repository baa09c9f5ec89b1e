// One leaf on one core. `run_official` is the public simulator's dataflow core; `run_calibrated` has in-order pipes and
// finite memory: an operation starts when its pipe is free, its operands are there and its destination is released.
#include <algorithm>
#include <queue>
#include <set>

#include "npu_core/machine/machine.h"

namespace npu::machine {

namespace {

using cost::Code;
using cost::Pipe;
using plan::Mem;

// Pipes of the public core, in the order in which they run within one cycle.
enum Unit { ALLOC_UB, ALLOC_L1, ALLOC_L0A, ALLOC_L0B, ALLOC_L0C, IN, MTE1, VALU, CUBE, OUT, SCALAR, UNITS };

int allocator_of(Mem m) {
    switch (m) {
        case Mem::UB: return ALLOC_UB;
        case Mem::L1: return ALLOC_L1;
        case Mem::L0A: return ALLOC_L0A;
        case Mem::L0B: return ALLOC_L0B;
        case Mem::L0C: return ALLOC_L0C;
        default: return -1;
    }
}

int unit_of(const plan::LeafOp& op) {
    if (op.code == Code::INDEX_OUTCAST) return VALU;
    if (op.code == Code::L0C_COPY_UB || op.code == Code::UB_COPY_L1 || op.code == Code::L0C_COPY_L1) return MTE1;
    switch (cost::info(op.code).pipe) {
        case Pipe::MTE2: return IN;
        case Pipe::MTE1: return MTE1;
        case Pipe::VEC: return VALU;
        case Pipe::CUBE: return CUBE;
        case Pipe::MTE3: case Pipe::FIX: return OUT;
        default: return SCALAR;
    }
}

constexpr const char* UNIT_NAMES[] = {"", "", "", "", "", "MTE_IN", "MTE1", "VECTOR_ALU", "CUBE", "MTE_OUT", "PIPE_S"};

// Operand signature in the public report's form, `OP MEM[shape]bytes,...->MEM[shape]bytes`, with its comma habits.
std::string signature_of(const plan::Leaf& leaf, const plan::LeafOp& op) {
    auto tile = [&](int32_t t) {
        const plan::LeafTensor& x = leaf.tensors[t];
        std::string text = x.mem == Mem::GM ? "DDR[" : std::string(plan::mem_name(x.mem)) + "[";
        for (int i = 0; i < x.shape.rank; ++i) text += (i ? "," : "") + std::to_string(x.shape[i]);
        return text + "]" + std::to_string(plan::bytes_of(x.shape, x.dtype));
    };
    std::string text = std::string(cost::info(op.code).name) + " ";
    for (size_t i = 0; i < op.in.size(); ++i) text += (i ? "," : "") + tile(op.in[i]);
    text += "->";
    for (size_t i = 0; i < op.out.size(); ++i) {
        text += tile(op.out[i]);
        if (i + 1 != op.in.size()) text += ",";
    }
    return text;
}

}  // namespace

LeafTiming run_official(const plan::Leaf& leaf) {
    const int32_t n = static_cast<int32_t>(leaf.ops.size());
    LeafTiming timing;
    std::vector<std::vector<int32_t>> producers(leaf.tensors.size()), consumers(leaf.tensors.size());
    for (int32_t i = 0; i < n; ++i) {
        for (int32_t t : leaf.ops[i].out) producers[t].push_back(i);
        for (int32_t t : leaf.ops[i].in)
            if (consumers[t].empty() || consumers[t].back() != i) consumers[t].push_back(i);
    }
    std::vector<char> allocated(leaf.tensors.size(), 0), started(n, 0);
    std::vector<int32_t> writers(leaf.tensors.size());
    for (size_t t = 0; t < leaf.tensors.size(); ++t) {
        writers[t] = static_cast<int32_t>(producers[t].size());
        allocated[t] = allocator_of(leaf.tensors[t].mem) < 0;
    }
    std::array<std::queue<int32_t>, UNITS> queue;
    std::vector<char> queued(leaf.tensors.size(), 0);
    for (const plan::LeafOp& op : leaf.ops)
        for (const plan::Operands* side : {&op.in, &op.out})
            for (int32_t t : *side)
                if (!allocated[t] && !queued[t]) {
                    queued[t] = 1;
                    queue[allocator_of(leaf.tensors[t].mem)].push(t);
                }
    auto ready = [&](int32_t i) {
        for (int32_t t : leaf.ops[i].in)
            if (!allocated[t] || writers[t] > 0) return false;
        for (int32_t t : leaf.ops[i].out)
            if (!allocated[t]) return false;
        return true;
    };
    auto offer = [&](int32_t i) {
        if (started[i] || !ready(i)) return;
        started[i] = 1;
        queue[unit_of(leaf.ops[i])].push(i);
    };
    for (int32_t i = 0; i < n; ++i) {
        bool fed = false, to_gm = leaf.ops[i].out.empty();
        for (int32_t t : leaf.ops[i].in) fed = fed || !producers[t].empty();
        for (int32_t t : leaf.ops[i].out) to_gm = to_gm || allocator_of(leaf.tensors[t].mem) < 0;
        if (!fed && to_gm) {
            bool inputs_ready = true;
            for (int32_t t : leaf.ops[i].in) inputs_ready = inputs_ready && allocated[t];
            if (inputs_ready) { started[i] = 1; queue[unit_of(leaf.ops[i])].push(i); }
        }
    }
    struct Flight { int32_t item = -1; int64_t done = 0; };
    std::array<Flight, UNITS> flight;
    std::vector<int64_t> duration(n);
    for (int32_t i = 0; i < n; ++i) duration[i] = cost::official_cycles(leaf, leaf.ops[i], false);
    std::set<int64_t> events;
    int64_t now = 0, end = 0;
    int32_t finished = 0;
    while (true) {
        for (int u = 0; u < UNITS; ++u) {
            if (flight[u].item < 0 || flight[u].done > now) continue;
            const int32_t item = flight[u].item;
            flight[u].item = -1;
            if (u <= ALLOC_L0C) {
                allocated[item] = 1;
                for (int32_t p : producers[item]) offer(p);
                for (int32_t c : consumers[item]) offer(c);
            } else {
                ++finished;
                for (int32_t t : leaf.ops[item].out)
                    if (--writers[t] == 0)
                        for (int32_t c : consumers[t]) offer(c);
            }
        }
        if (finished == n) break;
        int64_t next = INT64_MAX;
        for (int u = 0; u < UNITS; ++u) {
            if (flight[u].item < 0 && !queue[u].empty()) {
                const int32_t item = queue[u].front();
                queue[u].pop();
                const int64_t d = u <= ALLOC_L0C ? 1 : duration[item];
                flight[u] = {item, now + d + 2};
                if (u > ALLOC_L0C) {
                    end = std::max(end, now + 1 + d);
                    const plan::LeafOp& op = leaf.ops[item];
                    timing.busy[static_cast<int>(op.pipe)] += d;
                    auto& [count, sum] = timing.ops[op.code];
                    ++count;
                    sum += d;
                    timing.pipes[UNIT_NAMES[u]] += d;
                    if (timing.samples.size() < 64) timing.samples.emplace(signature_of(leaf, op), d);
                }
            }
            if (flight[u].item >= 0) next = std::min(next, flight[u].done);
        }
        if (next == INT64_MAX) break;   // an operation without a way to start; the task ends with what ran
        now = next;
        events.insert(now);
    }
    timing.cycles = end + 1;
    timing.events.assign(events.begin(), events.end());
    return timing;
}

LeafTiming run_calibrated(const plan::Leaf& leaf, const cost::Calibrated& cost, const plan::Chip& chip) {
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
