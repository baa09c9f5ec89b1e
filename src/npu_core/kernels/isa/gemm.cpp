// Matrix product. C starts at bias or 0; for each k block in order P = fma chain over the block from 0, C = C + P.
#include "npu_core/kernels/isa/tables.h"

namespace npu::NPU_ISA {
namespace {

float half_bits(uint16_t h) {
    const uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3ffu;
    uint32_t u;
    if (exponent == 31) u = sign | 0x7f800000u | (mantissa << 13);
    else if (exponent) u = sign | ((exponent + 112) << 23) | (mantissa << 13);
    else {
        const float f = static_cast<float>(mantissa) * 0x1p-24f;
        __builtin_memcpy(&u, &f, 4);
        u |= sign;
    }
    float f;
    __builtin_memcpy(&f, &u, 4);
    return f;
}
float element(const void* p, DType type, int64_t i) {
    if (type == DType::F32) return static_cast<const float*>(p)[i];
    const uint16_t h = static_cast<const uint16_t*>(p)[i];
    if (type == DType::F16) return half_bits(h);
    const uint32_t u = static_cast<uint32_t>(h) << 16;
    float f;
    __builtin_memcpy(&f, &u, 4);
    return f;
}

void gemm(const GemmArgs& g, int64_t m_begin, int64_t m_end, int64_t n_begin, int64_t n_end) {
    const int64_t block = g.k_block > 0 ? g.k_block : g.k;
    for (int64_t m = m_begin; m < m_end; ++m)
        for (int64_t n = n_begin; n < n_end; ++n) {
            float c = g.bias ? g.bias[n] : 0.0f;
            for (int64_t k0 = 0; k0 < g.k; k0 += block) {
                float p = 0.0f;
                const int64_t k1 = k0 + block < g.k ? k0 + block : g.k;
                for (int64_t k = k0; k < k1; ++k)
                    p = __builtin_fmaf(element(g.a, g.a_type, m * g.a_row_stride + k * g.a_col_stride),
                                       element(g.b, g.b_type, k * g.b_row_stride + n * g.b_col_stride), p);
                c += p;
            }
            g.c[m * g.c_row_stride + n] = c;
        }
}

}  // namespace

void fill_gemm(KernelTable& t) { t.gemm = gemm; }

}  // namespace npu::NPU_ISA
