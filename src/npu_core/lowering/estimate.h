// Entry of model `official`: the fields of an estimate, or the record that the public simulator writes.
#pragma once
#include <vector>

#include "npu_core/program/cost_report.h"

namespace npu::lowering {

// `timeline_tasks`: most tasks of the "timeline" in the result; 0: none.
EstimateReport official_estimate(const Program& program, const std::vector<IntData>& data, const std::vector<Assumed>& assume,
                                 int64_t timeline_tasks = 0);

// Fields and counting of the public simulator (padded tiles, L0C tiles as fp32); refuses what it cannot run.
EstimateReport official_record(const Program& program, const std::vector<IntData>& data, const std::vector<Assumed>& assume);

}  // namespace npu::lowering
