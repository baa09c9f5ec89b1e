// Conversions between element types with the rounding modes and saturation of pypto.cast.
#pragma once
#include <cstdint>

#include "npu_core/base/types.h"

namespace npu {

// NONE: float to integer truncates, everything else rounds to nearest even.
enum class CastMode : uint8_t { NONE, RINT, ROUND, FLOOR, CEIL, TRUNC, ODD };
struct CastSpec {
    DType from, to;
    CastMode mode = CastMode::NONE;
    bool saturate = false;
};

// Contiguous rows. Same dtype: RINT and NONE copy; ROUND, FLOOR, CEIL, TRUNC round floats to integral values.
void cast_row(const CastSpec& spec, const void* x, void* y, int64_t n);

}  // namespace npu
