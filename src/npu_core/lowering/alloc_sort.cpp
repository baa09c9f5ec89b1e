// Order of a leaf before scheduling. Source: hicann/pypto@r0.2.0 passes/block_graph_pass/schedule_ooo/optimize_sort.cpp
// (method PriorDFS).
#include <algorithm>
#include <queue>
#include <tuple>

#include "npu_core/lowering/leaf.h"

namespace npu::lowering {
namespace {

int priority_class(const Leaf& leaf, int32_t id) {
    if (leaf.buffer_of_alloc[id] >= 0) return 0;
    const Op& op = leaf.graph.ops[id];
    const OpFacts& f = facts(op.code);
    if (f.schedule_pipe == SchedulePipe::MTE1) return 1;
    if (f.klass == OpClass::MOVE_IN || op.code == Opcode::GATHER) return 2;
    return 10;
}

class PriorDfs {
public:
    explicit PriorDfs(Leaf& leaf) : leaf_(leaf), deps_(dependencies(leaf, leaf.list)) {
        place_.assign(leaf.graph.ops.size(), 0);
        depth_.assign(leaf.graph.ops.size(), -1);
        visited_.assign(leaf.graph.ops.size(), 0);
        for (size_t i = 0; i < leaf.list.size(); ++i) place_[leaf.list[i]] = int32_t(i);
        for (int32_t id : leaf.list) depth(id);
    }

    void run() {
        std::vector<int32_t> sinks;
        for (int32_t id : leaf_.list)
            if (deps_.after[id].empty()) sinks.push_back(id);
        std::stable_sort(sinks.begin(), sinks.end(), [&](int32_t a, int32_t b) { return depth_[a] > depth_[b]; });
        bool first = true;
        while (!sinks.empty()) {
            size_t best = 0;
            if (!first) {
                size_t fewest = SIZE_MAX;
                for (size_t i = 0; i < sinks.size(); ++i) {
                    const size_t n = unvisited_ancestors(sinks[i], fewest);
                    if (n < fewest) { fewest = n; best = i; }
                }
            }
            first = false;
            visit(sinks[best]);
            sinks.erase(sinks.begin() + long(best));
        }
        leaf_.list = done_;
    }

    // Re-emits the list: assembles as soon as possible, then copies to global memory, then the old order.
    void promote() {
        deps_ = dependencies(leaf_, leaf_.list);
        std::vector<int32_t> open(leaf_.graph.ops.size(), 0);
        using Key = std::tuple<int, int32_t, int32_t>;
        std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
        auto rank = [&](int32_t id) {
            const Opcode c = leaf_.graph.ops[id].code;
            return c == Opcode::ASSEMBLE ? 0 : c == Opcode::COPY_OUT ? 1 : 2;
        };
        for (size_t i = 0; i < leaf_.list.size(); ++i) place_[leaf_.list[i]] = int32_t(i);
        for (int32_t id : leaf_.list) {
            open[id] = int32_t(deps_.before[id].size());
            if (!open[id]) ready.push({rank(id), place_[id], id});
        }
        std::vector<int32_t> out;
        while (!ready.empty()) {
            const int32_t id = std::get<2>(ready.top());
            ready.pop();
            out.push_back(id);
            for (int32_t s : deps_.after[id])
                if (--open[s] == 0) ready.push({rank(s), place_[s], s});
        }
        leaf_.list = out;
    }

private:
    int32_t depth(int32_t root) {
        std::vector<int32_t> stack{root};
        while (!stack.empty()) {
            const int32_t id = stack.back();
            if (depth_[id] >= 0) { stack.pop_back(); continue; }
            int32_t d = 0;
            bool open = false;
            for (int32_t p : deps_.before[id]) {
                if (depth_[p] < 0) { stack.push_back(p); open = true; }
                else d = std::max(d, depth_[p] + 1);
            }
            if (!open) { depth_[id] = d; stack.pop_back(); }
        }
        return depth_[root];
    }

    size_t unvisited_ancestors(int32_t sink, size_t limit) {
        ++mark_;
        marks_.resize(leaf_.graph.ops.size(), 0);
        std::vector<int32_t> stack{sink};
        size_t count = 0;
        while (!stack.empty()) {
            const int32_t id = stack.back();
            stack.pop_back();
            for (int32_t p : deps_.before[id]) {
                if (visited_[p] || marks_[p] == mark_) continue;
                marks_[p] = mark_;
                if (++count >= limit) return count;
                stack.push_back(p);
            }
        }
        return count;
    }

    void visit(int32_t sink) {
        std::vector<int32_t> stack{sink}, open;
        while (!stack.empty()) {
            const int32_t id = stack.back();
            if (visited_[id]) { stack.pop_back(); continue; }
            open.clear();
            for (int32_t p : deps_.before[id])
                if (!visited_[p]) open.push_back(p);
            if (open.empty()) {
                visited_[id] = 1;
                done_.push_back(id);
                stack.pop_back();
                continue;
            }
            auto key = [&](int32_t p) { return std::tuple(priority_class(leaf_, p), depth_[p], place_[p]); };
            std::sort(open.begin(), open.end(), [&](int32_t a, int32_t b) { return key(a) < key(b); });
            stack.insert(stack.end(), open.begin(), open.end());
        }
    }

    Leaf& leaf_;
    Dependencies deps_;
    std::vector<int32_t> place_, depth_, done_, marks_;
    std::vector<char> visited_;
    int32_t mark_ = 0;
};

}  // namespace

void sort_prior_dfs(Leaf& leaf) {
    PriorDfs sort(leaf);
    sort.run();
    sort.promote();
}

}  // namespace npu::lowering
