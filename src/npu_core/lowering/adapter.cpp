// A local tensor cannot cross a sub-graph: it goes through global memory. Source: hicann/pypto@r0.2.0
// passes/tile_graph_pass (IntraSubgraphAdapter).
#include <algorithm>
#include <map>

#include "npu_core/lowering/leaf.h"
#include "npu_core/lowering/moves.h"

namespace npu::lowering {
namespace {

struct Crossing {
    int32_t tensor;
    std::vector<int32_t> makers;                     // operations, one sub-graph
    std::vector<int32_t> home_readers;               // in the makers' sub-graph
    std::map<int32_t, std::vector<int32_t>> away;    // readers by sub-graph
};

bool crosses(const Graph& g, int32_t t, Crossing& c) {
    const Tensor& x = g.tensors[t];
    if (!is_local(x.mem) || x.producers.empty()) return false;
    c.tensor = t;
    c.makers.assign(x.producers.begin(), x.producers.end());
    const int32_t home = g.ops[c.makers[0]].sub_graph;
    for (int32_t r : x.consumers) {
        if (g.ops[r].sub_graph == home) c.home_readers.push_back(r);
        else c.away[g.ops[r].sub_graph].push_back(r);
    }
    return !c.away.empty();
}

int32_t add_move(Graph& g, Opcode code, int32_t from, int32_t to, int32_t sub_graph, int32_t source) {
    const int32_t id = g.add_op(code, {from}, {to});
    g.ops[id].source = source;
    g.ops[id].sub_graph = sub_graph;
    g.ops[id].at = zero_offset(g.tensors[to].shape.rank);
    return id;
}

void resolve(Graph& g, const Crossing& c) {
    const Tensor old = g.tensors[c.tensor];
    const int32_t home = g.ops[c.makers[0]].sub_graph;
    int32_t global;
    if (c.home_readers.empty()) {
        global = c.tensor;
        g.tensors[global].mem = Mem::GM;
        std::vector<int32_t> makers;     // an ASSEMBLE writes global memory itself
        for (int32_t m : c.makers)
            if (g.ops[m].code != Opcode::ASSEMBLE) makers.push_back(m);
        if (!makers.empty()) {
            const int32_t local = g.add_fresh(old.shape, old.dtype, old.mem);
            g.tensors[local].valid = old.valid;
            for (int32_t m : makers) g.replace_output(m, global, local);
            add_move(g, Opcode::ASSEMBLE, local, global, home, g.ops[c.makers[0]].source);
        }
    } else {
        global = g.add_fresh(old.shape, old.dtype, Mem::GM);
        g.tensors[global].valid = old.valid;
        add_move(g, Opcode::ASSEMBLE, c.tensor, global, home, g.ops[c.makers[0]].source);
    }
    for (const auto& [sub_graph, all] : c.away) {
        std::vector<int32_t> readers;    // a VIEW reads its window of global memory itself
        for (int32_t r : all) {
            if (g.ops[r].code != Opcode::VIEW) readers.push_back(r);
            else if (global != c.tensor) g.replace_input(r, c.tensor, global);
        }
        if (readers.empty()) continue;
        const int32_t local = g.add_fresh(old.shape, old.dtype, old.mem);
        g.tensors[local].valid = old.valid;
        add_move(g, Opcode::VIEW, global, local, sub_graph, g.ops[readers[0]].source);
        for (int32_t r : readers) g.replace_input(r, c.tensor, local);
    }
}

}  // namespace

void adapt_sub_graph_borders(Graph& g) {
    std::vector<Crossing> crossings;
    std::vector<char> seen(g.tensors.size(), 0);
    for (int32_t id : g.order)
        for (int32_t t : g.ops[id].out) {
            if (seen[t]) continue;
            seen[t] = 1;
            Crossing c;
            if (crosses(g, t, c)) crossings.push_back(std::move(c));
        }
    std::sort(crossings.begin(), crossings.end(), [](const Crossing& a, const Crossing& b) { return a.tensor < b.tensor; });
    for (const Crossing& c : crossings) resolve(g, c);
}

}  // namespace npu::lowering
