#include "npu_core/program/timeline.h"

#include <algorithm>
#include <initializer_list>

#include "npu_core/base/json.h"

namespace npu {

namespace {

std::string numbers(std::initializer_list<int64_t> values) {
    std::string out;
    for (int64_t v : values) out += (out.empty() ? "" : ",") + std::to_string(v);
    return "[" + out + "]";
}

}  // namespace

void Timeline::keep_first(int64_t most) {
    if (int64_t(tasks.size()) <= most) return;
    std::vector<int32_t> order(tasks.size()), place(tasks.size(), -1);
    for (size_t i = 0; i < order.size(); ++i) order[i] = int32_t(i);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return tasks[a].start < tasks[b].start; });
    order.resize(size_t(most));
    std::sort(order.begin(), order.end());
    std::vector<TimelineTask> kept;
    for (int32_t i : order) {
        place[i] = int32_t(kept.size());
        kept.push_back(tasks[i]);
    }
    for (TimelineTask& t : kept)
        if (t.last >= 0) t.last = place[t.last];
    tasks_left_out += int64_t(tasks.size() - kept.size());
    tasks = std::move(kept);
}

std::string Timeline::json() const {
    std::vector<std::string> rows, kinds, pipes;
    for (const TimelineLeaf& leaf : leaves) {
        Json j;
        std::vector<std::string> ops, names;
        for (const TimelineOp& op : leaf.timings) {
            ops.push_back(numbers({op.pipe, op.start, op.end}));
            names.push_back(op.name);
        }
        j.string("core", leaf.core).string("ops", leaf.ops).string("label", leaf.label).string("line", leaf.line);
        j.integer("cycles", leaf.cycles).strings("inputs", leaf.in).strings("outputs", leaf.out);
        j.raws("timings", ops).strings("names", names);
        kinds.push_back(j.text());
    }
    rows.reserve(tasks.size());
    for (const TimelineTask& t : tasks)
        rows.push_back(numbers({t.device_task, t.instance, t.id, t.root, t.leaf, t.sub_graph, t.core, t.start, t.end, t.last}));
    Json out;
    out.integer("aic", aic).integer("aiv", aiv).number("cycles_per_us", cycles_per_us).number("launch_us", launch_us);
    out.strings("pipes", {TIMELINE_PIPES.begin(), TIMELINE_PIPES.end()}).raws("leaves", kinds).raws("tasks", rows);
    return out.integer("tasks_left_out", tasks_left_out).text();
}

}  // namespace npu
