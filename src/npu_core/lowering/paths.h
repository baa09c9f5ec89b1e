// Runs the control flow of a Program: which root functions there are and in what order they are instantiated.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "npu_core/program/control.h"

namespace npu::lowering {

struct PathStep {
    const Item* item;
    int32_t copy;                 // iteration within an unrolled body
};

// One control-flow path between loops: compiled once, run by any number of instances.
struct RootPath {
    std::vector<PathStep> steps;
    std::vector<Id> held;         // tensors that variables hold where it ends
};

struct Instance {
    int32_t root = 0;
    std::vector<std::vector<int64_t>> scalars;   // by copy: value of every scalar slot
    bool submit_before = false;                  // first of a loop with submit_before_loop
};

struct ControlFlow {
    std::vector<RootPath> roots;      // in order of first execution
    std::vector<Instance> instances;
    int64_t tails = 0;                // views whose valid shape is smaller than their tile
};

ControlFlow run_control_flow(const Program& program, const std::vector<IntData>& data, const std::vector<Assumed>& assume,
                             std::set<std::string>& assumptions);

int64_t value_of(const Program& program, Id expr, const std::vector<int64_t>& scalars);
bool is_constant(const Program& program, Id expr);
std::string expr_text(const Program& program, Id expr);

}  // namespace npu::lowering
