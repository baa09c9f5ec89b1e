// The loops over a row, written once: whole vectors, then one partial vector through a small buffer, so that every
// element goes through the same vector code. y may be the same address as an input.
#pragma once
#include "npu_core/kernels/isa/simd.h"

namespace npu::NPU_ISA {

template <class Vy, class Vx, class Op>
NPU_INLINE void map1(const void* x, void* y, int64_t n, Op op) {
    constexpr int64_t sx = sizeof(Vx) / W, sy = sizeof(Vy) / W;
    const char* px = static_cast<const char*>(x);
    char* py = static_cast<char*>(y);
    int64_t i = 0;
    for (; i + W <= n; i += W) store<Vy>(py + i * sy, op(load<Vx>(px + i * sx)));
    if (i < n) {
        Vx vx{};
        __builtin_memcpy(&vx, px + i * sx, static_cast<unsigned long>((n - i) * sx));
        Vy vy = op(vx);
        __builtin_memcpy(py + i * sy, &vy, static_cast<unsigned long>((n - i) * sy));
    }
}

template <class Vy, class Op>
NPU_INLINE void map2(const float* a, const float* b, void* y, int64_t n, Op op) {
    constexpr int64_t sy = sizeof(Vy) / W;
    char* py = static_cast<char*>(y);
    int64_t i = 0;
    for (; i + W <= n; i += W) store<Vy>(py + i * sy, op(load<F>(a + i), load<F>(b + i)));
    if (i < n) {
        F va{}, vb{};
        const unsigned long bytes = static_cast<unsigned long>((n - i) * 4);
        __builtin_memcpy(&va, a + i, bytes);
        __builtin_memcpy(&vb, b + i, bytes);
        Vy vy = op(va, vb);
        __builtin_memcpy(py + i * sy, &vy, static_cast<unsigned long>((n - i) * sy));
    }
}

}  // namespace npu::NPU_ISA
