#include "npu_core/plan/options.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

namespace npu::plan {

namespace {

// Value that follows "key": as text; objects with their braces.
std::optional<std::string> value_of(const std::string& json, const std::string& key) {
    size_t at = json.find("\"" + key + "\"");
    if (at == std::string::npos) return std::nullopt;
    at = json.find(':', at + key.size() + 2);
    if (at == std::string::npos) return std::nullopt;
    while (++at < json.size() && std::isspace(static_cast<unsigned char>(json[at]))) {}
    size_t end = at;
    int depth = 0;
    for (; end < json.size(); ++end) {
        const char c = json[end];
        if (c == '{' || c == '[') ++depth;
        if (c == '}' || c == ']') { if (depth == 0) break; if (--depth == 0) { ++end; break; } }
        if (c == ',' && depth == 0) break;
    }
    return json.substr(at, end - at);
}

std::optional<int64_t> number(const std::string& text) {
    char* end = nullptr;
    const long long v = std::strtoll(text.c_str(), &end, 10);
    if (end == text.c_str()) return std::nullopt;
    return v;
}

// {"-1": k} or {"DEFAULT": k} and the like: key -> factor.
std::map<std::string, int64_t> table(const std::string& text) {
    std::map<std::string, int64_t> out;
    size_t at = 0;
    while ((at = text.find('"', at)) != std::string::npos) {
        const size_t close = text.find('"', at + 1), colon = text.find(':', close);
        if (close == std::string::npos || colon == std::string::npos) break;
        if (auto v = number(text.substr(colon + 1))) out[text.substr(at + 1, close - at - 1)] = *v;
        at = colon;
    }
    return out;
}

}  // namespace

RunOptions parse_options(const std::string& json) {
    RunOptions o;
    auto set_number = [&](const char* key, int64_t& to) {
        if (auto text = value_of(json, key))
            if (auto v = number(*text); v && *v > 0) to = *v;
    };
    set_number("pg_upper_bound", o.partition.cycle_bound);
    set_number("pg_lower_bound", o.partition.merge_lower_bound);
    set_number("pg_parallel_lower_bound", o.partition.merge_parallel_lower_bound);
    set_number("mg_vec_parallel_lb", o.partition.vec_parallel);
    set_number("mg_copyin_upper_bound", o.partition.copy_in_bound);
    set_number("stitch_function_max_num", o.stitch_max);
    o.stitch_max = std::min<int64_t>(o.stitch_max, 1024);
    // {class: factor}, with -1 or "DEFAULT" for the other classes: these are left alone where a setting does not name them.
    auto setting_of = [&](const char* key, MergeSetting& to) {
        const auto text = value_of(json, key);
        if (!text) return;
        const std::map<std::string, int64_t> t = table(*text);
        if (t.empty()) return;
        to = {{}, 1};
        for (const auto& [name, factor] : t) {
            if (name == "-1" || name == "DEFAULT") to.others = factor;
            else if (auto number_of = number(name); number_of && *number_of >= 0) to.by_class[*number_of] = factor;
        }
    };
    setting_of("vec_nbuffer_setting", o.partition.vec_nbuffer);
    if (auto text = value_of(json, "vec_nbuffer_setting")) {   // {-2: 0} automatic, {-2: 1} by factor: both without sharing
        const std::map<std::string, int64_t> t = table(*text);
        o.partition.vec_nbuffer_anywhere = t.count("-2") > 0;
        if (t.size() == 1 && t.count("-2")) o.partition.vec_nbuffer.others = MergeSetting::AUTOMATIC;
    }
    setting_of("cube_l1_reuse_setting", o.partition.cube_l1_reuse);
    setting_of("cube_nbuffer_setting", o.partition.cube_nbuffer);
    if (auto text = value_of(json, "combine_axis")) o.combine_axis = text->find("true") != std::string::npos;
    if (auto text = value_of(json, "sg_set_scope")) {          // id, or [id, flag, flag]; below zero: none
        const size_t digits = text->find_first_of("-0123456789");
        if (auto v = digits == std::string::npos ? std::nullopt : number(text->substr(digits)); v && *v >= 0) o.scope = static_cast<int32_t>(*v);
    }
    return o;
}

}  // namespace npu::plan
