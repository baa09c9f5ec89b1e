// Source: hicann/pypto@r0.2.0 machine/device/dynamic/context (device_stitch_context.cpp, device_slot_context.cpp).
#include "npu_core/lowering/stitch.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "npu_core/base/patience.h"
#include "npu_core/lowering/limits.h"
#include "npu_core/lowering/workspace_ring.h"

namespace npu::lowering {
namespace {

constexpr int64_t STITCH_SIZE = 20000;   // call operations of one DeviceTask
constexpr int64_t RING_ITERATIONS = 10;  // loop iterations whose inner tensors the workspace holds; derived, docs/lowering.md
constexpr size_t COVER_HUB = 2;          // more full-cover producers than this get a hub behind them

struct Slot {
    bool windows = false;                // written window by window from several places: an assemble target
    Shape shape, cell;
    std::unordered_map<int64_t, int32_t> writer;      // cell -> task of the current DeviceTask
    std::vector<int32_t> cover;                       // full-cover producers of the latest instance
    bool latest_here = false;                         // the latest writer is in the current DeviceTask
};

// Room for the inner tensors of so many iterations of the most demanding loop body.
int64_t ring_bytes(const std::vector<CompiledRoot>& roots) {
    int64_t iteration = 0, root_bytes = 0;
    for (const CompiledRoot& r : roots) {
        iteration = std::max(iteration, (r.workspace_bytes + r.iterations - 1) / r.iterations);
        root_bytes = std::max(root_bytes, r.workspace_bytes);
    }
    return std::max(RING_ITERATIONS * iteration, root_bytes);
}

bool covers(const Window& w, const Shape& whole) {
    for (int d = 0; d < whole.rank; ++d)
        if (w.at.d[d].symbol || w.at.d[d].at != 0 || w.shape[d] < whole[d]) return false;
    return true;
}

class Stitcher {
public:
    Stitcher(const Program& p, const ControlFlow& flow, std::vector<CompiledRoot>& roots, int64_t most)
        : p_(p), flow_(flow), roots_(roots), most_(most), ring_(ring_bytes(roots)) {
        for (size_t r = 0; r < roots.size(); ++r) describe_slots(roots[r]);
        for (size_t r = 0; r < roots.size(); ++r) cover_hubs(roots[r]);
    }

    DeviceTasks run() {
        for (size_t i = 0; i < flow_.instances.size(); ++i) {
            const CompiledRoot& root = roots_[flow_.instances[i].root];
            const int64_t size = int64_t(root.tasks.tasks.size());
            if (out_.tasks.empty() || int64_t(out_.instances.back().size()) >= most_ || calls_ + size > STITCH_SIZE ||
                flow_.instances[i].submit_before)
                open();
            patience_.check();
            total_ += size;
            if (total_ > MOST_TASKS) too_large("tasks", MOST_TASKS);
            add(int32_t(i), root);
            for (const RootTask& t : root.tasks.tasks) calls_ += t.core != CoreType::HUB;
        }
        return std::move(out_);
    }

private:
    void describe_slots(const CompiledRoot& root) {
        for (size_t o = 0; o < root.output_slots.size(); ++o) {
            Slot& s = slots_[root.output_slots[o]];
            const Shape& whole = p_.tensors[root.output_slots[o]].shape;
            if (s.shape.rank == 0) s.shape = s.cell = whole;
            for (const Window& w : root.writes[o]) {
                if (covers(w, whole)) continue;
                for (int d = 0; d < whole.rank; ++d) s.cell[d] = std::min(s.cell[d], w.shape[d]);
                for (int d = 0; d < w.at.rank; ++d) s.windows |= w.at.d[d].symbol != 0;
            }
        }
    }

    // Many producers of a whole slot meet in one hub.
    void cover_hubs(CompiledRoot& root) {
        root_hubs_[&root].assign(root.output_slots.size(), -1);
        for (size_t o = 0; o < root.output_slots.size(); ++o) {
            const std::vector<int32_t> tasks = cover_tasks(root, o);
            if (tasks.size() <= COVER_HUB) continue;
            const int32_t hub = int32_t(root.tasks.tasks.size());
            root.tasks.tasks.push_back({CoreType::HUB, -1, {}, int32_t(tasks.size())});
            for (int32_t t : tasks) root.tasks.tasks[t].successors.push_back(hub);
            root_hubs_[&root][o] = hub;
        }
    }

    std::vector<int32_t> cover_tasks(const CompiledRoot& root, size_t o) const {
        std::vector<int32_t> tasks;
        for (const Window& w : root.writes[o])
            if (covers(w, p_.tensors[root.output_slots[o]].shape)) {
                const int32_t t = root.tasks.task_of_call[w.call];
                if (t >= 0 && std::find(tasks.begin(), tasks.end(), t) == tasks.end()) tasks.push_back(t);
            }
        return tasks;
    }

    void open() {
        out_.tasks.emplace_back();
        out_.first_task.emplace_back();
        out_.instances.emplace_back();
        calls_ = 0;
        ring_.clear();
        for (auto& [id, s] : slots_) {
            s.writer.clear();
            s.cover.clear();
            s.latest_here = false;
        }
    }

    int64_t coordinate(const Coord& c, const std::vector<Symbol>& symbols, const Instance& instance) const {
        int64_t at = c.at;
        for (auto [expr, copy] : symbols[c.symbol].terms) at += value_of(p_, expr, instance.scalars[copy]);
        return at;
    }

    // Calls use(cell) for every cell of the slot that the window touches, row major.
    template <class F> void each_cell(const Slot& s, const Window& w, const std::vector<Symbol>& symbols, const Instance& instance, F&& use) const {
        const int rank = s.shape.rank;
        int64_t low[MAX_RANK], high[MAX_RANK], place[MAX_RANK];
        for (int d = 0; d < rank; ++d) {
            const int64_t at = d < w.at.rank ? coordinate(w.at.d[d], symbols, instance) : 0;
            const int64_t end = std::min(at + w.shape[d], std::max(s.shape[d], at + 1));
            low[d] = place[d] = at / s.cell[d];
            high[d] = (std::max(end, at + 1) - 1) / s.cell[d];
        }
        while (true) {
            int64_t cell = 0;
            for (int d = 0; d < rank; ++d) cell = cell * ((s.shape[d] + s.cell[d] - 1) / s.cell[d] + 1) + place[d];
            use(cell);
            int d = rank - 1;
            while (d >= 0 && ++place[d] > high[d]) { place[d] = low[d]; --d; }
            if (d < 0) return;
        }
    }

    void edge(int32_t from, int32_t to) {
        auto& tasks = out_.tasks.back();
        tasks[from].successors.push_back(to);
        ++tasks[to].predecessors;
    }

    void add(int32_t index, const CompiledRoot& root) {
        const Instance& instance = flow_.instances[index];
        auto& tasks = out_.tasks.back();
        const int32_t base = int32_t(tasks.size());
        out_.first_task.back().push_back(base);
        out_.instances.back().push_back(index);
        for (const RootTask& t : root.tasks.tasks) {
            MachineTask m;
            m.core = t.core;
            m.leaf = t.core == CoreType::HUB || t.call < 0 ? -1 : root.calls[t.call].leaf;
            m.predecessors = t.predecessors;
            for (int32_t s : t.successors) m.successors.push_back(base + s);
            tasks.push_back(std::move(m));
        }
        for (size_t i = 0; i < root.input_slots.size(); ++i) connect(root, i, instance, base);
        const int32_t place = int32_t(out_.first_task.back().size()) - 1;
        for (int32_t before : ring_.take(place, root.workspace_bytes)) wait_for(before, root, base);
        for (size_t o = 0; o < root.output_slots.size(); ++o) record(root, o, instance, base);
    }

    // The last tasks of an instance precede the first of one that takes its workspace.
    void wait_for(int32_t before, const CompiledRoot& root, int32_t base) {
        const int32_t old_base = out_.first_task.back()[before];
        const std::vector<RootTask>& old = roots_[flow_.instances[out_.instances.back()[before]].root].tasks.tasks;
        for (size_t from = 0; from < old.size(); ++from) {
            if (!old[from].successors.empty()) continue;
            for (size_t to = 0; to < root.tasks.tasks.size(); ++to)
                if (root.tasks.tasks[to].predecessors == 0) edge(old_base + int32_t(from), base + int32_t(to));
        }
    }

    void connect(const CompiledRoot& root, size_t input, const Instance& instance, int32_t base) {
        auto found = slots_.find(root.input_slots[input]);
        if (found == slots_.end() || !found->second.latest_here) return;
        const Slot& s = found->second;
        if (!s.windows)
            for (int32_t producer : s.cover) {
                std::vector<int32_t> seen;
                for (const Window& w : root.reads[input]) {
                    const int32_t t = root.tasks.task_of_call[w.call];
                    if (t < 0 || std::find(seen.begin(), seen.end(), t) != seen.end()) continue;
                    seen.push_back(t);
                    edge(producer, base + t);
                }
            }
        for (const Window& w : root.reads[input]) {
            const int32_t t = root.tasks.task_of_call[w.call];
            if (t < 0) continue;
            each_cell(s, w, root.symbols, instance, [&](int64_t cell) {
                auto it = s.writer.find(cell);
                if (it != s.writer.end()) edge(it->second, base + t);
            });
        }
    }

    void record(const CompiledRoot& root, size_t output, const Instance& instance, int32_t base) {
        Slot& s = slots_[root.output_slots[output]];
        if (!s.windows) s.writer.clear();
        s.cover.clear();
        s.latest_here = true;
        const int32_t hub = root_hubs_.at(&root)[output];
        if (hub >= 0) s.cover.push_back(base + hub);
        else for (int32_t t : cover_tasks(root, output)) s.cover.push_back(base + t);
        for (const Window& w : root.writes[output]) {
            const int32_t t = root.tasks.task_of_call[w.call];
            if (t < 0 || (!s.windows && covers(w, s.shape))) continue;
            each_cell(s, w, root.symbols, instance, [&](int64_t cell) { s.writer[cell] = base + t; });
        }
    }

    const Program& p_;
    const ControlFlow& flow_;
    std::vector<CompiledRoot>& roots_;
    int64_t most_, calls_ = 0, total_ = 0;
    WorkspaceRing ring_;
    Patience patience_;
    std::map<Id, Slot> slots_;
    std::map<const CompiledRoot*, std::vector<int32_t>> root_hubs_;
    DeviceTasks out_;
};

}  // namespace

DeviceTasks stitch(const Program& program, const ControlFlow& flow, std::vector<CompiledRoot>& roots, int64_t stitch_max) {
    return Stitcher(program, flow, roots, stitch_max).run();
}

}  // namespace npu::lowering
