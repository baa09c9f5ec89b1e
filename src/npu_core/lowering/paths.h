// Runs the control flow of a Program: which root functions there are and in what order they are instantiated.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "npu_core/program/program.h"

namespace npu::lowering {

// Contiguous data of one tensor argument that the control flow may read, or null.
struct ArgumentData {
    const uint8_t* data = nullptr;
    int64_t bytes = 0;
};

// A bound or condition depends on a value that is not there.
struct MissingData : std::runtime_error {
    MissingData(const std::string& what, std::string at) : std::runtime_error(what), line(std::move(at)) {}
    std::string line;
};

struct PathStep {
    const Item* item;
    int32_t copy;                 // iteration within an unrolled body
};

// One control-flow path between loops: compiled once, run by any number of instances.
struct RootPath {
    std::vector<PathStep> steps;
};

struct Instance {
    int32_t root = 0;
    std::vector<std::vector<int64_t>> scalars;   // by copy: value of every scalar slot
    bool submit_before = false;                  // first of a loop with submit_before_loop
};

struct ControlFlow {
    std::vector<RootPath> roots;      // in order of first execution
    std::vector<Instance> instances;
};

ControlFlow run_control_flow(const Program& program, const std::vector<ArgumentData>& data);

int64_t evaluate(const Program& program, Id expr, const std::vector<int64_t>& scalars);
bool is_constant(const Program& program, Id expr);
std::string expr_text(const Program& program, Id expr);

}  // namespace npu::lowering
