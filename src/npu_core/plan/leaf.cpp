#include "npu_core/plan/leaf.h"

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>

namespace npu::plan {

namespace {

using cost::Pipe;

// Local tiles as they lie in memory: rows of whole 32-byte blocks; matrix operands in fractals.
Shape padded(const Shape& s, DType t, Mem mem) {
    Shape p = s;
    if (p.rank == 0) return p;
    const int64_t size = dtype_size_bytes(t);
    int64_t& last = p[p.rank - 1];
    switch (mem) {
        case Mem::UB: last = round_up(last, 32 / size); break;
        case Mem::BT: last = round_up(last, 64 / size); break;
        case Mem::L1: case Mem::L0A: case Mem::L0B: case Mem::L0C: {
            if (p.rank < 2) break;
            const int64_t unit = size == 1 && mem != Mem::L0C ? 32 : 16;
            p[p.rank - 2] = round_up(p[p.rank - 2], unit);
            last = round_up(last, unit);
            break;
        }
        default: break;
    }
    return p;
}

// What makes two loads of a matrix product the same.
using Window = std::array<int64_t, 8>;

struct Step {
    std::array<int64_t, 8> key;
    LeafTensor a, b, c;
    int32_t a_latency, b_latency, first_latency, later_latency;
};

struct Builder {
    const Graph& g;
    const SubGraph& s;
    bool share;
    Leaf leaf;
    std::unordered_map<Id, int32_t> known{};
    std::unordered_map<Window, int32_t, KeyHash> loads{};   // L1 loads of matrix products, one per window
    std::unordered_map<Window, size_t, KeyHash> strips{};   // operands of output tiles: their place in strip_tiles
    std::vector<int32_t> strip_tiles{};
    std::deque<Step> steps{};

    // The steps of matrix products are known beforehand; loads come on top, one a step and operand at most.
    void reserve() {
        size_t steps = 0;
        for (Id id : s.ops)
            if (const Id mm = g.ops[id].mm; mm != NONE) steps += static_cast<size_t>(ceil_div(g.matmuls[mm].k, g.matmuls[mm].k_l0));
        if (steps == 0) return;
        leaf.ops.reserve(s.ops.size() + 4 * steps);
        leaf.tensors.reserve(2 * s.ops.size() + 4 * steps);
    }

    LeafTensor kind(Mem mem, const Shape& tile, const Shape& valid, DType t, Id graph = NONE) {
        return {mem, t, leaf.shapes(tile), leaf.shapes(valid), bytes_of(padded(tile, t, mem), t), -1, graph};
    }
    int32_t add(Mem mem, const Shape& tile, const Shape& valid, DType t, Id graph = NONE) { return add(kind(mem, tile, valid, t, graph)); }
    int32_t add(const LeafTensor& t) {
        leaf.tensors.push_back(t);
        return static_cast<int32_t>(leaf.tensors.size()) - 1;
    }
    int32_t tensor(Id id, DType as) {
        auto [it, added] = known.try_emplace(id, -1);
        if (!added) return it->second;
        const Tensor& t = g.tensors[id];
        // A tile in the memory of the other core type (950) takes no room here.
        const bool cube_memory = t.mem != Mem::UB && t.mem != Mem::GM && t.mem != Mem::NONE;
        const bool foreign = (s.core == cost::Core::AIV && cube_memory) || (s.core == cost::Core::AIC && t.mem == Mem::UB);
        return it->second = add(foreign ? Mem::GM : t.mem, t.shape, g.valid_of(id), as, id);
    }
    int32_t tensor(Id id) {
        const Tensor& t = g.tensors[id];
        DType as = t.dtype;
        if (t.mem == Mem::L0C) as = as == DType::I32 ? DType::I32 : DType::F32;
        return tensor(id, as);
    }

    LeafOp& push(Code code, Pipe pipe, const Operands& in, const Operands& out, int32_t latency, Id src) {
        leaf.ops.push_back({code, pipe, in, out, latency, src});
        return leaf.ops.back();
    }

    // Bytes of GM traffic of one tile and the length of its contiguous runs.
    static void traffic(LeafOp& op, const Shape& tile, const Shape& gm, int64_t size) {
        op.gm_bytes = tile.count() * size;
        const int r = tile.rank;
        const bool whole_rows = r == 0 || gm.rank != r || tile[r - 1] == gm[r - 1];
        op.row_bytes = whole_rows ? 0 : tile[r - 1] * size;
    }

    static void rows_apart(LeafOp& op, const Shape& tile, DType t) {   // each row has its own place in GM
        op.gm_bytes = bytes_of(tile, t);
        op.row_bytes = tile[tile.rank - 1] * dtype_size_bytes(t);
    }

    void graph_op(const Op& op) {
        if (op.mm != NONE) return product(op, g.matmuls[op.mm]);
        Operands in, out;
        for (Id t : op.in) in.push_back(tensor(t));
        for (Id t : op.out) out.push_back(tensor(t));
        Pipe pipe = cost::info(op.code).pipe;
        if (op.code == Code::COPY_OUT && g.tensors[op.in[0]].mem == Mem::L0C) pipe = Pipe::FIX;
        if (op.code == Code::UB_COPY_L1 && s.core == cost::Core::AIC) pipe = Pipe::MTE2;   // charged to the core that waits
        if (op.code == Code::L0C_COPY_UB && s.core == cost::Core::AIV) pipe = Pipe::MTE2;
        LeafOp& made = push(op.code, pipe, in, out, op.latency, op.src);
        if (op.inlined) {
            made.inlined = true;
            LeafTensor& filled = leaf.tensors[out[0]];
            Shape blocks = padded(filled.tile, filled.dtype, filled.mem);
            if (blocks.rank) blocks[blocks.rank - 1] = std::min<int64_t>(blocks[blocks.rank - 1], 32 / dtype_size_bytes(filled.dtype));
            filled.room = bytes_of(blocks, filled.dtype);
        }
        if (op.code == Code::COPY_IN || op.code == Code::TRANSPOSE_MOVEIN) {
            traffic(made, g.valid_of(op.out[0]), g.tensors[op.in[0]].shape, dtype_size_bytes(g.tensors[op.out[0]].dtype));
        } else if (op.code == Code::COPY_OUT) {
            const Tensor& gm = g.tensors[op.out[0]];
            traffic(made, g.moved(op), gm.shape, dtype_size_bytes(gm.dtype));
        } else if (op.code == Code::TRANSPOSE_MOVEOUT || op.code == Code::INDEX_OUTCAST) {
            const Id from = op.code == Code::INDEX_OUTCAST ? op.in.back() : op.in[0];
            rows_apart(made, g.valid_of(from), g.tensors[from].dtype);
        } else if (op.code == Code::GATHER) {
            rows_apart(made, g.valid_of(op.out[0]), g.tensors[op.out[0]].dtype);
            made.gm_bytes += bytes_of(g.valid_of(op.in[1]), g.tensors[op.in[1]].dtype);
        }
    }

    static Shape two(int64_t a, int64_t b) {
        Shape s = zeros(2);
        s[0] = a;
        s[1] = b;
        return s;
    }
    static int32_t lat(int64_t elements, DType t) {
        const int64_t size = dtype_size_bytes(t), r = std::max<int64_t>(1, (256 / size) / 128);
        return static_cast<int32_t>(10 + (ceil_div(elements * size, 256) - 1) * r);
    }

    // The whole k chain of one output tile; loads of equal windows in one task are shared.
    void product(const Op& op, const Matmul& m) {
        if (!share) {
            loads.clear();
            strips.clear();
        }
        const size_t a_parts = m.a_direct ? 1 : static_cast<size_t>(ceil_div(m.k, m.k_l1a));
        const size_t b_parts = m.b_direct ? 1 : static_cast<size_t>(ceil_div(m.k, m.k_l1b));
        const int64_t size = dtype_size_bytes(m.in);
        auto valid_k = [&](int64_t from, int64_t length) { return std::clamp<int64_t>(m.valid_k - from, 0, length); };
        const size_t a_strip = m.a_direct ? strip({(int64_t{op.in[0]} << 32) + m.a_dyn, m.a_at[0], m.a_at[1], m.m, m.valid_m, m.k,
                                                   m.valid_k, m.k_l1a * 4 + m.a_trans * 2}, m.k, m.k_l1a) : 0;
        const size_t b_strip = m.b_direct ? strip({(int64_t{op.in[a_parts]} << 32) + m.b_dyn, m.b_at[0], m.b_at[1], m.n, m.valid_n, m.k,
                                                   m.valid_k, m.k_l1b * 4 + m.b_trans * 2 + 1}, m.k, m.k_l1b) : 0;
        auto l1 = [&](bool is_a, int64_t part) -> int32_t {
            const int64_t step = is_a ? m.k_l1a : m.k_l1b, extent = is_a ? m.m : m.n;
            const bool trans = is_a ? m.a_trans : m.b_trans, direct = is_a ? m.a_direct : m.b_direct;
            const size_t first = is_a ? 0 : a_parts;
            if (!direct) return tensor(op.in[first + static_cast<size_t>(part)]);
            int32_t& made = strip_tiles[(is_a ? a_strip : b_strip) + static_cast<size_t>(part)];
            if (made >= 0) return made;
            const bool k_last = is_a != trans;   // the k axis is the stored last axis
            const int64_t kk = part * step, len = std::min(step, m.k - kk);
            const int64_t side = is_a ? m.valid_m : m.valid_n, deep = valid_k(kk, len);
            const Shape shape = k_last ? two(extent, len) : two(len, extent);
            const Shape valid = k_last ? two(side, deep) : two(deep, side);
            Shape at = is_a ? m.a_at : m.b_at;
            at[k_last ? 1 : 0] += kk;
            const Id from = op.in[first];
            auto [it, added] = loads.try_emplace({from, at[0], at[1], shape[0], shape[1], is_a ? m.a_dyn : m.b_dyn, valid[0], valid[1]}, -1);
            if (!added) return made = it->second;
            const int32_t tile = add(Mem::L1, shape, valid, m.in);
            made = it->second = tile;
            LeafOp& load = push(Code::COPY_IN, Pipe::MTE2, {tensor(from)}, {tile}, lat(shape.count(), m.in), op.src);
            traffic(load, valid, g.tensors[from].shape, size);
            return tile;
        };
        int32_t bias = -1;
        if (m.bias) {
            const Id from = op.in[a_parts + b_parts];
            const DType type = g.tensors[from].dtype;
            const Shape row = two(1, m.n), valid = two(1, m.valid_n);
            auto [it, added] = loads.try_emplace({from, m.bias_at[0], m.bias_at[1], 1, m.n, -2 - m.bias_dyn, m.valid_n, -1}, -1);
            if (added) {
                it->second = add(Mem::L1, row, valid, type);
                leaf.tensors[it->second].room = bytes_of(padded(row, type, Mem::BT), type);   // a bias is one row
                LeafOp& load = push(Code::COPY_IN, Pipe::MTE2, {tensor(from)}, {it->second}, lat(m.n, type), op.src);
                traffic(load, valid, g.tensors[from].shape, dtype_size_bytes(type));
            }
            bias = add(Mem::BT, row, valid, m.acc);
            push(Code::L1_TO_BT, Pipe::MTE1, {it->second}, {bias}, lat(m.n, m.acc), op.src);
        }
        int32_t acc = -1;
        for (int64_t kk = 0; kk < m.k; kk += m.k_l0) {
            const int64_t kl = std::min(m.k_l0, m.k - kk);
            const Step& step = step_of(m, kl, valid_k(kk, kl));
            const int32_t a1 = l1(true, kk / m.k_l1a);
            const int32_t a0 = add(step.a);
            push(m.a_trans ? Code::L1_TO_L0At : Code::L1_TO_L0A, Pipe::MTE1, {a1}, {a0}, step.a_latency, op.src);
            const int32_t b1 = l1(false, kk / m.k_l1b);
            const int32_t b0 = add(step.b);
            push(m.b_trans ? Code::L1_TO_L0Bt : Code::L1_TO_L0B, Pipe::MTE1, {b1}, {b0}, step.b_latency, op.src);
            const bool last = kk + m.k_l0 >= m.k;
            const int32_t c = last ? tensor(op.out[0], m.acc) : add(step.c);
            Operands in{a0, b0};
            if (acc >= 0) in.push_back(acc);
            else if (bias >= 0) in.push_back(bias);
            push(acc >= 0 ? Code::A_MULACC_B : Code::A_MUL_B, Pipe::CUBE, in, {c},
                 acc >= 0 ? step.later_latency : step.first_latency, op.src);
            acc = c;
        }
    }

    // Where the L1 tiles of an operand's strip along k stand in strip_tiles; -1 there: not loaded yet.
    size_t strip(const Window& key, int64_t k, int64_t step) {
        auto [it, added] = strips.try_emplace(key, strip_tiles.size());
        if (added) strip_tiles.resize(strip_tiles.size() + static_cast<size_t>(ceil_div(k, step)), -1);
        return it->second;
    }

    // Tiles and latencies of one step along k: a product has few kinds of steps.
    const Step& step_of(const Matmul& m, int64_t length, int64_t deep) {
        const std::array<int64_t, 8> key{m.m, m.n, m.valid_m, m.valid_n, length, deep, static_cast<int64_t>(m.in), static_cast<int64_t>(m.acc)};
        for (const Step& s : steps)
            if (s.key == key) return s;
        steps.push_back({key, kind(Mem::L0A, two(m.m, length), two(m.valid_m, deep), m.in),
                         kind(Mem::L0B, two(length, m.n), two(deep, m.valid_n), m.in),
                         kind(Mem::L0C, two(m.m, m.n), two(m.valid_m, m.valid_n), m.acc), lat(m.m * length, m.in), lat(m.n * length, m.in),
                         lat(std::max(m.m * length, length * m.n), m.in), lat(std::max({m.m * length, length * m.n, m.m * m.n}), m.in)});
        return steps.back();
    }

    void finish() {
        leaf.core = s.core;
        for (const LeafOp& op : leaf.ops) {
            const bool in = op.code == Code::COPY_IN || op.code == Code::GATHER || op.code == Code::TRANSPOSE_MOVEIN;
            const bool out = op.code == Code::COPY_OUT || op.code == Code::TRANSPOSE_MOVEOUT || op.code == Code::INDEX_OUTCAST;
            if (in) leaf.gm_read += op.gm_bytes;
            if (out) leaf.gm_write += op.gm_bytes;
        }
    }
};

}  // namespace

Leaf build_leaf(const Graph& g, const SubGraph& s, bool share_loads, Leaf room) {
    Builder b{g, s, share_loads, std::move(room)};
    b.reserve();
    for (Id id : s.ops) b.graph_op(g.ops[id]);
    b.finish();
    return std::move(b.leaf);
}

}  // namespace npu::plan
