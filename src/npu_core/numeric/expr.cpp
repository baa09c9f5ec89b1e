// Machine: run-time integer expressions.
#include "npu_core/numeric/machine.h"
#include "npu_core/program/evaluate.h"

namespace npu {

namespace {

// Operands have smaller ids than the expression, so a pass in id order evaluates any depth.
int64_t eval_in_order(const Program& p, const std::vector<int64_t>& scalars, Id e) {
    if (e < 0) return 0;
    std::vector<int64_t> v(static_cast<size_t>(e) + 1);
    std::vector<uint8_t> needed(static_cast<size_t>(e) + 1, 0);
    needed[e] = 1;
    for (Id i = e; i >= 0; --i) {
        if (!needed[i]) continue;
        if (p.exprs[i].a != NONE) needed[p.exprs[i].a] = 1;
        if (p.exprs[i].b != NONE) needed[p.exprs[i].b] = 1;
    }
    for (Id i = 0; i <= e; ++i) {
        const Expr& x = p.exprs[i];
        if (!needed[i]) continue;
        if (x.op == ExprOp::CONST) v[i] = x.value;
        else if (x.op <= ExprOp::LOAD) v[i] = scalars[x.value];
        else v[i] = evaluate(x.op, v[x.a], x.b == NONE ? 0 : v[x.b]);
    }
    return v[e];
}

int64_t eval_tree(const Program& p, const std::vector<int64_t>& scalars, Id e) {
    const Expr& x = p.exprs[e];
    if (x.op == ExprOp::CONST) return x.value;
    if (x.op <= ExprOp::LOAD) return scalars[x.value];
    return evaluate(x.op, eval_tree(p, scalars, x.a), x.b == NONE ? 0 : eval_tree(p, scalars, x.b));
}

constexpr int MOST_NODES = 100;  // beyond: shared operands are worth keeping

}  // namespace

void Machine::measure_exprs() {
    for (size_t i = expr_nodes_.size(); i < p_.exprs.size(); ++i) {
        const Expr& x = p_.exprs[i];
        const int nodes = 1 + (x.a == NONE ? 0 : expr_nodes_[x.a]) + (x.b == NONE ? 0 : expr_nodes_[x.b]);
        expr_nodes_.push_back(static_cast<uint8_t>(nodes > MOST_NODES ? MOST_NODES + 1 : nodes));
    }
}

int64_t Machine::eval(Id e) const {
    return expr_nodes_[e] <= MOST_NODES ? eval_tree(p_, scalars_, e) : eval_in_order(p_, scalars_, e);
}

}  // namespace npu
