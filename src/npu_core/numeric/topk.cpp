// Machine: topk along the last axis. Equal values keep ascending index; NaN counts as the largest value.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "npu_core/base/thread_pool.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/machine.h"

namespace npu {

namespace {

struct Entry {
    int64_t key;     // larger comes first
    int64_t index;
    bool operator<(const Entry& o) const { return key != o.key ? key > o.key : index < o.index; }
};

int64_t float_key(float v) {
    if (v != v) return int64_t{1} << 40;
    if (v == 0) return 0;                              // both zeros are equal
    const int32_t bits = std::bit_cast<int32_t>(v);
    return bits < 0 ? -static_cast<int64_t>(bits & 0x7fffffff) : bits;
}

// The best k of n in order: a heap of the k best so far, which most elements do not enter.
void select(const std::vector<int64_t>& keys, int64_t k, std::vector<Entry>& best) {
    const auto n = static_cast<int64_t>(keys.size());
    best.clear();
    for (int64_t i = 0; i < n; ++i) {
        const Entry e{keys[i], i};
        if (i < k) {
            best.push_back(e);
            if (i == k - 1) std::make_heap(best.begin(), best.end());
        } else if (e < best.front()) {
            std::pop_heap(best.begin(), best.end());
            best.back() = e;
            std::push_heap(best.begin(), best.end());
        }
    }
    std::sort(best.begin(), best.end());
}

}  // namespace

void Machine::topk(const Op& op) {
    const Operand x = operand(op, 0);
    const int rank = x.shape.rank, last = rank - 1;
    const int64_t wanted = int_arg(op, 0);
    const bool largest = int_arg(op, 1) != 0;
    require(rank >= 1, "topk: rank 0");
    const Shape& v_shape = tensor(out_id(op, 0)).shape;
    require(wanted >= 0 && v_shape.rank == rank && v_shape[last] == wanted && tensor(out_id(op,
        1)).shape == v_shape, "topk: result shape does not fit");
    const int64_t n = x.valid[last], k = std::min(wanted, n);
    Shape valid = x.valid;
    valid[last] = k;
    const DType index_type = tensor(out_id(op, 1)).dtype;
    char* values = result(op, 0, valid);
    char* indices = result(op, 1, valid);
    const DType value_type = op.wide_out && is_half(env_[out_id(op, 0)].dtype) ? DType::F32 : env_[out_id(op, 0)].dtype;
    if (is_empty(valid)) return;
    const Strides dense = dense_strides(v_shape);
    int64_t rows = 1;
    for (int i = 0; i < last; ++i) rows *= valid[i];
    const int size = static_cast<int>(x.size());
    parallel_ranges(rows, 3.0 * static_cast<double>(rows * n), [&](int64_t b, int64_t e) {
        std::vector<int64_t> keys(static_cast<size_t>(n)), picked_index(static_cast<size_t>(k));
        std::vector<float> row(is_float(x.dtype) && x.dtype != DType::F64 ? static_cast<size_t>(n) : 0);
        std::vector<char> picked(static_cast<size_t>(k) * size);
        std::vector<Entry> best;
        for (int64_t r = b; r < e; ++r) {
            int64_t rest = r, ox = 0, oy = 0;
            for (int i = last - 1; i >= 0; --i) {
                ox += rest % valid[i] * x.stride[i];
                oy += rest % valid[i] * dense[i];
                rest /= valid[i];
            }
            const char* p = x.data + ox * size;
            if (!row.empty()) {
                load_f32(x.dtype, p, x.stride[last], row.data(), n);
                for (int64_t i = 0; i < n; ++i) keys[i] = float_key(row[i]);
            } else {
                require(x.dtype != DType::F64, "topk is not defined for FP64");
                for (int64_t i = 0; i < n; ++i) cast_row({x.dtype, DType::I64}, p + i * x.stride[last] * size,
                    &keys[i], 1);
            }
            if (!largest)
                for (auto& key : keys) key = ~key;
            select(keys, k, best);
            for (int64_t i = 0; i < k; ++i) {
                picked_index[i] = best[i].index;
                std::memcpy(picked.data() + i * size, p + best[i].index * x.stride[last] * size,
                    static_cast<size_t>(size));
            }
            cast_row({x.dtype, value_type}, picked.data(), values + oy * dtype_size_bytes(value_type), k);
            cast_row({DType::I64, index_type}, picked_index.data(), indices + oy * dtype_size_bytes(index_type), k);
        }
    });
}

}  // namespace npu
