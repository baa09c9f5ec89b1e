// Scalars of a cost-only run: loop indices, element loads from integer arguments, values the caller assumes.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "npu_core/program/affine.h"
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
    using Scalar = Affine;

    ControlScalars(const Program& program, const std::vector<IntData>& data, const std::vector<Assumed>& assume,
                   std::set<std::string>& assumptions);

    Scalar eval(Id expr);
    // Of bounds and conditions: throws NeedsDataFault when not known nor assumed.
    int64_t must(Id expr, const Item& item, const char* what);
    bool constant(Id expr);                                       // depends on no index and no load
    void set_index(Id slot, int64_t value, int64_t slope = 0);    // slope: what it gains per block of its loop
    void load(const Item& item);                                  // ItemKind::LOAD
    void written(Id tensor) { written_[static_cast<size_t>(memory_of(tensor))] = 1; }
    const Scalar& slot(size_t i) const { return slots_[i]; }
    // Further blocks of the loop for which everything evaluated since alike_from_here() goes on along its line, and
    // conditions and bounds stay as they are.
    void alike_from_here() { alike_ = FOR_EVER; }
    void alike_at_most(int64_t blocks) { alike_ = std::min(alike_, blocks); }
    int64_t alike() const { return alike_; }
    bool has_loop(Id body);
    // Iterations of the next block of an unrolled loop with `left` trips to go: the largest factor that fits, else 1.
    int64_t unrolled(const Item& loop, int64_t left);

private:
    std::string line_of(const Item& item) const { return item.line == NONE ? "" : p_.lines[static_cast<size_t>(item.line)]; }
    Id memory_of(Id tensor) const { return p_.tensors[tensor].alias == NONE ? tensor : p_.tensors[tensor].alias; }
    std::string culprit(Id expr) const;
    std::optional<Scalar> assumed(const std::string& name, const std::string& line);
    Scalar value_of(Id expr) const;

    const Program& p_;
    const std::vector<IntData>& data_;
    const std::vector<Assumed>& assume_;
    std::set<std::string>& assumptions_;
    std::vector<Scalar> slots_;
    std::vector<std::string> slot_name_;
    std::set<std::string> outside_;               // names of elements that their argument does not have
    std::vector<char> written_;
    std::vector<signed char> has_loop_, constant_;
    int64_t alike_ = 0;
};

}  // namespace npu
