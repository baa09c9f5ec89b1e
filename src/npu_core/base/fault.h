// Run-time faults: what the core throws when a Program asks for something it must not do.
#pragma once
#include <exception>
#include <string>
#include <utility>

#include "npu_core/base/types.h"

namespace npu {

// Becomes CoreError(code, message, line) in Python; `line` is filled in by the Machine ("file:line" or "").
struct Fault : std::exception {
    std::string code, message, line;
    Fault(std::string fault_code, std::string fault_message)
        : code(std::move(fault_code)), message(std::move(fault_message)) {}
    const char* what() const noexcept override { return message.c_str(); }
};

// A recorded Python exception has to be raised now.
struct TrapSignal { int32_t number; };

[[noreturn]] void fail(const char* code, std::string message);
inline void require(bool ok, const char* what) {
    if (!ok) [[unlikely]] fail("internal", what);
}
std::string to_text(const Shape& s);  // "[4, 8]"
const char* dtype_name(DType t);      // "FP32"

}  // namespace npu
