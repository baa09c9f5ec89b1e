// Matrix product of int8 operands, int32 accumulation with wrap-around.
#include "npu_core/kernels/isa/tables.h"

namespace npu::NPU_ISA {
namespace {

void gemm_i8(const GemmArgsI8& g, int64_t m_begin, int64_t m_end) {
    for (int64_t m = m_begin; m < m_end; ++m)
        for (int64_t n = 0; n < g.n; ++n) {
            uint32_t c = g.bias ? static_cast<uint32_t>(g.bias[n]) : 0u;
            for (int64_t k = 0; k < g.k; ++k)
                c += static_cast<uint32_t>(g.a[m * g.a_row_stride + k * g.a_col_stride] *
                                           g.b[k * g.b_row_stride + n * g.b_col_stride]);
            g.c[m * g.c_row_stride + n] = static_cast<int32_t>(c);
        }
}

}  // namespace

void fill_gemm_i8(KernelTable& t) { t.gemm_i8 = gemm_i8; }

}  // namespace npu::NPU_ISA
