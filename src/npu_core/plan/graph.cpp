#include "npu_core/plan/graph.h"

#include <algorithm>
#include <iterator>

#include "npu_core/base/fault.h"

namespace npu::plan {

Shape zeros(int rank) {
    Shape s;
    s.rank = rank;
    return s;
}

Shape within(const Shape& valid, const Shape& at, const Shape& extent) {
    Shape s = extent;
    for (int i = 0; i < s.rank; ++i) s[i] = std::clamp<int64_t>(valid[i] - at[i], 0, extent[i]);
    return s;
}

bool contains(const Shape& outer_at, const Shape& outer, const Shape& at, const Shape& shape) {
    for (int i = 0; i < shape.rank; ++i)
        if (at[i] < outer_at[i] || at[i] + shape[i] > outer_at[i] + outer[i]) return false;
    return true;
}

bool overlaps(const Shape& a_at, const Shape& a, const Shape& b_at, const Shape& b) {
    for (int i = 0; i < a.rank; ++i)
        if (a_at[i] >= b_at[i] + b[i] || b_at[i] >= a_at[i] + a[i]) return false;
    return true;
}

Shape plus(const Shape& a, const Shape& b) {
    Shape s = a;
    for (int i = 0; i < s.rank; ++i) s[i] += b[i];
    return s;
}

Shape minus(const Shape& a, const Shape& b) {
    Shape s = a;
    for (int i = 0; i < s.rank; ++i) s[i] -= b[i];
    return s;
}

Id Graph::add_raw(const Shape& shape, DType dtype, Id external) {
    raws.push_back({shape, dtype, external, false});
    return static_cast<Id>(raws.size()) - 1;
}

Id Graph::add_tensor(Id raw, const Shape& shape, const Shape& offset) {
    Tensor t;
    t.raw = raw;
    t.dtype = raws[raw].dtype;
    t.shape = shape;
    t.offset = offset;
    tensors.push_back(std::move(t));
    return static_cast<Id>(tensors.size()) - 1;
}

Id Graph::add_fresh(const Shape& shape, DType dtype) { return add_tensor(add_raw(shape, dtype), shape, zeros(shape.rank)); }

Id Graph::add_like(Id tensor) {
    const Shape shape = tensors[tensor].shape;
    const Id made = add_fresh(shape, tensors[tensor].dtype);
    tensors[made].valid = tensors[tensor].valid;
    return made;
}

const Shape& Graph::valid_of(Id tensor) const {
    const Tensor& t = tensors[tensor];
    return t.valid == NONE ? t.shape : valid_shapes[t.valid];
}

void Graph::set_valid(Id tensor, const Shape& valid) {
    Tensor& t = tensors[tensor];
    if (valid == t.shape) {
        t.valid = NONE;
        return;
    }
    t.valid = static_cast<Id>(valid_shapes.size());
    valid_shapes.push_back(valid);
}

Id Graph::add_op(Code code, Ids in, Ids out, Id src) {
    Id id = static_cast<Id>(ops.size());
    if (ops.size() >= MOST_TILE_OPS)
        fail("plan.too_large", "straight code of a root function is planned tile by tile; this one has more than " +
                                   std::to_string(MOST_TILE_OPS) +
                                   " tile operations. Use larger tiles, or move the work into a pypto.loop over slices");
    patience_.check();
    for (Id t : in) tensors[t].consumers.insert_sorted(id);
    for (Id t : out) tensors[t].producers.insert_sorted(id);
    Op op;
    op.code = code;
    op.in = std::move(in);
    op.out = std::move(out);
    op.src = src;
    op.latency = latency_of(op);
    ops.push_back(std::move(op));
    order.push_back(id);
    stale = true;
    return id;
}

void Graph::kill(Id id) {
    Op& op = ops[id];
    if (op.dead) return;
    op.dead = true;
    for (Id t : op.in) tensors[t].consumers.erase_value(id);
    for (Id t : op.out) tensors[t].producers.erase_value(id);
}

void Graph::kill_all(const std::vector<Id>& ids) {
    std::vector<Id> touched;
    for (Id id : ids) {
        Op& op = ops[id];
        if (op.dead) continue;
        op.dead = true;
        touched.insert(touched.end(), op.in.begin(), op.in.end());
        touched.insert(touched.end(), op.out.begin(), op.out.end());
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (Id t : touched)
        for (Ids* list : {&tensors[t].consumers, &tensors[t].producers})
            list->erase_if([&](Id id) { return ops[id].dead; });
}

void Graph::move_consumers(Id from, Id to) {
    if (from == to) return;
    Ids &old = tensors[from].consumers, &now = tensors[to].consumers;
    for (Id id : old)
        for (Id& t : ops[id].in)
            if (t == from) t = to;
    std::vector<Id> all;
    all.reserve(old.size() + now.size());
    std::set_union(old.begin(), old.end(), now.begin(), now.end(), std::back_inserter(all));
    now.assign(all.begin(), all.end());
    old.clear();
}

void Graph::replace_input(Id id, Id from, Id to) {
    if (from == to) return;
    lead_input(id, from, to);
    tensors[from].consumers.erase_value(id);
}

void Graph::lead_input(Id id, Id from, Id to) {
    if (from == to) return;
    for (Id& t : ops[id].in)
        if (t == from) t = to;
    tensors[to].consumers.insert_sorted(id);
}

void Graph::forget_consumers(Id t) {
    tensors[t].consumers.erase_if([&](Id id) { return ops[id].dead || !ops[id].in.contains(t); });
}

void Graph::replace_output(Id id, size_t index, Id to) {
    Id from = ops[id].out[index];
    if (from == to) return;
    ops[id].out[index] = to;
    tensors[from].producers.erase_value(id);
    tensors[to].producers.insert_sorted(id);
}

void Graph::drop_dead() {
    std::erase_if(order, [&](Id id) { return ops[id].dead; });
}

void Graph::sort() {
    drop_dead();
    std::vector<int32_t> uses(ops.size(), 0);
    for (Id id : order)
        for (Id t : ops[id].in)
            for (Id p : tensors[t].producers) ++uses[p];
    std::vector<Id> queue;
    queue.reserve(order.size());
    for (Id id : order)
        if (uses[id] == 0) queue.push_back(id);
    for (size_t head = 0; head < queue.size(); ++head)
        for (Id t : ops[queue[head]].in)
            for (Id p : tensors[t].producers)
                if (--uses[p] == 0) queue.push_back(p);
    std::reverse(queue.begin(), queue.end());
    order = std::move(queue);
    stale = false;
}

Id Graph::dyn_of(Id access) {
    if (access == NONE) return NONE;
    auto [it, added] = dyn_single_.try_emplace(access, static_cast<Id>(dyn_sets.size()));
    if (added) dyn_sets.push_back({access});
    return it->second;
}

Id Graph::dyn_sum(Id a, Id b) {
    if (a == NONE || b == NONE) return a == NONE ? b : a;
    auto [it, added] = dyn_sums_.try_emplace({a, b}, static_cast<Id>(dyn_sets.size()));
    if (added) {
        std::vector<Id> all = dyn_sets[a];
        all.insert(all.end(), dyn_sets[b].begin(), dyn_sets[b].end());
        dyn_sets.push_back(std::move(all));
    }
    return it->second;
}

int32_t Graph::latency_of(const Op& op) const {
    auto cycles = [](int64_t elements, DType t) {
        int64_t size = dtype_size_bytes(t);
        int64_t r = std::max<int64_t>(1, (256 / size) / 128);
        return static_cast<int32_t>(10 + (ceil_div(elements * size, 256) - 1) * r);
    };
    if (op.code == Code::MATMUL_TILE) return 0;   // set by the expansion, which knows the chain
    const bool by_output = op.code == Code::VIEW || op.code == Code::COPY_IN;
    const Ids& side = by_output ? op.out : op.in;
    if (side.empty()) return 1;
    int64_t most = 0;
    for (Id t : side) most = std::max(most, tensors[t].shape.count());
    return cycles(most, tensors[side[0]].dtype);
}

}  // namespace npu::plan
