// Matrix products, batched, split along K or with scales, and convolutions.
#include <algorithm>

#include "npu_core/plan/block_builder.h"

namespace npu::plan {

Shape BlockBuilder::two(const Shape& s) {
    Shape t;
    t.rank = 2;
    t[0] = s[s.rank - 2];
    t[1] = s[s.rank - 1];
    return t;
}

void BlockBuilder::scaled_product(const std::vector<Id>& in, const int64_t* ints) {
    std::vector<Id> operands{in[0], in[1]};
    // FP4 that is packed along K in both operands goes by its bytes.
    const bool packed_k = is_packed4(dtype(in[0])) && is_packed4(dtype(in[1])) && !ints[0] && ints[1];
    for (size_t i = 0; i < 2; ++i) {
        auto with_scales = [&](Shape s) {
            if (!packed_k && is_packed4(dtype(in[i]))) s[s.rank - 1] *= 2;
            const int k = ((i == 0) != (ints[i] != 0)) ? s.rank - 1 : s.rank - 2;
            s[k] += ceil_div(s[k] * (packed_k ? 2 : 1), 32);
            return s;
        };
        operands[i] = reshaped(in[i], with_scales(shape(in[i])), packed_k ? dtype(in[i]) : DType::F8E4M3);
        b_.tensors[operands[i]].valid = with_scales(valid(in[i]));
    }
    if (ints[2]) operands.push_back(in[4]);
    matmul(operands, ints);
}

void BlockBuilder::convolution(const std::vector<Id>& in, const int64_t* ints) {
    Result r = result(0);
    const Shape out = shape(r.exact), weight = shape(in[1]);
    const int64_t groups = ints[0], columns = out[1] / groups;
    Shape a = zeros(2), b = zeros(2), c = zeros(2), made = zeros(2);
    a[0] = c[0] = made[0] = out.count() / out[1];
    a[1] = b[1] = weight.count() / weight[0];
    b[0] = c[1] = columns;
    made[1] = out[1];
    const Id whole = tensor(made, dtype(r.exact));
    for (int64_t g = 0; g < groups; ++g) {
        const Id product = groups == 1 ? whole : tensor(c, dtype(r.exact));
        BlockOp op{.family = Family::MATMUL, .code = Code::MATMUL_TILE,
                   .in = {reshaped(in[0], a, dtype(in[0])), reshaped(in[1], b, dtype(in[1]))}, .out = {product}};
        if (in.size() > 2) {
            Shape row = zeros(2);
            row[0] = 1;
            row[1] = columns;
            op.in.push_back(reshaped(in[2], row, dtype(in[2])));
            op.has_bias = true;
        }
        op.b_trans = true;
        op.cube = p_.tiles[op_->tile].cube;
        op.op_name = name();
        emit(op);
        if (groups == 1) break;
        Shape at = zeros(2);
        at[1] = g * columns;
        emit({.family = Family::ASSEMBLE, .code = Code::ASSEMBLE, .in = {product}, .out = {whole}, .at = at});
    }
    emit({.family = Family::RESHAPE, .code = Code::RESHAPE, .in = {whole}, .out = {r.exact}});
    define(r.program, r.exact);
}

void BlockBuilder::matmul(const std::vector<Id>& in, const int64_t* ints) {
    Result r = result(0);
    const std::vector<int64_t>& cube = p_.tiles[op_->tile].cube;
    const int rank = shape(r.exact).rank;
    BlockOp op{.family = Family::MATMUL, .code = Code::MATMUL_TILE, .in = in, .out = {r.exact}};
    op.a_trans = ints[0] != 0;
    op.b_trans = ints[1] != 0;
    op.has_bias = ints[2] != 0 && in.size() > 2;
    op.cube = cube;
    if (is_packed4(dtype(in[0])))
        for (size_t i : {2, 3, 4}) op.cube[i] = ceil_div(op.cube[i], 2);
    op.op_name = name();
    if (rank == 2) {
        if (p_.tiles[op_->tile].split_k) split_k(op);
        else emit(op);
        return define(r.program, r.exact);
    }
    // One 2-D product per batch entry: operands flattened to 2-D and viewed, the result reshaped and assembled.
    const Shape out = shape(r.exact);
    int64_t batch = 1;
    for (int i = 0; i < rank - 2; ++i) batch *= out[i];
    std::vector<Id> flat = in;
    for (size_t i = 0; i < in.size() && i < 2; ++i) {
        const Shape s = shape(in[i]);
        if (s.rank < 3) continue;
        Shape rows = two(s);
        rows[0] = s.count() / std::max<int64_t>(s[s.rank - 1], 1);
        flat[i] = tensor(rows, dtype(in[i]));
        emit({.family = Family::RESHAPE, .code = Code::RESHAPE, .in = {in[i]}, .out = {flat[i]}});
    }
    for (int64_t b = 0; b < batch; ++b) {
        std::vector<Id> parts;
        for (size_t i = 0; i < in.size(); ++i) {
            const Shape s = shape(in[i]);
            if (i >= 2 || s.rank < 3) { parts.push_back(in[i]); continue; }
            int64_t rest = b, entry = 0, scale = 1;
            for (int d = s.rank - 3; d >= 0; --d) {
                const int64_t extent = out[rank - s.rank + d];
                entry += (s[d] == 1 ? 0 : rest % extent) * scale;
                scale *= s[d];
                rest /= extent;
            }
            Shape at = zeros(2);
            at[0] = entry * s[s.rank - 2];
            Id view = tensor(two(s), dtype(in[i]), two(valid(in[i])));
            emit({.family = Family::VIEW, .code = Code::VIEW, .in = {flat[i]}, .out = {view}, .at = at});
            parts.push_back(view);
        }
        Shape one = out, at = zeros(rank);
        int64_t rest = b;
        for (int d = rank - 3; d >= 0; --d) { at[d] = rest % out[d]; one[d] = 1; rest /= out[d]; }
        const Shape part = within(valid(r.exact), at, one);
        bool inside = true;                          // this entry of the batch is valid
        for (int d = 0; d < rank - 2; ++d) inside = inside && part[d];
        Id c = tensor(two(one), dtype(r.exact), inside ? two(part) : zeros(2)), back = tensor(one, dtype(r.exact), part);
        BlockOp product = op;
        product.in = parts;
        product.out = {c};
        emit(product);
        emit({.family = Family::RESHAPE, .code = Code::RESHAPE, .in = {c}, .out = {back}});
        emit({.family = Family::ASSEMBLE, .code = Code::ASSEMBLE, .in = {back}, .out = {r.exact}, .at = at});
    }
    define(r.program, r.exact);
}

void BlockBuilder::split_k(const BlockOp& op) {
    const Shape a = shape(op.in[0]);
    const int64_t k = op.a_trans ? a[0] : a[1], step = op.cube[3];
    if (k <= step) return emit(op);
    Id sum = NONE;
    for (int64_t at = 0; at < k; at += step) {
        const int64_t len = std::min(step, k - at);
        auto part = [&](Id x, int axis) {
            Shape s = shape(x), offset = zeros(2);
            s[axis] = len;
            offset[axis] = at;
            Id y = tensor(s, dtype(x), within(valid(x), offset, s));
            emit({.family = Family::VIEW, .code = Code::VIEW, .in = {x}, .out = {y}, .at = offset});
            return y;
        };
        BlockOp product = op;
        product.in = {part(op.in[0], op.a_trans ? 0 : 1), part(op.in[1], op.b_trans ? 1 : 0)};
        product.out = {like(op.out[0], dtype(op.out[0]))};
        emit(product);
        if (sum == NONE) { sum = product.out[0]; continue; }
        Id next = at + step >= k ? op.out[0] : like(op.out[0], dtype(op.out[0]));
        BlockOp add{.family = Family::ELEMENTWISE, .code = Code::ADD, .in = {sum, product.out[0]}, .out = {next}};
        add.op_name = op.op_name;
        add.tile = zeros(2);
        const bool fits = 2 * op.cube[0] * op.cube[5] * 4 <= chip_.capacity[static_cast<int>(Mem::UB)];
        add.tile[0] = fits ? op.cube[0] : 128;
        add.tile[1] = fits ? op.cube[5] : 128;
        emit(add);
        sum = next;
    }
}

}  // namespace npu::plan
