// One leaf on one core with in-order pipes and finite memory: an operation starts when its pipe is free, its operands are
// there and its destination is released.
#include <algorithm>
#include <queue>

#include "npu_core/machine/machine.h"

namespace npu::machine {

using cost::Code;
using cost::Pipe;

namespace {

// The operations of a leaf in program order, run as often as the leaf repeats. Every time is a maximum of sums of durations:
// nothing that becomes faster makes anything later.
class Pass {
public:
    // slow_reads: a byte read takes SLOW cycles, whatever the port, so that nothing else counts.
    Pass(const plan::Leaf& leaf, const cost::Calibrated& cost, const plan::Chip& chip, bool slow_reads,
         std::vector<OpTime>* times = nullptr)
        : leaf_(leaf), chip_(chip), times_(times), written_(leaf.tensors.size(), 0),
          by_vector_(leaf.tensors.size(), 0), last_(leaf.buffer_bytes.size(), -1),
          live_(leaf.buffer_bytes.size(), 0), used_until_(leaf.buffer_bytes.size(), 0) {
        timing_.from.fill(-1);
        timing_.held_from.fill(-1);
        timing_.half_from.fill(-1);
        timing_.half_until.fill(-1);
        cycles_ = cost.leaf_cycles(leaf);
        for (int32_t i = 0; i < static_cast<int32_t>(leaf.ops.size()); ++i) {
            const plan::LeafOp& op = leaf.ops[i];
            if (slow_reads && pipe_of(op) == Pipe::MTE2) cycles_[i].busy = std::max(cycles_[i].busy, SLOW * op.gm_bytes);
            for (const plan::Operands* side : {&op.in, &op.out})
                for (int32_t t : *side)
                    if (leaf.tensors[t].buffer >= 0) last_[leaf.tensors[t].buffer] = i;
        }
    }

    LeafTiming run() {
        std::vector<State> seen;
        for (int64_t left = leaf_.repeats; ; --left) {
            once();
            first_ = false;
            if (left == 0) break;
            if (!chip_.skip_repeats) continue;
            State now = state();
            for (const State& before : seen)
                if (before.relative == now.relative) {
                    const int64_t period = before.left - left, times = left / period;
                    if (times > 0) skip(before, times);
                    left -= times * period;
                    seen.clear();
                    break;
                }
            if (left == 0) break;
            now.left = left;
            now.timing = timing_;
            seen.push_back(std::move(now));
            if (seen.size() > HISTORY) seen.erase(seen.begin());
        }
        halves();
        return std::move(timing_);
    }

private:
    static constexpr size_t HISTORY = 8;
    static constexpr int64_t SLOW = 4096;
    using Release = std::pair<int64_t, int64_t>;   // time, bytes
    using Releases = std::priority_queue<Release, std::vector<Release>, std::greater<>>;

    // What decides how the next run of the operations goes, relative to the end so far.
    struct State {
        std::vector<int64_t> relative;
        int64_t left = 0;
        LeafTiming timing;
    };

    const plan::Leaf& leaf_;
    const plan::Chip& chip_;
    bool first_ = true;                           // run of the operations
    std::vector<OpTime>* times_;                  // of the first run of the operations
    LeafTiming timing_;
    std::vector<cost::Cycles> cycles_;
    std::array<int64_t, cost::PIPES> free_{};
    std::vector<int64_t> written_;
    std::vector<char> by_vector_;                 // the vector pipe wrote it last
    std::vector<int32_t> last_;
    std::vector<char> live_;
    std::vector<int64_t> used_until_;
    std::array<Releases, plan::MEMS> released_;
    std::array<int64_t, plan::MEMS> occupied_{};
    std::vector<std::pair<int, int64_t>> opened_; // memory and bytes of the buffers that an operation opens
    std::array<std::vector<std::pair<int64_t, int64_t>>, plan::MEMS> taken_;   // time, bytes more: of the first run

    static Pipe pipe_of(const plan::LeafOp& op) { return op.code == Code::GATHER ? Pipe::MTE2 : op.pipe; }

    // When more than half of a memory is taken; to the end where the operations run more than once.
    void halves() {
        for (int m = 0; m < plan::MEMS; ++m) {
            std::sort(taken_[m].begin(), taken_[m].end());     // releases before openings of the same cycle
            int64_t bytes = 0;
            for (size_t i = 0; i < taken_[m].size(); ++i) {
                const bool before = 2 * bytes > chip_.capacity[m];
                bytes += taken_[m][i].second;
                const bool after = 2 * bytes > chip_.capacity[m];
                if (after && timing_.half_from[m] < 0) timing_.half_from[m] = taken_[m][i].first;
                if (before && !after) timing_.half_until[m] = taken_[m][i].first;
            }
            if (leaf_.repeats > 0 && timing_.half_from[m] >= 0) timing_.half_until[m] = timing_.held_until[m];
        }
    }

    State state() const {
        State s;
        for (int64_t f : free_) s.relative.push_back(f - timing_.cycles);
        for (int m = 0; m < plan::MEMS; ++m) {
            s.relative.push_back(occupied_[m]);
            for (Releases r = released_[m]; !r.empty(); r.pop()) {
                s.relative.push_back(r.top().first - timing_.cycles);
                s.relative.push_back(r.top().second);
            }
        }
        return s;
    }

    // The runs since `before` happen that many times more.
    void skip(const State& before, int64_t times) {
        const LeafTiming& from = before.timing;
        const int64_t later = times * (timing_.cycles - from.cycles);
        for (int p = 0; p < cost::PIPES; ++p) {
            timing_.busy[p] += times * (timing_.busy[p] - from.busy[p]);
            if (timing_.from[p] >= 0) timing_.until[p] += later;
            free_[p] += later;
        }
        for (auto& [code, entry] : timing_.ops) {
            const auto& old = from.ops.at(code);
            entry.first += times * (entry.first - old.first);
            entry.second += times * (entry.second - old.second);
        }
        timing_.latency += times * (timing_.latency - from.latency);
        for (int m = 0; m < plan::MEMS; ++m) {
            if (timing_.held_from[m] >= 0) timing_.held_until[m] += later;
            Releases moved;
            for (; !released_[m].empty(); released_[m].pop())
                moved.emplace(released_[m].top().first + later, released_[m].top().second);
            released_[m] = std::move(moved);
        }
        timing_.cycles += later;
    }

    void once() {
        for (int32_t i = 0; i < static_cast<int32_t>(leaf_.ops.size()); ++i) {
            const plan::LeafOp& op = leaf_.ops[i];
            const cost::Cycles& c = cycles_[i];
            const Pipe pipe = pipe_of(op);
            const int p = static_cast<int>(pipe);
            timing_.latency += op.latency;
            int64_t ready = 0;
            opened_.clear();
            int64_t from_others = 0;     // of a vector instruction: operands that another pipe made, and its room
            for (int32_t t : op.in) {
                ready = std::max(ready, written_[t]);
                if (!by_vector_[t]) from_others = std::max(from_others, written_[t]);
            }
            for (int32_t t : op.out) {
                const int32_t b = leaf_.tensors[t].buffer;
                if (b < 0) continue;
                if (live_[b]) { ready = std::max(ready, used_until_[b]); continue; }
                live_[b] = 1;
                const int m = static_cast<int>(leaf_.buffer_mem[b]);
                opened_.emplace_back(m, leaf_.buffer_bytes[b]);
                occupied_[m] += leaf_.buffer_bytes[b];
                while (chip_.capacity[m] && occupied_[m] > chip_.capacity[m] && !released_[m].empty()) {
                    ready = std::max(ready, released_[m].top().first);
                    from_others = std::max(from_others, released_[m].top().first);
                    occupied_[m] -= released_[m].top().second;
                    released_[m].pop();
                }
            }
            // A vector instruction pays its head after another pipe, not behind its own kind. The first byte of a read is
            // late by the whole latency unless others are in the queue before it; the pipe itself is not held up by it.
            const int64_t begin = pipe == Pipe::VEC ? std::max(ready, from_others + c.head) : ready;
            const int64_t start = std::max(free_[p], begin), end = start + c.busy;
            int64_t there = end + c.tail;
            if (pipe == Pipe::MTE2) there = std::max(there, ready + c.busy + c.head);
            free_[p] = end;
            if (timing_.from[p] < 0) timing_.from[p] = pipe == Pipe::VEC ? std::max<int64_t>(0, start - c.head) : start;
            timing_.until[p] = end;
            for (const auto& [m, bytes] : opened_) {
                if (timing_.held_from[m] < 0 || start < timing_.held_from[m]) timing_.held_from[m] = start;
                if (first_) taken_[m].emplace_back(start, bytes);
            }
            if (times_ && times_->size() < leaf_.ops.size()) times_->push_back({pipe, start, end});
            timing_.busy[p] += c.busy;
            auto& [count, sum] = timing_.ops[op.code];
            ++count;
            sum += c.busy;
            for (int32_t t : op.out) {
                written_[t] = std::max(written_[t], there);
                by_vector_[t] = pipe == Pipe::VEC;
            }
            timing_.cycles = std::max(timing_.cycles, there);
            for (const plan::Operands* side : {&op.in, &op.out})
                for (int32_t t : *side) {
                    const int32_t b = leaf_.tensors[t].buffer;
                    if (b < 0) continue;
                    used_until_[b] = std::max(used_until_[b], end);
                    if (last_[b] == i && live_[b]) {
                        live_[b] = 0;
                        const int m = static_cast<int>(leaf_.buffer_mem[b]);
                        released_[m].emplace(used_until_[b], leaf_.buffer_bytes[b]);
                        if (first_) taken_[m].emplace_back(used_until_[b], -leaf_.buffer_bytes[b]);
                        timing_.held_until[m] = std::max(timing_.held_until[m], used_until_[b]);
                    }
                }
        }
    }
};

}  // namespace

LeafTiming run_calibrated(const plan::Leaf& leaf, const cost::Calibrated& cost, const plan::Chip& chip,
                          std::vector<OpTime>* times) {
    LeafTiming timing = Pass(leaf, cost, chip, false, times).run();
    const int mte2 = static_cast<int>(Pipe::MTE2);
    timing.read_bytes = leaf.gm_read;
    timing.beside_reads = timing.cycles - timing.busy[mte2];
    if (timing.busy[mte2] > 0) {
        const LeafTiming slow = Pass(leaf, cost, chip, true).run();
        timing.beside_reads = std::max<int64_t>(0, slow.cycles - slow.busy[mte2]);
    }
    return timing;
}

}  // namespace npu::machine
