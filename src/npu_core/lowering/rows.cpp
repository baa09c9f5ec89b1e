#include "npu_core/lowering/rows.h"

#include <algorithm>
#include <stdexcept>

namespace npu::lowering {
namespace {

constexpr const char* DTYPE_NAMES[] = {"fp32", "fp16", "bf16", "fp64", "int8", "int16", "int32",
                                       "int64", "uint8", "uint16", "uint32", "uint64", "bool", "int4", "fp8",
                                       "hf4", "hf8", "fp8e4m3", "fp8e5m2", "fp8e8m0", "fp4_e2m1",
                                       "fp4_e2m1x2", "fp4_e1m2", "fp4_e1m2x2"};

Shape shape_of(const std::vector<int64_t>& v) {
    if (v.size() > size_t(MAX_RANK)) throw std::invalid_argument("rank above the limit");
    Shape s;
    s.rank = int(v.size());
    std::copy(v.begin(), v.end(), s.d.begin());
    return s;
}

std::vector<int64_t> list_of(const Shape& s) { return {s.d.begin(), s.d.begin() + s.rank}; }

}  // namespace

DType dtype_from_name(const std::string& name) {
    for (int i = 0; i < int(DType::COUNT); ++i)
        if (name == DTYPE_NAMES[i]) return DType(i);
    throw std::invalid_argument("unknown dtype " + name);
}
std::string dtype_name(DType dtype) { return DTYPE_NAMES[int(dtype)]; }

Graph graph_from_rows(const std::vector<TensorRow>& tensors, const std::vector<OpRow>& ops,
                      const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs) {
    Graph g;
    int32_t max_tensor = -1, max_raw = -1, max_op = -1;
    for (const TensorRow& r : tensors) {
        max_tensor = std::max(max_tensor, r.id);
        max_raw = std::max(max_raw, r.raw);
    }
    for (const OpRow& r : ops) max_op = std::max(max_op, r.id);
    g.tensors.resize(max_tensor + 1);
    g.raws.resize(max_raw + 1);
    g.ops.resize(max_op + 1);
    for (Op& op : g.ops) op.dead = true;
    for (const TensorRow& r : tensors) {
        Tensor& t = g.tensors[r.id];
        t.raw = r.raw;
        t.shape = shape_of(r.shape);
        t.offset = zero_offset(int(r.offset.size()));
        for (size_t i = 0; i < r.offset.size(); ++i) t.offset.d[i].at = r.offset[i];
        t.dtype = dtype_from_name(r.dtype);
        t.mem = mem_from_name(r.mem);
        g.raws[r.raw] = {shape_of(r.raw_shape.empty() ? r.shape : r.raw_shape), t.dtype};
    }
    for (const OpRow& r : ops) {
        Op& op = g.ops[r.id];
        op.dead = false;
        op.code = opcode_from_name(r.code);
        if (op.code == Opcode::COUNT) throw std::invalid_argument("unknown operation " + r.code);
        op.in.assign(r.in.begin(), r.in.end());
        op.out.assign(r.out.begin(), r.out.end());
        op.sub_graph = r.sub_graph;
        op.latency = r.latency;
        op.scope = r.scope;
        op.at = zero_offset(int(r.at.size()));
        for (size_t i = 0; i < r.at.size(); ++i) op.at.d[i] = {r.at[i], g.symbol(r.at_symbols[i])};
        op.to = mem_from_name(r.to);
        op.transpose = r.transpose;
        if (r.has_scalar || r.trans_a || r.trans_b || r.direct || r.axis != -100 || !r.ints.empty()) {
            op.attributes = int32_t(g.attributes.size());
            g.attributes.push_back({r.axis, r.has_scalar, r.scalar, r.ints, r.trans_a, r.trans_b, r.direct});
        }
        if (!r.vec_tile.empty() || !r.cube_tile.empty()) {
            TileShapes t;
            t.vec = shape_of(r.vec_tile);
            if (r.cube_tile.size() == 7) {
                t.m = r.cube_tile[0]; t.m1 = r.cube_tile[1]; t.k = r.cube_tile[2]; t.ka = r.cube_tile[3];
                t.kb = r.cube_tile[4]; t.n = r.cube_tile[5]; t.n1 = r.cube_tile[6];
            }
            op.tile = int32_t(g.tiles.size());
            g.tiles.push_back(t);
        }
        g.link(r.id);
        g.order.push_back(r.id);
    }
    g.inputs = inputs;
    g.outputs = outputs;
    return g;
}

std::vector<TensorRow> tensor_rows(const Graph& g) {
    std::vector<char> used(g.tensors.size(), 0);
    for (int32_t id : g.order)
        for (const Ids* list : {&g.ops[id].in, &g.ops[id].out})
            for (int32_t t : *list) used[t] = 1;
    for (int32_t t : g.inputs) used[t] = 1;
    for (int32_t t : g.outputs) used[t] = 1;
    std::vector<TensorRow> rows;
    for (size_t i = 0; i < g.tensors.size(); ++i) {
        if (!used[i]) continue;
        const Tensor& t = g.tensors[i];
        TensorRow r;
        r.id = int32_t(i);
        r.raw = t.raw;
        r.shape = list_of(t.shape);
        for (int d = 0; d < t.offset.rank; ++d) r.offset.push_back(t.offset.d[d].at);
        r.raw_shape = list_of(g.raws[t.raw].shape);
        r.dtype = dtype_name(t.dtype);
        r.mem = std::string(mem_name(t.mem));
        rows.push_back(std::move(r));
    }
    return rows;
}

std::vector<OpRow> op_rows_of(const Graph& g) {
    std::vector<OpRow> rows;
    for (int32_t id : g.order) {
        const Op& op = g.ops[id];
        OpRow r;
        r.id = id;
        r.code = std::string(facts(op.code).name);
        r.in.assign(op.in.begin(), op.in.end());
        r.out.assign(op.out.begin(), op.out.end());
        r.sub_graph = op.sub_graph;
        r.latency = op.latency;
        r.scope = op.scope;
        for (int d = 0; d < op.at.rank; ++d) {
            r.at.push_back(op.at.d[d].at);
            r.at_symbols.push_back(g.symbols[op.at.d[d].symbol].text);
        }
        if (op.out.empty() || g.tensors[op.out[0]].mem == Mem::UNKNOWN) r.to = std::string(mem_name(op.to));
        r.transpose = op.transpose;
        if (const Attributes* a = g.attrs(op)) {
            r.axis = a->axis;
            r.has_scalar = a->has_scalar;
            r.scalar = a->scalar;
            r.ints = a->ints;
            r.trans_a = a->trans_a;
            r.trans_b = a->trans_b;
            r.direct = a->direct;
        }
        if (op.tile >= 0) {
            r.vec_tile = list_of(g.tiles[op.tile].vec);
            const TileShapes& t = g.tiles[op.tile];
            if (t.m) r.cube_tile = {t.m, t.m1, t.k, t.ka, t.kb, t.n, t.n1};
        }
        rows.push_back(std::move(r));
    }
    return rows;
}

}  // namespace npu::lowering
