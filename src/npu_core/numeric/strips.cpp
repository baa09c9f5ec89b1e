#include "npu_core/numeric/strips.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "npu_core/numeric/cast.h"

namespace npu {

namespace {

// Register storage of one thread. A slot is a little longer than a power of two, so that slots do not alias in L1.
constexpr int64_t SLOT_BYTES = STRIP * 8 + 192;
char* thread_slots(int count) {
    struct Arena {
        char* p = nullptr;
        int count = 0;
        ~Arena() { std::free(p); }
    };
    static thread_local Arena arena;
    if (arena.count < count) {
        std::free(arena.p);
        arena.p = static_cast<char*>(std::aligned_alloc(64, static_cast<size_t>((SLOT_BYTES * count + 63) / 64 * 64)));
        arena.count = arena.p ? count : 0;
        if (!arena.p) throw std::bad_alloc();
    }
    return arena.p;
}

void fill_elements(int size, const void* one, char* p, int64_t n) {
    switch (size) {
        case 1: std::memset(p, *static_cast<const uint8_t*>(one), static_cast<size_t>(n)); break;
        case 2: std::fill_n(reinterpret_cast<uint16_t*>(p), n, *static_cast<const uint16_t*>(one)); break;
        case 4: std::fill_n(reinterpret_cast<uint32_t*>(p), n, *static_cast<const uint32_t*>(one)); break;
        default: std::fill_n(reinterpret_cast<uint64_t*>(p), n, *static_cast<const uint64_t*>(one));
    }
}

// Rows shorter than this are taken several at a time where the result is contiguous: broadcast operands are spread out.
constexpr int64_t SHORT_ROW = 192;

}  // namespace

StripRun::StripRun(const Group& group, const GroupNest& nest, const char* const* sources, char* const* outs,
    const uint64_t* immediates)
    : g_(group), nest_(nest), sources_(sources), outs_(outs), immediates_(immediates), inner_(nest.inner()),
        line_(nest.inner()), outer_(nest) {
    const int r = nest.rank - 2;
    if (r < 0 || inner_ >= SHORT_ROW || nest.stride[0][r] != inner_ || nest.stride[0][r + 1] != 1) return;
    rows_per_strip_ = std::min(STRIP / inner_, nest.n[r]);
    line_ = inner_ * nest.n[r];
    outer_.rank = nest.rank - 1;
    outer_.n[r] = line_;
}

void StripRun::operator()(int64_t begin, int64_t end) const {
    const int arrays = static_cast<int>(g_.loads.size()) + 1;
    const int64_t length = strip_length(), per_line = strips_per_line();
    const char* ptr[MOST_REGISTERS];
    int step[MOST_REGISTERS];
    const Registers registers{thread_slots(g_.slots), ptr, step};
    for (size_t i = 0; i < g_.immediates.size(); ++i) {
        ptr[g_.immediates[i].reg] = reinterpret_cast<const char*>(&immediates_[i]);
        step[g_.immediates[i].reg] = 0;
    }
    int64_t offset[MOST_LOADS + 1], row = -1;
    for (int64_t strip = begin; strip < end; ++strip) {
        const int64_t col = strip % per_line * length, n = std::min(length, line_ - col);
        if (const int64_t r = strip / per_line; r != row) {
            row = r;
            outer_.row_offsets(row, arrays, offset);
        }
        for (const Group::Code& c : g_.code) {
            if (c.kind == Group::Kind::EXEC) execute(c, offset[0] + col, n, registers);
            else if (c.kind == Group::Kind::LOAD) load(c.y, offset[c.y + 1], col, n, registers);
            else store(c.y, offset[0] + col, n, registers);
        }
    }
}

void StripRun::execute(const Group::Code& c, int64_t out_offset, int64_t n, const Registers& r) const {
    auto [slots, ptr, step] = r;
    const Group::Register& y = g_.registers[c.y];
    int y_step = step[c.a];
    if (c.b >= 0) y_step |= step[c.b];
    if (c.c >= 0) y_step |= step[c.c];
    char* to = slots + y.slot * SLOT_BYTES;
    if (y.direct >= 0 && y_step) to = outs_[y.direct] + out_offset * dtype_size_bytes(y.type);
    Row row;
    row.a = ptr[c.a];
    row.a_step = step[c.a];
    if (c.b >= 0) row.b = ptr[c.b], row.b_step = step[c.b];
    if (c.c >= 0) row.c = ptr[c.c], row.c_step = step[c.c];
    row.y = to;
    row.n = y_step ? n : 1;
    row.constant = c.constant;
    c.fn(row);
    ptr[c.y] = to;
    step[c.y] = y_step;
}

// n elements from column `col` on (whole rows if several are taken), next to each other.
template <class T>
void StripRun::gather(const char* from, int64_t col, int64_t n, int64_t stride, int64_t row_stride, void* to) const {
    const T* x = reinterpret_cast<const T*>(from);
    T* y = static_cast<T*>(to);
    if (rows_per_strip_ == 1) {
        for (int64_t i = 0; i < n; ++i) y[i] = x[(col + i) * stride];
        return;
    }
    for (int64_t r = col / inner_; r < (col + n) / inner_; ++r, y += inner_) {
        const T* s = x + r * row_stride;
        if (stride == 0) {
            for (int64_t i = 0; i < inner_; ++i) y[i] = *s;
        } else {
            for (int64_t i = 0; i < inner_; ++i) y[i] = s[i * stride];
        }
    }
}

void StripRun::load(int index, int64_t offset, int64_t col, int64_t n, const Registers& r) const {
    auto [slots, ptr, step] = r;
    const Group::Load& l = g_.loads[index];
    const Group::Register& reg = g_.registers[l.reg];
    const int64_t stride = nest_.stride[index + 1][nest_.rank - 1];
    const int64_t row_stride = rows_per_strip_ > 1 ? nest_.stride[index + 1][nest_.rank - 2] : stride * inner_;
    const int size = dtype_size_bytes(l.dtype);
    const char* base = sources_[index] + offset * size;
    char* slot = slots + reg.slot * SLOT_BYTES;
    const bool uniform = stride == 0 && row_stride == 0, contiguous = stride == 1 && row_stride == inner_;
    step[l.reg] = uniform ? 0 : 1;
    if (uniform || contiguous || n == 1) {
        const char* p = base + (rows_per_strip_ > 1 ? col / inner_ * row_stride : col * stride) * size;
        ptr[l.reg] = p;
        if (l.dtype != reg.type) {
            cast_row({l.dtype, reg.type}, p, slot, uniform ? 1 : n);
            ptr[l.reg] = slot;
        }
        return;
    }
    alignas(64) char gathered[STRIP * 8];
    char* to = l.dtype == reg.type ? slot : gathered;
    switch (size) {
        case 1: gather<uint8_t>(base, col, n, stride, row_stride, to); break;
        case 2: gather<uint16_t>(base, col, n, stride, row_stride, to); break;
        case 4: gather<uint32_t>(base, col, n, stride, row_stride, to); break;
        default: gather<uint64_t>(base, col, n, stride, row_stride, to);
    }
    if (to != slot) cast_row({l.dtype, reg.type}, to, slot, n);
    ptr[l.reg] = slot;
}

void StripRun::store(int index, int64_t offset, int64_t n, const Registers& r) const {
    auto [slots, ptr, step] = r;
    (void)slots;
    const Group::Store& s = g_.stores[index];
    const Group::Register& reg = g_.registers[s.reg];
    const int size = dtype_size_bytes(s.dtype);
    char* to = outs_[index] + offset * size;
    if (ptr[s.reg] == to) return;                  // computed in place
    if (step[s.reg]) {
        cast_row({reg.type, s.dtype}, ptr[s.reg], to, n);
    } else {
        alignas(8) char one[8];
        cast_row({reg.type, s.dtype}, ptr[s.reg], one, 1);
        fill_elements(size, one, to, n);
    }
}

}  // namespace npu
