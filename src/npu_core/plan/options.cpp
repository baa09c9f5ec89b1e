#include "npu_core/plan/options.h"

#include <algorithm>

#include "npu_core/program/pass_options.h"

namespace npu::plan {

RunOptions parse_options(const std::string& json) {
    RunOptions o;
    auto set_number = [&](const char* key, int64_t& to) {
        if (const auto v = option_int(json, key); v && *v > 0) to = *v;
    };
    set_number("pg_upper_bound", o.partition.cycle_bound);
    set_number("pg_lower_bound", o.partition.merge_lower_bound);
    set_number("pg_parallel_lower_bound", o.partition.merge_parallel_lower_bound);
    set_number("mg_vec_parallel_lb", o.partition.vec_parallel);
    set_number("mg_copyin_upper_bound", o.partition.copy_in_bound);
    set_number("stitch_function_max_num", o.stitch_max);
    o.stitch_max = std::min<int64_t>(o.stitch_max, 1024);
    o.sched_mode = static_cast<int>(option_int(json, "device_sched_mode").value_or(0));
    // Classes that a setting does not name are left alone.
    auto setting_of = [&](const char* key, MergeSetting& to) {
        const auto table = merge_setting(json, key);
        if (table.empty()) return;
        to = {{}, 1};
        for (const auto& [of, factor] : table) {
            if (of == -1) to.others = factor;
            else if (of >= 0) to.by_class[of] = factor;
        }
    };
    setting_of("vec_nbuffer_setting", o.partition.vec_nbuffer);
    const auto vector = merge_setting(json, "vec_nbuffer_setting");   // {-2: 0} automatic, {-2: 1} by factor: both without sharing
    o.partition.vec_nbuffer_anywhere = vector.count(-2) > 0;
    if (o.partition.vec_nbuffer_anywhere && vector.size() == 1) o.partition.vec_nbuffer.others = MergeSetting::AUTOMATIC;
    setting_of("cube_l1_reuse_setting", o.partition.cube_l1_reuse);
    setting_of("cube_nbuffer_setting", o.partition.cube_nbuffer);
    o.combine_axis = option_text(json, "combine_axis").value_or("").find("true") != std::string::npos;
    o.scope = scope_option(json);
    return o;
}

}  // namespace npu::plan
