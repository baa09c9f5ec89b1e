// Walking a box of several strided arrays at once: axes that are contiguous in all of them are merged.
#pragma once
#include <array>
#include <cstdint>

#include "npu_core/base/types.h"

namespace npu {

using Strides = std::array<int64_t, MAX_RANK + 1>;  // in elements; one more than axes, for merged walks

inline Strides dense_strides(const Shape& s) {
    Strides out{};
    int64_t step = 1;
    for (int i = s.rank - 1; i >= 0; --i) {
        out[i] = step;
        step *= s[i];
    }
    return out;
}

// Whether such strides walk a contiguous array; axes of extent 1 do not matter.
inline bool is_dense(const Shape& s, const Strides& stride) {
    int64_t step = 1;
    for (int i = s.rank - 1; i >= 0; --i) {
        if (s[i] == 1) continue;
        if (stride[i] != step) return false;
        step *= s[i];
    }
    return true;
}

// Merged axes of `arrays` strided arrays over one box. stride[k][i]: step of array k along merged axis i, outermost
// first.
template <int MOST>
struct Nest {
    int rank = 0;
    std::array<int64_t, MAX_RANK + 1> n{};
    std::array<Strides, MOST> stride{};

    int64_t inner() const { return n[rank - 1]; }
    int64_t rows() const {
        int64_t r = 1;
        for (int i = 0; i < rank - 1; ++i) r *= n[i];
        return r;
    }
    // Offsets (elements) of the first element of row `row` in every array.
    void row_offsets(int64_t row, int arrays, int64_t* out) const {
        for (int k = 0; k < arrays; ++k) out[k] = 0;
        for (int i = rank - 2; i >= 0; --i) {
            const int64_t at = row % n[i];
            row /= n[i];
            for (int k = 0; k < arrays; ++k) out[k] += at * stride[k][i];
        }
    }
};

// `box` must not be empty. With `unit_rows`, rows of array 0 are contiguous: where dropping axes would leave it another
// innermost step, rows of one element remain.
template <int MOST>
Nest<MOST> make_nest(const Shape& box, const Strides* const* strides, int arrays, bool unit_rows = false) {
    Nest<MOST> out;
    for (int axis = 0; axis < box.rank; ++axis) {
        if (box[axis] == 1) continue;
        bool merge = out.rank > 0;
        for (int k = 0; merge && k < arrays; ++k)
            merge = out.stride[k][out.rank - 1] == (*strides[k])[axis] * box[axis];
        const int at = merge ? out.rank - 1 : out.rank++;
        out.n[at] = merge ? out.n[at] * box[axis] : box[axis];
        for (int k = 0; k < arrays; ++k) out.stride[k][at] = (*strides[k])[axis];
    }
    if (out.rank == 0 || (unit_rows && out.stride[0][out.rank - 1] != 1)) {
        const int at = out.rank++;
        out.n[at] = 1;
        for (int k = 0; k < arrays; ++k) out.stride[k][at] = 1;
    }
    return out;
}

}  // namespace npu
