// Walking boxes and reading indices: what the operations by index share.
#pragma once
#include <cstring>
#include <string>

#include "npu_core/base/fault.h"
#include "npu_core/numeric/value.h"

namespace npu {

inline int64_t index_at(const Operand& x, int64_t offset) {
    const char* p = x.data + offset * x.size();
    switch (x.dtype) {
        case DType::I16: { int16_t v; std::memcpy(&v, p, 2); return v; }
        case DType::I32: { int32_t v; std::memcpy(&v, p, 4); return v; }
        default: { int64_t v; std::memcpy(&v, p, 8); return v; }
    }
}

[[noreturn]] inline void out_of_range(const std::string& op, int64_t index, const std::string& tensor, int axis,
    int64_t length) {
    fail("index.out_of_range", op + ": index " + std::to_string(index) + " is outside axis " + std::to_string(axis) +
                                   " of " + tensor + ", which has length " + std::to_string(length));
}

// Walks a box in program order; `offsets` of up to three arrays.
template <class F>
void walk(const Shape& box, int arrays, const Strides* const* strides, F&& f) {
    if (is_empty(box)) return;
    Shape at;
    at.rank = box.rank;
    int64_t o[3] = {};
    for (;;) {
        f(at, o);
        int i = box.rank - 1;
        for (; i >= 0; --i) {
            for (int k = 0; k < arrays; ++k) o[k] += (*strides[k])[i];
            if (++at[i] < box[i]) break;
            for (int k = 0; k < arrays; ++k) o[k] -= (*strides[k])[i] * box[i];
            at[i] = 0;
        }
        if (i < 0) return;
    }
}

enum class Combine : uint8_t { PUT, ADD, MULTIPLY };
// One element of y = y op s, computed in fp32 for floats and wrapping for integers.
void combine(DType t, Combine how, char* y, const char* s);

}  // namespace npu
