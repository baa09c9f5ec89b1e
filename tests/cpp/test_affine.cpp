// Scalars as lines over the blocks of a loop: random expressions of the loop index against their values block by block.
#include "check.h"
#include "npu_core/program/affine.h"

namespace {

using npu::Affine;
using npu::ExprOp;

struct Node {
    ExprOp op;
    int a = -1, b = -1;
    int64_t value = 0;
};
using Tree = std::vector<Node>;      // operands come first

int64_t value_of(const Tree& tree, int at, int64_t index) {
    const Node& n = tree[at];
    if (n.op == ExprOp::CONST) return n.value;
    if (n.op == ExprOp::INDEX) return index;
    return npu::evaluate(n.op, value_of(tree, n.a, index), n.b < 0 ? 0 : value_of(tree, n.b, index));
}

Affine line_of(const Tree& tree, int at, int64_t index, int64_t pace) {
    const Node& n = tree[at];
    if (n.op == ExprOp::CONST) return {n.value, true};
    if (n.op == ExprOp::INDEX) return npu::affine::line(index, pace);
    return npu::evaluate(n.op, line_of(tree, n.a, index, pace), n.b < 0 ? Affine{0, true} : line_of(tree, n.b, index, pace));
}

Tree random_tree(std::mt19937& rng) {
    auto below = [&rng](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
    Tree tree{{ExprOp::INDEX}};
    for (int c = 0; c < 3; ++c) tree.push_back({ExprOp::CONST, -1, -1, below(41) - 20});
    for (int i = 0; i < 6; ++i) {
        constexpr ExprOp ops[] = {ExprOp::ADD, ExprOp::MUL, ExprOp::FLOORDIV, ExprOp::MOD, ExprOp::MIN, ExprOp::MAX,
                                  ExprOp::GE0, ExprOp::EQ0};
        Node n{ops[below(8)], below(static_cast<int>(tree.size())), below(static_cast<int>(tree.size()))};
        if (n.op == ExprOp::GE0 || n.op == ExprOp::EQ0) n.b = -1;
        if (n.op == ExprOp::FLOORDIV || n.op == ExprOp::MOD) {
            n.b = static_cast<int>(tree.size());
            tree.push_back({ExprOp::CONST, -1, -1, below(17) ? below(16) + 1 : -3});
        }
        tree.push_back(n);
    }
    return tree;
}

}  // namespace

int main() {
    std::mt19937 rng(7);
    int64_t long_ones = 0;
    for (int round = 0; round < 20000; ++round) {
        const Tree tree = random_tree(rng);
        const int root = static_cast<int>(tree.size()) - 1;
        const int64_t index = static_cast<int64_t>(rng() % 60) - 20, pace = static_cast<int64_t>(rng() % 9) - 2;
        const Affine line = line_of(tree, root, index, pace);
        const int64_t blocks = std::min<int64_t>(line.blocks, 100);
        long_ones += blocks == 100;
        for (int64_t k = 0; k <= blocks; ++k) {
            const int64_t is = value_of(tree, root, index + k * pace), said = line.value + k * line.slope;
            CHECK(is == said, "round %d, block %lld of %lld: %lld, the line says %lld", round, static_cast<long long>(k),
                  static_cast<long long>(line.blocks), static_cast<long long>(is), static_cast<long long>(said));
        }
    }
    CHECK(long_ones > 5000, "only %lld of 20000 lines hold on", static_cast<long long>(long_ones));
    return report("affine");
}
