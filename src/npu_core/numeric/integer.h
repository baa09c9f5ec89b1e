// Integer arithmetic that wraps around, without undefined behaviour.
#pragma once
#include <limits>
#include <type_traits>

namespace npu {

// Wide enough that narrow unsigned types are not promoted to a signed int that overflows.
template <class T> using Wrapping = std::conditional_t<sizeof(T) < 4, unsigned, std::make_unsigned_t<T>>;

template <class T> constexpr T wrap_add(T a,
    T b) { return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b)); }
template <class T> constexpr T wrap_sub(T a,
    T b) { return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b)); }
template <class T> constexpr T wrap_mul(T a,
    T b) { return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b)); }
// Truncating; x / 0 is 0, the lowest value divided by -1 wraps to itself.
template <class T> constexpr T wrap_div(T a, T b) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>)
        if (b == -1) return wrap_sub<T>(0, a);
    return static_cast<T>(a / b);
}

}  // namespace npu
