#include "npu_core/program/breakdown.h"

#include "npu_core/base/json.h"

namespace npu {

namespace {

constexpr size_t MOST_TASK_KINDS = 40, MOST_CROSSINGS = 40;

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

std::string object(const Counts& counts) {
    Json j;
    for (const auto& [key, value] : counts)
        if (value) j.integer(key, value);
    return j.text();
}

std::string kind_json(const TaskKind& k) {
    Json j;
    j.string("core", k.cube ? "AIC" : "AIV").string("ops", k.note.ops).string("label", k.note.label);
    j.string("line", k.note.line).integer("count", k.count).integer("cycles", k.cycles);
    j.raw("pipe_busy_cycles", object(k.busy)).raw("peak_bytes", object(k.peak)).integer("gm_read_bytes", k.gm_read);
    return j.integer("gm_write_bytes", k.gm_write).integer("spill_bytes", k.spill).text();
}

std::string crossing_json(const CrossingKey& key, const CrossingBytes& bytes) {
    Json j;
    j.string("from", key.from).string("from_line", key.from_line).string("to", key.to).string("to_line", key.to_line);
    j.string("reason", key.reason).integer("tiles", bytes.tiles);
    return j.integer("write_bytes", bytes.write).integer("read_bytes", bytes.read).text();
}

}  // namespace

void add_crossings(Crossings& sum, const Crossings& one, int64_t times) {
    for (const auto& [key, bytes] : one) {
        CrossingBytes& to = sum[key];
        to.write += bytes.write * times;
        to.read += bytes.read * times;
        to.tiles += bytes.tiles * times;
        to.once += bytes.once * times;
    }
}

std::string cut_reason(const CutSide& from, const CutSide& to, int64_t cycle_bound) {
    if (from.hub || to.hub) return "a reshape that moves data goes through global memory";
    if (from.cube != to.cube) return from.cube ? "cube result that vector operations use" : "vector result that the cube uses";
    if (from.scoped || to.scoped) return "sg_set_scope keeps them apart";
    if (from.latency + to.latency > cycle_bound)
        return "one task would exceed the bound of " + std::to_string(cycle_bound) + " cycles";
    if (from.after > 1 || to.before > 1) return "tiles do not match: a tile feeds several tasks, or a task needs several tiles";
    return "merged tasks would be too few to run in parallel";
}

std::string breakdown_json(const Program& program, const Breakdown& b) {
    std::vector<const TaskKind*> order;
    for (const TaskKind& k : b.kinds)
        if (k.count) order.push_back(&k);
    std::stable_sort(order.begin(), order.end(), [](const TaskKind* x, const TaskKind* y) {
        return x->cycles * x->count > y->cycles * y->count;
    });
    std::vector<Crossings::const_iterator> found;
    for (auto it = b.crossings.begin(); it != b.crossings.end(); ++it) found.push_back(it);
    std::stable_sort(found.begin(), found.end(), [](const auto& x, const auto& y) {
        return x->second.read + x->second.write > y->second.read + y->second.write;
    });
    std::vector<std::string> kinds, edges, rows;
    for (size_t i = 0; i < std::min(order.size(), MOST_TASK_KINDS); ++i) kinds.push_back(kind_json(*order[i]));
    for (size_t i = 0; i < std::min(found.size(), MOST_CROSSINGS); ++i) edges.push_back(crossing_json(found[i]->first, found[i]->second));
    for (const auto& [id, traffic] : b.tensors) {
        const TensorInfo& t = program.tensors[id];
        Json j;
        j.string("name", t.name.empty() ? "made in " + birth(program, id) : t.name).string("kind", t.global() ? "argument" : "slot");
        j.integer("size_bytes", t.shape.count() * dtype_size_bytes(t.dtype));
        j.integer("read_bytes", traffic.read).integer("write_bytes", traffic.write);
        rows.push_back(j.text());
    }
    Json out;
    out.raw("idle_cycles", Json().integer("predecessor", b.idle.predecessors).integer("schedule", b.idle.schedule)
                               .integer("bandwidth", b.idle.bandwidth).integer("no_task", b.idle.no_task).text());
    out.raw("capacity_bytes", object(b.capacity));
    out.raws("task_kinds", kinds).integer("task_kinds_left_out", static_cast<int64_t>(order.size() - kinds.size()));
    int64_t fusable = 0;
    for (const auto& crossing : found) fusable += crossing->second.once;
    out.integer("fusable_bytes", fusable).raws("crossings", edges).integer("crossings_left_out", static_cast<int64_t>(found.size() - edges.size()));
    return out.raws("tensors", rows).text();
}

}  // namespace npu
