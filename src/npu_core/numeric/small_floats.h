// Floats of 8 and 4 bits: values of their codes, and the code nearest to a number.
#pragma once
#include <cstdint>

#include "npu_core/numeric/cast.h"

namespace npu {

// F8E4M3 (no infinity, NaN 0x7f), F8E5M2 (IEEE like), F8E8M0 (2^(code - 127), 255 NaN), HF8 (tapered, NaN 0x80).
void float8_values(DType t, const uint8_t* x, float* y, int64_t n);
// NONE and RINT round to the even code (HF8: half away from zero). Overflow gives NaN (F8E4M3, F8E8M0) or infinity,
// with `saturate` the largest number.
void float8_codes(DType t, const float* x, uint8_t* y, int64_t n, CastMode mode, bool saturate);

// Four bits: I4 two's complement; F4E2M1 0 .5 1 1.5 2 3 4 6; F4E1M2 0 to 1.75 in steps of .25; sign in bit 3.
float packed4_value(DType t, unsigned code);
// Floats saturate, NaN gives code 7; I4 wraps unless `saturate`.
unsigned packed4_code(DType t, float x, CastMode mode, bool saturate);

}  // namespace npu
