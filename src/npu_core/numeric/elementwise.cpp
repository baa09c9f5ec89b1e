// Machine: elementwise operations, alone or fused, strip by strip.
#include <algorithm>
#include <cstring>
#include <memory>

#include "npu_core/base/thread_pool.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/group.h"
#include "npu_core/numeric/machine.h"
#include "npu_core/numeric/strips.h"

namespace npu {

namespace {

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
        const auto declared = [&](Id t) { return TensorType{tensor(t).dtype, tensor(t).shape}; };
        if (stepped_) {                                   // runs once: not worth keeping
            require(run_group(build(declared), &op), "an elementwise operation does not fit its operands");
            return;
        }
        if (single_.size() <= index) single_.resize(p_.ops.size());
        if (!single_[index]) single_[index] = std::make_unique<Group>(build(declared));
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
    Shape offset = box;
    for (int i = 0; i < box.rank; ++i) {
        const int64_t at = offset[i] = eval(p_.ids[assemble.span.begin + i]);
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
    if (!assemble.alone || conflicts_.in_parallel()) {
        const Item* computing = item_;
        item_ = &assemble;
        note_write(assemble.a, d, offset, box, !assemble.alone);
        item_ = computing;
    }
    before_write(d.region, to, end);
    return to;
}

// False: the group does not fit the values as they are (nothing has been changed). With `assemble`, the only result
// goes straight into the argument.
bool Machine::run_group(const Group& g, const Op* alone, const Item* assemble) {
    const int n_loads = static_cast<int>(g.loads.size());
    bool plain = true;
    for (int k = 0; k < n_loads; ++k) {
        const Group::Load& l = g.loads[k];
        const Value& v = alone ? ready(l.tensor) : env_[l.tensor];
        if (v.state != State::READY || v.dtype != l.logical || !(v.shape == l.shape)) return false;
        if (v.through && conflicts_.in_parallel()) [[unlikely]] note_read(l.tensor, v, Shape{v.shape.rank, {}}, v.valid);
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
                if (v.pieces || (l.wide && !v.wide) || !covers(v.valid, needed_box(l.shape, g.space,
                    box))) return false;
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
        store_immediate(g.registers[imm.reg].type, imm.expr == NONE ? imm.f : static_cast<double>(n), n,
            &immediates[i]);
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
    parallel_ranges(strips,
        g.ns_per_element * static_cast<double>(box.count()) + 15.0 * static_cast<double>(strips), run);
    return true;
}

}  // namespace npu
