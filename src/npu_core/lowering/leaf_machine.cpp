#include "npu_core/lowering/leaf_machine.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "npu_core/base/fault.h"

namespace npu::lowering {
namespace {

constexpr int64_t NEVER = INT64_MAX;

Pipe allocator_of(Mem mem) {
    switch (mem) {
        case Mem::UB: return Pipe::ALLOC_UB;
        case Mem::L1: return Pipe::ALLOC_L1;
        case Mem::L0A: return Pipe::ALLOC_L0A;
        case Mem::L0B: return Pipe::ALLOC_L0B;
        case Mem::L0C: return Pipe::ALLOC_L0C;
        default: return Pipe::NONE;  // global memory, bias table, fixpipe: there from the start
    }
}

bool is_dropped(Opcode code) {
    if (facts(code).price == Price::DROPPED) return true;
    const std::string_view n = facts(code).name;
    for (const char* word : {"ALLOC", "PHASE", "SYNC", "BAR"})
        if (n.find(word) != std::string_view::npos) return true;
    return false;
}

struct Tile {
    bool allocated = false;
    int32_t producers_left = 0;
    std::vector<int32_t> producers, consumers;  // positions in the list, ascending
};

struct PipeState {
    std::vector<int32_t> queue;  // allocators: tiles; others: positions
    size_t head = 0;
    int32_t current = -1;
    int64_t seen_at = NEVER;     // cycle at which the core sees the current item done
};

class Machine {
public:
    Machine(const Graph& g, const std::vector<int32_t>& list, std::set<std::string>* no_pipe)
        : g_(g), list_(list), no_pipe_(no_pipe) {
        run_.timings.resize(list.size());
        queued_.assign(list.size(), 0);
        for (size_t i = 0; i < list.size(); ++i) enter(int32_t(i));
        for (Tile& t : tiles_) t.producers_left = int32_t(t.producers.size());
        for (size_t i = 0; i < list.size(); ++i)
            if (run_.timings[i].pipe != Pipe::NONE && starts_at_once(int32_t(i))) push(int32_t(i));
    }

    LeafRun run() {
        int64_t now = 0;
        issue(now);
        while ((now = next()) != NEVER) {
            for (int p = 0; p < PIPE_COUNT; ++p)
                if (pipes_[p].seen_at == now) complete(p);
            issue(now);
        }
        for (size_t i = 0; i < list_.size(); ++i)
            if (run_.timings[i].pipe != Pipe::NONE && !queued_[i])
                throw std::runtime_error("cost machine: operation " + std::string(facts(code(i)).name) + " never ready");
        run_.cycles += 1;
        std::sort(run_.events.begin(), run_.events.end());
        run_.events.erase(std::unique(run_.events.begin(), run_.events.end()), run_.events.end());
        return std::move(run_);
    }

private:
    Opcode code(size_t i) const { return g_.ops[list_[i]].code; }

    int32_t tile_of(int32_t tensor) {
        if (size_t(tensor) >= tile_index_.size()) tile_index_.resize(g_.tensors.size(), -1);
        int32_t& at = tile_index_[tensor];
        if (at < 0) {
            at = int32_t(tiles_.size());
            tiles_.emplace_back();
            const Pipe allocator = allocator_of(g_.tensors[tensor].mem);
            if (allocator == Pipe::NONE) tiles_.back().allocated = true;
            else pipes_[int(allocator)].queue.push_back(at);
        }
        return at;
    }

    void enter(int32_t i) {
        const Op& op = g_.ops[list_[i]];
        if (is_dropped(op.code)) return;
        Pipe pipe = facts(op.code).pipe;
        if (pipe == Pipe::NONE) {
            const std::string name(facts(op.code).name);
            if (!no_pipe_) fail("not_simulated", "the public simulator has no pipe for operation " + name);
            no_pipe_->insert(name);
            pipe = Pipe::VECTOR_ALU;
        }
        run_.timings[i].pipe = pipe;
        auto once = [i](std::vector<int32_t>& v) { if (v.empty() || v.back() != i) v.push_back(i); };
        for (int32_t t : op.in) once(tiles_[tile_of(t)].consumers);
        for (int32_t t : op.out) once(tiles_[tile_of(t)].producers);
    }

    bool starts_at_once(int32_t i) {
        const Op& op = g_.ops[list_[i]];
        for (int32_t t : op.in)
            if (!tiles_[tile_index_[t]].producers.empty()) return false;
        if (op.out.empty()) return true;
        for (int32_t t : op.out)
            if (g_.tensors[t].mem == Mem::GM || g_.tensors[t].mem == Mem::UNKNOWN) return true;
        return false;
    }

    void push(int32_t i) {
        queued_[i] = 1;
        pipes_[int(run_.timings[i].pipe)].queue.push_back(i);
    }

    void push_if_ready(int32_t i) {
        if (queued_[i]) return;
        const Op& op = g_.ops[list_[i]];
        for (int32_t t : op.in) {
            const Tile& tile = tiles_[tile_index_[t]];
            if (!tile.allocated || tile.producers_left) return;
        }
        for (int32_t t : op.out)
            if (!tiles_[tile_index_[t]].allocated) return;
        push(i);
    }

    void complete(int p) {
        PipeState& pipe = pipes_[p];
        const int32_t item = pipe.current;
        pipe.current = -1;
        pipe.seen_at = NEVER;
        if (p < int(Pipe::MTE_IN)) {
            Tile& tile = tiles_[item];
            tile.allocated = true;
            for (int32_t i : tile.producers) push_if_ready(i);
            for (int32_t i : tile.consumers) push_if_ready(i);
            return;
        }
        for (int32_t t : g_.ops[list_[item]].out) {
            Tile& tile = tiles_[tile_index_[t]];
            if (--tile.producers_left == 0)
                for (int32_t i : tile.consumers) push_if_ready(i);
        }
    }

    void issue(int64_t now) {
        for (int p = 0; p < PIPE_COUNT; ++p) {
            PipeState& pipe = pipes_[p];
            if (pipe.current >= 0 || pipe.head == pipe.queue.size()) continue;
            pipe.current = pipe.queue[pipe.head++];
            int64_t duration = 1;
            if (p >= int(Pipe::MTE_IN)) {
                duration = op_cycles(g_, g_.ops[list_[pipe.current]]);
                Timing& timing = run_.timings[pipe.current];
                timing.start = now + 1;
                timing.end = now + 1 + duration;
                run_.cycles = std::max(run_.cycles, timing.end);
            }
            pipe.seen_at = now + duration + 2;
            run_.events.insert(run_.events.end(), {now + 1, now + 1 + duration, pipe.seen_at});
        }
    }

    int64_t next() const {
        int64_t t = NEVER;
        for (const PipeState& pipe : pipes_) t = std::min(t, pipe.seen_at);
        return t;
    }

    const Graph& g_;
    const std::vector<int32_t>& list_;
    std::set<std::string>* no_pipe_;
    LeafRun run_;
    std::vector<char> queued_;
    std::vector<Tile> tiles_;
    std::vector<int32_t> tile_index_;
    PipeState pipes_[PIPE_COUNT];
};

}  // namespace

LeafRun run_leaf(const Graph& graph, const std::vector<int32_t>& list, std::set<std::string>* no_pipe) {
    return Machine(graph, list, no_pipe).run();
}

}  // namespace npu::lowering
