// Machine: elementwise operations, alone or fused, strip by strip.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "npu_core/base/thread_pool.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/group.h"
#include "npu_core/numeric/machine.h"

namespace npu {

namespace {

using GroupNest = Nest<MOST_LOADS + 1>;

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

struct StripRun {
    const Group& g;
    const GroupNest& nest;
    const char* const* sources;
    char* const* outs;
    const uint64_t* immediates;
    int64_t inner, rows_per_strip = 1, line;  // line: elements along the innermost (one or two) axes
    GroupNest outer;                          // of what is around them

    StripRun(const Group& group, const GroupNest& n, const char* const* from, char* const* to, const uint64_t* imm)
        : g(group), nest(n), sources(from), outs(to), immediates(imm), inner(n.inner()), line(n.inner()), outer(n) {
        const int r = nest.rank - 2;
        if (r < 0 || inner >= SHORT_ROW || nest.stride[0][r] != inner || nest.stride[0][r + 1] != 1) return;
        rows_per_strip = std::min(STRIP / inner, nest.n[r]);
        line = inner * nest.n[r];
        outer.rank = nest.rank - 1;
        outer.n[r] = line;
    }
    int64_t strip_length() const { return rows_per_strip > 1 ? rows_per_strip * inner : STRIP; }
    int64_t strips_per_line() const { return (line + strip_length() - 1) / strip_length(); }
    int64_t strips() const { return outer.rows() * strips_per_line(); }

    void operator()(int64_t begin, int64_t end) const {
        const int arrays = static_cast<int>(g.loads.size()) + 1;
        const int64_t length = strip_length(), per_line = strips_per_line();
        char* slots = thread_slots(g.slots);
        const char* ptr[MOST_REGISTERS];
        int step[MOST_REGISTERS];
        for (size_t i = 0; i < g.immediates.size(); ++i) {
            ptr[g.immediates[i].reg] = reinterpret_cast<const char*>(&immediates[i]);
            step[g.immediates[i].reg] = 0;
        }
        int64_t offset[MOST_LOADS + 1], row = -1;
        for (int64_t strip = begin; strip < end; ++strip) {
            const int64_t col = strip % per_line * length, n = std::min(length, line - col);
            if (const int64_t r = strip / per_line; r != row) {
                row = r;
                outer.row_offsets(row, arrays, offset);
            }
            for (const Group::Code& c : g.code) {
                if (c.kind == Group::Kind::EXEC) {
                    execute(c, offset[0] + col, n, slots, ptr, step);
                } else if (c.kind == Group::Kind::LOAD) {
                    load(c.y, offset[c.y + 1], col, n, slots, ptr, step);
                } else {
                    store(c.y, offset[0] + col, n, ptr, step);
                }
            }
        }
    }

  private:
    void execute(const Group::Code& c, int64_t out_offset, int64_t n, char* slots, const char** ptr, int* step) const {
        const Group::Register& y = g.registers[c.y];
        int y_step = step[c.a];
        if (c.b >= 0) y_step |= step[c.b];
        if (c.c >= 0) y_step |= step[c.c];
        char* to = slots + y.slot * SLOT_BYTES;
        if (y.direct >= 0 && y_step) to = outs[y.direct] + out_offset * dtype_size_bytes(y.type);
        Row r;
        r.a = ptr[c.a];
        r.a_step = step[c.a];
        if (c.b >= 0) r.b = ptr[c.b], r.b_step = step[c.b];
        if (c.c >= 0) r.c = ptr[c.c], r.c_step = step[c.c];
        r.y = to;
        r.n = y_step ? n : 1;
        r.constant = c.constant;
        c.fn(r);
        ptr[c.y] = to;
        step[c.y] = y_step;
    }

    // n elements from column `col` on (whole rows if several are taken), next to each other.
    template <class T>
    void gather(const char* from, int64_t col, int64_t n, int64_t stride, int64_t row_stride, void* to) const {
        const T* x = reinterpret_cast<const T*>(from);
        T* y = static_cast<T*>(to);
        if (rows_per_strip == 1) {
            for (int64_t i = 0; i < n; ++i) y[i] = x[(col + i) * stride];
            return;
        }
        for (int64_t r = col / inner; r < (col + n) / inner; ++r, y += inner) {
            const T* s = x + r * row_stride;
            if (stride == 0) {
                for (int64_t i = 0; i < inner; ++i) y[i] = *s;
            } else {
                for (int64_t i = 0; i < inner; ++i) y[i] = s[i * stride];
            }
        }
    }

    void load(int index, int64_t offset, int64_t col, int64_t n, char* slots, const char** ptr, int* step) const {
        const Group::Load& l = g.loads[index];
        const Group::Register& reg = g.registers[l.reg];
        const int64_t stride = nest.stride[index + 1][nest.rank - 1];
        const int64_t row_stride = rows_per_strip > 1 ? nest.stride[index + 1][nest.rank - 2] : stride * inner;
        const int size = dtype_size_bytes(l.dtype);
        const char* base = sources[index] + offset * size;
        char* slot = slots + reg.slot * SLOT_BYTES;
        const bool uniform = stride == 0 && row_stride == 0, contiguous = stride == 1 && row_stride == inner;
        step[l.reg] = uniform ? 0 : 1;
        if (uniform || contiguous || n == 1) {
            const char* p = base + (rows_per_strip > 1 ? col / inner * row_stride : col * stride) * size;
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

    void store(int index, int64_t offset, int64_t n, const char** ptr, const int* step) const {
        const Group::Store& s = g.stores[index];
        const Group::Register& reg = g.registers[s.reg];
        const int size = dtype_size_bytes(s.dtype);
        char* to = outs[index] + offset * size;
        if (ptr[s.reg] == to) return;                  // computed in place
        if (step[s.reg]) {
            cast_row({reg.type, s.dtype}, ptr[s.reg], to, n);
        } else {
            alignas(8) char one[8];
            cast_row({reg.type, s.dtype}, ptr[s.reg], one, 1);
            fill_elements(size, one, to, n);
        }
    }
};

void store_immediate(DType t, double f, int64_t i, uint64_t* out) {
    *out = 0;
    if (t == DType::F32) {
        const float v = static_cast<float>(f);
        std::memcpy(out, &v, 4);
    } else if (t == DType::F64) {
        std::memcpy(out, &f, 8);
    } else {
        cast_row({DType::I64, t}, &i, out, 1);
    }
}

Strides broadcast_strides(const Shape& shape, const Strides& stride, const Shape& space) {
    Strides out{};
    for (int i = 0; i < shape.rank; ++i) {
        const int axis = space.rank - shape.rank + i;
        out[axis] = shape[i] == 1 && space[axis] != 1 ? 0 : stride[i];
    }
    return out;
}

// The part of an operand of `shape` that a result box needs.
Shape needed_box(const Shape& shape, const Shape& space, const Shape& box) {
    Shape out = shape;
    for (int i = 0; i < shape.rank; ++i) {
        const int axis = space.rank - shape.rank + i;
        out[i] = shape[i] == space[axis] ? box[axis] : std::min<int64_t>(box[axis], 1);
    }
    return out;
}

}  // namespace

void Machine::elementwise(const Op& op) {
    const auto index = static_cast<size_t>(&op - p_.ops.data());
    if (single_.size() <= index) single_.resize(p_.ops.size());
    const auto build = [&](const GroupBuilder::TypeOf& type_of) {
        GroupBuilder b(p_, type_of);
        b.add(static_cast<int32_t>(index));
        return b.finish([](Id, const Op& o) { return Wanted{!o.wide_out, o.wide_out}; });
    };
    bool as_declared = true;
    for (int i = 0; i < op.ins.count; ++i) {
        const Value& v = ready(in_id(op, i));
        as_declared = as_declared && v.dtype == tensor(in_id(op, i)).dtype && v.shape == tensor(in_id(op, i)).shape;
    }
    if (as_declared) {
        if (!single_[index])
            single_[index] = std::make_unique<Group>(build([&](Id t) { return TensorType{tensor(t).dtype, tensor(t).shape}; }));
        require(run_group(*single_[index], &op), "an elementwise operation does not fit its operands");
        return;
    }
    // A local took another shape or dtype than it was declared with.
    const Group fresh = build([&](Id t) {
        const Value& v = env_[t];
        return t != out_id(op, 0) ? TensorType{v.dtype, v.shape} : TensorType{tensor(t).dtype, tensor(t).shape};
    });
    require(run_group(fresh, &op), "an elementwise operation does not fit its operands");
}

// Where an assemble puts `box`, if the group may write there while it reads; views of that memory are taken first.
char* Machine::argument_box(const Item& assemble, const Group& g, const Shape& box) {
    const Value& d = env_[assemble.a];
    if (is_empty(box) || assemble.span.count != box.rank || d.shape.rank != box.rank) return nullptr;
    int64_t first = 0, last = 0;
    for (int i = 0; i < box.rank; ++i) {
        const int64_t at = eval(p_.ids[assemble.span.begin + i]);
        if (at < 0 || at > d.shape[i] - box[i]) return nullptr;
        first += at * d.stride[i];
        last += (at + box[i] - 1) * d.stride[i];
    }
    for (const Group::Load& l : g.loads)
        if (env_[l.tensor].region == d.region) return nullptr;
    const int size = dtype_size_bytes(d.dtype);
    char* to = const_cast<char*>(d.data) + first * size;
    const char* end = d.data + (last + 1) * size;
    if (!writable(to, end)) return nullptr;
    before_write(d.region, to, end);
    return to;
}

// False: the group does not fit the values as they are (nothing has been changed). With `assemble`, the only result goes
// straight into the argument.
bool Machine::run_group(const Group& g, const Op* alone, const Item* assemble) {
    const int n_loads = static_cast<int>(g.loads.size());
    bool plain = true;
    for (int k = 0; k < n_loads; ++k) {
        const Group::Load& l = g.loads[k];
        const Value& v = alone ? ready(l.tensor) : env_[l.tensor];
        if (v.state != State::READY || v.dtype != l.logical || !(v.shape == l.shape)) return false;
        if (l.wide && !v.wide) plain = false;
        plain = plain && v.full && !v.pieces;
    }
    Shape box = g.space;
    if (!plain) {
        const Shape *shapes[3], *valids[3];
        for (size_t r = 0; r < g.results.size(); ++r) {
            const Group::Result& result = g.results[r];
            for (int i = 0; i < result.count; ++i) {
                const int in = result.in[i];
                shapes[i] = in >= 0 ? &g.loads[in].shape : &g.space;
                valids[i] = in >= 0 ? &env_[g.loads[in].tensor].valid : &box;
            }
            const Shape here = result_box(g.space, shapes, valids, result.count);
            if (r == 0) box = here;
            else if (!(here == box)) return false;
        }
        if (!alone) {
            for (const Group::Load& l : g.loads) {
                const Value& v = env_[l.tensor];
                if (v.pieces || (l.wide && !v.wide) || !covers(v.valid, needed_box(l.shape, g.space, box))) return false;
            }
        }
    }

    char* into = nullptr;
    if (assemble && !(into = argument_box(*assemble, g, box))) return false;
    const char* sources[MOST_LOADS];
    Strides strides[MOST_LOADS + 1];
    const Strides* stride_of[MOST_LOADS + 1];
    BufferRef kept[3];
    strides[0] = into ? env_[assemble->a].stride : dense_strides(g.space);
    stride_of[0] = &strides[0];
    for (int k = 0; k < n_loads; ++k) {
        const Group::Load& l = g.loads[k];
        stride_of[k + 1] = &strides[k + 1];
        if (plain || !alone) {
            Value& v = env_[l.tensor];
            sources[k] = l.wide ? v.wide.data() : narrow(v);
            strides[k + 1] = broadcast_strides(l.shape, l.wide ? dense_strides(l.shape) : v.stride, g.space);
        } else {
            int i = 0;
            while (in_id(*alone, i) != l.tensor || (alone->wide_ins >> i & 1) != l.wide) ++i;
            Operand o = covering(*alone, i, needed_box(l.shape, g.space, box));
            sources[k] = o.data;
            strides[k + 1] = broadcast_strides(l.shape, o.stride, g.space);
            kept[k] = std::move(o.keep);
        }
    }

    uint64_t immediates[MOST_REGISTERS];
    for (size_t i = 0; i < g.immediates.size(); ++i) {
        const Group::Immediate& imm = g.immediates[i];
        const int64_t n = imm.expr == NONE ? imm.i : eval(imm.expr);
        store_immediate(g.registers[imm.reg].type, imm.expr == NONE ? imm.f : static_cast<double>(n), n, &immediates[i]);
    }

    char* outs[MOST_STORES * 2];
    for (size_t i = 0; i < g.stores.size(); ++i) {
        const Group::Store& s = g.stores[i];
        if (into) outs[i] = into;
        else if (i > 0 && g.stores[i - 1].tensor == s.tensor) {  // the rounded twin beside the fp32 one
            Value& v = env_[s.tensor];
            v.store = scratch(g.space.count() * dtype_size_bytes(s.dtype));
            outs[i] = v.store.data();
            v.data = outs[i];
        } else {
            outs[i] = define(s.tensor, s.logical, g.space, box, s.wide);
        }
    }
    if (is_empty(box)) return true;
    const GroupNest nest = make_nest<MOST_LOADS + 1>(box, stride_of, n_loads + 1, true);
    const StripRun run(g, nest, sources, outs, immediates);
    const int64_t strips = run.strips();
    parallel_ranges(strips, g.ns_per_element * static_cast<double>(box.count()) + 15.0 * static_cast<double>(strips), run);
    return true;
}

}  // namespace npu
