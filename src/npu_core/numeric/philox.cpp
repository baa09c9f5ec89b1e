// Machine: random numbers of Philox 4x32: four words per 64-bit counter, in order.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/machine.h"

namespace npu {

namespace {

using Words = std::array<uint32_t, 4>;

Words philox4x32(uint64_t key, uint64_t low, uint64_t high, int64_t rounds) {
    Words c{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
        static_cast<uint32_t>(high >> 32)};
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int64_t r = 0; r < rounds; ++r) {
        const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
        c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
            static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    return c;
}

// The low bits of a word, as many as the type's mantissa has, as a number in [0, 1).
float uniform(uint32_t word, int bits, float unit) {
    return static_cast<float>(static_cast<int32_t>(word & ((1u << bits) - 1))) * unit;    // exact
}

}  // namespace

void Machine::philox(const Op& op) {
    const Id t = out_id(op, 0);
    const TensorInfo out = tensor(t);
    require(out.dtype == DType::F32 || is_half(out.dtype), "philox: a float dtype");
    const auto key = static_cast<uint64_t>(int_arg(op, 0)), high = static_cast<uint64_t>(int_arg(op, 3));
    const int64_t rounds = int_arg(op, 1);
    const bool normal = int_arg(op, 2) != 0;
    const auto low = static_cast<uint64_t>(scalar_arg(op, 0));
    const int bits = out.dtype == DType::F32 ? 23 : out.dtype == DType::F16 ? 10 : 7;
    char* y = result(op, 0, out.shape);
    const DType to = env_[t].wide ? DType::F32 : out.dtype;
    const int64_t n = out.shape.count();
    const int kept = normal ? 23 : bits;
    const auto unit = static_cast<float>(std::ldexp(1.0, -kept));
    constexpr int64_t PIECE = 256;
    std::array<float, PIECE> v;
    for (int64_t i = 0; i < n; i += PIECE) {
        for (int64_t c = 0; c < PIECE / 4; ++c) {
            const Words w = philox4x32(key, low + static_cast<uint64_t>(i / 4 + c), high, rounds);
            for (int64_t k = 0; k < 4; ++k) v[4 * c + k] = uniform(w[k], kept, unit);
        }
        if (normal)
            for (int64_t k = 0; k < PIECE; k += 2) {    // Box-Muller on pairs of words
                const double radius = std::sqrt(-2.0 * std::log(std::max(static_cast<double>(v[k]), 1e-7)));
                const double angle = 2.0 * std::numbers::pi * static_cast<double>(v[k + 1]);
                v[k] = static_cast<float>(radius * std::sin(angle));
                v[k + 1] = static_cast<float>(radius * std::cos(angle));
            }
        cast_row({DType::F32, to}, v.data(), y + i * dtype_size_bytes(to), std::min(PIECE, n - i));
    }
}

}  // namespace npu
