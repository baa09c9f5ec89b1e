// Machine: sort32 and mrgsort, the steps of topk. A sorted run holds pairs: an fp32 value and its index as 32 bits.
#include <algorithm>
#include <cstring>

#include "npu_core/numeric/machine.h"

namespace npu {

namespace {

struct Pair { float value; uint32_t index; };
// NaN counts as the largest value.
bool before(const Pair& a, const Pair& b) { return a.value != a.value ? b.value == b.value : a.value > b.value; }

}  // namespace

// Groups of 32 along the last axis in descending order; index base in ints[0].
void Machine::sort32(const Op& op) {
    const Operand x = contiguous(whole(op, 0));
    const Shape& shape = tensor(out_id(op, 0)).shape;
    const int last = x.shape.rank - 1;
    require(x.dtype == DType::F32 && shape.rank == last + 1 && shape[last] == 2 * x.shape[last]
        && x.shape[last] % 32 == 0, "sort32: shapes do not fit");
    auto* y = reinterpret_cast<Pair*>(result(op, 0, shape));
    const auto* v = reinterpret_cast<const float*>(x.data);
    const int64_t n = x.shape[last];
    const auto base = static_cast<uint32_t>(int_arg(op, 0));
    for (int64_t i = 0; i < x.shape.count(); ++i) y[i] = {v[i], base + static_cast<uint32_t>(i % n)};
    for (int64_t i = 0; i < x.shape.count(); i += 32) std::stable_sort(y + i, y + i + 32, before);
}

// Four neighbouring runs of `ints[0]` pairs become one, as often as there are runs.
void Machine::merge_sort(const Op& op) {
    const Operand x = contiguous(whole(op, 0));
    const int last = x.shape.rank - 1;
    const int64_t run = int_arg(op, 0), n = x.shape[last] / 2;
    require(x.dtype == DType::F32 && tensor(out_id(op, 0)).shape == x.shape && x.shape[last] % 2 == 0 && run > 0,
        "mrgsort: shapes do not fit");
    auto* y = reinterpret_cast<Pair*>(result(op, 0, x.shape));
    std::memcpy(static_cast<void*>(y), x.data, static_cast<size_t>(x.shape.count()) * 4);
    for (int64_t row = 0; n && row < x.shape.count() / 2; row += n)
        for (int64_t i = 0; i < n; i += 4 * run)
            std::stable_sort(y + row + i, y + row + std::min(n, i + 4 * run), before);
}

}  // namespace npu
