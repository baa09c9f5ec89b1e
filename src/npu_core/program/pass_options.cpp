#include "npu_core/program/pass_options.h"

#include <cctype>
#include <cstdlib>

namespace npu {
namespace {

std::optional<int64_t> number(const char* text) {
    char* end = nullptr;
    const long long v = std::strtoll(text, &end, 10);
    if (end == text) return std::nullopt;
    return v;
}

}  // namespace

std::optional<std::string> option_text(const std::string& json, const std::string& key) {
    size_t at = json.find("\"" + key + "\"");
    if (at == std::string::npos) return std::nullopt;
    at = json.find(':', at + key.size() + 2);
    if (at == std::string::npos) return std::nullopt;
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

std::optional<int64_t> option_int(const std::string& json, const std::string& key) {
    const auto text = option_text(json, key);
    return text ? number(text->c_str()) : std::nullopt;
}

std::map<int64_t, int64_t> merge_setting(const std::string& json, const std::string& key) {
    std::map<int64_t, int64_t> out;
    const std::string text = option_text(json, key).value_or("");
    size_t at = 0;
    while ((at = text.find('"', at)) != std::string::npos) {
        const size_t close = text.find('"', at + 1), colon = text.find(':', close);
        if (close == std::string::npos || colon == std::string::npos) break;
        const std::string name = text.substr(at + 1, close - at - 1);
        const auto of = name == "DEFAULT" ? std::optional<int64_t>(-1) : number(name.c_str());
        const auto factor = number(text.c_str() + colon + 1);
        if (of && factor) out[*of] = *factor;
        at = colon;
    }
    return out;
}

int32_t scope_option(const std::string& json) {
    const std::string text = option_text(json, "sg_set_scope").value_or("");
    const size_t digits = text.find_first_of("-0123456789");
    if (digits == std::string::npos) return -1;
    const auto id = number(text.c_str() + digits);
    return id && *id >= 0 ? static_cast<int32_t>(*id) : -1;
}

}  // namespace npu
