// Element-wise operations, chains of them and reductions.
#include <algorithm>

#include "npu_core/plan/block_builder.h"

namespace npu::plan {

void BlockBuilder::map(const Simple& simple, std::vector<Id> in) {
    Result r = result(0);
    for (Id& x : in)
        if (promotes(dtype(x))) x = widen(x);
    for (Id& x : in) x = broadcast(x, r.exact);
    DType out_type = dtype(r.exact);
    if (simple.fp32_only && dtype(in[0]) != DType::F32 && is_float(dtype(in[0]))) {   // casts around, inside the operation
        for (Id& x : in) x = cast_to(x, DType::F32);
        Id y = like(r.exact, DType::F32);
        emit({.family = Family::ELEMENTWISE, .code = simple.code, .in = in, .out = {y}, .scratch_bytes = simple.scratch,
              .op_name = name()});
        emit({.family = Family::ELEMENTWISE, .code = Code::CAST, .in = {y}, .out = {r.exact}, .op_name = name()});
    } else {
        (void)out_type;
        emit({.family = Family::ELEMENTWISE, .code = simple.code, .in = in, .out = {r.exact},
              .scratch_bytes = simple.scratch, .op_name = name()});
    }
    finish(r);
}

void BlockBuilder::log1p(Id x) {
    Result r = result(0);
    if (promotes(dtype(x))) x = widen(x);
    auto step = [&](Code c, std::vector<Id> in, int scratch = 0, bool last = false, DType type = DType::F32) {
        Id y = last ? r.exact : like(x, type);
        emit({.family = Family::ELEMENTWISE, .code = c, .in = std::move(in), .out = {y}, .scratch_bytes = scratch, .op_name = name()});
        return y;
    };
    const Id u = step(Code::ADDS, {x}), d = step(Code::ADDS, {u}), q = step(Code::DIV, {x, d});
    const Id y = step(Code::MUL, {step(Code::LN, {u}), q});
    const Id one = step(Code::CMPS, {u}, 512, false, DType::BOOL), inf = step(Code::CMPS, {x}, 512, false, DType::BOOL);
    const Id z = step(Code::WHERE_TT, {one, x, y}, 12448);
    step(Code::WHERE_ST, {inf, z}, 12448, true);
    finish(r);
}

void BlockBuilder::chain(Id x, std::initializer_list<Code> codes) {
    Result r = result(0);
    if (promotes(dtype(x))) x = widen(x);
    size_t left = codes.size();
    for (Code c : codes) {
        Id y = --left == 0 ? r.exact : like(x, dtype(x));
        emit({.family = Family::ELEMENTWISE, .code = c, .in = {x}, .out = {y}, .op_name = name()});
        x = y;
    }
    finish(r);
}

void BlockBuilder::where(std::vector<Id> in, const int64_t* ints) {
    const bool a_scalar = ints[0], b_scalar = ints[1];
    Code code = a_scalar ? (b_scalar ? Code::WHERE_SS : Code::WHERE_ST) : (b_scalar ? Code::WHERE_TS : Code::WHERE_TT);
    map({code, 12448}, std::move(in));
}

void BlockBuilder::reduce(const std::string& k, Id x, int axis) {
    Result r = result(0);
    if (promotes(dtype(x))) x = widen(x);
    const bool last = axis == shape(x).rank - 1;
    struct Codes { Code pair, single, line; };
    Codes c = k.starts_with("arg") ? Codes{Code::PAIRARG, k == "argmax" ? Code::ROWMAX_SINGLE : Code::ROWMIN_SINGLE,
                                           Code::ROWARGLINE}
              : k == "sum"  ? Codes{Code::PAIRSUM, Code::ROWSUM_SINGLE, Code::ROWSUMLINE}
              : k == "amax" ? Codes{Code::PAIRMAX, Code::ROWMAX_SINGLE, Code::ROWMAXLINE}
              : k == "amin" ? Codes{Code::PAIRMIN, Code::ROWMIN_SINGLE, Code::ROWMINLINE}
                            : Codes{Code::PAIRPROD, Code::ROWPROD_SINGLE, Code::ROWPRODLINE};
    Shape kept = shape(x), part = valid(x);
    kept[axis] = 1;
    part[axis] = std::min<int64_t>(part[axis], 1);
    const bool reshaped = !(kept == shape(r.exact));
    Id y = reshaped ? tensor(kept, dtype(x), part) : r.exact;
    b_.tensors[y].dtype = dtype(x);
    emit({.family = Family::REDUCE, .code = last ? c.single : c.line, .in = {x}, .out = {y}, .axis = axis, .pair = c.pair,
          .op_name = name()});
    if (reshaped) {
        b_.tensors[r.exact].dtype = dtype(x);
        emit({.family = Family::RESHAPE, .code = Code::RESHAPE, .in = {y}, .out = {r.exact}});
    }
    finish(r);
}

}  // namespace npu::plan
