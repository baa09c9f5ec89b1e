// Source: hicann/pypto@r0.2.0 machine/utils/dynamic/dev_encode.cpp.
#include "npu_core/lowering/task_graph.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace npu::lowering {
namespace {

constexpr int64_t HUB_GAIN = 10;      // a hub between P and S pays when |S||P| - |S| - |P| exceeds this
constexpr size_t HUB_ENDS = 3;        // this many calls without predecessor (successor) get a hub in front (behind)

struct Node {
    CoreType core;
    int32_t call;
    std::vector<int32_t> next;        // positions in the list, ascending
    int32_t predecessors = 0;
};

using Producers = std::unordered_map<int32_t, std::vector<int32_t>>;

Producers producers_of(const std::vector<Call>& calls) {
    Producers p;
    for (size_t i = 0; i < calls.size(); ++i)
        for (int32_t t : calls[i].out) {
            auto& list = p[t];
            if (list.empty() || list.back() != int32_t(i)) list.push_back(int32_t(i));
        }
    return p;
}

// The backward sort of the operation lists, on calls.
std::vector<int32_t> sorted_calls(const std::vector<Call>& calls, const Producers& producers) {
    std::vector<int32_t> waiting(calls.size(), 0), done;
    auto each_producer = [&](int32_t c, auto&& use) {
        for (int32_t t : calls[c].in) {
            auto it = producers.find(t);
            if (it == producers.end()) continue;
            for (int32_t p : it->second)
                if (p != c) use(p);
        }
    };
    for (size_t i = 0; i < calls.size(); ++i) each_producer(int32_t(i), [&](int32_t p) { ++waiting[p]; });
    for (size_t i = 0; i < calls.size(); ++i)
        if (waiting[i] == 0) done.push_back(int32_t(i));
    for (size_t head = 0; head < done.size(); ++head)
        each_producer(done[head], [&](int32_t p) { if (--waiting[p] == 0) done.push_back(p); });
    std::reverse(done.begin(), done.end());
    return done;
}

// Drops edges to calls that another successor reaches. `list` is topological.
void drop_redundant(std::vector<Node>& list) {
    std::vector<int32_t> column(list.size(), -1);           // of calls that follow another
    int32_t columns = 0;
    for (const Node& n : list)
        for (int32_t s : n.next)
            if (column[s] < 0) column[s] = columns++;
    std::vector<std::vector<uint64_t>> reach(list.size());   // only of calls between others
    std::vector<uint64_t> beyond;
    for (size_t i = list.size(); i-- > 0;) {
        if (list[i].next.empty()) continue;
        beyond.assign(size_t(columns + 63) / 64, 0);
        for (int32_t s : list[i].next)
            for (size_t w = 0; w < reach[s].size(); ++w) beyond[w] |= reach[s][w];
        std::erase_if(list[i].next, [&](int32_t s) { return beyond[column[s] / 64] >> (column[s] % 64) & 1; });
        if (column[i] < 0) continue;
        for (int32_t s : list[i].next) beyond[column[s] / 64] |= uint64_t(1) << (column[s] % 64);
        reach[i] = beyond;
    }
}

void share_hubs(std::vector<Node>& list) {
    std::map<std::vector<int32_t>, std::vector<int32_t>> groups;
    std::vector<const std::vector<int32_t>*> first_seen;
    for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].next.empty()) continue;
        auto [it, fresh] = groups.try_emplace(list[i].next);
        if (fresh) first_seen.push_back(&it->first);
        it->second.push_back(int32_t(i));
    }
    for (const auto* key : first_seen) {
        const std::vector<int32_t> successors = *key;
        const auto& from = groups.at(successors);
        const int64_t s = int64_t(successors.size()), p = int64_t(from.size());
        if (s * p - s - p <= HUB_GAIN) continue;
        const int32_t hub = int32_t(list.size());
        list.push_back({CoreType::HUB, -1, successors, 0});
        for (int32_t i : from) list[i].next = {hub};
    }
}

void end_hubs(std::vector<Node>& list, size_t calls) {
    std::vector<char> has_predecessor(list.size(), 0);
    for (const Node& n : list)
        for (int32_t s : n.next) has_predecessor[s] = 1;
    std::vector<int32_t> first, last;
    for (size_t i = 0; i < calls; ++i) {
        if (!has_predecessor[i]) first.push_back(int32_t(i));
        if (list[i].next.empty()) last.push_back(int32_t(i));
    }
    if (first.size() >= HUB_ENDS) list.push_back({CoreType::HUB, -1, first, 0});
    if (last.size() >= HUB_ENDS) {
        const int32_t hub = int32_t(list.size());
        list.push_back({CoreType::HUB, -1, {}, 0});
        for (int32_t i : last) list[i].next.push_back(hub);
    }
}

int core_rank(CoreType core) { return core == CoreType::AIV ? 0 : core == CoreType::AIC ? 1 : 4; }

}  // namespace

RootTasks build_task_graph(const std::vector<Call>& calls, const std::vector<int32_t>& outputs) {
    RootTasks result;
    const Producers producers = producers_of(calls);
    result.call_order = sorted_calls(calls, producers);
    std::vector<int32_t> place(calls.size(), -1);
    std::vector<std::vector<int32_t>> next(calls.size());
    for (size_t i = 0; i < calls.size(); ++i)
        for (int32_t t : calls[i].in) {
            auto it = producers.find(t);
            if (it == producers.end()) continue;
            for (int32_t p : it->second)
                if (p != int32_t(i)) next[p].push_back(int32_t(i));
        }

    auto is_output = [&](int32_t t) { return std::find(outputs.begin(), outputs.end(), t) != outputs.end(); };
    auto unlinked = [&](int32_t c) {
        if (calls[c].core != CoreType::HUB || !next[c].empty()) return false;
        return std::none_of(calls[c].out.begin(), calls[c].out.end(), is_output);
    };
    std::vector<Node> list;
    for (int32_t c : result.call_order) {
        if (unlinked(c)) continue;
        place[c] = int32_t(list.size());
        list.push_back({calls[c].core, c, {}, 0});
    }
    for (Node& n : list) {
        for (int32_t s : next[n.call])
            if (place[s] >= 0) n.next.push_back(place[s]);
        std::sort(n.next.begin(), n.next.end());
        n.next.erase(std::unique(n.next.begin(), n.next.end()), n.next.end());
    }
    const size_t call_count = list.size();
    drop_redundant(list);
    share_hubs(list);
    end_hubs(list, call_count);
    for (const Node& n : list)
        for (int32_t s : n.next) ++list[s].predecessors;

    // Ids come from an unstable sort: equal keys end where libstdc++'s std::sort leaves them.
    std::vector<int32_t> by_id(list.size());
    for (size_t i = 0; i < list.size(); ++i) by_id[i] = int32_t(i);
    std::sort(by_id.begin(), by_id.end(), [&](int32_t a, int32_t b) {
        if (list[a].predecessors != list[b].predecessors) return list[a].predecessors < list[b].predecessors;
        return core_rank(list[a].core) < core_rank(list[b].core);
    });
    std::vector<int32_t> id_of(list.size());
    for (size_t i = 0; i < by_id.size(); ++i) id_of[by_id[i]] = int32_t(i);
    result.task_of_call.assign(calls.size(), -1);
    for (int32_t i : by_id) {
        RootTask t{list[i].core, list[i].call, {}, list[i].predecessors};
        for (int32_t s : list[i].next) t.successors.push_back(id_of[s]);
        if (t.call >= 0) result.task_of_call[t.call] = int32_t(result.tasks.size());
        result.tasks.push_back(std::move(t));
    }
    return result;
}

}  // namespace npu::lowering
