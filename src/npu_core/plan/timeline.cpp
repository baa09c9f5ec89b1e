#include "npu_core/plan/timeline.h"

#include <algorithm>

#include "npu_core/base/fault.h"
#include "npu_core/machine/machine.h"

namespace npu::plan {

namespace {

int8_t pipe_of(cost::Pipe pipe) {      // index of TIMELINE_PIPES
    switch (pipe) {
        case cost::Pipe::MTE2: return 0;
        case cost::Pipe::MTE1: return 1;
        case cost::Pipe::CUBE: return 2;
        case cost::Pipe::VEC: return 3;
        case cost::Pipe::MTE3: case cost::Pipe::FIX: return 4;
        default: return 5;
    }
}

}  // namespace

TimelineLeaf timeline_leaf(const Leaf& leaf, const cost::Calibrated& cost, const Chip& chip) {
    TimelineLeaf out;
    std::vector<machine::OpTime> times;
    out.cycles = machine::run_calibrated(leaf, cost, chip, &times).cycles;
    out.core = leaf.core == cost::Core::AIC ? "AIC" : "AIV";
    out.ops = leaf.note.ops;
    out.label = leaf.note.label;
    out.line = leaf.note.line;
    auto once = [](std::vector<std::string>& list, const LeafTensor& t) {
        std::string text = std::string(dtype_name(t.dtype)) + to_text(t.exact);
        if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
    };
    for (size_t i = 0; i < leaf.ops.size(); ++i) {
        const LeafOp& op = leaf.ops[i];
        out.timings.push_back({pipe_of(times[i].pipe), times[i].start, times[i].end, cost::info(op.code).name});
        if (op.code == Code::COPY_IN) once(out.in, leaf.tensors[op.out[0]]);
        if (op.code == Code::COPY_OUT) once(out.out, leaf.tensors[op.in[0]]);
    }
    return out;
}

}  // namespace npu::plan
