// Source: hicann/pypto@r0.2.0 passes/tensor_graph_pass/auto_cast.cpp, op lists of interface/operation/opcode.h.
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "npu_core/lowering/expand.h"

namespace npu::lowering {
namespace {

using Set = std::unordered_set<std::string_view>;

const Set NO_BF16 = {
    "EXP", "RSQRT", "SQRT", "RELU", "RECIPROCAL", "ABS", "LN", "LOGICALNOT", "LOGICALAND", "TRIUL", "REM", "REMS", "REMRS",
    "MOD", "MODS", "ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "ADD_BRC", "SUB_BRC", "MUL_BRC", "DIV_BRC", "MAX_BRC",
    "MIN_BRC", "S_ADD", "S_SUB", "S_MUL", "S_DIV", "S_MAX", "S_MIN", "ADDS", "SUBS", "MULS", "DIVS", "MAXS", "MINS",
    "S_ADDS", "S_SUBS", "S_MULS", "S_DIVS", "S_MAXS", "S_MINS", "NEG", "WHERE_TT", "WHERE_TS", "WHERE_ST", "WHERE_SS",
    "PRELU", "LReLU", "ROWMAX", "ROWSUM", "ROWEXPMAX", "ROWEXPSUM", "ROWMAX_SINGLE", "ROWSUM_SINGLE", "ROWMIN_SINGLE",
    "ROWPROD_SINGLE", "ROWMAX_COMBINE_AXIS_SINGLE", "ROWSUM_COMBINE_AXIS_SINGLE", "ROWSUMLINE", "ROWMAXLINE", "ROWMINLINE",
    "ROWPRODLINE", "SIGN", "COPYSIGN", "BITWISEAND", "BITWISEANDS", "BITWISEOR", "BITWISEORS", "BITWISEXOR", "BITWISEXORS",
    "BITWISENOT", "BITWISELEFTSHIFT", "BITWISELEFTSHIFTS", "BITWISERIGHTSHIFT", "BITWISERIGHTSHIFTS", "SBITWISELEFTSHIFT",
    "SBITWISERIGHTSHIFT", "EXPANDEXPDIF",
};
const Set NO_FP16 = {"MOD", "MODS", "REM", "REMS", "REMRS"};

bool widen(Graph& g, DType narrow, const Set& unsupported) {
    std::unordered_map<int32_t, int32_t> wide_of;   // 16-bit tensor -> its fp32 form
    bool any = false;
    auto cast = [&](int32_t from, int32_t to, const Op& like) {
        const int32_t tile = like.tile, scope = like.scope, source = like.source;
        const int32_t id = g.add_op(Opcode::CAST, {from}, {to});
        g.ops[id].tile = tile;
        g.ops[id].scope = scope;
        g.ops[id].source = source;
        any = true;
    };
    for (int32_t id : std::vector<int32_t>(g.order)) {
        if (!unsupported.count(facts(g.ops[id].code).name)) continue;
        for (int32_t t : Ids(g.ops[id].in)) {
            if (g.tensors[t].dtype != narrow || !g.ops[id].in.contains(t)) continue;
            auto it = wide_of.find(t);
            if (it == wide_of.end()) {
                const int32_t wide = g.add_fresh(g.tensors[t].shape, DType::F32);
                g.tensors[wide].valid = g.tensors[t].valid;
                cast(t, wide, g.ops[id]);
                it = wide_of.emplace(t, wide).first;
            }
            g.replace_input(id, t, it->second);
        }
        for (int32_t t : Ids(g.ops[id].out)) {
            if (g.tensors[t].dtype != narrow) continue;
            const int32_t wide = g.add_fresh(g.tensors[t].shape, DType::F32);
            g.tensors[wide].valid = g.tensors[t].valid;
            g.replace_output(id, t, wide);
            cast(wide, t, g.ops[id]);
            wide_of[t] = wide;
        }
    }
    return any;
}

}  // namespace

void auto_cast(Graph& g) {
    sort_if_stale(g);
    const bool bf16 = widen(g, DType::BF16, NO_BF16), fp16 = widen(g, DType::F16, NO_FP16);
    if (bf16 || fp16) sort_ops(g);
}

}  // namespace npu::lowering
