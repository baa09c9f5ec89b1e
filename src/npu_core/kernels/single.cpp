#include "npu_core/kernels/single.h"

#include <stdexcept>

namespace npu {
namespace {

template <class Code>
int checked(int op) {
    if (op < 0 || op >= static_cast<int>(Code::COUNT)) throw std::invalid_argument("no kernel has this number");
    return op;
}
const float* floats(const void* p) { return static_cast<const float*>(p); }
const uint16_t* halves(const void* p) { return static_cast<const uint16_t*>(p); }

}  // namespace

void single_unary(int op, const void* x, void* y, int64_t n) {
    kernels().unary[checked<Unary>(op)](floats(x), static_cast<float*>(y), n);
}

void single_binary(int op, const void* a, const void* b, void* y, int64_t n) {
    kernels().binary[checked<Binary>(op)](floats(a), floats(b), static_cast<float*>(y), n);
}

void single_compare(int op, const void* a, const void* b, void* y, int64_t n) {
    kernels().compare[checked<Compare>(op)](floats(a), floats(b), static_cast<uint8_t*>(y), n);
}

void single_cast(int from, int to, const void* x, void* y, int64_t n) {
    const KernelTable& t = kernels();
    const DType source = static_cast<DType>(from), target = static_cast<DType>(to);
    if (target == DType::F32 && source == DType::F16) t.f16_to_f32(halves(x), static_cast<float*>(y), n);
    else if (target == DType::F32 && source == DType::BF16) t.bf16_to_f32(halves(x), static_cast<float*>(y), n);
    else if (target == DType::F32 && source == DType::I32)
        t.i32_to_f32(static_cast<const int32_t*>(x), static_cast<float*>(y), n);
    else if (source == DType::F32 && target == DType::F16) t.f32_to_f16(floats(x), static_cast<uint16_t*>(y), n);
    else if (source == DType::F32 && target == DType::BF16) t.f32_to_bf16(floats(x), static_cast<uint16_t*>(y), n);
    else throw std::invalid_argument("no cast kernel for these types");
}

float single_reduction(int reduction, const void* x, int64_t n) {
    const KernelTable& t = kernels();
    switch (static_cast<Reduction>(reduction)) {
        case Reduction::SUM: return t.row_sum(floats(x), n);
        case Reduction::MAX: return t.row_max(floats(x), n);
        case Reduction::MIN: return t.row_min(floats(x), n);
    }
    throw std::invalid_argument("no reduction has this number");
}

void single_gemm(const void* a, int a_type, const int64_t* a_strides, const void* b, int b_type,
                 const int64_t* b_strides, const void* bias, void* c, const int64_t* sizes, const int64_t* part) {
    for (int type : {a_type, b_type})
        if (type != static_cast<int>(DType::F32) && !is_half(static_cast<DType>(type)))
            throw std::invalid_argument("no matrix product for these types");
    const GemmArgs g{a, static_cast<DType>(a_type), a_strides[0], a_strides[1],
                     b, static_cast<DType>(b_type), b_strides[0], b_strides[1],
                     floats(bias), static_cast<float*>(c), sizes[1], sizes[0], sizes[1], sizes[2], sizes[3]};
    kernels().gemm(g, part[0], part[1], part[2], part[3]);
}

void single_gemm_i8(const void* a, const int64_t* a_strides, const void* b, const int64_t* b_strides, const void* bias,
                    void* c, const int64_t* sizes, const int64_t* part) {
    const GemmArgsI8 g{static_cast<const int8_t*>(a), a_strides[0], a_strides[1],
                       static_cast<const int8_t*>(b), b_strides[0], b_strides[1], static_cast<const int32_t*>(bias),
                       static_cast<int32_t*>(c), sizes[1], sizes[0], sizes[1], sizes[2]};
    kernels().gemm_i8(g, part[0], part[1]);
}

}  // namespace npu
