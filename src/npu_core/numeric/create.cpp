// Machine: full and arange.
#include <algorithm>
#include <cstring>

#include "npu_core/kernels/kernels.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/integer.h"
#include "npu_core/numeric/machine.h"

namespace npu {

// One stored element stands for all: the result's strides are 0.
void Machine::full(const Op& op) {
    const Id t = out_id(op, 0);
    const TensorInfo& out = tensor(t);
    const bool has_valid = int_arg(op, 1) != 0, symbolic = int_or(op, 2, 0) != 0;
    const int64_t number = symbolic ? scalar_arg(op, 0) : int_arg(op, 0);
    const Shape valid = has_valid ? given_valid(op, symbolic ? 1 : 0, out.shape) : out.shape;
    Value holder;
    holder.dtype = out.dtype;
    holder.store = scratch(8);
    if (is_float(out.dtype)) {
        const double v = symbolic ? static_cast<double>(number) : float_arg(op, 0);
        cast_row({DType::F64, out.dtype}, &v, holder.store.data(), 1);
    } else {
        cast_row({DType::I64, out.dtype}, &number, holder.store.data(), 1);
    }
    if (out.dtype == DType::F32)                        // straight into the argument that takes it
        if (char* y = forwarded(op, 0, valid))
            return kernels().fill_f32(*reinterpret_cast<const float*>(holder.store.data()), reinterpret_cast<float*>(y),
                out.shape.count());
    share(t, holder, out.shape, valid, Strides{}, holder.store.data());
}

void Machine::arange(const Op& op) {
    const Id t = out_id(op, 0);
    const TensorInfo out = tensor(t);
    require(out.shape.rank == 1, "arange: the result has one axis");
    char* y = result(op, 0, out.shape);
    const DType to = env_[t].wide ? DType::F32 : out.dtype;
    const int size = dtype_size_bytes(to);
    constexpr int64_t PIECE = 512;
    for (int64_t at = 0; at < out.shape[0]; at += PIECE) {
        const int64_t count = std::min(PIECE, out.shape[0] - at);
        if (is_float(to)) {
            double v[PIECE];
            const double start = float_arg(op, 0), step = float_arg(op, 1), first = static_cast<double>(at);
            for (int32_t i = 0; i < static_cast<int32_t>(count); ++i) v[i] = start + (first + i) * step;
            cast_row({DType::F64, to}, v, y + at * size, count);
        } else {
            int64_t v[PIECE];
            for (int64_t i = 0; i < count; ++i) v[i] = wrap_add(int_or(op, 0, 0), wrap_mul(at + i, int_or(op, 1, 1)));
            cast_row({DType::I64, to}, v, y + at * size, count);
        }
    }
}

}  // namespace npu
