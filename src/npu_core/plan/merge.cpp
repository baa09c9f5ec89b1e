// Breadth merges after the partition: vector N-buffer, L1 reuse, cube N-buffer.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "npu_core/plan/hash.h"
#include "npu_core/plan/stages.h"

namespace npu::plan {

namespace {

// `place`: by operation, -1 before and after.
Hash class_hash(const Graph& g, const SubGraph& s, std::vector<int32_t>& place) {
    int32_t count = 0;
    Hash h = 41;
    for (Id id : s.ops) {
        const Op& op = g.ops[id];
        h = mix(h, static_cast<uint64_t>(op.code));
        if (op.mm != NONE) h = mix(h, static_cast<uint64_t>(ceil_div(g.matmuls[op.mm].k, g.matmuls[op.mm].k_l0)));
        for (Id t : op.in)
            for (Id p : g.tensors[t].producers)
                if (place[p] >= 0) h = mix(h, static_cast<uint64_t>(place[p]));
        place[id] = count++;
    }
    for (Id id : s.ops) place[id] = -1;
    return h;
}

std::vector<std::vector<Id>> classes_of(const Graph& g, const std::vector<SubGraph>& subs) {
    std::unordered_map<Hash, size_t> known;
    std::vector<int32_t> place(g.ops.size(), -1);
    std::vector<std::vector<Id>> classes;
    for (size_t i = 0; i < subs.size(); ++i) {
        auto [it, added] = known.try_emplace(class_hash(g, subs[i], place), classes.size());
        if (added) classes.emplace_back();
        classes[it->second].push_back(static_cast<Id>(i));
    }
    return classes;
}

struct Neighbours { std::vector<std::vector<Id>> pred, succ; };
Neighbours neighbours(const Graph& g, size_t subs) {
    Neighbours n;
    n.pred.resize(subs);
    n.succ.resize(subs);
    for (Id id : g.order)
        for (Id t : g.ops[id].in)
            for (Id p : g.tensors[t].producers) {
                const Id a = g.ops[p].sub, b = g.ops[id].sub;
                if (a == b) continue;
                n.succ[a].push_back(b);
                n.pred[b].push_back(a);
            }
    for (auto* lists : {&n.pred, &n.succ})
        for (std::vector<Id>& list : *lists) {
            std::sort(list.begin(), list.end());
            list.erase(std::unique(list.begin(), list.end()), list.end());
        }
    return n;
}

void apply(Graph& g, std::vector<SubGraph>& subs, const std::vector<Id>& host) {
    for (Id id : g.order) g.ops[id].sub = host[g.ops[id].sub];
    subs = collect_sub_graphs(g);
}

// Loads GM -> L1 of a sub-graph: (raw tensor, offset, shape) keys with their bytes, in operation order.
using LoadKey = std::array<int64_t, 6>;
struct Load { LoadKey key; int64_t bytes; };
std::vector<Load> l1_loads(const Graph& g, const SubGraph& s) {
    std::vector<Load> loads;
    for (Id id : s.ops) {
        const Op& op = g.ops[id];
        if (op.code == Code::VIEW && g.tensors[op.out[0]].mem == Mem::L1 && g.tensors[op.in[0]].mem == Mem::GM) {
            const Tensor& out = g.tensors[op.out[0]];
            loads.push_back({{op.in[0], op.at[0], op.at[1], out.shape[0], out.shape[1], op.dyn}, bytes_of(out.shape, out.dtype)});
        } else if (op.mm != NONE) {
            const Matmul& m = g.matmuls[op.mm];
            const int64_t size = dtype_size_bytes(m.in);
            const size_t b_first = m.a_direct ? 1 : static_cast<size_t>(ceil_div(m.k, m.k_l1a));
            // the sorted list has the load of B before that of A
            if (m.b_direct) loads.push_back({{op.in[b_first], m.b_at[0], m.b_at[1], m.n, -m.k_l1b, m.b_dyn}, m.n * m.k * size});
            if (m.a_direct) loads.push_back({{op.in[0], m.a_at[0], m.a_at[1], m.m, -m.k_l1a, m.a_dyn}, m.m * m.k * size});
        }
    }
    return loads;
}

}  // namespace

// Vector N-buffer merge: packs isomorphic vector sub-graphs that share a producer or a consumer.
void merge_vector_sub_graphs(Graph& g, std::vector<SubGraph>& subs, const PartitionOptions& o) {
    if (o.vec_nbuffer.off() || subs.empty()) return;
    std::vector<Id> host(subs.size());
    std::iota(host.begin(), host.end(), 0);
    const Neighbours near = neighbours(g, subs.size());
    bool changed = false;
    const std::vector<std::vector<Id>> classes = classes_of(g, subs);
    for (size_t number = 0; number < classes.size(); ++number) {
        const std::vector<Id>& members = classes[number];
        if (subs[members[0]].core != cost::Core::AIV) continue;
        const int64_t c = static_cast<int64_t>(members.size());
        int64_t f = o.vec_nbuffer.factor(number);
        if (f == MergeSetting::AUTOMATIC && c > o.vec_parallel) {
            f = ceil_div(c, o.vec_parallel);
            while (ceil_div(c, f) < o.vec_parallel && f > 1) --f;
        }
        if (f <= 1) continue;
        std::vector<std::vector<Id>> lists;
        if (o.vec_nbuffer_anywhere) {
            lists.push_back(members);
        } else {
            std::map<Id, std::vector<Id>> by_pred, by_succ;   // private keys are below zero
            for (Id m : members) {
                if (near.pred[m].empty()) by_pred[-1 - m].push_back(m);
                for (Id p : near.pred[m]) by_pred[p].push_back(m);
                if (near.succ[m].empty()) by_succ[-1 - m].push_back(m);
                for (Id s : near.succ[m]) by_succ[s].push_back(m);
            }
            std::set<Id> listed;
            for (auto& [key, list] : by_pred.size() <= by_succ.size() ? by_pred : by_succ) {
                std::vector<Id> fresh;
                for (Id m : list)
                    if (listed.insert(m).second) fresh.push_back(m);
                if (!fresh.empty()) lists.push_back(std::move(fresh));
            }
        }
        for (const std::vector<Id>& list : lists)
            for (size_t i = 0; i < list.size(); ++i) {
                const Id first = list[i - i % static_cast<size_t>(f)];
                changed = changed || first != list[i];
                host[list[i]] = first;
            }
    }
    if (changed) apply(g, subs, host);
}

// Cube sub-graphs that load the same windows into L1, then runs of sub-graphs in order.
void merge_cube_sub_graphs(Graph& g, std::vector<SubGraph>& subs, const PartitionOptions& o, const Chip& chip) {
    if (subs.empty()) return;
    if (!o.cube_l1_reuse.off()) {
        const Neighbours near = neighbours(g, subs.size());
        std::vector<Id> host(subs.size());
        std::iota(host.begin(), host.end(), 0);
        bool changed = false;
        const std::vector<std::vector<Id>> classes = classes_of(g, subs);
        for (size_t number = 0; number < classes.size(); ++number) {
            const std::vector<Id>& members = classes[number];
            if (subs[members[0]].core != cost::Core::AIC) continue;
            const int64_t asked = o.cube_l1_reuse.factor(number);
            const int64_t limit = asked != MergeSetting::AUTOMATIC ? asked
                                                      : static_cast<int64_t>(subs.size()) / (2 * chip.aic);
            if (limit <= 1) continue;
            std::unordered_map<LoadKey, Id, KeyHash> owner;
            std::vector<int64_t> merged(subs.size(), 0), bytes(subs.size(), 0);   // bytes of a host: each window once
            for (Id m : members) {
                const std::vector<Load> loads = l1_loads(g, subs[m]);
                auto added = [&](Id h) {
                    int64_t sum = 0;
                    for (const Load& l : loads)
                        if (auto it = owner.find(l.key); it == owner.end() || it->second != h) sum += l.bytes;
                    return sum;
                };
                Id to = m;
                const Id highest = near.pred[m].empty() ? -1 : near.pred[m].back();
                for (const Load& l : loads) {
                    auto it = owner.find(l.key);
                    if (it == owner.end()) continue;
                    const Id h = it->second;
                    if (h < highest || merged[h] >= limit || bytes[h] + added(h) > o.copy_in_bound) continue;
                    to = h;
                    break;
                }
                host[m] = to;
                ++merged[to];
                bytes[to] += added(to);
                changed = changed || to != m;
                for (const Load& l : loads) owner[l.key] = to;
            }
        }
        if (changed) apply(g, subs, host);
    }
    if (!o.cube_nbuffer.off()) {
        std::vector<Id> host(subs.size());
        std::iota(host.begin(), host.end(), 0);
        const std::vector<std::vector<Id>> classes = classes_of(g, subs);
        for (size_t number = 0; number < classes.size(); ++number) {
            const std::vector<Id>& members = classes[number];
            if (subs[members[0]].core != cost::Core::AIC) continue;
            int64_t total = 1;
            for (const Load& l : l1_loads(g, subs[members[0]])) total += l.bytes;
            const int64_t run = std::max<int64_t>(1, std::min<int64_t>(o.cube_nbuffer.factor(number), o.copy_in_bound / total));
            for (size_t i = 0; i < members.size(); ++i) host[members[i]] = members[i - i % static_cast<size_t>(run)];
        }
        apply(g, subs, host);
    }
}

}  // namespace npu::plan
