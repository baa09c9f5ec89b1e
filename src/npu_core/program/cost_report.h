// What a cost-only run hands back: the fields of an estimate as JSON, or a fault.
#pragma once
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "npu_core/program/control.h"

namespace npu {

// `json` with the fields, or a fault with a code ("needs_data", "capacity", "device", ...).
struct EstimateReport {
    std::string json;
    std::string code, message, line;
};

// A tile does not fit a memory. Becomes the public CapacityError.
struct CapacityFault : std::runtime_error {
    using std::runtime_error::runtime_error;
    std::string op, memory, line;
    std::vector<int64_t> tile, fits;
    int64_t bytes = 0, limit = 0;
    int64_t largest_gap = -1;                     // of free room, where room is there but in pieces; else -1
    int32_t operation = -1;                       // of the planner, until op and line are named
    struct Live { std::string name; std::vector<int64_t> shape; int64_t bytes; };
    std::vector<Live> live;
    void suggest_tile();                          // `fits` from tile, bytes and limit: fewer rows, then a shorter last axis
};

// Runs `estimate` and turns what it throws into a report.
EstimateReport report_of(const std::function<std::string()>& estimate);

}  // namespace npu
