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

// Order of fp32 numbers as integers: both zeros are equal, NaN is the largest.
int32_t float_key(float v) {
    const auto bits = std::bit_cast<int32_t>(v);
    const int32_t size = bits & 0x7fffffff, negative = bits >> 31, key = (size ^ negative) - negative;
    return size > 0x7f800000 ? 0x7fffffff : key;
}

// The best k of n in order: a heap of the k best so far, which most elements do not enter.
template <class K>
void select(const std::vector<K>& keys, int64_t k, std::vector<Entry>& best) {
    constexpr int64_t PIECE = 16;
    const auto n = static_cast<int64_t>(keys.size());
    best.clear();
    for (int64_t i = 0; i < k; ++i) best.push_back({keys[i], i});
    std::make_heap(best.begin(), best.end());
    for (int64_t i = k; i < n;) {
        if (i + PIECE <= n) {                           // a piece at a time, which vectorises
            const auto worst = static_cast<K>(best.front().key);
            int enters = 0;
            for (int64_t j = 0; j < PIECE; ++j) enters |= keys[i + j] > worst;
            if (!enters) {
                i += PIECE;
                continue;
            }
        }
        for (const int64_t end = std::min(i + PIECE, n); i < end; ++i) {
            if (keys[i] <= best.front().key) continue;  // an equal one comes later
            std::pop_heap(best.begin(), best.end());
            best.back() = {keys[i], i};
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
    parallel_ranges(rows, 1.0 * static_cast<double>(rows * n), [&](int64_t b, int64_t e) {
        std::vector<int64_t> keys, picked_index(static_cast<size_t>(k));
        std::vector<int32_t> float_keys;
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
                float_keys.resize(static_cast<size_t>(n));
                load_f32(x.dtype, p, x.stride[last], row.data(), n);
                const int32_t flip = largest ? 0 : -1;
                for (int64_t i = 0; i < n; ++i) float_keys[i] = float_key(row[i]) ^ flip;
                select(float_keys, k, best);
            } else {
                require(x.dtype != DType::F64, "topk is not defined for FP64");
                keys.resize(static_cast<size_t>(n));
                for (int64_t i = 0; i < n; ++i) cast_row({x.dtype, DType::I64}, p + i * x.stride[last] * size,
                    &keys[i], 1);
                if (!largest)
                    for (auto& key : keys) key = ~key;
                select(keys, k, best);
            }
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
