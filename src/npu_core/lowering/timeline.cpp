#include "npu_core/lowering/timeline.h"

#include <algorithm>

#include "npu_core/base/fault.h"

namespace npu::lowering {
namespace {

constexpr double CYCLES_PER_US = 1800;

std::string tile_text(const Tensor& t) { return std::string(npu::dtype_name(t.dtype)) + to_text(t.shape); }

TimelineLeaf leaf_of(const LeafFunction& f) {
    TimelineLeaf out;
    out.core = core_name(f.core).data();
    out.ops = f.note.ops;
    out.label = f.note.label;
    out.line = f.note.line;
    out.cycles = f.run.cycles;
    const Graph& g = f.leaf.graph;
    auto once = [](std::vector<std::string>& list, std::string text) {
        if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
    };
    for (size_t i = 0; i < f.leaf.schedule.size(); ++i) {
        const Timing& t = f.run.timings[i];
        if (t.pipe == Pipe::NONE) continue;
        const Op& op = g.ops[f.leaf.schedule[i]];
        out.timings.push_back({int8_t(int(t.pipe) - int(Pipe::MTE_IN)), t.start, t.end, facts(op.code).name.data()});
        if (op.code == Opcode::COPY_IN) once(out.in, tile_text(g.tensors[op.out[0]]));
        if (op.code == Opcode::COPY_OUT) once(out.out, tile_text(g.tensors[op.in[0]]));
    }
    return out;
}

}  // namespace

Timeline timeline_of(const Launch& launch, int64_t most) {
    Timeline out;
    out.aic = AIC_COUNT;
    out.aiv = AIV_COUNT;
    out.cycles_per_us = CYCLES_PER_US;
    for (const LeafFunction& f : launch.library.leaves) out.leaves.push_back(leaf_of(f));
    int32_t instance = 0;
    for (size_t d = 0; d < launch.device.tasks.size(); ++d) {
        const std::vector<MachineTask>& tasks = launch.device.tasks[d];
        const std::vector<int32_t>& starts = launch.device.first_task[d];
        const size_t first = out.tasks.size();
        for (size_t k = 0; k < starts.size(); ++k, ++instance) {
            const int32_t root = launch.flow.instances[launch.device.instances[d][k]].root;
            const RootTasks& planned = launch.roots[root].tasks;
            for (size_t id = 0; id < planned.tasks.size(); ++id) {
                const MachineTask& task = tasks[starts[k] + id];
                const TaskTiming& timing = launch.run.tasks[d][starts[k] + id];
                const int32_t call = planned.tasks[id].call;
                out.tasks.push_back({int32_t(d), int32_t(k), int32_t(id), root, task.leaf,
                                     call < 0 ? -1 : launch.roots[root].calls[call].sub_graph, timing.core, timing.start, timing.end, -1});
            }
        }
        out.link(first, [&](size_t i) -> const std::vector<int32_t>& { return tasks[i].successors; });
        if (int64_t(out.tasks.size()) < most) continue;
        for (size_t rest = d + 1; rest < launch.device.tasks.size(); ++rest) out.tasks_left_out += int64_t(launch.device.tasks[rest].size());
        break;
    }
    out.keep_first(most);
    return out;
}

}  // namespace npu::lowering
