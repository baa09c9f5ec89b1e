// Where the cost of a plan comes from: kinds of tasks, tensors that cross global memory between tasks, and why.
#pragma once
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "npu_core/machine/machine.h"
#include "npu_core/plan/leaf.h"
#include "npu_core/plan/stages.h"

namespace npu::plan {

LeafNote note_of(const Graph& g, const SubGraph& s, const Block& block, const Program& program);

// An intermediate tensor that one task writes to global memory and another reads back.
struct CrossingKey {
    std::string from, from_line, to, to_line, reason;
    auto operator<=>(const CrossingKey&) const = default;
};
struct CrossingBytes {
    int64_t write = 0, read = 0, tiles = 0;
};
using Crossings = std::map<CrossingKey, CrossingBytes>;

// Of one root function whose moves are in place. `subs` are its tasks, in the order of Op::sub.
Crossings crossings_of(const Graph& g, const std::vector<SubGraph>& subs, const Block& block, const Program& program,
                       const PartitionOptions& options);

// Traffic of an argument or slot, by Program tensor.
struct TensorTraffic {
    bool argument = false;
    int64_t read = 0, write = 0;
};

// JSON object with the fields of result/breakdown.py. `runs`: executions by leaf.
std::string breakdown_json(const Program& program, const std::vector<Leaf>& leaves,
                           const std::vector<machine::LeafTiming>& timings, const std::vector<int64_t>& runs,
                           const Crossings& crossings, const std::map<Id, TensorTraffic>& tensors, const Chip& chip,
                           const machine::Idle& idle);

}  // namespace npu::plan
