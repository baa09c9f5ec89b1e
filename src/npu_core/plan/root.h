// One root function planned: its calls (tasks), the leaves they run, their edges, and what they read and write in GM.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "npu_core/machine/machine.h"
#include "npu_core/plan/breakdown.h"
#include "npu_core/plan/leaf.h"
#include "npu_core/program/timeline.h"

namespace npu::plan {

struct Access {           // window of an argument or slot
    Id external;          // index of Block::externals
    bool unknown_rows = false;   // rows picked by an index tensor: anywhere in the tensor
    Shape at, shape;             // edges follow it: the runtime knows no valid extents
    Shape valid;                 // what moves
    Id dyn = NONE;
    int64_t bytes = 0;
    int64_t again = 0;           // further writes of the same window by the same task
    int64_t row_bytes = 0;       // length of its contiguous runs where they end before the next one starts, 0 for one run
};

struct Root {
    std::vector<External> externals;
    machine::DeviceTask tasks;                     // hubs included, in task-id order
    int32_t units = 0;                             // groups of tasks that edges join
    std::vector<std::vector<Access>> reads, writes;  // by task
    std::vector<std::vector<Id>> dyn_sets;
    std::vector<Shape> first_offsets;              // dynamic accesses of the instance that was planned
    int64_t workspace_bytes = 0, gm_read = 0, gm_write = 0, calls = 0, aic_calls = 0, edges = 0, hubs = 0;
    std::vector<std::string> unmodelled;
    Crossings crossings;
    std::string first_line;
};

// Leaves shared by all root functions of a plan. Each is priced when it is made; its operations are not kept, for the
// leaves of small tiles have millions of them.
class LeafTable {
public:
    LeafTable(const Program& program, const Chip& chip, const cost::Device& device, bool timelines)
        : program_(program), chip_(chip), cost_(device), timelines_wanted_(timelines) {}
    int32_t add(const Graph& g, const SubGraph& s, const Block& block);
    const std::vector<Leaf>& leaves() const { return leaves_; }                         // without tensors and operations
    const std::vector<machine::LeafTiming>& timings() const { return timings_; }
    const std::vector<TimelineLeaf>& timelines() const { return timelines_; }           // where wanted

private:
    const Program& program_;
    const Chip& chip_;
    const cost::Calibrated cost_;
    const bool timelines_wanted_;
    std::map<std::vector<int64_t>, int32_t> known_;
    std::vector<Leaf> leaves_;
    Leaf room_;                                     // storage of the latest one, for the next
    std::vector<machine::LeafTiming> timings_;
    std::vector<TimelineLeaf> timelines_;

    void keep(Leaf leaf);
};

Root plan_root(const Program& program, const std::vector<Visit>& visits, const Valids& valids, const std::vector<Shape>& offsets,
               const std::unordered_set<Id>& crossing, Numerics numerics, const Chip& chip, const PartitionOptions& options,
               LeafTable& leaves);

}  // namespace npu::plan
