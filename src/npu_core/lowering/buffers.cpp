// Local buffers of a leaf. Source: hicann/pypto@r0.2.0 passes/block_graph_pass (SrcDstBufferMerge, AddAlloc).
#include <algorithm>
#include <unordered_map>

#include "npu_core/lowering/leaf.h"

namespace npu::lowering {
namespace {

constexpr int64_t ALIGN_BYTES = 32;

// Operations whose output never takes over an input buffer.
bool keeps_own_buffer(Opcode c) {
    switch (c) {
        case Opcode::COPY_IN: case Opcode::COPY_OUT: case Opcode::DIVS: case Opcode::RECIPROCAL: case Opcode::REM:
        case Opcode::REMS: case Opcode::REMRS: case Opcode::MOD: case Opcode::MODS: case Opcode::ROUND:
        case Opcode::TRANSPOSE_VNCHWCONV: case Opcode::PAD: case Opcode::BITWISELEFTSHIFT:
        case Opcode::BITWISELEFTSHIFTS: case Opcode::BITWISERIGHTSHIFT: case Opcode::BITWISERIGHTSHIFTS:
        case Opcode::SBITWISELEFTSHIFT: case Opcode::SBITWISERIGHTSHIFT:
            return true;
        default:
            return is_pair(c) || is_row_single(c) || is_alloc_name(facts(c).name);
    }
}

Opcode alloc_code(Mem mem) {
    switch (mem) {
        case Mem::UB: return Opcode::UB_ALLOC;
        case Mem::L1: return Opcode::L1_ALLOC;
        case Mem::L0A: return Opcode::L0A_ALLOC;
        case Mem::L0B: return Opcode::L0B_ALLOC;
        case Mem::L0C: return Opcode::L0C_ALLOC;
        case Mem::BT: return Opcode::BT_ALLOC;
        default: return Opcode::FIX_ALLOC;
    }
}

int32_t root_of(std::vector<int32_t>& parent, int32_t x) {
    while (parent[x] != x) x = parent[x] = parent[parent[x]];
    return x;
}

}  // namespace

int64_t capacity_bytes(Mem mem) {
    switch (mem) {
        case Mem::UB: return UB_BYTES;
        case Mem::L1: return L1_BYTES;
        case Mem::L0A: return L0A_BYTES;
        case Mem::L0B: return L0B_BYTES;
        case Mem::L0C: return L0C_BYTES;
        default: return 0;
    }
}

bool is_local(Mem mem) { return mem != Mem::UNKNOWN && mem != Mem::GM && mem != Mem::OTHER; }

void merge_buffers(Leaf& leaf) {
    const Graph& g = leaf.graph;
    std::vector<int32_t> parent(g.raws.size());
    std::vector<int64_t> raw_bytes(g.raws.size(), 0);
    std::vector<std::vector<int32_t>> windows(g.raws.size());
    for (size_t r = 0; r < parent.size(); ++r) parent[r] = int32_t(r);
    std::vector<char> used(g.tensors.size(), 0);
    for (int32_t id : g.order)
        for (const Ids* operands : {&g.ops[id].in, &g.ops[id].out})
            for (int32_t t : *operands) {
                if (used[t] || !is_local(g.tensors[t].mem)) continue;
                used[t] = 1;
                const int32_t raw = g.tensors[t].raw;
                windows[raw].push_back(t);
                raw_bytes[raw] = std::max(raw_bytes[raw], bytes_of(g.raws[raw].shape, g.tensors[t].dtype));
            }
    auto only_reader = [&](int32_t raw, int32_t op) {
        for (int32_t t : windows[raw])
            for (int32_t c : g.tensors[t].consumers)
                if (c != op) return false;
        return true;
    };
    for (int32_t id : g.order) {
        const Op& op = g.ops[id];
        if (keeps_own_buffer(op.code) || op.out.empty() || op.in.empty()) continue;
        const Tensor& out = g.tensors[op.out[0]];
        if (!is_local(out.mem)) continue;
        for (int32_t i : op.in) {
            const Tensor& in = g.tensors[i];
            if (in.mem != out.mem || in.raw == out.raw) continue;
            if (raw_bytes[in.raw] != raw_bytes[out.raw] || dtype_size_bytes(in.dtype) != dtype_size_bytes(out.dtype)) continue;
            if (!only_reader(in.raw, id)) continue;
            const int32_t a = root_of(parent, in.raw), b = root_of(parent, out.raw);
            if (a == b) break;
            parent[b] = a;
            break;
        }
    }
    std::unordered_map<int32_t, int32_t> buffer_of_root;
    leaf.buffers.clear();
    leaf.buffer_of.assign(g.tensors.size(), -1);
    for (int32_t id : g.order)
        for (const Ids* operands : {&g.ops[id].in, &g.ops[id].out})
            for (int32_t t : *operands) {
                if (!is_local(g.tensors[t].mem) || leaf.buffer_of[t] >= 0) continue;
                const int32_t root = root_of(parent, g.tensors[t].raw);
                auto [it, fresh] = buffer_of_root.try_emplace(root, int32_t(leaf.buffers.size()));
                if (fresh) leaf.buffers.push_back({g.tensors[t].mem, 0, -1, {}});
                Buffer& b = leaf.buffers[it->second];
                b.bytes = std::max(b.bytes, (raw_bytes[g.tensors[t].raw] + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES);
                b.tensors.push_back(t);
                leaf.buffer_of[t] = it->second;
            }
}

void add_allocs(Leaf& leaf) {
    Graph& g = leaf.graph;
    leaf.list = g.order;
    const std::vector<int32_t> without = g.order;
    std::vector<int32_t> allocs;
    for (size_t b = 0; b < leaf.buffers.size(); ++b) {
        const int32_t id = g.add_op(alloc_code(leaf.buffers[b].mem), {}, {});
        leaf.buffers[b].alloc = id;
        leaf.buffer_of_alloc.resize(g.ops.size(), -1);
        leaf.buffer_of_alloc[id] = int32_t(b);
        allocs.push_back(id);
    }
    leaf.buffer_of_alloc.resize(g.ops.size(), -1);
    g.order = without;
    leaf.list.insert(leaf.list.begin(), allocs.begin(), allocs.end());
}

Dependencies dependencies(const Leaf& leaf, const std::vector<int32_t>& list) {
    const Graph& g = leaf.graph;
    Dependencies d;
    d.before.resize(g.ops.size());
    d.after.resize(g.ops.size());
    std::vector<char> present(g.ops.size(), 0);
    for (int32_t id : list) present[id] = 1;
    auto edge = [&](int32_t from, int32_t to) {
        if (from == to || !present[from] || d.before[to].contains(from)) return;
        d.before[to].push_back(from);
        d.after[from].push_back(to);
    };
    for (int32_t id : list) {
        if (leaf.buffer_of_alloc[id] >= 0) continue;
        const Op& op = g.ops[id];
        for (int32_t t : op.in)
            for (int32_t p : g.tensors[t].producers) edge(p, id);
        for (const Ids* operands : {&op.in, &op.out})
            for (int32_t t : *operands)
                if (leaf.buffer_of[t] >= 0) edge(leaf.buffers[leaf.buffer_of[t]].alloc, id);
    }
    return d;
}

void refuse_capacity(const Leaf& leaf, int32_t id, Mem mem, int64_t bytes, int64_t largest_gap) {
    const Graph& g = leaf.graph;
    CapacityFault fault("");
    fault.memory = mem_name(mem);
    fault.bytes = bytes;
    fault.limit = capacity_bytes(mem);
    fault.largest_gap = largest_gap;
    if (id < 0) throw fault;
    const Op& op = g.ops[id];
    fault.op = facts(op.code).name;
    fault.operation = op.source;
    const Tensor* shown = nullptr;
    std::vector<int32_t> seen;
    for (const Ids* operands : {&op.in, &op.out})
        for (size_t i = 0; i < operands->size(); ++i) {
            const int32_t t = (*operands)[i], b = leaf.buffer_of[t];
            const Tensor& x = g.tensors[t];
            if (b < 0 || x.mem != mem) continue;
            if (!shown || x.shape.count() > shown->shape.count()) shown = &x;
            if (std::find(seen.begin(), seen.end(), b) != seen.end()) continue;
            seen.push_back(b);
            const char* role = operands == &op.in ? "input" : i == 0 ? "output" : "scratch";
            fault.live.push_back({role, {x.shape.d.begin(), x.shape.d.begin() + x.shape.rank}, leaf.buffers[b].bytes});
        }
    if (shown) fault.tile.assign(shown->shape.d.begin(), shown->shape.d.begin() + shown->shape.rank);
    if (bytes > fault.limit) fault.suggest_tile();
    throw fault;
}

void refuse_buffer(const Leaf& leaf, int32_t buffer, int64_t largest_gap) {
    const Buffer& b = leaf.buffers[buffer];
    int32_t op = -1;
    for (int32_t t : b.tensors)
        if (op < 0 && !leaf.graph.tensors[t].producers.empty()) op = leaf.graph.tensors[t].producers[0];
    refuse_capacity(leaf, op, b.mem, b.bytes, largest_gap);
}

void check_capacity(const Leaf& leaf) {
    const Graph& g = leaf.graph;
    for (size_t b = 0; b < leaf.buffers.size(); ++b) {
        const int64_t room = capacity_bytes(leaf.buffers[b].mem);
        if (room && leaf.buffers[b].bytes > room) refuse_buffer(leaf, int32_t(b));
    }
    for (int32_t id : g.order) {
        std::array<int64_t, MEM_COUNT> sum{};
        std::vector<int32_t> seen;
        for (const Ids* operands : {&g.ops[id].in, &g.ops[id].out})
            for (int32_t t : *operands) {
                const int32_t b = leaf.buffer_of[t];
                if (b < 0 || std::find(seen.begin(), seen.end(), b) != seen.end()) continue;
                seen.push_back(b);
                sum[int(leaf.buffers[b].mem)] += leaf.buffers[b].bytes;
            }
        for (int m = 0; m < MEM_COUNT; ++m)
            if (const int64_t room = capacity_bytes(Mem(m)); room && sum[m] > room) refuse_capacity(leaf, id, Mem(m), sum[m]);
    }
}

}  // namespace npu::lowering
