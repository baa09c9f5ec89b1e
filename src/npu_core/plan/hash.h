// Hashes of graph parts; equal on every machine.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "npu_core/base/types.h"

namespace npu::plan {

using Hash = uint64_t;
inline Hash mix(Hash h, uint64_t v) {
    h ^= v + 0x9E3779B97F4A7C15ull + (h << 6) + (h >> 2);
    h *= 0xFF51AFD7ED558CCDull;
    return h ^ (h >> 32);
}
inline Hash mix(Hash h, const Shape& s) {
    h = mix(h, static_cast<uint64_t>(s.rank));
    for (int i = 0; i < s.rank; ++i) h = mix(h, static_cast<uint64_t>(s[i]));
    return h;
}

// Of keys of hash tables.
struct KeyHash {
    size_t operator()(const Shape& s) const { return mix(Hash{7}, s); }
    template <size_t N> size_t operator()(const std::array<int64_t, N>& key) const {
        Hash h = 5;
        for (int64_t x : key) h = mix(h, static_cast<uint64_t>(x));
        return h;
    }
};

}  // namespace npu::plan
