// Equal sub-graphs share one leaf function; offsets of moves are parameters.
#include <algorithm>
#include <functional>
#include <unordered_map>

#include "npu_core/lowering/pipeline.h"
#include "npu_core/lowering/sub_graphs.h"

namespace npu::lowering {
namespace {

bool is_parameter(const Graph& g, const Op& op) {
    for (const Ids* operands : {&op.in, &op.out})
        for (int32_t t : *operands)
            if (g.tensors[t].mem == Mem::GM) return true;
    return false;
}

// Cube operations carry their sizes, which follow symbolic offsets of what is loaded; and where a product goes.
void add_cube_parts(const Graph& g, const Op& op, std::vector<int64_t>& key) {
    if (op.code == Opcode::COPY_IN && g.tensors[op.out[0]].mem == Mem::L1) {
        for (int d = 0; d < op.at.rank; ++d) {
            if (!op.at.d[d].symbol) continue;
            key.push_back(int64_t(std::hash<std::string>{}(g.symbols[op.at.d[d].symbol].text)));
            key.push_back(op.at.d[d].at);
        }
    } else if (op.code == Opcode::COPY_OUT && g.tensors[op.in[0]].mem == Mem::L0C) {
        key.push_back(g.is_output(op.out[0]));
    }
}

std::vector<int64_t> content_of(const Graph& g, const std::vector<int32_t>& ops) {
    std::vector<int64_t> key;
    std::unordered_map<int32_t, int64_t> tensors, raws;
    auto add_tensor = [&](int32_t t) {
        auto [it, fresh] = tensors.try_emplace(t, int64_t(tensors.size()));
        key.push_back(it->second);
        if (!fresh) return;
        const Tensor& x = g.tensors[t];
        key.push_back(int64_t(x.dtype) * 64 + int64_t(x.mem) * 8 + x.shape.rank);
        for (int d = 0; d < x.shape.rank; ++d) key.push_back(x.dynamic >> d & 1 ? -1 : x.shape[d]);
        if (x.mem == Mem::GM) return;
        key.push_back(raws.try_emplace(x.raw, int64_t(raws.size())).first->second);
        for (int d = 0; d < x.offset.rank; ++d) key.push_back(x.offset.d[d].at);
    };
    for (int32_t id : ops) {
        const Op& op = g.ops[id];
        key.insert(key.end(), {int64_t(op.code), int64_t(op.in.size()), int64_t(op.out.size()), op.latency});
        for (int32_t t : op.in) add_tensor(t);
        for (int32_t t : op.out) add_tensor(t);
        if (!is_parameter(g, op))
            for (int d = 0; d < op.at.rank; ++d) key.push_back(op.at.d[d].at);
        add_cube_parts(g, op, key);
        if (const Attributes* a = g.attrs(op)) {
            int64_t bits;
            std::copy_n(reinterpret_cast<const char*>(&a->scalar), sizeof bits, reinterpret_cast<char*>(&bits));
            key.insert(key.end(), {a->axis, bits});
            key.insert(key.end(), a->ints.begin(), a->ints.end());
        }
    }
    return key;
}

// The operations on a graph of their own, ids in the old order of creation.
Graph extract(const Graph& g, const std::vector<int32_t>& list) {
    std::vector<int32_t> ops = list, tensors;
    std::sort(ops.begin(), ops.end());
    for (int32_t id : ops)
        for (const Ids* operands : {&g.ops[id].in, &g.ops[id].out}) tensors.insert(tensors.end(), operands->begin(), operands->end());
    std::sort(tensors.begin(), tensors.end());
    tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
    Graph out;
    std::unordered_map<int32_t, int32_t> tensor_of, raw_of, op_of;
    for (int32_t t : tensors) {
        Tensor x = g.tensors[t];
        x.producers.clear();
        x.consumers.clear();
        auto [it, fresh] = raw_of.try_emplace(x.raw, int32_t(out.raws.size()));
        if (fresh) out.raws.push_back(g.raws[x.raw]);
        x.raw = it->second;
        tensor_of[t] = int32_t(out.tensors.size());
        out.tensors.push_back(std::move(x));
    }
    for (int32_t id : ops) {
        Op op = g.ops[id];
        for (Ids* operands : {&op.in, &op.out})
            for (int32_t& t : *operands) t = tensor_of[t];
        op.attributes = -1;
        op.tile = -1;
        op_of[id] = int32_t(out.ops.size());
        out.ops.push_back(std::move(op));
        out.link(int32_t(out.ops.size()) - 1);
    }
    for (int32_t id : list) out.order.push_back(op_of[id]);
    return out;
}

void count_spills(LeafFunction& f) {
    const Graph& leaf = f.leaf.graph;
    for (int32_t id : f.leaf.schedule) {
        const Op& op = leaf.ops[id];
        if (op.gm_bytes != 0) continue;
        if (op.code == Opcode::COPY_IN) f.spill_read_bytes += bytes_of(leaf.tensors[op.out[0]].shape, leaf.tensors[op.out[0]].dtype);
        if (op.code == Opcode::COPY_OUT) f.spill_write_bytes += bytes_of(leaf.tensors[op.in[0]].shape, leaf.tensors[op.in[0]].dtype);
    }
}

}  // namespace

int32_t LeafLibrary::add(const Graph& g, const std::vector<int32_t>& ops) {
    const std::vector<int32_t> sorted = sorted_ops(g, ops);
    auto [it, fresh] = by_content.try_emplace(content_of(g, sorted), int32_t(leaves.size()));
    if (!fresh) return it->second;
    LeafFunction f;
    f.leaf.graph = extract(g, sorted);
    if (only_reshapes(g, ops)) f.core = CoreType::HUB;
    else {
        f.core = has_cube_op(g, ops) ? CoreType::AIC : CoreType::AIV;
        lower_leaf(f.leaf);
        f.run = run_leaf(f.leaf.graph, f.leaf.schedule, strict ? nullptr : &default_pipe);
        count_spills(f);
    }
    leaves.push_back(std::move(f));
    return int32_t(leaves.size()) - 1;
}

}  // namespace npu::lowering
