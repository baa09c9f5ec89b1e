// The stages of the plan, in the order they run on the tile graph of one root function.
#pragma once
#include <vector>

#include "npu_core/plan/block.h"
#include "npu_core/plan/graph.h"
#include "npu_core/program/cost_report.h"

namespace npu::plan {

// How many sub-graphs of one class become one task. Classes are numbered by their first member.
struct MergeSetting {
    static constexpr int64_t AUTOMATIC = 0;
    std::map<int64_t, int64_t> by_class;
    int64_t others = AUTOMATIC;                // 1: off
    int64_t factor(size_t number) const {
        const auto it = by_class.find(static_cast<int64_t>(number));
        return it == by_class.end() ? others : it->second;
    }
    bool off() const { return by_class.empty() && others == 1; }
};

// Options in force that steer the partition (pass options of the kernel or the loop).
struct PartitionOptions {
    int64_t cycle_bound = 10000, merge_lower_bound = 512, merge_parallel_lower_bound = 20;
    int64_t vec_parallel = 48;                 // mg_vec_parallel_lb
    int64_t copy_in_bound = 104857600;
    MergeSetting vec_nbuffer;
    bool vec_nbuffer_anywhere = false;         // members need not share a producer or a consumer
    MergeSetting cube_l1_reuse, cube_nbuffer{{}, 1};
};

struct SubGraph {
    cost::Core core = cost::Core::AIV;
    std::vector<Id> ops;                       // in list order
};

Graph expand(const Block& block, const Chip& chip);                      // tensor operations -> tile operations
void merge_view_assemble(Graph& g);
void split_large_fanout(Graph& g);
void duplicate_views(Graph& g);
void assign_memory(Graph& g, const Chip& chip);                          // where each tile lives, copies where paths need them
void remove_redundant(Graph& g);
void detour_view_assemble(Graph& g);                                     // InsertOpForViewAssemble
std::vector<SubGraph> collect_sub_graphs(Graph& g);                      // by Op::sub, renumbered without gaps
void merge_vector_sub_graphs(Graph& g, std::vector<SubGraph>& subs, const PartitionOptions& options);
void merge_cube_sub_graphs(Graph& g, std::vector<SubGraph>& subs, const PartitionOptions& options, const Chip& chip);
std::vector<SubGraph> partition(Graph& g, const Block& block, const PartitionOptions& options, const Chip& chip);
void generate_moves(Graph& g, std::vector<SubGraph>& subs, const Chip& chip);   // copies appear, equal ones collapse

}  // namespace npu::plan
