// Scalars of a cost-only run: loop indices, element loads from integer arguments, values the caller assumes.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "npu_core/program/program.h"

namespace npu {

struct IntData {                       // contiguous data of one tensor argument that control flow may read, or null
    const uint8_t* data = nullptr;
    int64_t bytes = 0;
};
struct Assumed { std::string key; int64_t low, high; };   // scalar name, "file:line" or "line" -> value range

// A bound or condition depends on a value that is not there.
struct NeedsDataFault : std::runtime_error {
    std::string line;
    NeedsDataFault(const std::string& text, std::string where) : std::runtime_error(text), line(std::move(where)) {}
};

class ControlScalars {
public:
    struct Scalar { int64_t value = 0; bool known = false; };

    ControlScalars(const Program& program, const std::vector<IntData>& data, const std::vector<Assumed>& assume,
                   std::set<std::string>& assumptions);

    Scalar eval(Id expr) const;
    int64_t must(Id expr, const Item& item, const char* what);   // throws NeedsDataFault when not known nor assumed
    bool constant(Id expr);                                       // depends on no index and no load
    void set_index(Id slot, int64_t value);
    void load(const Item& item);                                  // ItemKind::LOAD
    void written(Id tensor) { written_[static_cast<size_t>(memory_of(tensor))] = 1; }
    const Scalar& slot(size_t i) const { return slots_[i]; }
    // Iterations of the next block of an unrolled loop with `left` trips to go: the largest factor that fits, else 1.
    int64_t unrolled(const Item& loop, int64_t left);

private:
    std::string line_of(const Item& item) const { return item.line == NONE ? "" : p_.lines[static_cast<size_t>(item.line)]; }
    Id memory_of(Id tensor) const { return p_.tensors[tensor].alias == NONE ? tensor : p_.tensors[tensor].alias; }
    std::string culprit(Id expr) const;
    std::optional<Scalar> assumed(const std::string& name, const std::string& line);
    bool has_loop(Id body);

    const Program& p_;
    const std::vector<IntData>& data_;
    const std::vector<Assumed>& assume_;
    std::set<std::string>& assumptions_;
    std::vector<Scalar> slots_;
    std::vector<std::string> slot_name_;
    std::vector<char> written_;
    std::vector<signed char> has_loop_, constant_;
};

}  // namespace npu
