// Final order of a leaf: an event loop over pipes that starts the first ready operation in list order.
// Source: hicann/pypto@r0.2.0 passes/block_graph_pass/schedule_ooo/scheduler.cpp (ScheduleMainLoop).
#include <algorithm>
#include <queue>

#include "npu_core/lowering/buffer_pool.h"
#include "npu_core/lowering/leaf.h"
#include "npu_core/lowering/spill.h"

namespace npu::lowering {
namespace {

constexpr int64_t NEVER = INT64_MAX;
using Heap = std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>>;

bool is_local_view(const Graph& g, int32_t id) {
    const Op& op = g.ops[id];
    return op.code == Opcode::VIEW && is_local(g.tensors[op.in[0]].mem) && is_local(g.tensors[op.out[0]].mem);
}

SchedulePipe pipe_of(const Graph& g, const Op& op) {
    if (op.code == Opcode::COPY_OUT && !op.in.empty() && g.tensors[op.in[0]].mem == Mem::L0C) return SchedulePipe::FIX;
    const SchedulePipe p = facts(op.code).schedule_pipe;
    return p == SchedulePipe::NONE ? SchedulePipe::S : p;
}

class MainLoop {
public:
    explicit MainLoop(Leaf& leaf) : leaf_(leaf), g_(leaf.graph) { prepare(); }

    std::vector<int32_t> run() {
        int64_t now = 0;
        while (true) {
            for (int p = 0; p < SCHEDULE_PIPE_COUNT; ++p)
                if (ends_[p] == now) {
                    retire(current_[p]);
                    ends_[p] = NEVER;
                }
            allocate();
            for (int p = 0; p < SCHEDULE_PIPE_COUNT; ++p) {
                if (ends_[p] != NEVER || ready_[p].empty()) continue;
                const int32_t id = leaf_.list[ready_[p].top()];
                ready_[p].pop();
                emit_views(id);
                emit(id);
                current_[p] = id;
                ends_[p] = now + g_.ops[id].latency;
            }
            if (order_.size() == leaf_.list.size() && std::all_of(ends_, ends_ + SCHEDULE_PIPE_COUNT, [](int64_t e) { return e == NEVER; }))
                break;
            const int64_t next = *std::min_element(ends_, ends_ + SCHEDULE_PIPE_COUNT);
            if (next == NEVER) make_room();
            else now = next;
        }
        leaf_.peak_bytes = pools_.peak_bytes();
        std::vector<int32_t> out;
        for (int32_t id : order_)
            if (leaf_.buffer_of_alloc[id] < 0) out.push_back(id);
        return out;
    }

private:
    // Predecessors with local views looked through.
    void collect(int32_t id, int32_t through) {
        for (int32_t p : deps_.before[through]) {
            if (leaf_.buffer_of_alloc[p] < 0 && is_local_view(g_, p)) { collect(id, p); continue; }
            if (real_before_[id].contains(p)) continue;
            real_before_[id].push_back(p);
            real_after_[p].push_back(id);
        }
    }

    void make_ready(int32_t id) { ready_[int(pipe_of(g_, g_.ops[id]))].push(place_[id]); }

    void done(int32_t id) {
        for (int32_t s : real_after_[id])
            if (--open_[s] == 0) make_ready(s);
    }

    void retire(int32_t id) {
        release(id);
        done(id);
    }

    void release(int32_t id) {
        for (const Ids* operands : {&g_.ops[id].in, &g_.ops[id].out})
            for (int32_t t : *operands) {
                const int32_t b = leaf_.buffer_of[t];
                if (b >= 0 && --refs_[b] == 0) pools_.free(leaf_.buffers[b].mem, b);
            }
    }

    void allocate() {
        for (int m = 0; m < MEM_COUNT; ++m)
            while (!allocs_[m].empty()) {
                const int32_t id = leaf_.list[allocs_[m].top()];
                const int32_t b = leaf_.buffer_of_alloc[id];
                if (!pools_.allocate(Mem(m), b, leaf_.buffers[b].bytes)) break;
                allocs_[m].pop();
                emit(id);
                if (--refs_[b] == 0) pools_.free(Mem(m), b);
                done(id);
            }
    }

    void emit_views(int32_t id) {
        for (int32_t t : g_.ops[id].in)
            for (int32_t p : g_.tensors[t].producers)
                if (!g_.ops[p].dead && place_[p] >= 0 && is_local_view(g_, p) && !emitted_[p]) {
                    emit_views(p);
                    emit(p);
                    release(p);
                }
    }

    void emit(int32_t id) {
        emitted_[id] = 1;
        order_.push_back(id);
    }

    // State of the queues from the list and from what has been emitted; everything emitted has retired.
    void prepare() {
        const size_t n = g_.ops.size();
        deps_ = dependencies(leaf_, leaf_.list);
        place_.assign(n, -1);
        open_.assign(n, 0);
        emitted_.resize(n, 0);
        real_before_.assign(n, {});
        real_after_.assign(n, {});
        for (Heap& h : ready_) h = {};
        for (Heap& h : allocs_) h = {};
        for (size_t i = 0; i < leaf_.list.size(); ++i) place_[leaf_.list[i]] = int32_t(i);
        std::vector<int32_t> rest;
        for (int32_t id : leaf_.list)
            if (!emitted_[id]) rest.push_back(id);
        refs_ = reference_counts(leaf_, rest);
        for (int32_t id : rest) {
            if (leaf_.buffer_of_alloc[id] >= 0) allocs_[int(leaf_.buffers[leaf_.buffer_of_alloc[id]].mem)].push(place_[id]);
            else if (!is_local_view(g_, id)) collect(id, id);
        }
        for (int32_t id : rest) {
            if (leaf_.buffer_of_alloc[id] >= 0 || is_local_view(g_, id)) continue;
            for (int32_t p : real_before_[id]) open_[id] += !emitted_[p];
            if (open_[id] == 0) make_ready(id);
        }
    }

    // Nothing can run: spill for the first ALLOC that waits, in UB, else in L1.
    void make_room() {
        for (Mem m : {Mem::UB, Mem::L1}) {
            Heap& waiting = allocs_[int(m)];
            if (waiting.empty()) continue;
            const int32_t alloc = leaf_.list[waiting.top()];
            const std::vector<int32_t> spilled = spill_for(leaf_, pools_, alloc, emitted_);
            if (spilled.empty()) continue;
            prepare();
            for (int32_t b : spilled)
                if (refs_[b] == 0) pools_.free(m, b);
            return;
        }
        throw_stuck();
    }

    [[noreturn]] void throw_stuck() {
        for (int m = 0; m < MEM_COUNT; ++m)
            if (!allocs_[m].empty())
                refuse_buffer(leaf_, leaf_.buffer_of_alloc[leaf_.list[allocs_[m].top()]], pools_.largest_gap(Mem(m)));
        throw std::runtime_error("in-core schedule: operations left that nothing wakes");
    }

    Leaf& leaf_;
    Graph& g_;
    Dependencies deps_;
    std::vector<int32_t> place_, open_, refs_, order_;
    std::vector<char> emitted_;
    std::vector<Ids> real_before_, real_after_;
    Heap ready_[SCHEDULE_PIPE_COUNT], allocs_[MEM_COUNT];
    int32_t current_[SCHEDULE_PIPE_COUNT] = {};
    int64_t ends_[SCHEDULE_PIPE_COUNT] = {NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER};
    BufferPools pools_;
};

}  // namespace

void schedule_leaf(Leaf& leaf) { leaf.schedule = MainLoop(leaf).run(); }

void lower_leaf(Leaf& leaf) {
    merge_buffers(leaf);
    check_capacity(leaf);
    add_allocs(leaf);
    sort_prior_dfs(leaf);
    insert_spills(leaf);
    schedule_leaf(leaf);
}

}  // namespace npu::lowering
