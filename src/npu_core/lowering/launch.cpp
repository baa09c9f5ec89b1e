#include "npu_core/lowering/launch.h"

#include <algorithm>

#include "npu_core/base/fault.h"
#include "npu_core/lowering/options.h"

namespace npu::lowering {
namespace {

// Every slot that is read has a root that writes it.
void check_written(const Program& program, const std::vector<CompiledRoot>& roots) {
    std::set<Id> written;
    for (const CompiledRoot& r : roots) written.insert(r.output_slots.begin(), r.output_slots.end());
    for (const CompiledRoot& r : roots)
        for (Id slot : r.input_slots)
            if (!program.tensors[slot].global() && !written.count(slot))
                fail("read_before_write", "local tensor " + program.tensors[slot].name + " is read before any write");
}

}  // namespace

Launch run_launch(const Program& program, const std::vector<IntData>& data, const std::vector<Assumed>& assume, bool strict) {
    Launch launch;
    launch.flow = run_control_flow(program, data, assume, launch.assumptions);
    std::set<Id> crossing;
    for (const RootPath& path : launch.flow.roots) crossing.merge(outside_reads(program, path));
    for (size_t i = 0; i < program.tensors.size(); ++i)
        if (program.tensors[i].global()) crossing.insert(Id(i));
    launch.library.strict = strict;
    LoweringOptions options;
    for (const RootPath& path : launch.flow.roots) {
        RootGraph root = build_tensor_graph(program, path, crossing, launch.unmodelled);
        options = lowering_options(root.options);
        launch.roots.push_back(compile_root(program, std::move(root), launch.library, options.merges));
        for (const PathStep& s : path.steps) launch.roots.back().iterations = std::max(launch.roots.back().iterations, s.copy + 1);
    }
    check_written(program, launch.roots);
    launch.device = stitch(program, launch.flow, launch.roots, options.stitch_max);
    std::vector<LeafCost> costs;
    for (const LeafFunction& f : launch.library.leaves) costs.push_back({f.run.cycles, &f.run.events});
    launch.run = run_device(launch.device.tasks, costs);
    return launch;
}

}  // namespace npu::lowering
