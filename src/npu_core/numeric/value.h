// What a tensor id stands for while a Program runs. Values are immutable: storage is shared by counting and copied when
// a shared buffer has to change.
#pragma once
#include <memory>
#include <vector>

#include "npu_core/base/buffer_pool.h"
#include "npu_core/base/types.h"
#include "npu_core/numeric/nest.h"

namespace npu {

enum class State : uint8_t { NONE, DECLARED, READY };

struct Value {
    State state = State::NONE;
    DType dtype = DType::F32;
    bool full = true;            // valid == shape
    bool dense = true;           // stride is that of a contiguous array of `shape`
    bool through = false;        // reshape in place of an argument: a write goes to the argument
    int16_t region = -1;         // argument memory that `data` points into, -1: own storage
    Shape shape, valid;
    Strides stride{};            // of data, in elements; 0 along broadcast axes
    const char* data = nullptr;  // elements in `dtype`; null while only the fp32 twin exists
    BufferRef store;             // keeps `data` alive; null for argument memory
    BufferRef wide;              // fp32 twin, contiguous over `shape`
    BufferRef taint;             // poison=trace: one byte per element of `shape`, null: clean inside the valid box
    // (offset, extent) written so far; null: all of `valid`
    std::shared_ptr<std::vector<std::pair<Shape, Shape>>> pieces;

    void clear() {
        if (state == State::NONE) return;
        state = State::NONE;
        through = false;
        region = -1;
        data = nullptr;
        store.reset();
        wide.reset();
        taint.reset();
        pieces.reset();
    }
};

// An operand as a kernel sees it: the storage of the chosen twin.
struct Operand {
    DType dtype = DType::F32;    // F32 when the twin is read
    bool full = true, dense = true;
    const char* data = nullptr;
    Shape shape, valid;
    Strides stride{};
    BufferRef keep;              // a poisoned or contiguous copy made for this read
    int64_t size() const { return dtype_size_bytes(dtype); }
    const char* at(const Shape& index) const {
        int64_t o = 0;
        for (int i = 0; i < shape.rank; ++i) o += index[i] * stride[i];
        return data + o * size();
    }
};

inline bool same_box(const Shape& a, const Shape& b) { return a == b; }
inline bool is_empty(const Shape& s) { return s.count() == 0; }
inline bool covers(const Shape& a, const Shape& b) {  // a >= b on every axis
    for (int i = 0; i < a.rank; ++i)
        if (a[i] < b[i]) return false;
    return true;
}

// NaN for floats, bytes 0x80 for integers, true for BOOL: what undefined storage reads as.
void fill_poison(DType t, void* p, int64_t n);
// Everything of a contiguous array of `shape` outside `valid`.
void poison_outside(DType t, void* p, const Shape& shape, const Shape& valid);
// Strided copy of a box, element size in bytes.
void copy_box(int size, const char* src, const Strides& src_stride, char* dst, const Strides& dst_stride,
    const Shape& box);
// The same with a conversion (nearest, ties to even; see cast.h).
void convert_box(DType from, const char* src, const Strides& src_stride, DType to, char* dst,
    const Strides& dst_stride, const Shape& box);
// Row of `n` elements with any stride to contiguous fp32 (float and integer types).
void load_f32(DType t, const char* p, int64_t stride, float* y, int64_t n);
// Contiguous fp32 to a contiguous float dtype, ties to even.
void store_f32(DType t, const float* x, char* p, int64_t n);

}  // namespace npu
