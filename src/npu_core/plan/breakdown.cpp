#include "npu_core/plan/breakdown.h"

#include <algorithm>
#include <set>

#include "npu_core/base/json.h"

namespace npu::plan {

namespace {

constexpr size_t MOST_TASK_KINDS = 40, MOST_CROSSINGS = 40;

std::string title(const Block& block, Id src) {
    if (src == NONE) return "";
    const BlockOp& op = block.ops[src];
    if (!op.op_name.empty()) return op.op_name;
    return op.row != NONE ? op_rows()[op.row].name : "";
}

std::string line_of(const Block& block, const Program& program, Id src) {
    return src == NONE || block.ops[src].line == NONE ? "" : program.lines[block.ops[src].line];
}

bool is_move(Code code) {
    using cost::Class;
    const Class c = cost::info(code).cls;
    return c == Class::MOVE_IN || c == Class::MOVE_OUT || c == Class::MOVE_LOCAL || code == Code::VIEW ||
           code == Code::ASSEMBLE || code == Code::RESHAPE;
}

// The computation that a copy belongs to: what made the tile (back) or what uses it, through further copies.
Id computation(const Graph& g, const Op& copy, bool back) {
    std::vector<Id> next;
    std::set<Id> seen;
    const Op* op = &copy;
    for (size_t head = 0;; ++head) {
        for (Id t : back ? op->in : op->out)
            for (Id o : back ? g.tensors[t].producers : g.tensors[t].consumers)
                if (seen.insert(o).second) next.push_back(o);
        if (head == next.size() || head == 64) return copy.src;
        op = &g.ops[next[head]];
        if (!is_move(op->code) && op->src != NONE) return op->src;
    }
}

struct SubFacts {
    int64_t latency = 0;
    bool scoped = false;
    std::set<Id> pred, succ;
};

std::vector<SubFacts> facts_of(const Graph& g, const std::vector<SubGraph>& subs) {
    std::vector<SubFacts> facts(subs.size());
    for (size_t s = 0; s < subs.size(); ++s)
        for (Id id : subs[s].ops) {
            const Op& op = g.ops[id];
            facts[s].latency += g.latency_of(op);
            facts[s].scoped = facts[s].scoped || op.scope >= 0;
            for (Id t : op.in)
                for (Id p : g.tensors[t].producers)
                    if (const Id from = g.ops[p].sub; from != static_cast<Id>(s)) {
                        facts[s].pred.insert(from);
                        facts[from].succ.insert(static_cast<Id>(s));
                    }
        }
    return facts;
}

// Why two neighbouring tasks are two (rules of the partition; LOWERING_DETAIL 5 in the order it applies them).
std::string reason(const std::vector<SubGraph>& subs, const std::vector<SubFacts>& facts, Id a, Id b,
                   const PartitionOptions& o) {
    using cost::Core;
    if (subs[a].core == Core::HUB || subs[b].core == Core::HUB) return "a reshape that moves data goes through global memory";
    if (subs[a].core != subs[b].core)
        return subs[a].core == Core::AIC ? "cube result that vector operations use" : "vector result that the cube uses";
    if (facts[a].scoped || facts[b].scoped) return "sg_set_scope keeps them apart";
    const int64_t both = facts[a].latency + facts[b].latency;
    if (both > o.cycle_bound)
        return "one task would exceed the bound of " + std::to_string(o.cycle_bound) + " cycles";
    if (facts[a].succ.size() > 1 || facts[b].pred.size() > 1)
        return "tiles do not match: a tile feeds several tasks, or a task needs several tiles";
    return "merged tasks would be too few to run in parallel";
}

// Bytes that `op` loads of the global tensor `t`.
int64_t read_bytes(const Graph& g, const Op& op, Id t) {
    if (op.mm != NONE) {
        const Matmul& m = g.matmuls[op.mm];
        const int64_t side = m.a_direct && op.in[0] == t ? m.m : m.n;
        return side * m.k * dtype_size_bytes(m.in);
    }
    int64_t sum = 0;
    for (Id out : op.out) sum += bytes_of(g.tensors[out].shape, g.tensors[t].dtype);
    return sum;
}

// Line that declares or first computes a tensor.
std::string birth(const Program& program, Id tensor) {
    for (const Body& body : program.bodies)
        for (const Item& item : body.items) {
            bool made = (item.kind == ItemKind::DECL || item.kind == ItemKind::SET) && item.a == tensor;
            if (item.kind == ItemKind::OP) {
                const Span outs = program.ops[item.a].outs;
                made = std::count(program.id_at(outs), program.id_at(outs) + outs.count, tensor) > 0;
            }
            if (made && item.line != NONE) return program.lines[item.line];
        }
    return "the kernel";
}

std::array<int64_t, 5> load_key(const Graph& g, const Op& op, Id id, Id t) {
    if (op.mm == NONE) return {id, t, -1, -1, -1};
    const Matmul& m = g.matmuls[op.mm];
    const Shape& at = m.a_direct && op.in[0] == t ? m.a_at : m.b_at;
    return {op.sub, t, at[0], at[1], -2};
}

}  // namespace

LeafNote note_of(const Graph& g, const SubGraph& s, const Block& block, const Program& program) {
    LeafNote note;
    std::set<std::string> seen;
    std::vector<Id> sources;
    for (Id id : s.ops)
        if (g.ops[id].src != NONE && !is_move(g.ops[id].code)) sources.push_back(g.ops[id].src);
    std::sort(sources.begin(), sources.end());
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    for (Id src : sources) {
        const BlockOp& op = block.ops[src];
        if (note.line.empty()) note.line = line_of(block, program, src);
        if (note.label.empty() && op.label != NONE) note.label = program.labels[op.label];
        if (const std::string name = title(block, src); !name.empty() && seen.insert(name).second)
            note.ops += (note.ops.empty() ? "" : ", ") + name;
    }
    if (note.ops.empty()) note.ops = "copy";
    return note;
}

Crossings crossings_of(const Graph& g, const std::vector<SubGraph>& subs, const Block& block, const Program& program,
                       const PartitionOptions& options) {
    Crossings found;
    const std::vector<SubFacts> facts = facts_of(g, subs);
    std::set<std::pair<Id, CrossingKey>> written;
    std::set<std::array<int64_t, 5>> read;      // loads of one task that coincide are one
    for (const SubGraph& s : subs)
        for (Id id : s.ops) {
            const Op& out = g.ops[id];
            for (Id t : out.out) {
                const Tensor& gm = g.tensors[t];
                if (gm.mem != Mem::GM || g.raws[gm.raw].external != NONE) continue;
                const Id from = is_move(out.code) ? computation(g, out, true) : out.src;
                for (Id c : gm.consumers) {
                    const Op& in = g.ops[c];
                    if (in.sub == out.sub) continue;
                    const Id to = is_move(in.code) ? computation(g, in, false) : in.src;
                    CrossingKey key{title(block, from), line_of(block, program, from), title(block, to),
                                    line_of(block, program, to), reason(subs, facts, out.sub, in.sub, options)};
                    CrossingBytes& bytes = found[key];
                    if (written.insert({id, key}).second) {
                        const Tensor& tile = g.tensors[out.in.empty() ? t : out.in[0]];
                        bytes.write += tile.shape.count() * dtype_size_bytes(gm.dtype);
                        ++bytes.tiles;
                    }
                    if (read.insert(load_key(g, in, c, t)).second) bytes.read += read_bytes(g, in, t);
                }
            }
        }
    return found;
}

std::string breakdown_json(const Program& program, const std::vector<Leaf>& leaves,
                           const std::vector<machine::LeafTiming>& timings, const std::vector<int64_t>& runs,
                           const Crossings& crossings, const std::map<Id, TensorTraffic>& tensors, const Chip& chip,
                           const machine::Idle& idle) {
    std::vector<size_t> order;
    for (size_t l = 0; l < leaves.size(); ++l)
        if (runs[l]) order.push_back(l);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return timings[a].cycles * runs[a] > timings[b].cycles * runs[b];
    });
    std::vector<std::string> kinds, edges, rows;
    for (size_t i = 0; i < std::min(order.size(), MOST_TASK_KINDS); ++i) {
        const Leaf& leaf = leaves[order[i]];
        const machine::LeafTiming& timing = timings[order[i]];
        Json j, busy, peak;
        for (int p = 0; p < cost::PIPES; ++p)
            if (timing.busy[p]) busy.integer(cost::pipe_name(static_cast<cost::Pipe>(p)), timing.busy[p]);
        for (int m = 0; m < MEMS; ++m)
            if (leaf.peak[m]) peak.integer(mem_name(static_cast<Mem>(m)), leaf.peak[m]);
        j.string("core", leaf.core == cost::Core::AIC ? "AIC" : "AIV").string("ops", leaf.note.ops);
        j.string("label", leaf.note.label).string("line", leaf.note.line).integer("count", runs[order[i]]);
        j.integer("cycles", timing.cycles).raw("pipe_busy_cycles", busy.text()).raw("peak_bytes", peak.text());
        j.integer("gm_read_bytes", leaf.gm_read).integer("gm_write_bytes", leaf.gm_write).integer("spill_bytes", leaf.spill_bytes);
        kinds.push_back(j.text());
    }
    std::vector<Crossings::const_iterator> found;
    for (auto it = crossings.begin(); it != crossings.end(); ++it) found.push_back(it);
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
        return a->second.read + a->second.write > b->second.read + b->second.write;
    });
    for (size_t i = 0; i < std::min(found.size(), MOST_CROSSINGS); ++i) {
        const auto& [key, bytes] = *found[i];
        Json j;
        j.string("from", key.from).string("from_line", key.from_line).string("to", key.to).string("to_line", key.to_line);
        j.string("reason", key.reason).integer("tiles", bytes.tiles).integer("write_bytes", bytes.write).integer("read_bytes", bytes.read);
        edges.push_back(j.text());
    }
    for (const auto& [id, traffic] : tensors) {
        const TensorInfo& t = program.tensors[id];
        Json j;
        j.string("name", t.name.empty() ? "made in " + birth(program, id) : t.name).string("kind", traffic.argument ? "argument" : "slot");
        j.integer("size_bytes", bytes_of(t.shape, t.dtype)).integer("read_bytes", traffic.read).integer("write_bytes", traffic.write);
        rows.push_back(j.text());
    }
    Json capacity, waits, out;
    waits.integer("predecessor", idle.predecessors).integer("schedule", idle.schedule);
    waits.integer("bandwidth", idle.bandwidth).integer("no_task", idle.no_task);
    out.raw("idle_cycles", waits.text());
    for (int m = 0; m < MEMS; ++m)
        if (chip.capacity[m]) capacity.integer(mem_name(static_cast<Mem>(m)), chip.capacity[m]);
    out.raw("capacity_bytes", capacity.text());
    out.raws("task_kinds", kinds).integer("task_kinds_left_out", static_cast<int64_t>(order.size() - kinds.size()));
    out.raws("crossings", edges).integer("crossings_left_out", static_cast<int64_t>(found.size() - edges.size()));
    out.raws("tensors", rows);
    return out.text();
}

}  // namespace npu::plan
