// Machine: full and arange.
#include <cstring>

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
    share(t, holder, out.shape, valid, Strides{}, holder.store.data());
}

void Machine::arange(const Op& op) {
    const Id t = out_id(op, 0);
    const TensorInfo out = tensor(t);
    require(out.shape.rank == 1, "arange: the result has one axis");
    char* y = result(op, 0, out.shape);
    const DType to = env_[t].wide ? DType::F32 : out.dtype;
    const int size = dtype_size_bytes(to);
    for (int64_t i = 0; i < out.shape[0]; ++i) {
        if (is_float(to)) {
            const double v = float_arg(op, 0) + static_cast<double>(i) * float_arg(op, 1);
            cast_row({DType::F64, to}, &v, y + i * size, 1);
        } else {
            const int64_t v = wrap_add(int_or(op, 0, 0), wrap_mul(i, int_or(op, 1, 1)));
            cast_row({DType::I64, to}, &v, y + i * size, 1);
        }
    }
}

}  // namespace npu
