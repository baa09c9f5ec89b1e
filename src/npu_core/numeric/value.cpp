#include "npu_core/numeric/value.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "npu_core/base/fault.h"
#include "npu_core/base/thread_pool.h"
#include "npu_core/kernels/kernels.h"
#include "npu_core/numeric/cast.h"

namespace npu {

namespace {

template <class T>
void fill(void* p, int64_t n, T v) { std::fill_n(static_cast<T*>(p), n, v); }

template <class T>
void copy_rows(const Nest<2>& nest, const char* src, char* dst, int64_t begin, int64_t end) {
    const int64_t n = nest.inner(), sd = nest.stride[0][nest.rank - 1], ss = nest.stride[1][nest.rank - 1];
    for (int64_t row = begin; row < end; ++row) {
        int64_t o[2];
        nest.row_offsets(row, 2, o);
        T* d = reinterpret_cast<T*>(dst) + o[0];
        const T* s = reinterpret_cast<const T*>(src) + o[1];
        if (sd == 1 && ss == 1) {
            std::memcpy(d, s, static_cast<size_t>(n) * sizeof(T));
        } else if (sd == 1 && ss == 0) {
            std::fill_n(d, n, *s);
        } else {
            for (int64_t i = 0; i < n; ++i) d[i * sd] = s[i * ss];
        }
    }
}

}  // namespace

void fill_poison(DType t, void* p, int64_t n) {
    switch (t) {
        case DType::F32: fill(p, n, std::numeric_limits<float>::quiet_NaN()); break;
        case DType::F64: fill(p, n, std::numeric_limits<double>::quiet_NaN()); break;
        case DType::F16: fill<uint16_t>(p, n, 0x7e00); break;
        case DType::BF16: fill<uint16_t>(p, n, 0x7fc0); break;
        case DType::BOOL: fill<uint8_t>(p, n, 1); break;
        default: std::memset(p, 0x80, static_cast<size_t>(n) * dtype_size_bytes(t));
    }
}

void poison_outside(DType t, void* p, const Shape& shape, const Shape& valid) {
    const int64_t size = dtype_size_bytes(t);
    // Slab after the box along each axis: axes before it inside the box, axes after it whole.
    const Strides stride = dense_strides(shape);
    for (int axis = 0; axis < shape.rank; ++axis) {
        const int64_t slab = (shape[axis] - valid[axis]) * stride[axis];
        if (slab <= 0) continue;
        int64_t outer = 1;
        for (int i = 0; i < axis; ++i) outer *= valid[i];
        for (int64_t row = 0; row < outer; ++row) {
            int64_t rest = row, o = valid[axis] * stride[axis];
            for (int i = axis - 1; i >= 0; --i) {
                o += rest % valid[i] * stride[i];
                rest /= valid[i];
            }
            fill_poison(t, static_cast<char*>(p) + o * size, slab);
        }
    }
}

void copy_box(int size, const char* src, const Strides& src_stride, char* dst, const Strides& dst_stride,
    const Shape& box) {
    if (is_empty(box)) return;
    const Strides* strides[2] = {&dst_stride, &src_stride};
    Nest<2> nest = make_nest<2>(box, strides, 2);
    int64_t rows = nest.rows();
    const double ns = 0.15 * static_cast<double>(box.count()) * size;
    if (rows == 1 && ns > 100e3 && nest.stride[0][nest.rank - 1] == 1) {  // one long row: cut it for the threads
        constexpr int64_t CUT = 1 << 16;
        const int64_t n = nest.inner();
        const int64_t step = nest.stride[1][nest.rank - 1];
        parallel_ranges((n + CUT - 1) / CUT, ns, [&](int64_t b, int64_t e) {
            Shape part;
            part.rank = 1;
            part[0] = std::min(n, e * CUT) - b * CUT;
            Nest<2> piece;
            piece.rank = 1;
            piece.n[0] = part[0];
            piece.stride[0][0] = 1;
            piece.stride[1][0] = step;
            const char* s = src + b * CUT * step * size;
            char* d = dst + b * CUT * size;
            switch (size) {
                case 1: copy_rows<uint8_t>(piece, s, d, 0, 1); break;
                case 2: copy_rows<uint16_t>(piece, s, d, 0, 1); break;
                case 4: copy_rows<uint32_t>(piece, s, d, 0, 1); break;
                default: copy_rows<uint64_t>(piece, s, d, 0, 1);
            }
        });
        return;
    }
    parallel_ranges(rows, ns, [&](int64_t b, int64_t e) {
        switch (size) {
            case 1: copy_rows<uint8_t>(nest, src, dst, b, e); break;
            case 2: copy_rows<uint16_t>(nest, src, dst, b, e); break;
            case 4: copy_rows<uint32_t>(nest, src, dst, b, e); break;
            default: copy_rows<uint64_t>(nest, src, dst, b, e);
        }
    });
}

void convert_box(DType from, const char* src, const Strides& src_stride, DType to, char* dst,
    const Strides& dst_stride, const Shape& box) {
    if (from == to) return copy_box(dtype_size_bytes(from), src, src_stride, dst, dst_stride, box);
    if (is_empty(box)) return;
    const Strides* strides[2] = {&dst_stride, &src_stride};
    const Nest<2> nest = make_nest<2>(box, strides, 2);
    const int64_t n = nest.inner(), sd = nest.stride[0][nest.rank - 1], ss = nest.stride[1][nest.rank - 1];
    const int from_size = dtype_size_bytes(from), to_size = dtype_size_bytes(to);
    const CastSpec spec{from, to, is_float(from) && !is_float(to) ? CastMode::RINT : CastMode::NONE, false};
    parallel_ranges(nest.rows(), 0.5 * static_cast<double>(box.count()), [&](int64_t b, int64_t e) {
        constexpr int64_t CUT = 1024;
        alignas(64) char in[CUT * 8], out[CUT * 8];
        for (int64_t row = b; row < e; ++row) {
            int64_t o[2];
            nest.row_offsets(row, 2, o);
            for (int64_t i = 0; i < n; i += CUT) {
                const int64_t m = std::min(CUT, n - i);
                const char* s = src + (o[1] + i * ss) * from_size;
                char* d = dst + (o[0] + i * sd) * to_size;
                if (ss != 1) {
                    for (int64_t j = 0; j < m; ++j) std::memcpy(in + j * from_size, s + j * ss * from_size, from_size);
                    s = in;
                }
                char* y = sd == 1 ? d : out;
                cast_row(spec, s, y, m);
                if (sd != 1)
                    for (int64_t j = 0; j < m; ++j) std::memcpy(d + j * sd * to_size, out + j * to_size, to_size);
            }
        }
    });
}

void load_f32(DType t, const char* p, int64_t stride, float* y, int64_t n) {
    const int size = dtype_size_bytes(t);
    if (stride == 1) return cast_row({t, DType::F32, CastMode::NONE, false}, p, y, n);
    constexpr int64_t CUT = 256;
    alignas(64) char in[CUT * 8];
    for (int64_t i = 0; i < n; i += CUT) {
        const int64_t m = std::min(CUT, n - i);
        for (int64_t j = 0; j < m; ++j) std::memcpy(in + j * size, p + (i + j) * stride * size, size);
        cast_row({t, DType::F32, CastMode::NONE, false}, in, y + i, m);
    }
}

void store_f32(DType t, const float* x, char* p, int64_t n) { cast_row({DType::F32, t, CastMode::NONE, false}, x, p,
    n); }

}  // namespace npu
