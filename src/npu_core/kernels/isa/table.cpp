#include "npu_core/kernels/isa/tables.h"

namespace npu::NPU_ISA {

#define NPU_STRING2(x) #x
#define NPU_STRING(x) NPU_STRING2(x)

void fill_table(KernelTable& t) {
    t.isa = NPU_STRING(NPU_ISA);
    fill_unary(t);
    fill_functions(t);
    fill_binary(t);
    fill_convert(t);
    fill_reduce(t);
    fill_gemm(t);
    fill_gemm_i8(t);
}

}  // namespace npu::NPU_ISA
