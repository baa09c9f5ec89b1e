// Views, reshapes, broadcasts, transposes, index updates, sorts: where the elements of a tensor go.
#include <algorithm>

#include "npu_core/plan/block_builder.h"

namespace npu::plan {

Id BlockBuilder::broadcast(Id x, Id result) {
    const Shape want = shape(result), want_valid = valid(result);
    Shape s = shape(x), part = valid(x);
    if (s.rank < want.rank) {
        auto leading = [&](const Shape& from) {
            Shape padded = want;
            for (int i = 0; i < want.rank; ++i) padded[i] = i < want.rank - from.rank ? 1 : from[i - (want.rank - from.rank)];
            return padded;
        };
        part = leading(part);
        s = leading(s);
        Id y = tensor(s, dtype(x), part);
        emit({.family = Family::RESHAPE, .code = Code::RESHAPE, .in = {x}, .out = {y}});
        x = y;
    }
    for (int axis = want.rank - 1; axis >= 0; --axis) {
        if (s[axis] == want[axis]) continue;
        s[axis] = want[axis];
        part[axis] = part[axis] ? want_valid[axis] : 0;
        Id y = tensor(s, dtype(x), part);
        emit({.family = Family::EXPAND, .code = Code::EXPAND, .in = {x}, .out = {y}, .axis = axis, .op_name = name()});
        x = y;
    }
    return x;
}

void BlockBuilder::bitcast(Id x) {
    Result r = result(0);
    emit({.family = Family::RESHAPE, .code = Code::RESHAPE, .in = {x}, .out = {r.exact}});
    define(r.program, r.exact);
}

void BlockBuilder::index_update(std::vector<Id> in, bool source_second) {
    Result r = result(0);
    if (source_second) std::rotate(in.begin() + 1, in.begin() + 2, in.end());
    b_.tensors[r.exact].dtype = dtype(in[0]);
    emit({.family = Family::SCATTER, .code = Code::INDEX_OUTCAST, .in = in, .out = {r.exact}, .op_name = name()});
    define(r.program, r.exact);
}

Id BlockBuilder::reshaped(Id x, const Shape& to, DType type) {
    Id y = tensor(to, type);
    emit({.family = Family::RESHAPE, .code = Code::RESHAPE, .in = {x}, .out = {y}});
    return y;
}

void BlockBuilder::simple_move(Family family, Code code, Id x, const Visit& v) {
    Result r = result(0);
    b_.tensors[r.exact].dtype = dtype(x);
    if (family == Family::RESHAPE && shape(x) == shape(r.exact)) {
        if (valid(x) == valid(r.exact)) return define(r.program, x);
        family = Family::VIEW;                       // other valid extents and nothing else
        code = Code::VIEW;
    }
    emit({.family = family, .code = code, .in = {x}, .out = {r.exact},
          .at = v.at.rank ? v.at : zeros(shape(x).rank), .dyn = v.dyn});
    define(r.program, r.exact);
}

void BlockBuilder::fill(Code code) {
    Result r = result(0);
    emit({.family = Family::FILL, .code = code, .in = {}, .out = {r.exact}, .op_name = name()});
    finish(r);
}

void BlockBuilder::concat(const std::vector<Id>& in, int axis) {
    Result r = result(0);
    Shape at = zeros(shape(r.exact).rank);
    for (Id x : in) {
        Id copy = like(x, dtype(x));
        emit({.family = Family::ELEMENTWISE, .code = Code::REGISTER_COPY, .in = {x}, .out = {copy}, .op_name = name()});
        emit({.family = Family::ASSEMBLE, .code = Code::ASSEMBLE, .in = {copy}, .out = {r.exact}, .at = at});
        at[axis] += shape(x)[axis];
    }
    define(r.program, r.exact);
}

void BlockBuilder::transpose(Id x, const int64_t* perm) {
    Result r = result(0);
    const int rank = shape(x).rank;
    int first = -1, second = -1;
    for (int i = 0; i < rank; ++i)
        if (perm[i] != i) { if (first < 0) first = i; second = i; }
    if (first < 0) return define(r.program, x);
    const bool last_two = first == rank - 2 && second == rank - 1;
    Family family = last_two || second == rank - 1 ? Family::TRANSPOSE : Family::TRANSPOSE_OUT;
    if (family == Family::TRANSPOSE && !last_two)
        b_.unmodelled.push_back("transpose of axes that are not the last two: moves in and out not separated");
    Code code = family == Family::TRANSPOSE ? Code::TRANSPOSE_VNCHWCONV : Code::TRANSPOSE_MOVEOUT;
    emit({.family = family, .code = code, .in = {x}, .out = {r.exact}, .axis = first, .axis2 = second, .op_name = name()});
    define(r.program, r.exact);
}

void BlockBuilder::topk(Id x, int64_t k) {
    Result values = result(0), indices = result(1);
    if (promotes(dtype(x))) x = widen(x);
    emit({.family = Family::TOPK, .code = Code::BITSORT, .in = {x}, .out = {values.exact, indices.exact}, .extra = k,
          .op_name = name()});
    finish(values);
    finish(indices);
}

}  // namespace npu::plan
