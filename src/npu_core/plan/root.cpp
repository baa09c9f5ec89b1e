#include "npu_core/plan/root.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "npu_core/base/fault.h"
#include "npu_core/plan/options.h"
#include "npu_core/plan/timeline.h"

namespace npu::plan {

namespace {

constexpr int64_t MOST_STEPS = 500'000;            // along k, of the matrix products of one task: about 0.9 GB

// Every step along k is three operations of the leaf, loads and spills beside them.
void refuse_endless_products(const Graph& g, const SubGraph& s, const Block& block, const Program& program) {
    int64_t steps = 0;
    for (Id id : s.ops) {
        const Op& op = g.ops[id];
        if (op.mm == NONE) continue;
        steps += ceil_div(g.matmuls[op.mm].k, g.matmuls[op.mm].k_l0);
        if (steps <= MOST_STEPS) continue;
        const Id line = op.src == NONE ? NONE : block.ops[op.src].line;
        fail("plan.too_large", "the tiles of a task are planned one by one; a task of this matrix product has more than " +
                                   std::to_string(MOST_STEPS) + " steps along k. Use larger cube tiles, or fewer tiles in a task (cube_l1_reuse_setting)" +
                                   (line == NONE ? "" : " (" + program.lines[line] + ")"));
    }
}

}  // namespace

int32_t LeafTable::add(const Graph& g, const SubGraph& s, const Block& block) {
    // A run of equal output tiles that stream through L1 is one tile and the number of its repeats: nothing stays in L1
    // from one tile to the next, so the tiles do not share loads.
    const int64_t tiles = streamed_tiles(g, s, chip_);
    if (tiles > 1) {
        SubGraph one{s.core, {}};
        Id result = NONE;
        for (Id id : s.ops)
            if (g.ops[id].mm != NONE) {
                one.ops.push_back(id);
                result = g.ops[id].out[0];
                break;
            }
        for (Id id : s.ops)
            if (const Op& op = g.ops[id]; op.mm == NONE && op.in[0] == result) one.ops.push_back(id);
        std::vector<int64_t> key{-1, tiles};
        const std::vector<int64_t> content = signature(g, one);
        key.insert(key.end(), content.begin(), content.end());
        auto [it, added] = known_.try_emplace(std::move(key), static_cast<int32_t>(leaves_.size()));
        if (!added) return it->second;
        Leaf leaf = build_leaf(g, one, false, std::move(room_));
        leaf.note = note_of(g, one, block, program_);
        schedule_leaf(leaf, block, program_, chip_);
        leaf.repeats = tiles - 1;
        for (auto field : {&Leaf::gm_read, &Leaf::gm_write, &Leaf::spill_bytes})
            leaf.*field *= tiles;
        keep(std::move(leaf));
        return it->second;
    }
    auto [it, added] = known_.try_emplace(signature(g, s), static_cast<int32_t>(leaves_.size()));
    if (!added) return it->second;
    refuse_endless_products(g, s, block, program_);
    Leaf leaf = build_leaf(g, s, true, std::move(room_));
    leaf.note = note_of(g, s, block, program_);
    schedule_leaf(leaf, block, program_, chip_);
    keep(std::move(leaf));
    return it->second;
}

void LeafTable::keep(Leaf leaf) {
    timings_.push_back(machine::run_calibrated(leaf, cost_, chip_));
    if (timelines_wanted_) timelines_.push_back(timeline_leaf(leaf, cost_, chip_));
    Leaf rest;
    rest.note = std::move(leaf.note);
    rest.core = leaf.core;
    rest.peak = leaf.peak;
    rest.gm_read = leaf.gm_read;
    rest.gm_write = leaf.gm_write;
    rest.spill_bytes = leaf.spill_bytes;
    rest.repeats = leaf.repeats;
    leaves_.push_back(std::move(rest));
    room_ = Leaf{};
    room_.tensors = std::move(leaf.tensors);
    room_.ops = std::move(leaf.ops);
    room_.spare = std::move(leaf.spare);
    room_.tensors.clear();
    room_.ops.clear();
    room_.spare.clear();
}

namespace {

using machine::Task;

// Windows of arguments and slots that a sub-graph touches.
void accesses(const Graph& g, const SubGraph& s, std::vector<Access>& reads, std::vector<Access>& writes) {
    std::unordered_multimap<Hash, std::pair<bool, size_t>> seen;      // whether it reads, and its place in the list
    auto add = [&](std::vector<Access>& list, Id tensor, const Shape& at, const Shape& shape, const Shape& valid, Id dyn, int64_t bytes,
                   int64_t row_bytes = 0, bool unknown = false) {
        const Id external = g.raws[g.tensors[tensor].raw].external;
        if (external == NONE) return;
        if (!unknown) {
            const bool read = &list == &reads;
            const Hash hash = mix(mix(mix(mix(Hash{3}, at), shape), static_cast<uint64_t>(external)), static_cast<uint64_t>(dyn));
            const auto [from, to] = seen.equal_range(hash);
            for (auto it = from; it != to; ++it) {
                if (it->second.first != read) continue;
                Access& a = list[it->second.second];
                if (a.external != external || a.dyn != dyn || !(a.at == at) || !(a.shape == shape) || !(a.valid == valid)) continue;
                if (!read) a.again += bytes;
                return;
            }
            seen.emplace(hash, std::pair{read, list.size()});
        }
        list.push_back({external, unknown, at, shape, valid, dyn, bytes, 0, row_bytes});
    };
    auto two = [](int64_t a, int64_t b) {
        Shape t = zeros(2);
        t[0] = a;
        t[1] = b;
        return t;
    };
    for (Id id : s.ops) {
        const Op& op = g.ops[id];
        if (op.code == Code::COPY_IN || op.code == Code::TRANSPOSE_MOVEIN) {
            const Shape& valid = g.valid_of(op.out[0]);
            const Tensor& t = g.tensors[op.out[0]];
            add(reads, op.in[0], op.at, t.shape, valid, op.dyn, bytes_of(valid, t.dtype));
        } else if (op.code == Code::COPY_OUT ||
                   (op.code == Code::ASSEMBLE && g.tensors[op.in[0]].mem == Mem::GM && g.tensors[op.out[0]].mem == Mem::GM)) {
            const Shape& valid = g.moved(op);   // in GM: what a transpose or an index update wrote to its place
            add(writes, op.out[0], op.at, g.tensors[op.in[0]].shape, valid, op.dyn, bytes_of(valid, g.tensors[op.out[0]].dtype));
        } else if (op.code == Code::RESHAPE) {
            const Tensor& t = g.tensors[op.in[0]];
            if (t.mem == Mem::GM) add(reads, op.in[0], zeros(t.shape.rank), t.shape, t.shape, NONE, 0);
        } else if (op.code == Code::GATHER) {
            const Tensor &t = g.tensors[op.out[0]], &index = g.tensors[op.in[1]], &table = g.tensors[op.in[0]];
            const Shape& picked = g.valid_of(op.in[1]);
            add(reads, op.in[0], zeros(table.shape.rank), table.shape, table.shape, NONE, bytes_of(g.valid_of(op.out[0]), t.dtype), 0, true);
            add(reads, op.in[1], index.offset, index.shape, picked, NONE, bytes_of(picked, index.dtype));
        } else if (op.code == Code::INDEX_OUTCAST || op.code == Code::TRANSPOSE_MOVEOUT) {
            const Tensor& t = g.tensors[op.out[0]];
            const Shape& valid = g.valid_of(op.out[0]);
            add(writes, op.out[0], t.offset, t.shape, valid, NONE, bytes_of(valid, t.dtype));
        } else if (op.mm != NONE) {
            const Matmul& m = g.matmuls[op.mm];
            const int64_t size = dtype_size_bytes(m.in);
            // Length of the runs of one load into L1; columns that are not valid do not cut what lies in one piece.
            auto run = [&](Id t, const Shape& window, const Shape& valid, bool k_last, int64_t k_step) {
                auto length = [&](const Shape& s) { return k_last ? std::min(k_step, s[1]) : s[1]; };
                const Shape& gm = g.tensors[t].shape;
                return gm.rank == 2 && length(window) >= gm[1] ? 0 : length(valid) * size;
            };
            auto load = [&](Id t, const Shape& at, int64_t rows, int64_t columns, int64_t valid_rows, int64_t valid_columns, bool k_last,
                            int64_t k_step, Id dyn) {
                const Shape window = two(rows, columns), valid = two(valid_rows, valid_columns);
                add(reads, t, at, window, valid, dyn, valid.count() * size, run(t, window, valid, k_last, k_step));
            };
            size_t next = 0;
            if (m.a_direct && m.a_trans) load(op.in[next], m.a_at, m.k, m.m, m.valid_k, m.valid_m, false, m.k_l1a, m.a_dyn);
            else if (m.a_direct) load(op.in[next], m.a_at, m.m, m.k, m.valid_m, m.valid_k, true, m.k_l1a, m.a_dyn);
            next += m.a_direct ? 1 : static_cast<size_t>(ceil_div(m.k, m.k_l1a));
            if (m.b_direct && m.b_trans) load(op.in[next], m.b_at, m.n, m.k, m.valid_n, m.valid_k, true, m.k_l1b, m.b_dyn);
            else if (m.b_direct) load(op.in[next], m.b_at, m.k, m.n, m.valid_k, m.valid_n, false, m.k_l1b, m.b_dyn);
            next += m.b_direct ? 1 : static_cast<size_t>(ceil_div(m.k, m.k_l1b));
            if (m.bias) {
                const Tensor& t = g.tensors[op.in[next]];
                const Shape valid = two(1, m.valid_n);
                add(reads, op.in[next], m.bias_at, two(1, m.n), valid, m.bias_dyn, bytes_of(valid, t.dtype));
            }
        }
    }
}

struct Call {
    int32_t leaf;
    cost::Core core;
    std::vector<int32_t> pred, succ;
    std::vector<Access> reads, writes;
    bool fn_out = false;
};

// Edges through GM tensors, in operand order.
void connect(const Graph& g, std::vector<Call>& calls) {
    std::vector<std::set<int32_t>> known(calls.size());
    for (Id id : g.order)
        for (Id t : g.ops[id].in)
            for (Id p : g.tensors[t].producers) {
                const int32_t a = g.ops[p].sub, b = g.ops[id].sub;
                if (a == b || !known[b].insert(a).second) continue;
                calls[b].pred.push_back(a);
                calls[a].succ.push_back(b);
            }
}

// The sort of the operation list, on calls.
std::vector<int32_t> call_order(const std::vector<Call>& calls) {
    std::vector<int32_t> uses(calls.size()), queue;
    for (size_t i = 0; i < calls.size(); ++i) {
        uses[i] = static_cast<int32_t>(calls[i].succ.size());
        if (uses[i] == 0) queue.push_back(static_cast<int32_t>(i));
    }
    for (size_t head = 0; head < queue.size(); ++head)
        for (int32_t p : calls[queue[head]].pred)
            if (--uses[p] == 0) queue.push_back(p);
    std::reverse(queue.begin(), queue.end());
    return queue;
}

void reduce_edges(std::vector<Call>& calls) {   // drop an edge whose target another successor reaches
    const size_t n = calls.size();
    if (n > 4096) return;
    const size_t words = (n + 63) / 64;
    std::vector<int32_t> order = call_order(calls);
    std::vector<std::vector<uint64_t>> reach(n, std::vector<uint64_t>(words, 0));
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
        Call& c = calls[*it];
        std::vector<uint64_t> far(words, 0);
        for (int32_t s : c.succ)
            for (size_t w = 0; w < words; ++w) far[w] |= reach[s][w];
        std::erase_if(c.succ, [&](int32_t s) { return (far[s / 64] >> (s % 64)) & 1; });
        reach[*it] = std::move(far);
        for (int32_t s : c.succ) reach[*it][s / 64] |= uint64_t{1} << (s % 64);
    }
    for (Call& c : calls) c.pred.clear();
    for (size_t i = 0; i < n; ++i)
        for (int32_t s : calls[i].succ) calls[s].pred.push_back(static_cast<int32_t>(i));
}

// Options in force where each tile operation was called: scope, broadcasts as part of their readers.
void set_options(Graph& g, const Block& block, const Program& program) {
    std::map<Id, RunOptions> known;
    for (Op& op : g.ops) {
        const Id options = op.src == NONE ? NONE : block.ops[op.src].options;
        if (options == NONE) continue;
        auto [it, added] = known.try_emplace(options);
        if (added) it->second = parse_options(program.options[options]);
        op.scope = it->second.scope;
        op.inlined = it->second.combine_axis && op.code == Code::EXPAND;
    }
}

}  // namespace

Root plan_root(const Program& program, const std::vector<Visit>& visits, const Valids& valids, const std::vector<Shape>& offsets,
               const std::unordered_set<Id>& crossing, Numerics numerics, const Chip& chip, const PartitionOptions& options,
               LeafTable& leaves) {
    const Block block = build_block(program, visits, valids, crossing, numerics, chip);
    Root root;
    root.externals = block.externals;
    root.unmodelled = block.unmodelled;
    root.first_offsets = offsets;
    for (const BlockOp& op : block.ops)
        if (op.line != NONE && root.first_line.empty()) root.first_line = program.lines[op.line];
    Graph g = expand(block, chip);
    merge_view_assemble(g);
    split_large_fanout(g);
    duplicate_views(g);
    assign_memory(g, chip);
    remove_redundant(g);
    detour_view_assemble(g);
    set_options(g, block, program);
    std::vector<SubGraph> subs = partition(g, block, options, chip);
    generate_moves(g, subs, chip);
    root.crossings = crossings_of(g, subs, block, program, options);

    Patience patience;
    std::vector<Call> calls(subs.size());
    for (size_t i = 0; i < subs.size(); ++i) {
        patience.check();
        Call& c = calls[i];
        c.core = subs[i].core;
        c.leaf = c.core == cost::Core::HUB ? -1 : leaves.add(g, subs[i], block);
        accesses(g, subs[i], c.reads, c.writes);
        for (Id id : subs[i].ops)
            for (Id t : g.ops[id].out) c.fn_out = c.fn_out || g.tensors[t].fn_out;
        if (c.leaf >= 0) {
            root.gm_read += leaves.leaves()[c.leaf].gm_read;
            root.gm_write += leaves.leaves()[c.leaf].gm_write;
        }
    }
    for (const Tensor& t : g.tensors)
        if (t.mem == Mem::GM && !t.producers.empty() && g.raws[t.raw].external == NONE) root.workspace_bytes += bytes_of(t.shape, t.dtype);
    connect(g, calls);
    for (size_t i = 0; i < calls.size(); ++i)   // a hub that nobody waits for and that writes no result
        if (calls[i].core == cost::Core::HUB && calls[i].succ.empty() && !calls[i].fn_out) {
            for (int32_t p : calls[i].pred) std::erase(calls[p].succ, static_cast<int32_t>(i));
            calls[i].pred.clear();
            calls[i].leaf = -2;
        }
    reduce_edges(calls);

    std::vector<int32_t> order = call_order(calls);
    std::erase_if(order, [&](int32_t i) { return calls[i].leaf == -2; });
    struct Node { int32_t call; cost::Core core; std::vector<int32_t> succ; int32_t pred; };
    std::vector<Node> nodes;
    std::vector<int32_t> place(calls.size(), -1);
    for (int32_t i : order) {
        place[i] = static_cast<int32_t>(nodes.size());
        nodes.push_back({i, calls[i].core, {}, static_cast<int32_t>(calls[i].pred.size())});
    }
    for (Node& n : nodes) {   // successors keep call order
        for (int32_t s : calls[n.call].succ) n.succ.push_back(place[s]);
        std::sort(n.succ.begin(), n.succ.end());
    }
    auto hub = [&] {
        nodes.push_back({-1, cost::Core::HUB, {}, 0});
        return static_cast<int32_t>(nodes.size()) - 1;
    };
    const size_t count = nodes.size();
    size_t outer = count;                          // from here on hubs in front of all and behind all
    {
        std::map<std::vector<int32_t>, std::vector<int32_t>> shared;
        for (size_t i = 0; i < count; ++i)
            if (!nodes[i].succ.empty()) shared[nodes[i].succ].push_back(static_cast<int32_t>(i));
        for (auto& [succ, preds] : shared) {
            const int64_t s = static_cast<int64_t>(succ.size()), p = static_cast<int64_t>(preds.size());
            if (s * p - s - p <= 10) continue;
            const int32_t h = hub();
            for (int32_t x : succ) nodes[x].pred -= static_cast<int32_t>(p) - 1;
            nodes[h].succ = succ;
            nodes[h].pred = static_cast<int32_t>(p);
            for (int32_t x : preds) nodes[x].succ = {h};
        }
        outer = nodes.size();
        std::vector<int32_t> heads, tails;
        for (size_t i = 0; i < count; ++i) {
            if (nodes[i].pred == 0) heads.push_back(static_cast<int32_t>(i));
            if (nodes[i].succ.empty()) tails.push_back(static_cast<int32_t>(i));
        }
        if (heads.size() >= 3) {
            const int32_t h = hub();
            nodes[h].succ = heads;
            for (int32_t x : heads) ++nodes[x].pred;
        }
        if (tails.size() >= 3) {
            const int32_t h = hub();
            nodes[h].pred = static_cast<int32_t>(tails.size());
            for (int32_t x : tails) nodes[x].succ.push_back(h);
        }
    }
    // Task ids: by predecessors and core type, with the standard library's unstable sort as the original has it.
    std::vector<int32_t> ids(nodes.size());
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
    auto type = [&](int32_t i) { return nodes[i].core == cost::Core::AIV ? 0 : nodes[i].core == cost::Core::AIC ? 1 : 4; };
    std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
        return nodes[a].pred != nodes[b].pred ? nodes[a].pred < nodes[b].pred : type(a) < type(b);
    });
    std::vector<int32_t> task_of(nodes.size());
    for (size_t i = 0; i < ids.size(); ++i) task_of[ids[i]] = static_cast<int32_t>(i);
    root.tasks.tasks.resize(nodes.size());
    for (size_t t = 0; t < ids.size(); ++t) {
        Task& task = root.tasks.tasks[t];
        task.first_edge = static_cast<int32_t>(root.tasks.edges.size());
        task.edges = static_cast<int32_t>(nodes[ids[t]].succ.size());
        for (int32_t s : nodes[ids[t]].succ) root.tasks.edges.push_back(task_of[s]);
    }
    root.edges = static_cast<int64_t>(root.tasks.edges.size());
    root.reads.resize(nodes.size());
    root.writes.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
        Task& t = root.tasks.tasks[task_of[i]];
        t.core = nodes[i].core;
        t.predecessors = nodes[i].pred;
        if (nodes[i].core == cost::Core::HUB) ++root.hubs;
        if (nodes[i].call < 0) continue;
        Call& c = calls[nodes[i].call];
        t.leaf = c.leaf;
        root.reads[task_of[i]] = std::move(c.reads);
        root.writes[task_of[i]] = std::move(c.writes);
        if (c.leaf >= 0) {
            ++root.calls;
            if (c.core == cost::Core::AIC) ++root.aic_calls;
        }
    }
    std::vector<int32_t> head(root.tasks.size());
    for (size_t t = 0; t < head.size(); ++t) head[t] = static_cast<int32_t>(t);
    std::vector<char> joins(root.tasks.size(), 1);
    for (size_t i = 0; i < nodes.size(); ++i)      // of the hubs those join that stand for edges between tasks
        joins[task_of[i]] = nodes[i].core != cost::Core::HUB;
    for (size_t i = 0; i < count; ++i)
        for (int32_t s : nodes[i].succ)
            if (nodes[i].core != cost::Core::HUB && static_cast<size_t>(s) >= count && static_cast<size_t>(s) < outer) joins[task_of[s]] = 1;
    auto top = [&](int32_t t) {
        while (head[t] != t) t = head[t] = head[head[t]];
        return t;
    };
    auto vector = [&](int32_t t) { return root.tasks[t].leaf >= 0 && root.tasks[t].core == cost::Core::AIV; };
    for (size_t t = 0; t < head.size(); ++t)
        for (int32_t s : root.tasks.successors(root.tasks[t]))
            if (joins[t] && joins[s]) {
                // what one vector task prepares for several does not tie them to one core
                if (root.tasks[t].edges > 1 && vector(static_cast<int32_t>(t)) && vector(s)) continue;
                const int32_t a = top(static_cast<int32_t>(t)), b = top(s);
                head[std::max(a, b)] = std::min(a, b);
            }
    std::map<int32_t, int32_t> units;
    for (size_t t = 0; t < head.size(); ++t) {
        if (root.tasks[t].leaf < 0) continue;
        auto [it, added] = units.try_emplace(top(static_cast<int32_t>(t)), root.units);
        root.units += added;
        root.tasks.tasks[t].unit = it->second;
    }
    root.dyn_sets = g.dyn_sets;
    return root;
}

}  // namespace npu::plan
