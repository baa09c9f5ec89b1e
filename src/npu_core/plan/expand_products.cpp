// Output tiles of matrix products with their k chains.
#include <algorithm>

#include "npu_core/plan/tile_expander.h"

namespace npu::plan {

namespace {

// Sum of the latencies of all operations of the chain (partition and in-core scheduler).
int32_t chain_latency(const Matmul& mm) {
    auto lat = [](int64_t elements, DType t) {
        int64_t size = dtype_size_bytes(t), r = std::max<int64_t>(1, (256 / size) / 128);
        return 10 + (ceil_div(elements * size, 256) - 1) * r;
    };
    int64_t sum = 0;
    for (int64_t kk = 0; kk < mm.k; kk += mm.k_l0) {
        const int64_t kl = std::min(mm.k_l0, mm.k - kk);
        if (mm.a_direct && kk % mm.k_l1a == 0) sum += lat(mm.m * std::min(mm.k_l1a, mm.k - kk), mm.in);
        if (mm.b_direct && kk % mm.k_l1b == 0) sum += lat(mm.n * std::min(mm.k_l1b, mm.k - kk), mm.in);
        sum += lat(mm.m * kl, mm.in) + lat(kl * mm.n, mm.in);
        int64_t most = std::max(mm.m * kl, kl * mm.n);
        if (kk > 0) most = std::max(most, mm.m * mm.n);
        sum += lat(most, mm.in);
    }
    if (mm.bias) sum += 2 * lat(mm.n, mm.in);
    return static_cast<int32_t>(std::min<int64_t>(sum, 2000000000));
}

}  // namespace

bool TileExpander::direct(Id t, Id& source, Shape& at, Id& dyn) {
    Produced& p = produced(t);
    if (p.tiles.size() != 1 || !(g_.tensors[p.tiles[0]].shape == shape(t))) return false;
    Id id = p.tiles[0];
    at = zeros(shape(t).rank);
    dyn = NONE;
    while (!g_.tensors[id].fn_in) {
        const Tensor& tile = g_.tensors[id];
        if (tile.producers.size() != 1) return false;
        const Op& op = g_.ops[tile.producers[0]];
        if (op.code == Code::RESHAPE) break;   // stays a tensor in GM
        if (op.code != Code::VIEW) return false;
        at = plus(at, op.at);
        dyn = g_.dyn_sum(op.dyn, dyn);
        id = op.in[0];
    }
    source = id;
    return true;
}

void TileExpander::matmul(const BlockOp& op) {
    const Shape a = shape(op.in[0]), c = shape(op.out[0]);
    const int64_t m = c[0], n = c[1], k = op.a_trans ? a[0] : a[1];
    const int64_t m0 = op.cube[0], k0 = op.cube[2], n0 = op.cube[5];
    const int64_t ka = std::max(op.cube[3], k0), kb = std::max(op.cube[4] ? op.cube[4] : op.cube[3], k0);
    Id a_src = NONE, b_src = NONE, bias_src = NONE, a_dyn = NONE, b_dyn = NONE, bias_dyn = NONE;
    Shape a_base, b_base, bias_base;
    const bool a_direct = direct(op.in[0], a_src, a_base, a_dyn);
    const bool b_direct = direct(op.in[1], b_src, b_base, b_dyn);
    const bool bias_direct = op.has_bias && direct(op.in[2], bias_src, bias_base, bias_dyn);
    const DType in_type = dtype(op.in[0]);
    const Shape &valid_a = b_.tensors[op.in[0]].valid, &valid_b = b_.tensors[op.in[1]].valid, &valid_c = b_.tensors[op.out[0]].valid;
    const int64_t valid_k = std::min(valid_a[op.a_trans ? 0 : 1], valid_b[op.b_trans ? 1 : 0]);
    int32_t latencies[] = {-1, -1, -1, -1};      // of whole tiles and of the shorter last ones along either axis
    for (int64_t nj = 0; nj < n; nj += n0) {
        const int64_t nl = std::min(n0, n - nj);
        for (int64_t mi = 0; mi < m; mi += m0) {
            const int64_t ml = std::min(m0, m - mi);
            const int64_t valid_m = std::clamp<int64_t>(valid_c[0] - mi, 0, ml), valid_n = std::clamp<int64_t>(valid_c[1] - nj, 0, nl);
            Matmul mm{.m = ml, .n = nl, .k = k, .valid_m = valid_m, .valid_n = valid_n,
                      .valid_k = valid_m && valid_n ? valid_k : 0, .k_l0 = std::min(k0, k), .k_l1a = ka, .k_l1b = kb, .in = in_type,
                      .acc = in_type == DType::I8 ? DType::I32 : DType::F32};
            mm.a_trans = op.a_trans;
            mm.b_trans = op.b_trans;
            mm.bias = op.has_bias;
            mm.a_direct = a_direct;
            mm.b_direct = b_direct;
            std::vector<Id> in;
            auto chunks = [&](Id t, int k_axis, int64_t k_step, int64_t from, int64_t extent) {
                for (int64_t kk = 0; kk < k; kk += k_step) {
                    Shape at = zeros(2), size = zeros(2);
                    at[k_axis] = kk;
                    at[1 - k_axis] = from;
                    size[k_axis] = std::min(k_step, k - kk);
                    size[1 - k_axis] = extent;
                    Id l1 = g_.add_fresh(size, dtype(t)), box = ask_whole(t);
                    if (partial(t)) g_.set_valid(l1, within(b_.tensors[t].valid, at, size));
                    Id view = g_.add_op(Code::VIEW, {box}, {l1}, src_);
                    g_.ops[view].at = at;
                    g_.ops[view].to = Mem::L1;
                    g_.ops[view].keep = true;
                    in.push_back(l1);
                }
            };
            if (a_direct) {
                in.push_back(a_src);
                mm.a_at = a_base;
                mm.a_at[op.a_trans ? 1 : 0] += mi;
                mm.a_dyn = a_dyn;
            } else {
                chunks(op.in[0], op.a_trans ? 0 : 1, ka, mi, ml);
            }
            if (b_direct) {
                in.push_back(b_src);
                mm.b_at = b_base;
                mm.b_at[op.b_trans ? 0 : 1] += nj;
                mm.b_dyn = b_dyn;
            } else {
                chunks(op.in[1], op.b_trans ? 1 : 0, kb, nj, nl);
            }
            if (op.has_bias) {
                if (bias_direct) {
                    in.push_back(bias_src);
                    mm.bias_at = bias_base;
                    mm.bias_at[1] += nj;
                    mm.bias_dyn = bias_dyn;
                } else {
                    in.push_back(ask_whole(op.in[2]));
                    mm.bias_at = zeros(2);
                    mm.bias_at[1] = nj;
                }
            }
            Shape at = zeros(2), extent = zeros(2);
            at[0] = mi; at[1] = nj;
            extent[0] = ml; extent[1] = nl;
            Id id = g_.add_op(Code::MATMUL_TILE, in, {make_tile(op.out[0], at, extent)}, src_);
            g_.ops[id].mm = static_cast<Id>(g_.matmuls.size());
            int32_t& latency = latencies[(ml < m0) + 2 * (nl < n0)];
            if (latency < 0) latency = chain_latency(mm);
            g_.ops[id].latency = latency;
            g_.matmuls.push_back(mm);
        }
    }
}

}  // namespace npu::plan
