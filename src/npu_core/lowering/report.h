// The whole lowering of a Program under the `official` model, as a JSON record.
#pragma once
#include <string>
#include <vector>

#include "npu_core/lowering/paths.h"

namespace npu::lowering {

// json: the record; otherwise a fault with a code: capacity, needs_data, not_lowered, read_before_write,
// not_simulated.
struct OfficialReport {
    std::string json;
    std::string code, message, line, memory;
    int64_t bytes = 0, limit = 0;
};

#ifdef NPU_LOWERING
OfficialReport official_report(const Program& program, const std::vector<ArgumentData>& data);
#else
inline OfficialReport official_report(const Program&, const std::vector<ArgumentData>&) {
    OfficialReport r;
    r.code = "not_built";
    r.message = "the exact 0.2.0 lowering is not part of this build; build with -C cmake.define.NPU_LOWERING=ON";
    return r;
}
#endif

}  // namespace npu::lowering
