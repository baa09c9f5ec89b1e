// Writes one flat JSON object; enough for results that Python reads back.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace npu {

class Json {
public:
    Json& raw(const std::string& key, const std::string& value) {
        body_ += (body_.empty() ? "" : ",") + quoted(key) + ":" + value;
        return *this;
    }
    Json& integer(const std::string& key, int64_t v) { return raw(key, std::to_string(v)); }
    Json& number(const std::string& key, double v) {
        char text[40];
        std::snprintf(text, sizeof text, "%.17g", v);
        return raw(key, text);
    }
    Json& string(const std::string& key, const std::string& v) { return raw(key, quoted(v)); }
    Json& strings(const std::string& key, const std::vector<std::string>& v) {
        std::vector<std::string> q;
        for (const std::string& s : v) q.push_back(quoted(s));
        return raws(key, q);
    }
    Json& integers(const std::string& key, const std::vector<int64_t>& v) {
        std::vector<std::string> q;
        for (int64_t x : v) q.push_back(std::to_string(x));
        return raws(key, q);
    }
    Json& raws(const std::string& key, const std::vector<std::string>& v) {
        std::string list;
        for (const std::string& s : v) list += (list.empty() ? "" : ",") + s;
        return raw(key, "[" + list + "]");
    }
    std::string text() const { return "{" + body_ + "}"; }

private:
    std::string body_;
    static std::string quoted(const std::string& s) {
        std::string q = "\"";
        for (unsigned char c : s) {
            if (c == '"' || c == '\\') { q += '\\'; q += static_cast<char>(c); }
            else if (c < 0x20) { char t[8]; std::snprintf(t, sizeof t, "\\u%04x", c); q += t; }
            else q += static_cast<char>(c);
        }
        return q + "\"";
    }
};

}  // namespace npu
