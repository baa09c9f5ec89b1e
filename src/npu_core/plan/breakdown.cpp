#include "npu_core/plan/breakdown.h"

#include <algorithm>
#include <set>

namespace npu::plan {

namespace {

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
    constexpr size_t MOST = 64;         // operations that are looked at
    std::vector<Id> next;
    const Op* op = &copy;
    for (size_t head = 0;; ++head) {
        for (Id t : back ? op->in : op->out)
            for (Id o : back ? g.tensors[t].producers : g.tensors[t].consumers) {
                if (next.size() > MOST) break;
                if (std::find(next.begin(), next.end(), o) == next.end()) next.push_back(o);
            }
        if (head == next.size() || head == MOST) return copy.src;
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

CutSide side_of(const SubGraph& sub, const SubFacts& facts) {
    return {sub.core == cost::Core::AIC, sub.core == cost::Core::HUB, facts.scoped, facts.latency, facts.pred.size(), facts.succ.size()};
}

// Bytes that `op` loads of the global tensor `t`.
int64_t read_bytes(const Graph& g, const Op& op, Id t) {
    if (op.mm != NONE) {
        const Matmul& m = g.matmuls[op.mm];
        const int64_t side = m.a_direct && op.in[0] == t ? m.valid_m : m.valid_n;
        return side * m.valid_k * dtype_size_bytes(m.in);
    }
    int64_t sum = 0;
    for (Id out : op.out) sum += bytes_of(g.valid_of(out), g.tensors[t].dtype);
    return sum;
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
    std::set<Id> once;
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
                                    line_of(block, program, to), cut_reason(side_of(subs[out.sub], facts[out.sub]),
                                               side_of(subs[in.sub], facts[in.sub]), options.cycle_bound)};
                    CrossingBytes& bytes = found[key];
                    if (written.insert({id, key}).second) {
                        const int64_t moved = (out.in.empty() ? g.valid_of(t) : g.moved(out)).count() * dtype_size_bytes(gm.dtype);
                        bytes.write += moved;
                        ++bytes.tiles;
                        if (once.insert(id).second) bytes.once += moved;
                    }
                    if (read.insert(load_key(g, in, c, t)).second) {
                        bytes.read += read_bytes(g, in, t);
                        bytes.once += read_bytes(g, in, t);
                    }
                }
            }
        }
    return found;
}

TaskKind kind_of(const Leaf& leaf, const machine::LeafTiming& timing, int64_t count) {
    TaskKind k{leaf.core == cost::Core::AIC, leaf.note, count, timing.cycles, leaf.gm_read, leaf.gm_write, leaf.spill_bytes, {}, {}};
    for (int p = 0; p < cost::PIPES; ++p) k.busy.emplace_back(cost::pipe_name(static_cast<cost::Pipe>(p)), timing.busy[p]);
    for (int m = 0; m < MEMS; ++m) k.peak.emplace_back(mem_name(static_cast<Mem>(m)), leaf.peak[m]);
    return k;
}

Counts capacity_of(const Chip& chip) {
    Counts out;
    for (int m = 0; m < MEMS; ++m) out.emplace_back(mem_name(static_cast<Mem>(m)), chip.capacity[m]);
    return out;
}

}  // namespace npu::plan
