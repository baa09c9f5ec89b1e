// Orders of the operations of a leaf before its list schedule.
#include <tuple>

#include "npu_core/plan/leaf_links.h"

namespace npu::plan {

namespace {

Lists producers_of(const Leaf& leaf) {
    Lists made;
    const int32_t n = static_cast<int32_t>(leaf.ops.size());
    made.fill(leaf.tensors.size(), [&](auto put) {
        for (int32_t i = 0; i < n; ++i)
            for (int32_t t : leaf.ops[i].out) put(t, i);
    });
    return made;
}

}  // namespace

Links link(const Leaf& leaf) {
    Links l;
    const int32_t n = static_cast<int32_t>(leaf.ops.size());
    l.producers = producers_of(leaf);
    l.consumers.fill(leaf.tensors.size(), [&](auto put) {
        for (int32_t i = 0; i < n; ++i) {
            const Operands& in = leaf.ops[i].in;
            for (size_t k = 0; k < in.size(); ++k)
                if (std::find(in.begin(), in.begin() + k, in[k]) == in.begin() + k) put(in[k], i);
        }
    });
    std::vector<int32_t> stamp(static_cast<size_t>(n), -1);
    l.pred.begin.reserve(static_cast<size_t>(n) + 1);
    l.pred.begin.push_back(0);
    for (int32_t i = 0; i < n; ++i) {
        for (int32_t t : leaf.ops[i].in)
            for (int32_t p : l.producers[t]) {
                if (stamp[p] == i) continue;
                stamp[p] = i;
                l.pred.items.push_back(p);
            }
        l.pred.begin.push_back(static_cast<int32_t>(l.pred.items.size()));
    }
    l.succ.fill(static_cast<size_t>(n), [&](auto put) {
        for (int32_t i = 0; i < n; ++i)
            for (int32_t p : l.pred[i]) put(p, i);
    });
    return l;
}

std::vector<int32_t> backwards_order(const Leaf& leaf) {
    const Lists producers = producers_of(leaf);
    const size_t n = leaf.ops.size();
    std::vector<int32_t> uses(n, 0), queue;
    queue.reserve(n);
    for (const LeafOp& op : leaf.ops)
        for (int32_t t : op.in)
            for (int32_t p : producers[t]) ++uses[p];
    for (size_t i = 0; i < n; ++i)
        if (uses[i] == 0) queue.push_back(static_cast<int32_t>(i));
    for (size_t head = 0; head < queue.size(); ++head)
        for (int32_t t : leaf.ops[queue[head]].in)
            for (int32_t p : producers[t])
                if (--uses[p] == 0) queue.push_back(p);
    std::reverse(queue.begin(), queue.end());
    return queue;
}

std::vector<int32_t> depth_first(const Leaf& leaf, const Links& l) {
    const int32_t n = static_cast<int32_t>(leaf.ops.size());
    std::vector<int32_t> depth(n, 0), sinks;
    for (int32_t i = 0; i < n; ++i)
        for (int32_t p : l.pred[i]) depth[i] = std::max(depth[i], depth[p] + 1);
    for (int32_t i = 0; i < n; ++i)
        if (l.succ[i].empty()) sinks.push_back(i);
    std::stable_sort(sinks.begin(), sinks.end(), [&](int32_t a, int32_t b) { return depth[a] > depth[b]; });
    auto priority = [&](int32_t i) {
        switch (leaf.ops[i].code) {
            case Code::L1_TO_L0A: case Code::L1_TO_L0At: case Code::L1_TO_L0B: case Code::L1_TO_L0Bt: case Code::L1_TO_BT: return 1;
            case Code::COPY_IN: case Code::GATHER: case Code::TRANSPOSE_MOVEIN: return 2;
            default: return 10;
        }
    };
    std::vector<char> visited(n, 0);
    std::vector<int32_t> order, stack, open;
    order.reserve(n);
    auto visit = [&](int32_t sink) {
        stack.assign(1, sink);
        while (!stack.empty()) {
            const int32_t v = stack.back();
            if (visited[v]) { stack.pop_back(); continue; }
            open.clear();
            for (int32_t p : l.pred[v])
                if (!visited[p]) open.push_back(p);
            if (open.empty()) {
                visited[v] = 1;
                order.push_back(v);
                stack.pop_back();
                continue;
            }
            if (open.size() > 1)
                std::sort(open.begin(), open.end(), [&](int32_t a, int32_t b) {
                    return std::tuple(priority(a), depth[a], a) < std::tuple(priority(b), depth[b], b);
                });
            stack.insert(stack.end(), open.begin(), open.end());
        }
    };
    std::vector<int32_t> stamp(n, -1), todo;
    int32_t round_of_search = 0;
    auto ancestors = [&](int32_t sink, size_t enough) {   // not yet visited; the search ends at `enough`
        todo.assign(1, sink);
        ++round_of_search;
        size_t found = 0;
        while (!todo.empty() && found < enough) {
            const int32_t v = todo.back();
            todo.pop_back();
            for (int32_t p : l.pred[v])
                if (!visited[p] && stamp[p] != round_of_search) {
                    stamp[p] = round_of_search;
                    ++found;
                    todo.push_back(p);
                }
        }
        return found;
    };
    std::vector<char> done(sinks.size(), 0);
    const bool small = sinks.size() * sinks.size() * static_cast<size_t>(n) < 20000000;
    for (size_t round = 0; round < sinks.size(); ++round) {
        size_t pick = round;
        if (round > 0 && small) {
            size_t fewest = SIZE_MAX;
            for (size_t i = 0; i < sinks.size(); ++i) {
                if (done[i]) continue;
                if (size_t a = ancestors(sinks[i], fewest); a < fewest) { fewest = a; pick = i; }
            }
        }
        done[pick] = 1;
        visit(sinks[pick]);
    }
    // Promote: what is ready comes in the order found, assembles and copies out before the rest.
    std::vector<int32_t> place(n), waiting(n), out;
    for (int32_t i = 0; i < n; ++i) place[order[i]] = i;
    std::vector<FirstSet> ready(3, FirstSet(static_cast<size_t>(n)));   // places, by rank
    auto put = [&](int32_t v) {
        const Code code = leaf.ops[v].code;
        ready[code == Code::ASSEMBLE ? 0 : code == Code::COPY_OUT ? 1 : 2].insert(place[v]);
    };
    for (int32_t v = 0; v < n; ++v) {
        waiting[v] = static_cast<int32_t>(l.pred[v].size());
        if (waiting[v] == 0) put(v);
    }
    out.reserve(n);
    while (true) {
        FirstSet* first = nullptr;
        for (FirstSet& set : ready)
            if (!set.empty()) { first = &set; break; }
        if (!first) break;
        const int32_t v = order[first->take_first()];
        out.push_back(v);
        for (int32_t s : l.succ[v])
            if (--waiting[s] == 0) put(s);
    }
    return out;
}

}  // namespace npu::plan
