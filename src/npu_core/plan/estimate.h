// Entry of the cost-only run: a finished Program, a device table and a model give the fields of an estimate.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "npu_core/program/program.h"

namespace npu::plan {

struct IntData {                       // data of one tensor argument, or null
    const uint8_t* data = nullptr;
    int64_t bytes = 0;
};
struct Assumed { std::string key; int64_t low, high; };   // scalar name, "file:line" or "line" -> value range

// What came out: `json` with the fields, or a fault with a code ("needs_data", "capacity", "device", ...).
struct EstimateReport {
    std::string json;
    std::string code, message, line;
};

EstimateReport plan_and_cost(const Program& program, const std::unordered_map<std::string, double>& device,
                             const std::string& model, const std::vector<IntData>& data, const std::vector<Assumed>& assume);

}  // namespace npu::plan
