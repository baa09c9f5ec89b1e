// The two renumberings of sub-graphs: at the end of NBufferMerge and in PreGraphProcess.
#include <algorithm>

#include "npu_core/lowering/partition.h"
#include "npu_core/lowering/sub_graphs.h"

namespace npu::lowering {
namespace {

void close_gaps(Graph& g) {
    std::vector<int32_t> number;
    for (int32_t id : g.order) {
        const int32_t s = g.ops[id].sub_graph;
        if (s < 0) continue;
        if (size_t(s) >= number.size()) number.resize(s + 1, -1);
        number[s] = 0;
    }
    int32_t next = 0;
    for (int32_t& n : number)
        if (n == 0) n = next++;
    for (int32_t id : g.order)
        if (g.ops[id].sub_graph >= 0) g.ops[id].sub_graph = number[g.ops[id].sub_graph];
}

void assign_numbers(Graph& g, const std::vector<int32_t>& number) {
    for (int32_t id : g.order)
        if (g.ops[id].sub_graph >= 0) g.ops[id].sub_graph = number[g.ops[id].sub_graph];
}

}  // namespace

void renumber_breadth_first(Graph& g) {
    close_gaps(g);
    const OpEdges edges = op_edges(g);
    std::vector<std::vector<int32_t>> places;
    std::vector<int32_t> open, queue;
    auto sub_graph = [&](int32_t place) { return g.ops[g.order[place]].sub_graph; };
    for (size_t i = 0; i < g.order.size(); ++i) {
        const size_t s = size_t(sub_graph(int32_t(i)));
        if (s >= places.size()) places.resize(s + 1);
        places[s].push_back(int32_t(i));
    }
    open.assign(places.size(), 0);
    for (size_t i = 0; i < g.order.size(); ++i)
        for (int32_t j : edges.next[i]) open[sub_graph(j)] += sub_graph(j) != sub_graph(int32_t(i));
    for (size_t s = 0; s < places.size(); ++s)
        if (open[s] == 0) queue.push_back(int32_t(s));
    std::vector<int32_t> number(places.size(), -1);
    for (size_t head = 0; head < queue.size(); ++head) {
        number[queue[head]] = int32_t(head);
        for (int32_t i : places[queue[head]])
            for (int32_t j : edges.next[i])
                if (sub_graph(j) != queue[head] && --open[sub_graph(j)] == 0) queue.push_back(sub_graph(j));
    }
    assign_numbers(g, number);
}

void renumber_depth_first(Graph& g) {
    close_gaps(g);
    const SubGraphs subs = sub_graphs_of(g);
    std::vector<int32_t> number(subs.size(), -1);
    std::vector<char> pushed(subs.size(), 0);
    int32_t next = 0;
    for (size_t s = 0; s < subs.size(); ++s) {
        if (number[s] >= 0) continue;
        std::vector<int32_t> stack{int32_t(s)};
        pushed[s] = 1;
        while (!stack.empty()) {
            const int32_t top = stack.back();
            if (number[top] >= 0) { stack.pop_back(); continue; }
            bool waits = false;
            for (int32_t p : subs.previous[top])
                if (number[p] < 0) {
                    stack.push_back(p);
                    pushed[p] = 1;
                    waits = true;
                }
            if (waits) continue;
            number[top] = next++;
            stack.pop_back();
            for (int32_t n : subs.next[top])
                if (number[n] < 0 && !pushed[n]) {
                    stack.push_back(n);
                    pushed[n] = 1;
                }
        }
    }
    assign_numbers(g, number);
}

}  // namespace npu::lowering
