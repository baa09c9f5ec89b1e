// One leaf on one core with in-order pipes and finite memory: an operation starts when its pipe is free, its operands are
// there and its destination is released.
#include <algorithm>
#include <tuple>

#include "npu_core/machine/machine.h"

namespace npu::machine {

using cost::Code;
using cost::Pipe;

namespace {

constexpr int64_t SLOW = 4096;                     // cycles a byte where reads are slow, whatever the port: nothing else counts
constexpr int MTE2 = static_cast<int>(Pipe::MTE2), VEC = static_cast<int>(Pipe::VEC);

Pipe pipe_of(const plan::LeafOp& op) { return op.code == Code::GATHER ? Pipe::MTE2 : op.pipe; }

// The operations of a leaf as the pipes see them, in flat arrays.
struct Flow {
    struct Node {
        int64_t busy, slow_busy, head, tail;
        int32_t in_end, out_end, touch_end;        // ends in the arrays below; each begins where the one before ends
        uint8_t pipe;
    };
    struct Out { int32_t tensor, buffer; };        // buffer: -1 for none
    std::vector<Node> nodes;
    std::vector<int32_t> in;                       // tensors
    std::vector<Out> out;
    std::vector<int32_t> touched;                  // buffers that are used, each once; ~buffer where that is the last use
    std::vector<int64_t> bytes;                    // by buffer
    std::vector<uint8_t> memory;
    size_t tensors;

    Flow(const plan::Leaf& leaf, const std::vector<cost::Cycles>& cycles)
        : bytes(leaf.buffer_bytes), tensors(leaf.tensors.size()) {
        const size_t n = leaf.ops.size();
        for (plan::Mem m : leaf.buffer_mem) memory.push_back(static_cast<uint8_t>(m));
        std::vector<int32_t> last(bytes.size(), -1);
        nodes.reserve(n);
        in.reserve(2 * n);
        out.reserve(n);
        touched.reserve(3 * n);
        for (size_t i = 0; i < n; ++i) {
            const plan::LeafOp& op = leaf.ops[i];
            const cost::Cycles& c = cycles[i];
            const Pipe pipe = pipe_of(op);
            const size_t first = touched.size();
            for (const plan::Operands* side : {&op.in, &op.out})
                for (int32_t t : *side) {
                    const int32_t b = leaf.tensors[t].buffer;
                    if (side == &op.in) in.push_back(t);
                    else out.push_back({t, b});
                    if (b < 0 || std::find(touched.begin() + static_cast<int64_t>(first), touched.end(), b) != touched.end()) continue;
                    last[b] = static_cast<int32_t>(touched.size());
                    touched.push_back(b);
                }
            nodes.push_back({c.busy, pipe == Pipe::MTE2 ? std::max(c.busy, SLOW * op.gm_bytes) : c.busy, c.head, c.tail,
                             static_cast<int32_t>(in.size()), static_cast<int32_t>(out.size()), static_cast<int32_t>(touched.size()),
                             static_cast<uint8_t>(pipe)});
        }
        for (int32_t place : last)
            if (place >= 0) touched[place] = ~touched[place];
    }
};

// Room that becomes free, by time. Releases come nearly in order: each is put in place from the back.
class Releases {
public:
    struct Release { int64_t time, bytes; };
    bool empty() const { return head_ == list_.size(); }
    const Release& first() const { return list_[head_]; }
    void take_first() {
        if (++head_ < 64 || 2 * head_ < list_.size()) return;
        list_.erase(list_.begin(), list_.begin() + static_cast<int64_t>(head_));
        head_ = 0;
    }
    void add(Release r) {
        size_t at = list_.size();
        list_.push_back(r);
        for (; at > head_ && (r.time < list_[at - 1].time || (r.time == list_[at - 1].time && r.bytes < list_[at - 1].bytes)); --at)
            list_[at] = list_[at - 1];
        list_[at] = r;
    }
    void shift(int64_t later) {
        for (size_t i = head_; i < list_.size(); ++i) list_[i].time += later;
    }
    template <typename F> void each(F&& use) const {
        for (size_t i = head_; i < list_.size(); ++i) use(list_[i]);
    }

private:
    std::vector<Release> list_;
    size_t head_ = 0;
};

// Openings and releases of one memory, by pipe: each list is in order of time, or nearly so.
struct Taken {
    std::array<std::vector<std::pair<int64_t, int64_t>>, 2 * cost::PIPES> lists;   // time, bytes more

    // First and last cycle with more than half of the capacity taken, -1 for never.
    std::pair<int64_t, int64_t> more_than_half(int64_t capacity) {
        std::array<size_t, 2 * cost::PIPES> next{};
        std::vector<int> busy;
        for (size_t k = 0; k < lists.size(); ++k) {
            if (lists[k].empty()) continue;
            if (!std::is_sorted(lists[k].begin(), lists[k].end())) std::sort(lists[k].begin(), lists[k].end());
            busy.push_back(static_cast<int>(k));
        }
        int64_t bytes = 0, from = -1, until = -1;
        while (!busy.empty()) {
            size_t best = 0;                       // releases before openings of the same cycle
            for (size_t k = 1; k < busy.size(); ++k)
                if (lists[busy[k]][next[busy[k]]] < lists[busy[best]][next[busy[best]]]) best = k;
            const int list = busy[best];
            const auto [time, more] = lists[list][next[list]];
            const bool before = 2 * bytes > capacity;
            bytes += more;
            const bool after = 2 * bytes > capacity;
            if (after && from < 0) from = time;
            if (before && !after) until = time;
            if (++next[list] == lists[list].size()) busy.erase(busy.begin() + static_cast<int64_t>(best));
        }
        return {from, until};
    }
};

// The operations of a leaf in program order, run as often as the leaf repeats. Every time is a maximum of sums of durations:
// nothing that becomes faster makes anything later. NOTES: also when pipes and memories are taken.
template <bool SLOW_READS, bool NOTES> class Pass {
public:
    Pass(const Flow& flow, const plan::Chip& chip, std::vector<OpTime>* times)
        : flow_(flow), chip_(chip), times_(times), made_(flow.tensors), buffers_(flow.bytes.size()) {
        from_.fill(-1);
        held_from_.fill(-1);
    }

    int64_t run(int64_t repeats) {                 // cycles
        std::vector<State> seen;
        for (int64_t left = repeats; ; --left) {
            once();
            first_ = false;
            if (left == 0) break;
            if (!chip_.skip_repeats) continue;
            State now = state();
            for (const State& before : seen)
                if (before.relative == now.relative) {
                    const int64_t period = before.left - left, times = left / period;
                    if (times > 0) skip(times * (cycles_ - before.cycles));
                    left -= times * period;
                    seen.clear();
                    break;
                }
            if (left == 0) break;
            now.left = left;
            now.cycles = cycles_;
            seen.push_back(std::move(now));
            if (seen.size() > HISTORY) seen.erase(seen.begin());
        }
        return cycles_;
    }

    void note(LeafTiming& timing, bool repeated) {
        timing.from = from_;
        for (int p = 0; p < cost::PIPES; ++p) timing.until[p] = from_[p] >= 0 ? free_[p] : 0;
        timing.held_from = held_from_;
        timing.held_until = held_until_;
        for (int m = 0; m < plan::MEMS; ++m) {
            std::tie(timing.half_from[m], timing.half_until[m]) = taken_[m].more_than_half(chip_.capacity[m]);
            if (repeated && timing.half_from[m] >= 0) timing.half_until[m] = timing.held_until[m];   // to the end
        }
    }

private:
    static constexpr size_t HISTORY = 8;

    // What decides how the next run of the operations goes, relative to the end so far.
    struct State {
        std::vector<int64_t> relative;
        int64_t left = 0, cycles = 0;
    };
    struct Made { int64_t time = 0; bool by_vector = false; };      // a tensor: when it is there; whether the vector pipe wrote it last
    struct Buffer { int64_t used_until = 0; bool live = false; };

    const Flow& flow_;
    const plan::Chip& chip_;
    bool first_ = true;                            // run of the operations
    std::vector<OpTime>* times_;                   // of the first run of the operations
    int64_t cycles_ = 0;
    std::array<int64_t, cost::PIPES> free_{}, from_{};
    std::array<int64_t, plan::MEMS> held_from_{}, held_until_{}, occupied_{};
    std::vector<Made> made_;
    std::vector<Buffer> buffers_;
    std::array<Releases, plan::MEMS> released_;
    std::array<Taken, plan::MEMS> taken_;          // of the first run
    std::vector<int32_t> opened_;                  // buffers that an operation opens

    State state() const {
        State s;
        for (int64_t f : free_) s.relative.push_back(f - cycles_);
        for (int m = 0; m < plan::MEMS; ++m) {
            s.relative.push_back(occupied_[m]);
            released_[m].each([&](const Releases::Release& r) {
                s.relative.push_back(r.time - cycles_);
                s.relative.push_back(r.bytes);
            });
        }
        return s;
    }

    void skip(int64_t later) {                     // whole periods
        for (int64_t& f : free_) f += later;
        for (int m = 0; m < plan::MEMS; ++m) {
            if (held_from_[m] >= 0) held_until_[m] += later;
            released_[m].shift(later);
        }
        cycles_ += later;
    }

    void once() {
        const int32_t* in = flow_.in.data();
        const Flow::Out* out = flow_.out.data();
        const int32_t* touched = flow_.touched.data();
        for (const Flow::Node& c : flow_.nodes) {
            const int p = c.pipe;
            const int64_t busy = SLOW_READS ? c.slow_busy : c.busy;
            const Flow::Out* const out_end = flow_.out.data() + c.out_end;
            int64_t ready = 0;
            int64_t from_others = 0;     // of a vector instruction: operands that another pipe made, and its room
            for (const int32_t* end = flow_.in.data() + c.in_end; in != end; ++in) {
                const Made& t = made_[*in];
                ready = std::max(ready, t.time);
                if (!t.by_vector) from_others = std::max(from_others, t.time);
            }
            opened_.clear();
            for (const Flow::Out* o = out; o != out_end; ++o) {
                if (o->buffer < 0) continue;
                Buffer& b = buffers_[o->buffer];
                if (b.live) { ready = std::max(ready, b.used_until); continue; }
                b.live = true;
                const int m = flow_.memory[o->buffer];
                if (NOTES) opened_.push_back(o->buffer);
                occupied_[m] += flow_.bytes[o->buffer];
                while (chip_.capacity[m] && occupied_[m] > chip_.capacity[m] && !released_[m].empty()) {
                    const auto [time, bytes] = released_[m].first();
                    ready = std::max(ready, time);
                    from_others = std::max(from_others, time);
                    occupied_[m] -= bytes;
                    released_[m].take_first();
                }
            }
            // A vector instruction pays its head after another pipe, not behind its own kind. The first byte of a read is
            // late by the whole latency unless others are in the queue before it; the pipe itself is not held up by it.
            const int64_t begin = p == VEC ? std::max(ready, from_others + c.head) : ready;
            const int64_t start = std::max(free_[p], begin), end = start + busy;
            int64_t there = end + c.tail;
            if (p == MTE2) there = std::max(there, ready + busy + c.head);
            free_[p] = end;
            if (NOTES && first_) {                 // later runs start later
                if (from_[p] < 0) from_[p] = p == VEC ? std::max<int64_t>(0, start - c.head) : start;
                for (int32_t b : opened_) {
                    const int m = flow_.memory[b];
                    if (held_from_[m] < 0 || start < held_from_[m]) held_from_[m] = start;
                    taken_[m].lists[p].emplace_back(start, flow_.bytes[b]);
                }
                if (times_) times_->push_back({static_cast<Pipe>(p), start, end});
            }
            for (; out != out_end; ++out) {
                Made& t = made_[out->tensor];
                t.time = std::max(t.time, there);
                t.by_vector = p == VEC;
            }
            cycles_ = std::max(cycles_, there);
            for (const int32_t* last = flow_.touched.data() + c.touch_end; touched != last; ++touched) {
                const bool closes = *touched < 0;
                const int32_t id = closes ? ~*touched : *touched;
                Buffer& b = buffers_[id];
                b.used_until = std::max(b.used_until, end);
                if (!closes || !b.live) continue;
                b.live = false;
                const int m = flow_.memory[id];
                released_[m].add({b.used_until, flow_.bytes[id]});
                if (!NOTES) continue;
                if (first_) taken_[m].lists[cost::PIPES + p].emplace_back(b.used_until, -flow_.bytes[id]);
                held_until_[m] = std::max(held_until_[m], b.used_until);
            }
        }
    }
};

}  // namespace

LeafTiming run_calibrated(const plan::Leaf& leaf, const cost::Calibrated& cost, const plan::Chip& chip,
                          std::vector<OpTime>* times) {
    const std::vector<cost::Cycles> cycles = cost.leaf_cycles(leaf);
    const Flow flow(leaf, cycles);
    LeafTiming timing;
    std::array<std::pair<int64_t, int64_t>, static_cast<size_t>(Code::COUNT)> by_code{};
    const int64_t runs = leaf.repeats + 1;
    int64_t slow_busy = 0;
    for (size_t i = 0; i < leaf.ops.size(); ++i) {
        const plan::LeafOp& op = leaf.ops[i];
        timing.latency += runs * op.latency;
        timing.busy[flow.nodes[i].pipe] += runs * cycles[i].busy;
        if (flow.nodes[i].pipe == MTE2) slow_busy += runs * flow.nodes[i].slow_busy;
        auto& [count, sum] = by_code[static_cast<size_t>(op.code)];
        count += runs;
        sum += runs * cycles[i].busy;
    }
    for (size_t code = 0; code < by_code.size(); ++code)
        if (by_code[code].first) timing.ops[static_cast<Code>(code)] = by_code[code];
    Pass<false, true> pass(flow, chip, times);
    timing.cycles = pass.run(leaf.repeats);
    pass.note(timing, leaf.repeats > 0);
    timing.read_bytes = leaf.gm_read;
    timing.beside_reads = timing.cycles - timing.busy[MTE2];
    if (timing.busy[MTE2] > 0)
        timing.beside_reads = std::max<int64_t>(0, Pass<true, false>(flow, chip, nullptr).run(leaf.repeats) - slow_busy);
    return timing;
}

}  // namespace npu::machine
