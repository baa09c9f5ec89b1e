#include "npu_core/lowering/options.h"

#include <algorithm>

#include "npu_core/program/pass_options.h"

namespace npu::lowering {

LoweringOptions lowering_options(const std::string& json) {
    LoweringOptions o;
    o.merges.vec_nbuffer = merge_setting(json, "vec_nbuffer_setting");
    o.merges.l1_reuse = merge_setting(json, "cube_l1_reuse_setting");
    o.merges.l1_reuse_set = !o.merges.l1_reuse.empty();
    o.merges.cube_nbuffer = merge_setting(json, "cube_nbuffer_setting");
    const int64_t most = option_int(json, "stitch_function_max_num").value_or(0);
    if (most > 0) o.stitch_max = std::min<int64_t>(most, 128);
    return o;
}

}  // namespace npu::lowering
