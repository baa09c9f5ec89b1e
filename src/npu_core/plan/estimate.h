// Entry of model `calibrated`: a finished Program and a device table give the fields of an estimate.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "npu_core/program/cost_report.h"

namespace npu::plan {

EstimateReport plan_and_cost(const Program& program, const std::unordered_map<std::string, double>& device,
                             const std::vector<IntData>& data, const std::vector<Assumed>& assume,
                             int64_t timeline_tasks = 0);   // most tasks of the "timeline" in the result; 0: none

}  // namespace npu::plan
