// Options in force, out of the JSON text that the front end hands over: what both planners read of it.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace npu {

// Text of the value of an option, objects with their braces; nothing when it is not set.
std::optional<std::string> option_text(const std::string& json, const std::string& key);
std::optional<int64_t> option_int(const std::string& json, const std::string& key);

// {class: factor} of a merge setting; -1 (or "DEFAULT"): all other classes. Labels name nothing here and are left out.
std::map<int64_t, int64_t> merge_setting(const std::string& json, const std::string& key);

// sg_set_scope, an id or [id, flag, flag]; -1: none.
int32_t scope_option(const std::string& json);

}  // namespace npu
