// Tile expansion: every tensor operation becomes tile operations in the tile shape in force at its call, and every tile
// that is asked for is linked to the tiles that were produced.
#include <algorithm>
#include <functional>
#include <tuple>
#include <unordered_map>

#include "npu_core/plan/stages.h"

namespace npu::plan {

namespace {

struct ShapeHash {
    size_t operator()(const Shape& s) const {
        uint64_t h = static_cast<uint64_t>(s.rank);
        for (int i = 0; i < s.rank; ++i) h = (h ^ static_cast<uint64_t>(s[i])) * 0x9E3779B97F4A7C15ull;
        return h ^ (h >> 29);
    }
};

// Tiles produced so far for one tensor.
struct Produced {
    Id raw = NONE, self = NONE;
    std::vector<Id> tiles;
    std::unordered_map<Shape, Id, ShapeHash> by_offset;
};

class Expander {
public:
    Expander(const Block& b, const Chip& chip) : b_(b), chip_(chip), made_(b.tensors.size()) {}

    Graph run() {
        for (size_t i = 0; i < b_.ops.size(); ++i) {
            src_ = static_cast<Id>(i);
            expand_op(b_.ops[i]);
        }
        return std::move(g_);
    }

private:
    const Block& b_;
    const Chip& chip_;
    Graph g_;
    std::vector<Produced> made_;
    Id src_ = NONE;

    Shape shape(Id t) const { return b_.tensors[t].shape; }
    DType dtype(Id t) const { return b_.tensors[t].dtype; }
    bool partial(Id t) const { return !(b_.tensors[t].valid == b_.tensors[t].shape); }

    Produced& produced(Id t) {
        Produced& p = made_[t];
        if (p.raw == NONE) p.raw = g_.add_raw(shape(t), dtype(t), b_.tensors[t].external);
        return p;
    }
    Id window(Id t, const Shape& at, const Shape& extent) {
        const Id id = g_.add_tensor(produced(t).raw, extent, at);
        if (partial(t)) g_.set_valid(id, within(b_.tensors[t].valid, at, extent));
        return id;
    }
    Id whole(Id t) {   // the tensor itself, one window
        Produced& p = produced(t);
        if (p.self == NONE) {
            p.self = window(t, zeros(shape(t).rank), shape(t));
            g_.tensors[p.self].fn_in = b_.tensors[t].fn_in;
            g_.tensors[p.self].fn_out = b_.tensors[t].fn_out;
        }
        return p.self;
    }
    Id make_tile(Id t, const Shape& at, const Shape& extent) {
        const Id id = window(t, at, extent);
        Produced& p = made_[t];
        p.tiles.push_back(id);
        p.by_offset.emplace(at, id);
        return id;
    }
    void register_whole(Id t) {
        Produced& p = produced(t);
        Id id = whole(t);
        if (p.tiles.empty()) {
            p.tiles.push_back(id);
            p.by_offset.emplace(zeros(shape(t).rank), id);
        }
    }

    // Tile for window [at, at + extent) of tensor t (linking rules).
    Id ask(Id t, const Shape& at, const Shape& extent) {
        Produced& p = produced(t);
        if (p.tiles.empty()) {
            if (extent == shape(t)) return whole(t);
            return window(t, at, extent);
        }
        if (auto it = p.by_offset.find(at); it != p.by_offset.end() && g_.tensors[it->second].shape == extent) return it->second;
        std::vector<Id> hits;
        for (Id id : p.tiles) {
            const Tensor& tile = g_.tensors[id];
            if (!overlaps(tile.offset, tile.shape, at, extent)) continue;
            if (contains(tile.offset, tile.shape, at, extent)) return view_of(id, minus(at, tile.offset), extent);
            hits.push_back(id);
        }
        if (hits.empty()) return window(t, at, extent);
        Shape lo = at, hi = plus(at, extent);
        for (Id id : hits) {
            const Tensor& tile = g_.tensors[id];
            for (int i = 0; i < lo.rank; ++i) {
                lo[i] = std::min(lo[i], tile.offset[i]);
                hi[i] = std::max(hi[i], tile.offset[i] + tile.shape[i]);
            }
        }
        std::sort(hits.begin(), hits.end(), [&](Id x, Id y) {
            const Shape &a = g_.tensors[x].offset, &b = g_.tensors[y].offset;
            for (int i = 0; i < a.rank; ++i)
                if (a[i] != b[i]) return a[i] < b[i];
            return x < y;
        });
        Id box = g_.add_fresh(minus(hi, lo), dtype(t));
        if (partial(t)) g_.set_valid(box, within(b_.tensors[t].valid, lo, minus(hi, lo)));
        for (Id id : hits) {
            Id op = g_.add_op(Code::ASSEMBLE, {id}, {box}, src_);
            g_.ops[op].at = minus(g_.tensors[id].offset, lo);
        }
        if (g_.tensors[box].shape == extent) return box;
        return view_of(box, minus(at, lo), extent);
    }
    Id view_of(Id from, const Shape& at, const Shape& extent) {
        Id to = g_.add_fresh(extent, g_.tensors[from].dtype);
        if (g_.tensors[from].valid != NONE) g_.set_valid(to, within(g_.valid_of(from), at, extent));
        g_.ops[g_.add_op(Code::VIEW, {from}, {to}, src_)].at = at;
        return to;
    }
    Id ask_whole(Id t) { return ask(t, zeros(shape(t).rank), shape(t)); }

    Id scratch(const Shape& s, DType type) {
        Id id = g_.add_fresh(s, type);
        g_.tensors[id].scratch = true;
        return id;
    }
    Id flat_scratch(int64_t bytes) {
        Shape s = zeros(1);
        s[0] = bytes;
        return scratch(s, DType::U8);
    }

    // Calls f(offset, extent) for every tile of `full`, outermost dim first.
    static Shape piece(Shape s) {   // at most 4096 elements, the last axes first
        int64_t room = 4096;
        for (int i = s.rank - 1; i >= 0; --i) {
            s[i] = std::min(s[i], room);
            room = std::max<int64_t>(1, room / s[i]);
        }
        return s;
    }

    static void tiles(const Shape& full, const Shape& tile, const std::function<void(const Shape&, const Shape&)>& f) {
        Shape step = full;
        for (int i = 0; i < full.rank; ++i) step[i] = std::max<int64_t>(1, std::min(full[i], i < tile.rank ? tile[i] : full[i]));
        Shape at = zeros(full.rank);
        while (true) {
            Shape extent = full;
            for (int i = 0; i < full.rank; ++i) extent[i] = std::min(step[i], full[i] - at[i]);
            f(at, extent);
            int i = full.rank - 1;
            for (; i >= 0; --i) {
                at[i] += step[i];
                if (at[i] < full[i]) break;
                at[i] = 0;
            }
            if (i < 0) return;
        }
    }

    void expand_op(const BlockOp& op) {
        switch (op.family) {
            case Family::VIEW: {
                Id from = ask_whole(op.in[0]);
                Id id = g_.add_op(Code::VIEW, {from}, {whole(op.out[0])}, src_);
                g_.ops[id].at = op.at;
                g_.ops[id].dyn = g_.dyn_of(op.dyn);
                register_whole(op.out[0]);
                return;
            }
            case Family::ASSEMBLE: {
                Id from = ask_whole(op.in[0]);
                Id id = g_.add_op(Code::ASSEMBLE, {from}, {whole(op.out[0])}, src_);
                g_.ops[id].at = op.at;
                g_.ops[id].dyn = g_.dyn_of(op.dyn);
                register_whole(op.out[0]);
                return;
            }
            case Family::RESHAPE: {
                Id from = ask_whole(op.in[0]);
                g_.add_op(Code::RESHAPE, {from}, {whole(op.out[0])}, src_);
                register_whole(op.out[0]);
                return;
            }
            case Family::ELEMENTWISE: case Family::FILL:
                tiles(shape(op.out[0]), op.tile, [&](const Shape& at, const Shape& extent) {
                    std::vector<Id> in;
                    for (Id x : op.in) in.push_back(ask(x, at, extent));
                    std::vector<Id> out{make_tile(op.out[0], at, extent)};
                    if (op.scratch_bytes < 0) out.push_back(scratch(extent, dtype(op.out[0])));
                    else if (op.scratch_bytes) out.push_back(flat_scratch(scratch_bytes(op, extent)));
                    g_.add_op(op.code, in, out, src_);
                });
                return;
            case Family::EXPAND:
                tiles(shape(op.out[0]), op.tile, [&](const Shape& at, const Shape& extent) {
                    Shape from_at = at, from = extent;
                    from_at[op.axis] = 0;
                    from[op.axis] = 1;
                    Id x = ask(op.in[0], from_at, from);
                    g_.add_op(op.code, {x}, {make_tile(op.out[0], at, extent)}, src_);
                });
                return;
            case Family::REDUCE: return reduce(op);
            case Family::MATMUL: return matmul(op);
            case Family::TRANSPOSE: case Family::TRANSPOSE_OUT:
                tiles(shape(op.in[0]), op.tile, [&](const Shape& at, const Shape& extent) {
                    Shape to_at = at, to = extent;
                    std::swap(to_at[op.axis], to_at[op.axis2]);
                    std::swap(to[op.axis], to[op.axis2]);
                    std::vector<Id> in{ask(op.in[0], at, extent)};
                    std::vector<Id> out{make_tile(op.out[0], to_at, to)};
                    if (op.family == Family::TRANSPOSE) {
                        Shape tmp = to;
                        const int64_t lanes = 32 / dtype_size_bytes(dtype(op.in[0]));
                        tmp[tmp.rank - 2] = round_up(extent[extent.rank - 2], 16);
                        tmp[tmp.rank - 1] = round_up(extent[extent.rank - 1], lanes);
                        out.push_back(scratch(tmp, dtype(op.in[0])));
                    }
                    g_.add_op(op.code, in, out, src_);
                });
                return;
            case Family::GATHER: return gather_rows(op);
            case Family::GATHER_AXIS:
                tiles(shape(op.out[0]), op.tile, [&](const Shape& at, const Shape& extent) {
                    Shape from_at = at, from = extent;
                    from_at[op.axis] = 0;
                    from[op.axis] = shape(op.in[0])[op.axis];
                    std::vector<Id> in{ask(op.in[0], from_at, from), ask(op.in[1], at, extent)};
                    std::vector<Id> out{make_tile(op.out[0], at, extent), flat_scratch(2 * extent[extent.rank - 1] * 4)};
                    g_.add_op(op.code, in, out, src_);
                });
                return;
            case Family::TOPK: return topk(op);
            case Family::SCALED: return scaled(op);
            case Family::SCATTER: {
                if (op.code == Code::INDEX_OUTCAST && shape(op.in.back()).count() > 4096) return scatter_rows(op);
                std::vector<Id> in;
                for (Id x : op.in) in.push_back(ask_whole(x));
                g_.add_op(op.code, in, {whole(op.out[0])}, src_);
                register_whole(op.out[0]);
                return;
            }
            case Family::WHOLE_AXIS:
                tiles(shape(op.out[0]), op.tile, [&](const Shape& at, const Shape& extent) {
                    std::vector<Id> in, out;
                    const int last = extent.rank - 1;
                    for (Id x : op.in) {
                        Shape from_at = at, from = extent;
                        from_at[last] = 0;
                        from[last] = shape(x)[last];
                        in.push_back(ask(x, from_at, from));
                    }
                    for (Id y : op.out) out.push_back(make_tile(y, at, extent));
                    g_.add_op(op.code, in, out, src_);
                });
                return;
        }
    }

    // Rows of the source, a piece at a time, each written to its place in global memory.
    void scatter_rows(const BlockOp& op) {
        const Id source = op.in.back();
        const Shape full = shape(source), part = piece(full);
        Id to = ask_whole(op.in[0]);
        tiles(full, part, [&](const Shape& at, const Shape& extent) {
            std::vector<Id> in{to};
            for (size_t i = 1; i + 1 < op.in.size(); ++i) in.push_back(ask_whole(op.in[i]));
            in.push_back(ask(source, at, extent));
            g_.add_op(op.code, in, {whole(op.out[0])}, src_);
        });
        register_whole(op.out[0]);
    }

    // Part of [0, own) that goes with [at, at + extent) of [0, driver): parts of neighbours neither meet nor overlap.
    static std::pair<int64_t, int64_t> share(int64_t at, int64_t extent, int64_t driver, int64_t own) {
        const int64_t from = ceil_div(at * own, driver);
        return {from, ceil_div((at + extent) * own, driver) - from};
    }

    void scaled(const BlockOp& op) {
        const Id driver = op.in.empty() ? op.out[0] : op.in[0];
        const Shape full = shape(driver);
        auto window = [&](Id t, const Shape& at, const Shape& extent) {
            Shape from = zeros(shape(t).rank), size = shape(t);
            for (int i = 0; i < size.rank && i < full.rank; ++i)
                std::tie(from[i], size[i]) = share(at[i], extent[i], full[i], shape(t)[i]);
            return std::pair{from, size};
        };
        tiles(full, op.tile, [&](const Shape& at, const Shape& extent) {
            std::vector<Id> in, out;
            for (Id x : op.in) {
                auto [from, size] = window(x, at, extent);
                if (size.count()) in.push_back(ask(x, from, size));
            }
            for (Id y : op.out) {
                auto [from, size] = window(y, at, extent);
                if (size.count()) out.push_back(make_tile(y, from, size));
            }
            if (!out.empty()) g_.add_op(op.code, in, out, src_);
        });
    }

    static int64_t scratch_bytes(const BlockOp& op, const Shape& extent) {
        if (op.code == Code::CMP || op.code == Code::CMPS) return std::max<int64_t>(extent[extent.rank - 1], 32);
        return op.scratch_bytes;
    }

    // Non-reduced axes tiled in order; along the axis a tree of pairs, then one row operation.
    void reduce(const BlockOp& op) {
        const Shape& full = shape(op.in[0]);
        Shape outer = full;
        outer[op.axis] = 1;
        const int64_t length = full[op.axis];
        const int64_t tile = std::max<int64_t>(1, std::min(length, op.axis < op.tile.rank ? op.tile[op.axis] : length));
        const int64_t n = ceil_div(length, tile);
        Shape outer_tile = op.tile;
        if (op.axis < outer_tile.rank) outer_tile[op.axis] = 1;
        tiles(outer, outer_tile, [&](const Shape& at, const Shape& extent) {
            auto part = [&](int64_t j) {
                Shape a = at, e = extent;
                a[op.axis] = j * tile;
                e[op.axis] = std::min(tile, length - j * tile);
                const Produced& p = produced(op.in[0]);
                if (n > 1 && e[op.axis] < tile && p.tiles.size() == 1) {   // the last tile of a whole tensor is read in full
                    e[op.axis] = tile;
                    return view_of(p.tiles[0], a, e);
                }
                return ask(op.in[0], a, e);
            };
            auto pair = [&](Id x, Id y) {
                Id out = g_.add_like(x);
                g_.add_op(op.pair, {x, y}, {out}, src_);
                return out;
            };
            int64_t power = 1;
            while (power * 2 <= n) power *= 2;
            int64_t rest = n - power, next = power;
            std::vector<Id> level;   // empty: the leaves themselves
            int64_t count = power;
            while (count > 1) {
                const int64_t half = count / 2;
                std::vector<Id> up;
                for (int64_t j = 0; j < half; ++j) {
                    Id x = level.empty() ? part(j) : level[j];
                    Id y = level.empty() ? part(j + half) : level[j + half];
                    up.push_back(pair(x, y));
                }
                if (rest >= half) {
                    for (int64_t j = 0; j < half; ++j) up[j] = pair(up[j], part(next + j));
                    rest -= half;
                    next += half;
                }
                level = std::move(up);
                count = half;
            }
            Id x = level.empty() ? part(0) : level[0];
            Shape to = g_.tensors[x].shape;
            to[op.axis] = 1;
            std::vector<Id> out{make_tile(op.out[0], at, to)};
            if (Id tmp = reduce_scratch(op, g_.tensors[x].shape, g_.tensors[x].dtype); tmp != NONE) out.push_back(tmp);
            g_.add_op(op.code, {x}, out, src_);
        });
    }

    Id reduce_scratch(const BlockOp& op, const Shape& in, DType type) {
        const int64_t size = dtype_size_bytes(type);
        const int last = in.rank - 1;
        const int64_t rows = in.rank > 1 ? in[in.rank - 2] : 1;
        Shape s = in.rank > 1 ? zeros(2) : zeros(1);
        if (op.code == Code::ROWPROD_SINGLE) return scratch(in, type);
        if (op.axis == last) {
            const int64_t lanes = 256 / size, block = 32 / size;
            int64_t cols = in[last] <= lanes ? block : in[last] <= 2 * lanes ? lanes : (in[last] * size / 256 / 2) * lanes;
            if (in.rank > 1) s[0] = in[last] <= lanes ? 1 : rows;
            s[s.rank - 1] = cols;
            return scratch(s, type);
        }
        if (op.code != Code::ROWSUMLINE && op.code != Code::ROWPRODLINE) return NONE;
        s[0] = (in[op.axis] + 1) / 2;
        s[s.rank - 1] = round_up(in[last], 8);
        return scratch(s, type);
    }

    void gather_rows(const BlockOp& op) {
        const Shape& table = shape(op.in[0]);
        const int index_rank = shape(op.in[1]).rank;
        tiles(shape(op.out[0]), op.tile, [&](const Shape& at, const Shape& extent) {
            Shape index_at = zeros(index_rank), index = shape(op.in[1]);
            for (int i = 0; i < index_rank && op.axis + i < extent.rank; ++i) {
                index_at[i] = at[op.axis + i];
                index[i] = extent[op.axis + i];
            }
            Id rows = ask(op.in[0], zeros(table.rank), table), idx = ask(op.in[1], index_at, index);
            g_.add_op(op.code, {rows, idx}, {make_tile(op.out[0], at, extent)}, src_);
        });
    }

    void topk(const BlockOp& op) {
        const Shape& full = shape(op.in[0]);
        const int last = full.rank - 1;
        Shape tile = op.tile;
        if (tile.rank <= last) tile.rank = last + 1;
        int64_t along = round_up(std::min(full[last], std::max<int64_t>(1, tile[last])), 32);
        int64_t others = 1;
        for (int i = 0; i < last; ++i) others *= std::min(full[i], tile[i]);
        if (full[last] > 2 * along) {
            if (full.count() < 8192) along = round_up(full[last], 32);
            else if (others * along < 8192) along = std::max<int64_t>(32, 8192 / others / 32 * 32);
        }
        along = std::min(along, round_up(full[last], 32));
        Shape outer = full, outer_tile = tile;
        outer[last] = 1;
        outer_tile[last] = 1;
        tiles(outer, outer_tile, [&](const Shape& at, const Shape& extent) {
            std::vector<Id> sorted;
            for (int64_t j = 0; j < full[last]; j += along) {
                Shape a = at, e = extent;
                a[last] = j;
                e[last] = std::min(along, full[last] - j);
                Shape wide = e, tmp = e, packed = e;
                wide[last] = 2 * e[last];
                for (int i = 0; i < last; ++i) tmp[i] = 1;
                tmp[last] = 2 * e[last];
                packed[last] = 2 * std::min(op.extra, e[last]);
                Id x = ask(op.in[0], a, e);
                Id b = g_.add_fresh(wide, DType::F32), m = g_.add_fresh(packed, DType::F32);
                if (g_.tensors[x].valid != NONE) {
                    Shape valid = g_.valid_of(x);
                    const int64_t length = valid[last];
                    valid[last] = 2 * length;
                    g_.set_valid(b, valid);
                    valid[last] = 2 * std::min(op.extra, length);
                    g_.set_valid(m, valid);
                }
                g_.add_op(Code::BITSORT, {x}, {b, scratch(tmp, DType::F32)}, src_);
                g_.add_op(Code::MRGSORT, {b}, {m, scratch(tmp, DType::F32)}, src_);
                sorted.push_back(m);
            }
            while (sorted.size() > 1) {
                std::vector<Id> up;
                for (size_t j = 0; j < sorted.size(); j += 4) {
                    std::vector<Id> in(sorted.begin() + j, sorted.begin() + std::min(j + 4, sorted.size()));
                    if (in.size() == 1) { up.push_back(in[0]); continue; }
                    Shape all = g_.tensors[in[0]].shape, tmp = all;
                    all[last] = 2 * op.extra;
                    tmp[last] *= static_cast<int64_t>(in.size());
                    Id out = g_.add_fresh(all, DType::F32);
                    if (g_.tensors[in[0]].valid != NONE) {
                        Shape valid = g_.valid_of(in[0]);
                        valid[last] = all[last];
                        g_.set_valid(out, valid);
                    }
                    g_.add_op(Code::TILEDMRGSORT, in, {out, scratch(tmp, DType::F32)}, src_);
                    up.push_back(out);
                }
                sorted = std::move(up);
            }
            Shape to = extent;
            to[last] = op.extra;
            for (Id y : op.out) g_.add_op(Code::EXTRACT, {sorted[0]}, {make_tile(y, at, to)}, src_);
        });
    }

    // Whole operand that the k chain can read from GM by itself: a kernel argument or slot, seen through views.
    bool direct(Id t, Id& source, Shape& at, Id& dyn) {
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

    void matmul(const BlockOp& op) {
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
                g_.ops[id].latency = chain_latency(mm);
                g_.matmuls.push_back(mm);
            }
        }
    }

    // Sum of the latencies of all operations of the chain (partition and in-core scheduler).
    static int32_t chain_latency(const Matmul& mm) {
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
};

}  // namespace

Graph expand(const Block& block, const Chip& chip) { return Expander(block, chip).run(); }

}  // namespace npu::plan
