#include "npu_core/lowering/options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace npu::lowering {
namespace {

// Text of the value that follows "key":, objects with their braces; empty when the key is absent.
std::string value_of(const std::string& json, const std::string& key) {
    size_t at = json.find("\"" + key + "\"");
    if (at == std::string::npos) return "";
    at = json.find(':', at);
    if (at == std::string::npos) return "";
    while (++at < json.size() && std::isspace(static_cast<unsigned char>(json[at]))) {}
    size_t end = at;
    for (int depth = 0; end < json.size(); ++end) {
        const char c = json[end];
        if (c == '{' || c == '[') ++depth;
        if ((c == '}' || c == ']') && depth-- == 0) break;
        if (c == ',' && depth == 0) break;
    }
    return json.substr(at, end - at);
}

std::map<int64_t, int64_t> table(const std::string& text) {
    std::map<int64_t, int64_t> out;
    size_t at = 0;
    while ((at = text.find('"', at)) != std::string::npos) {
        const size_t close = text.find('"', at + 1), colon = text.find(':', close);
        if (close == std::string::npos || colon == std::string::npos) break;
        out[std::strtoll(text.c_str() + at + 1, nullptr, 10)] = std::strtoll(text.c_str() + colon + 1, nullptr, 10);
        at = colon;
    }
    return out;
}

}  // namespace

LoweringOptions lowering_options(const std::string& json) {
    LoweringOptions o;
    o.merges.vec_nbuffer = table(value_of(json, "vec_nbuffer_setting"));
    const std::string reuse = value_of(json, "cube_l1_reuse_setting");
    o.merges.l1_reuse = table(reuse);
    o.merges.l1_reuse_set = !o.merges.l1_reuse.empty();
    o.merges.cube_nbuffer = table(value_of(json, "cube_nbuffer_setting"));
    const int64_t most = std::strtoll(value_of(json, "stitch_function_max_num").c_str(), nullptr, 10);
    if (most > 0) o.stitch_max = std::min<int64_t>(most, 128);
    return o;
}

int32_t scope_of(const std::string& json) {
    const std::string text = value_of(json, "sg_set_scope");
    return text.empty() ? -1 : int32_t(std::strtol(text.c_str(), nullptr, 10));
}

}  // namespace npu::lowering
