// Driver of tile expansion. Source: hicann/pypto@r0.2.0 passes/tensor_graph_pass/expand_function.cpp,
// interface/operation/vector.
#include "npu_core/lowering/expand.h"

#include "npu_core/lowering/limits.h"

#include <stdexcept>
#include <string>

namespace npu::lowering {

Expander::Expander(Graph& graph) : g_(graph) {}

void Expander::run() {
    const std::vector<int32_t> before = g_.order;
    for (int32_t id : before) g_.unlink(id);
    g_.order.clear();
    for (int32_t id : before) {
        patience_.check();
        source_ = id;
        one(id);
    }
    for (int32_t id : before) g_.ops[id].dead = true;
    g_.stale = false;
}

const TileShapes& Expander::tiles() const {
    static const TileShapes none;
    return source().tile < 0 ? none : g_.tiles[source().tile];
}

const Attributes& Expander::attributes() const {
    static const Attributes none;
    const Attributes* a = g_.attrs(source());
    return a ? *a : none;
}

Ref Expander::ref(int32_t tensor) const {
    const Tensor& t = g_.tensors[tensor];
    return {t.raw, tensor, t.shape, t.offset, t.dtype};
}

Ref Expander::fresh(const Shape& shape, DType dtype) {
    return {g_.add_raw(shape, dtype), -1, shape, zero_offset(shape.rank), dtype};
}

int32_t Expander::fresh_tensor(const Shape& shape, DType dtype) { return g_.add_fresh(shape, dtype); }

static Offset shifted(const Ref& whole, const Shape& at) {
    Offset o = whole.offset;
    for (int d = 0; d < o.rank; ++d) o.d[d].at += at[d];
    return o;
}

int32_t Expander::out_tile(const Ref& whole, const Shape& at, const Shape& shape) {
    return g_.add_tensor(whole.raw, shape, shifted(whole, at), whole.dtype);
}

int32_t Expander::in_tile(const Ref& whole, const Shape& at, const Shape& shape) {
    return linked(whole, shifted(whole, at), shape);
}

int32_t Expander::emit(Opcode code, const Ids& in, const Ids& out) {
    if (g_.ops.size() > size_t(MOST_TILE_OPS)) too_large("tile operations", MOST_TILE_OPS);
    patience_.check();
    const int32_t id = g_.add_op(code, in, out);
    const Op& from = source();
    g_.ops[id].tile = from.tile;
    g_.ops[id].attributes = from.attributes;
    g_.ops[id].scope = from.scope;
    g_.ops[id].source = from.source;
    for (int32_t t : out) produced(t);
    return id;
}

int32_t Expander::emit(Opcode code, const Ids& in, const Ids& out, const Attributes& attributes) {
    const int32_t id = emit(code, in, out);
    g_.ops[id].attributes = int32_t(g_.attributes.size());
    g_.attributes.push_back(attributes);
    return id;
}

int32_t Expander::view(int32_t from, const Offset& at, int32_t to, Mem target, bool transpose) {
    const int32_t id = g_.add_op(Opcode::VIEW, {from}, {to});
    Op& op = g_.ops[id];
    op.at = at;
    op.to = target;
    op.transpose = transpose;
    op.scope = source().scope;
    op.source = source().source;
    produced(to);
    return id;
}

void Expander::produced(int32_t tensor) {
    const size_t raw = size_t(g_.tensors[tensor].raw);
    if (raw >= tiles_of_.size()) tiles_of_.resize(raw + 1);
    tiles_of_[raw].add(g_, tensor);
}

void Expander::each_tile(const Shape& whole, const std::function<void(const Shape&, const Shape&)>& use) {
    each_tile(whole, vec_step(whole.rank), use);
}

void Expander::each_tile(const Shape& whole, const Shape& step, const std::function<void(const Shape&, const Shape&)>& use) {
    Shape at = zeros(whole.rank), size = whole;
    while (true) {
        for (int d = 0; d < whole.rank; ++d) size[d] = std::min(step[d], whole[d] - at[d]);
        use(at, size);
        int d = whole.rank - 1;
        while (d >= 0 && (at[d] += step[d]) >= whole[d]) at[d--] = 0;
        if (d < 0) return;
    }
}

Shape Expander::vec_step(int rank) const {
    Shape step;
    step.rank = rank;
    for (int d = 0; d < rank; ++d) step[d] = d < tiles().vec.rank && tiles().vec[d] > 0 ? tiles().vec[d] : INT32_LIMIT;
    return step;
}

Shape Expander::zeros(int rank) {
    Shape s;
    s.rank = rank;
    return s;
}

void Expander::one(int32_t id) {
    const Op op = g_.ops[id];
    if (op.code == Opcode::VIEW || op.code == Opcode::ASSEMBLE || op.code == Opcode::RESHAPE) {
        const int32_t in = in_whole(ref(op.in[0]));
        const int32_t fresh = g_.add_op(op.code, {in}, op.out);
        Op& copy = g_.ops[fresh];
        copy.at = op.at;
        copy.to = op.to;
        copy.transpose = op.transpose;
        copy.scope = op.scope;
        copy.valid = op.valid;
        copy.source = op.source;
        if (op.code == Opcode::RESHAPE) copy.attributes = op.attributes;
        produced(op.out[0]);
        return;
    }
    if (is_matmul(op.code)) return expand_matmul(*this);
    if (is_row_single(op.code)) return expand_reduce_last(*this);
    if (is_reduce_line(op.code)) return expand_reduce_line(*this);
    switch (op.code) {
        case Opcode::EXPAND: return expand_broadcast_axis(*this);
        case Opcode::TRANSPOSE_VNCHWCONV: case Opcode::TRANSPOSE_MOVEIN: case Opcode::TRANSPOSE_MOVEOUT:
            return expand_transpose(*this);
        case Opcode::VEC_DUP: case Opcode::RANGE: return expand_fill(*this);
        case Opcode::TOPK: return expand_topk(*this);
        case Opcode::GATHER: case Opcode::GATHER_ELEMENT: case Opcode::INDEX_OUTCAST: case Opcode::INDEX_PUT:
        case Opcode::SCATTER_ELEMENT: case Opcode::SCATTER:
            return expand_index(*this);
        case Opcode::CUM_SUM: return expand_cumulative(*this);
        default: return expand_elementwise(*this);
    }
}

void expand_function(Graph& g) {
    sort_if_stale(g);
    Expander(g).run();
}

}  // namespace npu::lowering
