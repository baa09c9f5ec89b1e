// Element types, shapes and boxes that every part of the core shares.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>

namespace npu {

constexpr int MAX_RANK = 6;
constexpr int64_t INT32_LIMIT = 2147483647;

// Codes are fixed: Python hands them over as small integers (pypto_sim/dtypes.py lists the same order).
// From I4 on: bytes that only conversions, moves and matrix products know. I4, F4E2M1X2 and F4E1M2X2 hold two numbers
// a byte, the first in the low four bits, and shapes count bytes.
enum class DType : uint8_t {
    F32, F16, BF16, F64, I8, I16, I32, I64, U8, U16, U32, U64, BOOL,
    I4, F8, HF4, HF8, F8E4M3, F8E5M2, F8E8M0, F4E2M1, F4E2M1X2, F4E1M2, F4E1M2X2, COUNT
};

constexpr int dtype_size_bytes(DType t) {
    constexpr int sizes[] = {4, 2, 2, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1};
    return t <= DType::BOOL ? sizes[static_cast<int>(t)] : 1;
}
constexpr bool is_float8(DType t) { return t >= DType::HF8 && t <= DType::F8E8M0; }
constexpr bool is_packed4(DType t) { return t == DType::I4 || t == DType::F4E2M1X2 || t == DType::F4E1M2X2; }
constexpr bool is_half(DType t) { return t == DType::F16 || t == DType::BF16; }
constexpr bool is_float(DType t) { return t <= DType::F64; }

struct Shape {
    int rank = 0;
    std::array<int64_t, MAX_RANK> d{};

    int64_t operator[](int i) const { return d[i]; }
    int64_t& operator[](int i) { return d[i]; }
    int64_t count() const {
        int64_t n = 1;
        for (int i = 0; i < rank; ++i) n *= d[i];
        return n;
    }
    bool operator==(const Shape& o) const {
        if (rank != o.rank) return false;
        for (int i = 0; i < rank; ++i)
            if (d[i] != o.d[i]) return false;
        return true;
    }
};

}  // namespace npu
