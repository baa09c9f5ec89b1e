// Which family an operation belongs to.
#include <algorithm>

#include "npu_core/plan/block_builder.h"
#include "npu_core/program/opcodes.h"

namespace npu::plan {

namespace {

const std::unordered_map<std::string, Simple>& elementwise() {
    static const std::unordered_map<std::string, Simple> table = {
        {"exp", {Code::EXP}}, {"log", {Code::LN, 0, true}}, {"sqrt", {Code::SQRT}}, {"abs", {Code::ABS}},
        {"neg", {Code::MULS}}, {"tanh", {Code::TANH, 0, true}}, {"erf", {Code::ERF, 0, true}},
        {"reciprocal", {Code::RECIPROCAL}}, {"relu", {Code::RELU}}, {"floor", {Code::FLOOR, 0, true}},
        {"ceil", {Code::CEIL, 0, true}}, {"trunc", {Code::TRUNC, 0, true}}, {"round", {Code::ROUND, 32}},
        {"add", {Code::ADD}}, {"sub", {Code::SUB}}, {"mul", {Code::MUL}}, {"div", {Code::DIV}},
        {"maximum", {Code::MAXIMUM}}, {"minimum", {Code::MINIMUM}},
        {"adds", {Code::ADDS}}, {"subs", {Code::SUBS}}, {"muls", {Code::MULS}}, {"divs", {Code::DIVS}},
        {"maxs", {Code::MAXS}}, {"mins", {Code::MINS}},
        {"eq", {Code::CMP, 512}}, {"ne", {Code::CMP, 512}}, {"lt", {Code::CMP, 512}}, {"le", {Code::CMP, 512}},
        {"gt", {Code::CMP, 512}}, {"ge", {Code::CMP, 512}},
        {"eqs", {Code::CMPS, 512}}, {"nes", {Code::CMPS, 512}}, {"lts", {Code::CMPS, 512}},
        {"les", {Code::CMPS, 512}}, {"gts", {Code::CMPS, 512}}, {"ges", {Code::CMPS, 512}},
        {"logical_and", {Code::LOGICALAND, 20768}}, {"logical_or", {Code::LOGICALOR, 20768}},
        {"logical_not", {Code::LOGICALNOT, 20768}},
        {"cast", {Code::CAST}}, {"clone", {Code::REGISTER_COPY}}, {"fillpad", {Code::FILLPAD}},
        {"tril", {Code::TRIUL}}, {"triu", {Code::TRIUL}}, {"expm1", {Code::EXPM1, 32}}, {"cumsum", {Code::CUM_SUM}},
        {"pow", {Code::POW, -1}}, {"sign", {Code::SIGN, 32}},
        // functions that the chip computes by a sequence of instructions (cost/function_opcodes.h)
        {"pows", {Code::POW, -1}}, {"exp2", {Code::EXP2, 0, true}}, {"sin", {Code::SIN, 0, true}},
        {"cos", {Code::COS, 0, true}}, {"tan", {Code::TAN, 0, true}}, {"asin", {Code::ASIN, 0, true}},
        {"acos", {Code::ACOS, 0, true}}, {"atan", {Code::ATAN, 0, true}}, {"atan2", {Code::ATAN2, 0, true}},
        {"sinh", {Code::SINH, 0, true}}, {"cosh", {Code::COSH, 0, true}}, {"asinh", {Code::ASINH, 0, true}},
        {"acosh", {Code::ACOSH, 0, true}}, {"atanh", {Code::ATANH, 0, true}}, {"erfc", {Code::ERFC, 0, true}},
        {"cbrt", {Code::CBRT, 0, true}}, {"hypot", {Code::HYPOT, 0, true}}, {"copysign", {Code::COPYSIGN}},
        {"fmod", {Code::FMOD, 0, true}}, {"fmods", {Code::FMOD, 0, true}},
        {"remainder", {Code::REMAINDER, 0, true}}, {"remainders", {Code::REMAINDER, 0, true}},
        {"rremainders", {Code::REMAINDER, 0, true}},
        {"floor_div", {Code::FLOORDIV, 0, true}}, {"floor_divs", {Code::FLOORDIV, 0, true}},
        {"ceil_div", {Code::CEILDIV}}, {"ceil_divs", {Code::CEILDIV}}, {"gcd", {Code::GCD}}, {"gcds", {Code::GCD}},
        {"bitwise_not", {Code::BITNOT}}, {"bitwise_and", {Code::BITAND}}, {"bitwise_ands", {Code::BITAND}},
        {"bitwise_or", {Code::BITOR}}, {"bitwise_ors", {Code::BITOR}}, {"bitwise_xor", {Code::BITXOR}},
        {"bitwise_xors", {Code::BITXOR}}, {"shift_lefts", {Code::SHIFT}}, {"shift_rights", {Code::SHIFT}},
        {"shift_left", {Code::SHIFT_TENSOR}}, {"shift_right", {Code::SHIFT_TENSOR}},
        {"rshift_lefts", {Code::SHIFT_TENSOR}}, {"rshift_rights", {Code::SHIFT_TENSOR}},
        {"cumprod", {Code::CUM_PROD}},
    };
    return table;
}

}  // namespace

void BlockBuilder::operation(const Visit& v) {
    op_ = &p_.ops[item_->a];
    const OpRow& row = op_rows()[op_->row];
    const std::string& k = row.kernel;
    std::vector<Id> in;
    in.resize(op_->ins.count);
    for (int i = op_->ins.count - 1; i >= 0; --i) in[i] = read(p_.id_at(op_->ins)[i]);
    const int64_t* ints = p_.ints.data() + op_->ints.begin;

    if (k == "view") return simple_move(Family::VIEW, Code::VIEW, in[0], v);
    if (k == "reshape" || k == "unsqueeze" || k == "squeeze") return simple_move(Family::RESHAPE, Code::RESHAPE, in[0], v);
    if (k == "matmul") return matmul(in, ints);
    if (k == "argmax" || k == "argmin") return reduce(k, in[0], static_cast<int>(ints[0]));
    if (k == "log2" || k == "log10") return chain(in[0], {Code::LN, Code::DIVS});
    if (k == "log1p") return log1p(in[0]);
    if (k == "sum" || k == "amax" || k == "amin" || k == "prod") return reduce(k, in[0], static_cast<int>(ints[0]));
    if (k == "where") return where(in, ints);
    if (k == "rsubs") return chain(in[0], {Code::SUBS, Code::MULS});
    if (k == "rdivs") return chain(in[0], {Code::RECIPROCAL, Code::MULS});
    if (k == "full" || k == "arange") return fill(k == "full" ? Code::VEC_DUP : Code::RANGE);
    if (k == "concat") return concat(in, static_cast<int>(ints[0]));
    if (k == "expand") {
        Result r = result(0);
        Id y = broadcast(in[0], r.exact);
        return define(r.program, y);
    }
    if (k == "transpose") return transpose(in[0], ints);
    if (k == "topk") return topk(in[0], ints[0]);
    if (k == "index_select") {
        Result r = result(0);
        emit({.family = Family::GATHER, .code = Code::GATHER, .in = in, .out = {r.exact}, .axis = static_cast<int>(ints[0]),
              .op_name = row.name});
        return define(r.program, r.exact);
    }
    if (k == "gather") {
        Result r = result(0);
        emit({.family = Family::GATHER_AXIS, .code = Code::GATHER_ELEMENT, .in = in, .out = {r.exact},
              .axis = static_cast<int>(ints[0]), .op_name = row.name});
        return define(r.program, r.exact);
    }
    if (k == "scatter" || k == "scatter_update") {
        Result r = result(0);
        emit({.family = Family::SCATTER, .code = k == "scatter" ? Code::SCATTER_ELEMENT : Code::INDEX_OUTCAST, .in = in,
              .out = {r.exact}, .axis = static_cast<int>(ints[0]), .op_name = row.name});
        return define(r.program, r.exact);
    }
    if (k == "deinterleave" || k == "gathermask") {
        std::vector<Id> outs;
        std::vector<Result> results;
        for (int i = 0; i < op_->outs.count; ++i) {
            results.push_back(result(i));
            outs.push_back(results.back().exact);
        }
        emit({.family = Family::WHOLE_AXIS, .code = k == "gathermask" ? Code::GATHER_MASK : Code::DEINTERLEAVE, .in = in,
              .out = outs, .op_name = row.name});
        for (const Result& r : results) define(r.program, r.exact);
        return;
    }
    if (info(static_cast<Opcode>(op_->opcode)).family == npu::Family::OTHER) return other(row, in, ints);
    auto it = elementwise().find(k);
    Simple simple = it != elementwise().end() ? it->second : Simple{Code::UNKNOWN_VEC};
    if (it == elementwise().end()) b_.unmodelled.push_back(row.name + " (no cost rule; one vector pass over the tile)");
    map(simple, in);
}

void BlockBuilder::other(const OpRow& row, std::vector<Id> in, const int64_t* ints) {
    const std::string& k = row.kernel;
    if (k == "scaled_matmul") return scaled_product(in, ints);
    if (k == "conv") return convolution(in, ints);
    if (k == "bitcast") return bitcast(in[0]);
    if (k == "index_add" || k == "index_put") return index_update(std::move(in), k == "index_put");
    static const std::unordered_map<std::string, Code> codes = {
        {"one_hot", Code::ONE_HOT}, {"interleave", Code::INTERLEAVE}, {"pack4", Code::PACK_BITS},
        {"unpack4", Code::PACK_BITS}, {"unpack_bits", Code::PACK_BITS}, {"quant_mx", Code::QUANT_MX},
        {"philox", Code::PHILOX}, {"sort32", Code::SORT32}, {"mrgsort", Code::MERGE_RUNS}};
    auto it = codes.find(k);
    if (it == codes.end()) b_.unmodelled.push_back(row.name + " (no cost rule; one vector pass over the result)");
    std::vector<Id> outs;
    std::vector<Result> results;
    for (int i = 0; i < op_->outs.count; ++i) {
        results.push_back(result(i));
        outs.push_back(results.back().exact);
    }
    for (Id& x : in)
        if (promotes(dtype(x))) x = widen(x);
    emit({.family = Family::SCALED, .code = it == codes.end() ? Code::UNKNOWN_VEC : it->second, .in = in, .out = outs,
          .op_name = row.name});
    for (const Result& r : results) finish(r);
}

}  // namespace npu::plan
