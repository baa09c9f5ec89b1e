// In-core order of a leaf: depth-first list, then a list schedule on the pipes with allocation; spills and peaks.
#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "npu_core/plan/leaf.h"

namespace npu::plan {

namespace {

using cost::Pipe;

// Lists of small integers by owner, in one array.
struct Lists {
    std::vector<int32_t> begin, items;
    struct Range { const int32_t *first, *last; const int32_t* begin() const { return first; } const int32_t* end() const { return last; }
                   size_t size() const { return static_cast<size_t>(last - first); } bool empty() const { return first == last; }
                   int32_t back() const { return last[-1]; } };
    Range operator[](size_t i) const { return {items.data() + begin[i], items.data() + begin[i + 1]}; }
    // `each(put)` calls put(owner, item) in the order of the items; it runs twice.
    template <typename F> void fill(size_t owners, F&& each) {
        begin.assign(owners + 1, 0);
        each([&](size_t owner, int32_t) { ++begin[owner + 1]; });
        for (size_t i = 0; i < owners; ++i) begin[i + 1] += begin[i];
        items.resize(static_cast<size_t>(begin[owners]));
        std::vector<int32_t> next(begin.begin(), begin.end() - 1);
        each([&](size_t owner, int32_t item) { items[next[owner]++] = item; });
    }
};

struct Links {
    Lists producers, consumers;   // by tensor: operations, ascending
    Lists pred, succ;             // by operation, each once
};

Links link(const Leaf& leaf) {
    Links l;
    const int32_t n = static_cast<int32_t>(leaf.ops.size());
    l.producers.fill(leaf.tensors.size(), [&](auto put) {
        for (int32_t i = 0; i < n; ++i)
            for (int32_t t : leaf.ops[i].out) put(t, i);
    });
    l.consumers.fill(leaf.tensors.size(), [&](auto put) {
        for (int32_t i = 0; i < n; ++i) {
            const Operands& in = leaf.ops[i].in;
            for (size_t k = 0; k < in.size(); ++k)
                if (std::find(in.begin(), in.begin() + k, in[k]) == in.begin() + k) put(in[k], i);
        }
    });
    std::vector<int32_t> stamp(static_cast<size_t>(n), -1);
    auto edges = [&](auto use) {
        std::fill(stamp.begin(), stamp.end(), -1);
        for (int32_t i = 0; i < n; ++i)
            for (int32_t t : leaf.ops[i].in)
                for (int32_t p : l.producers[t]) {
                    if (stamp[p] == i) continue;
                    stamp[p] = i;
                    use(p, i);
                }
    };
    l.pred.fill(static_cast<size_t>(n), [&](auto put) { edges([&](int32_t p, int32_t i) { put(i, p); }); });
    l.succ.fill(static_cast<size_t>(n), [&](auto put) { edges([&](int32_t p, int32_t i) { put(p, i); }); });
    return l;
}

// The sort of the operation list, applied to the leaf alone.
void sort_backwards(Leaf& leaf) {
    const Links l = link(leaf);
    const size_t n = leaf.ops.size();
    std::vector<int32_t> uses(n, 0), queue;
    for (const LeafOp& op : leaf.ops)
        for (int32_t t : op.in)
            for (int32_t p : l.producers[t]) ++uses[p];
    for (size_t i = 0; i < n; ++i)
        if (uses[i] == 0) queue.push_back(static_cast<int32_t>(i));
    for (size_t head = 0; head < queue.size(); ++head)
        for (int32_t t : leaf.ops[queue[head]].in)
            for (int32_t p : l.producers[t])
                if (--uses[p] == 0) queue.push_back(p);
    std::vector<LeafOp> sorted;
    sorted.reserve(n);
    for (auto it = queue.rbegin(); it != queue.rend(); ++it) sorted.push_back(std::move(leaf.ops[*it]));
    leaf.ops = std::move(sorted);
}

bool never_in_place(Code c) {
    switch (c) {
        case Code::COPY_IN: case Code::COPY_OUT: case Code::DIVS: case Code::RECIPROCAL: case Code::PAIRSUM: case Code::PAIRMAX:
        case Code::PAIRMIN: case Code::PAIRPROD: case Code::ROWSUM_SINGLE: case Code::ROWMAX_SINGLE: case Code::ROWMIN_SINGLE:
        case Code::ROWPROD_SINGLE: case Code::ROUND: case Code::TRANSPOSE_VNCHWCONV: case Code::FILLPAD: return true;
        default: return false;
    }
}

// Buffers: views and assembled pieces lie inside another tile; a result may take over the buffer of an input that dies.
void share_buffers(Leaf& leaf) {
    const Links l = link(leaf);
    std::vector<int32_t> parent(leaf.tensors.size());
    for (size_t i = 0; i < parent.size(); ++i) parent[i] = static_cast<int32_t>(i);
    auto find = [&](int32_t x) {
        while (parent[x] != x) x = parent[x] = parent[parent[x]];
        return x;
    };
    auto size = [&](int32_t t) { return round_up(leaf.tensors[t].room, 32); };
    for (const LeafOp& op : leaf.ops) {
        const bool alias = op.code == Code::VIEW || op.code == Code::ASSEMBLE || op.code == Code::RESHAPE;
        if (alias && leaf.tensors[op.in[0]].mem == leaf.tensors[op.out[0]].mem) {
            const int32_t a = find(op.in[0]), b = find(op.out[0]);
            if (size(a) >= size(b)) parent[b] = a;
            else parent[a] = b;
        }
    }
    std::vector<int32_t> last_use(leaf.tensors.size(), -1);   // by root
    for (size_t t = 0; t < leaf.tensors.size(); ++t)
        if (!l.consumers[t].empty()) {
            int32_t& use = last_use[find(static_cast<int32_t>(t))];
            use = std::max(use, l.consumers[t].back());
        }
    for (size_t i = 0; i < leaf.ops.size(); ++i) {
        const LeafOp& op = leaf.ops[i];
        if (op.out.empty() || never_in_place(op.code) || op.code == Code::VIEW || op.code == Code::ASSEMBLE) continue;
        const int32_t out = op.out[0];
        for (int32_t t : op.in) {
            const LeafTensor &a = leaf.tensors[t], &b = leaf.tensors[out];
            if (a.mem != b.mem || a.mem == Mem::GM || size(t) != size(out)) continue;
            if (dtype_size_bytes(a.dtype) != dtype_size_bytes(b.dtype) || find(t) == find(out)) continue;
            if (last_use[find(t)] > static_cast<int32_t>(i) || l.consumers[t].size() != 1) continue;
            const int32_t host = find(t), guest = find(out);
            last_use[host] = std::max(last_use[host], last_use[guest]);
            parent[guest] = host;
            break;
        }
    }
    std::vector<int32_t> ids(leaf.tensors.size(), -1);
    for (size_t i = 0; i < leaf.tensors.size(); ++i) {
        LeafTensor& t = leaf.tensors[i];
        if (t.mem == Mem::GM || t.mem == Mem::NONE) continue;
        const int32_t root = find(static_cast<int32_t>(i));
        if (ids[root] < 0) {
            ids[root] = static_cast<int32_t>(leaf.buffer_bytes.size());
            leaf.buffer_bytes.push_back(0);
            leaf.buffer_mem.push_back(t.mem);
        }
        t.buffer = ids[root];
        leaf.buffer_bytes[t.buffer] = std::max(leaf.buffer_bytes[t.buffer], size(static_cast<int32_t>(i)));
    }
}

struct Buffers {   // distinct local buffers of an operation
    int32_t ids[16];
    size_t count = 0;
    const int32_t* begin() const { return ids; }
    const int32_t* end() const { return ids + count; }
};
Buffers buffers_of(const Leaf& leaf, const LeafOp& op) {
    Buffers b;
    for (const Operands* side : {&op.in, &op.out})
        for (int32_t t : *side)
            if (const int32_t x = leaf.tensors[t].buffer; x >= 0 && std::find(b.begin(), b.end(), x) == b.end()) b.ids[b.count++] = x;
    return b;
}

void name_operation(CapacityFault& fault, int32_t operation, const Block& block, const Program& program) {
    if (operation == NONE) return;
    const BlockOp& from = block.ops[operation];
    if (!from.op_name.empty()) fault.op = from.op_name + " (" + fault.op + ")";
    if (from.line != NONE) fault.line = program.lines[from.line];
}

// A single operation must fit with all its tiles.
void check_capacity(const Leaf& leaf, const Block& block, const Program& program, const Chip& chip) {
    for (const LeafOp& op : leaf.ops) {
        std::array<int64_t, MEMS> need{};
        for (int32_t b : buffers_of(leaf, op)) need[static_cast<int>(leaf.buffer_mem[b])] += leaf.buffer_bytes[b];
        for (int m = 0; m < MEMS; ++m) {
            if (chip.capacity[m] == 0 || need[m] <= chip.capacity[m]) continue;
            CapacityFault fault("");
            fault.memory = mem_name(static_cast<Mem>(m));
            fault.bytes = need[m];
            fault.limit = chip.capacity[m];
            std::set<int32_t> seen;
            for (const Operands* side : {&op.in, &op.out})
                for (int32_t t : *side) {
                    const LeafTensor& x = leaf.tensors[t];
                    if (x.buffer < 0 || static_cast<int>(x.mem) != m || !seen.insert(x.buffer).second) continue;
                    const char* role = side == &op.in ? "input" : t == op.out[0] ? "output" : "scratch";
                    fault.live.push_back({role, {x.tile.d.begin(), x.tile.d.begin() + x.tile.rank}, leaf.buffer_bytes[x.buffer]});
                }
            fault.op = cost::info(op.code).name;
            const LeafTensor* shown = nullptr;
            for (const Operands* side : {&op.in, &op.out})
                for (int32_t t : *side)
                    if (leaf.tensors[t].mem == static_cast<Mem>(m) &&
                        (!shown || leaf.tensors[t].tile.count() > shown->tile.count()))
                        shown = &leaf.tensors[t];
            if (shown) fault.tile.assign(shown->tile.d.begin(), shown->tile.d.begin() + shown->tile.rank);
            name_operation(fault, op.src, block, program);
            fault.suggest_tile();
            throw fault;
        }
    }
}

// Depth-first order from the sinks, then assembles and copies out as early as they can be.
std::vector<int32_t> depth_first(const Leaf& leaf, const Links& l) {
    const int32_t n = static_cast<int32_t>(leaf.ops.size());
    std::vector<int32_t> depth(n, 0);
    for (int32_t i = 0; i < n; ++i)
        for (int32_t p : l.pred[i]) depth[i] = std::max(depth[i], depth[p] + 1);
    std::vector<int32_t> sinks;
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
            std::sort(open.begin(), open.end(), [&](int32_t a, int32_t b) {
                return std::tuple(priority(a), depth[a], a) < std::tuple(priority(b), depth[b], b);
            });
            for (int32_t p : open) stack.push_back(p);
        }
    };
    auto ancestors = [&](int32_t sink) {
        std::vector<int32_t> todo{sink};
        std::set<int32_t> seen;
        while (!todo.empty()) {
            const int32_t v = todo.back();
            todo.pop_back();
            for (int32_t p : l.pred[v])
                if (!visited[p] && seen.insert(p).second) todo.push_back(p);
        }
        return seen.size();
    };
    std::vector<char> done(sinks.size(), 0);
    const bool small = sinks.size() * sinks.size() * static_cast<size_t>(n) < 20000000;
    for (size_t round = 0; round < sinks.size(); ++round) {
        size_t pick = round;
        if (round > 0 && small) {
            size_t fewest = SIZE_MAX;
            for (size_t i = 0; i < sinks.size(); ++i) {
                if (done[i]) continue;
                if (size_t a = ancestors(sinks[i]); a < fewest) { fewest = a; pick = i; }
            }
        }
        done[pick] = 1;
        visit(sinks[pick]);
    }
    // Promote.
    std::vector<int32_t> place(n), waiting(n);
    for (int32_t i = 0; i < n; ++i) place[order[i]] = i;
    auto rank = [&](int32_t v) {
        const LeafOp& op = leaf.ops[v];
        return op.code == Code::ASSEMBLE ? 0 : op.code == Code::COPY_OUT ? 1 : 2;
    };
    using Entry = std::tuple<int, int32_t, int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (int32_t v = 0; v < n; ++v) {
        waiting[v] = static_cast<int32_t>(l.pred[v].size());
        if (waiting[v] == 0) ready.emplace(rank(v), place[v], v);
    }
    std::vector<int32_t> out;
    while (!ready.empty()) {
        const int32_t v = std::get<2>(ready.top());
        ready.pop();
        out.push_back(v);
        for (int32_t s : l.succ[v])
            if (--waiting[s] == 0) ready.emplace(rank(s), place[s], s);
    }
    return out;
}

// Event-driven list schedule; falls back to the given order where allocation in list order cannot proceed.
void list_schedule(Leaf& leaf, const Chip& chip) {
    const Links l = link(leaf);
    const int32_t n = static_cast<int32_t>(leaf.ops.size());
    std::vector<int32_t> refs(leaf.buffer_bytes.size(), 0), alloc_first(leaf.buffer_bytes.size(), -1);
    Lists waiters;
    waiters.fill(leaf.buffer_bytes.size(), [&](auto put) {
        for (int32_t i = 0; i < n; ++i)
            for (int32_t b : buffers_of(leaf, leaf.ops[i])) put(b, i);
    });
    std::vector<int32_t> waiting(n);
    std::array<std::vector<int32_t>, MEMS> queue;
    std::array<size_t, MEMS> head{};
    for (int32_t i = 0; i < n; ++i) {
        waiting[i] = static_cast<int32_t>(l.pred[i].size());
        for (const Operands* side : {&leaf.ops[i].in, &leaf.ops[i].out})
            for (int32_t t : *side)
                if (leaf.tensors[t].buffer >= 0) ++refs[leaf.tensors[t].buffer];
        for (int32_t b : buffers_of(leaf, leaf.ops[i])) {
            if (alloc_first[b] < 0) {
                alloc_first[b] = i;
                queue[static_cast<int>(leaf.buffer_mem[b])].push_back(b);
            }
            ++waiting[i];
        }
    }
    std::array<int64_t, MEMS> used{};
    using Heap = std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>>;
    std::array<Heap, cost::PIPES> ready;
    std::array<int32_t, cost::PIPES> running;
    std::array<int64_t, cost::PIPES> end{};
    running.fill(-1);
    std::vector<int32_t> emitted;
    emitted.reserve(n);
    std::array<int64_t, MEMS> peak{};
    auto wake = [&](int32_t i) {
        if (--waiting[i] == 0) ready[static_cast<int>(leaf.ops[i].pipe)].push(i);
    };
    auto retire = [&](int32_t i) {
        for (const Operands* side : {&leaf.ops[i].in, &leaf.ops[i].out})
            for (int32_t t : *side) {
                const int32_t b = leaf.tensors[t].buffer;
                if (b >= 0 && --refs[b] == 0) used[static_cast<int>(leaf.buffer_mem[b])] -= leaf.buffer_bytes[b];
            }
        for (int32_t s : l.succ[i]) wake(s);
    };
    for (int32_t i = 0; i < n; ++i)
        if (waiting[i] == 0) ready[static_cast<int>(leaf.ops[i].pipe)].push(i);
    constexpr Pipe pipe_order[] = {Pipe::S, Pipe::VEC, Pipe::CUBE, Pipe::MTE1, Pipe::MTE2, Pipe::MTE3, Pipe::FIX};
    int64_t now = 0;
    while (static_cast<int32_t>(emitted.size()) < n) {
        for (Pipe p : pipe_order) {
            const int k = static_cast<int>(p);
            if (running[k] >= 0 && end[k] <= now) {
                const int32_t i = running[k];
                running[k] = -1;
                retire(i);
            }
        }
        for (int m = 0; m < MEMS; ++m)
            while (head[m] < queue[m].size()) {
                const int32_t b = queue[m][head[m]];
                if (chip.capacity[m] && used[m] + leaf.buffer_bytes[b] > chip.capacity[m]) break;
                ++head[m];
                used[m] += leaf.buffer_bytes[b];
                peak[m] = std::max(peak[m], used[m]);
                for (int32_t i : waiters[b]) wake(i);
            }
        bool busy = false;
        for (Pipe p : pipe_order) {
            const int k = static_cast<int>(p);
            if (running[k] < 0 && !ready[k].empty()) {
                const int32_t i = ready[k].top();
                ready[k].pop();
                running[k] = i;
                end[k] = now + std::max<int32_t>(1, leaf.ops[i].latency);
                emitted.push_back(i);
            }
            busy = busy || running[k] >= 0;
        }
        if (!busy) break;
        int64_t next = INT64_MAX;
        for (int k = 0; k < cost::PIPES; ++k)
            if (running[k] >= 0) next = std::min(next, end[k]);
        now = next;
    }
    if (static_cast<int32_t>(emitted.size()) == n) {
        std::vector<LeafOp> ordered;
        ordered.reserve(n);
        for (int32_t i : emitted) ordered.push_back(std::move(leaf.ops[i]));
        leaf.ops = std::move(ordered);
        leaf.peak = peak;
        return;
    }
    // Sequential order: peaks by lifetime.
    std::vector<int32_t> first(leaf.buffer_bytes.size(), -1), last(leaf.buffer_bytes.size(), -1);
    for (int32_t i = 0; i < n; ++i)
        for (int32_t b : buffers_of(leaf, leaf.ops[i])) {
            if (first[b] < 0) first[b] = i;
            last[b] = i;
        }
    used.fill(0);
    peak.fill(0);
    for (int32_t i = 0; i < n; ++i) {
        for (int32_t b : buffers_of(leaf, leaf.ops[i]))
            if (first[b] == i) {
                const int m = static_cast<int>(leaf.buffer_mem[b]);
                used[m] += leaf.buffer_bytes[b];
                peak[m] = std::max(peak[m], used[m]);
            }
        for (int32_t b : buffers_of(leaf, leaf.ops[i]))
            if (last[b] == i) used[static_cast<int>(leaf.buffer_mem[b])] -= leaf.buffer_bytes[b];
    }
    leaf.peak = peak;
}

}  // namespace

void schedule_leaf(Leaf& leaf, const Block& block, const Program& program, const Chip& chip) {
    sort_backwards(leaf);
    share_buffers(leaf);
    check_capacity(leaf, block, program, chip);
    const Links l = link(leaf);
    const std::vector<int32_t> order = depth_first(leaf, l);
    std::vector<LeafOp> ordered;
    ordered.reserve(leaf.ops.size());
    for (int32_t i : order) ordered.push_back(std::move(leaf.ops[i]));
    leaf.ops = std::move(ordered);
    try {
        insert_spills(leaf, chip);
    } catch (CapacityFault& fault) {
        name_operation(fault, fault.operation, block, program);
        throw;
    }
    list_schedule(leaf, chip);
}

}  // namespace npu::plan
