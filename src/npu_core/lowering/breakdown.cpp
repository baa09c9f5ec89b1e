#include "npu_core/lowering/breakdown.h"

#include <algorithm>
#include <set>

#include "npu_core/lowering/partition.h"

namespace npu::lowering {

namespace {

bool is_move(const Op& op) {
    const OpClass c = facts(op.code).klass;
    return c == OpClass::MOVE_IN || c == OpClass::MOVE_OUT || c == OpClass::MOVE_LOCAL || op.code == Opcode::VIEW ||
           op.code == Opcode::ASSEMBLE || op.code == Opcode::RESHAPE;
}

// The computation that a copy belongs to: what made the tile (back) or what uses it, through further copies.
int32_t computation(const Graph& g, int32_t id, bool back) {
    std::vector<int32_t> next{id};
    std::set<int32_t> seen{id};
    for (size_t head = 0; head < next.size() && head < 64; ++head) {
        const Op& op = g.ops[next[head]];
        if (!is_move(op) && op.source >= 0) return op.source;
        for (int32_t t : back ? op.in : op.out)
            for (int32_t o : back ? g.tensors[t].producers : g.tensors[t].consumers)
                if (seen.insert(o).second) next.push_back(o);
    }
    return g.ops[id].source;
}

std::string title(const Graph& g, int32_t source) {
    return source < 0 || g.sources[source].row == NONE ? "" : npu::op_rows()[g.sources[source].row].name;
}
std::string line_of(const Program& program, const Graph& g, int32_t source) {
    return source < 0 || g.sources[source].line == NONE ? "" : program.lines[g.sources[source].line];
}

std::vector<CutSide> sides_of(const Graph& g, const SubGraphs& subs) {
    std::vector<CutSide> sides(subs.size());
    for (size_t s = 0; s < subs.size(); ++s) {
        CutSide& side = sides[s];
        side.hub = only_reshapes(g, subs.ops[s]);
        side.cube = !side.hub && has_cube_op(g, subs.ops[s]);
        for (int32_t id : subs.ops[s]) {
            side.latency += g.ops[id].latency;
            side.scoped = side.scoped || g.ops[id].scope >= 0;
        }
        side.before = subs.previous[s].size();
        side.after = subs.next[s].size();
    }
    return sides;
}

}  // namespace

LeafNote note_of(const Program& program, const Graph& g, const std::vector<int32_t>& ops) {
    std::vector<int32_t> sources;
    for (int32_t id : ops)
        if (g.ops[id].source >= 0 && !is_move(g.ops[id])) sources.push_back(g.ops[id].source);
    std::sort(sources.begin(), sources.end());
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    LeafNote note;
    std::set<std::string> seen;
    for (int32_t source : sources) {
        const Origin& from = g.sources[source];
        if (note.line.empty()) note.line = line_of(program, g, source);
        if (note.label.empty() && from.label != NONE) note.label = program.labels[from.label];
        if (from.row == NONE || !seen.insert(title(g, source)).second) continue;
        note.ops += (note.ops.empty() ? "" : ", ") + title(g, source);
    }
    if (note.ops.empty()) note.ops = "copy";
    return note;
}

Crossings crossings_of(const Program& program, const Graph& g, const SubGraphs& subs, const std::vector<char>& is_end) {
    Crossings found;
    const std::vector<CutSide> sides = sides_of(g, subs);
    std::set<std::pair<int32_t, CrossingKey>> counted;      // a copy counts once per row
    std::set<int32_t> once;
    for (int32_t id : g.order)
        for (int32_t t : g.ops[id].out) {
            if (g.tensors[t].mem != Mem::GM || is_end[t]) continue;
            const Op& out = g.ops[id];
            const int32_t from = computation(g, id, true);
            for (int32_t c : g.tensors[t].consumers) {
                const Op& in = g.ops[c];
                if (in.sub_graph == out.sub_graph) continue;
                const int32_t to = computation(g, c, false);
                CrossingKey key{title(g, from), line_of(program, g, from), title(g, to), line_of(program, g, to),
                                cut_reason(sides[out.sub_graph], sides[in.sub_graph], CYCLE_BOUND)};
                CrossingBytes& bytes = found[key];
                if (counted.insert({id, key}).second) {
                    bytes.write += out.gm_bytes;
                    ++bytes.tiles;
                    if (once.insert(id).second) bytes.once += out.gm_bytes;
                }
                if (counted.insert({c, key}).second) {
                    bytes.read += in.gm_bytes;
                    if (once.insert(c).second) bytes.once += in.gm_bytes;
                }
            }
        }
    return found;
}

Idle idle_of(const Launch& launch) {
    Idle idle;
    std::vector<int64_t> free(AIC_COUNT + AIV_COUNT, 0);
    for (size_t d = 0; d < launch.device.tasks.size(); ++d) {
        const std::vector<MachineTask>& tasks = launch.device.tasks[d];
        const std::vector<TaskTiming>& times = launch.run.tasks[d];
        std::vector<int64_t> ready(tasks.size(), 0);
        std::vector<int32_t> open(tasks.size()), queue, by_start;
        for (size_t t = 0; t < tasks.size(); ++t)
            if ((open[t] = tasks[t].predecessors) == 0) queue.push_back(int32_t(t));
        for (size_t head = 0; head < queue.size(); ++head) {
            const MachineTask& task = tasks[queue[head]];
            const bool hub = task.core == CoreType::HUB;
            if (!hub) by_start.push_back(queue[head]);
            for (int32_t s : task.successors) {
                ready[s] = std::max(ready[s], hub ? ready[queue[head]] : times[queue[head]].end);
                if (--open[s] == 0) queue.push_back(s);
            }
        }
        std::stable_sort(by_start.begin(), by_start.end(), [&](int32_t a, int32_t b) { return times[a].start < times[b].start; });
        for (int32_t t : by_start) {
            int64_t& core = free[times[t].core];
            idle.gap(core, ready[t], times[t].start);
            core = times[t].end;
        }
    }
    for (int type = 0; type < 2; ++type) {              // a type of core without any task does not count
        const auto begin = free.begin() + (type ? AIC_COUNT : 0), end = type ? free.end() : free.begin() + AIC_COUNT;
        if (std::all_of(begin, end, [](int64_t until) { return until == 0; })) continue;
        for (auto core = begin; core != end; ++core) idle.no_task += std::max<int64_t>(0, launch.run.cycles - *core);
    }
    return idle;
}

Counts capacity_of() {
    Counts out;
    for (Mem m : {Mem::UB, Mem::L1, Mem::L0A, Mem::L0B, Mem::L0C}) out.emplace_back(mem_name(m), capacity_bytes(m));
    return out;
}

}  // namespace npu::lowering
