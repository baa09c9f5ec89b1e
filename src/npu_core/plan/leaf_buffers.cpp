// Local memory of a leaf: which tiles share a buffer, and whether every operation fits.
#include <set>

#include "npu_core/plan/leaf_links.h"

namespace npu::plan {

namespace {

bool never_in_place(Code c) {
    switch (c) {
        case Code::COPY_IN: case Code::COPY_OUT: case Code::DIVS: case Code::RECIPROCAL: case Code::PAIRSUM: case Code::PAIRMAX:
        case Code::PAIRMIN: case Code::PAIRPROD: case Code::ROWSUM_SINGLE: case Code::ROWMAX_SINGLE: case Code::ROWMIN_SINGLE:
        case Code::ROWPROD_SINGLE: case Code::ROUND: case Code::TRANSPOSE_VNCHWCONV: case Code::FILLPAD: return true;
        default: return false;
    }
}

}  // namespace

// Buffers: views and assembled pieces lie inside another tile; a result may take over the buffer of an input that dies.
void share_buffers(Leaf& leaf, const Links& l) {
    std::vector<int32_t> parent(leaf.tensors.size());
    for (size_t i = 0; i < parent.size(); ++i) parent[i] = static_cast<int32_t>(i);
    auto find = [&](int32_t x) {
        while (parent[x] != x) x = parent[x] = parent[parent[x]];
        return x;
    };
    auto size = [&](int32_t t) { return round_up(leaf.tensors[t].room, 32); };
    for (const LeafOp& op : leaf.ops) {
        const bool alias = op.code == Code::VIEW || op.code == Code::ASSEMBLE || op.code == Code::RESHAPE;
        if (alias && leaf.tensors[op.in[0]].mem == leaf.tensors[op.out[0]].mem) {
            const int32_t a = find(op.in[0]), b = find(op.out[0]);
            if (size(a) >= size(b)) parent[b] = a;
            else parent[a] = b;
        }
    }
    std::vector<int32_t> last_use(leaf.tensors.size(), -1);   // by root
    for (size_t t = 0; t < leaf.tensors.size(); ++t)
        if (!l.consumers[t].empty()) {
            int32_t& use = last_use[find(static_cast<int32_t>(t))];
            use = std::max(use, l.consumers[t].back());
        }
    for (size_t i = 0; i < leaf.ops.size(); ++i) {
        const LeafOp& op = leaf.ops[i];
        if (op.out.empty() || never_in_place(op.code) || op.code == Code::VIEW || op.code == Code::ASSEMBLE) continue;
        const int32_t out = op.out[0];
        for (int32_t t : op.in) {
            const LeafTensor &a = leaf.tensors[t], &b = leaf.tensors[out];
            if (a.mem != b.mem || a.mem == Mem::GM || size(t) != size(out)) continue;
            if (dtype_size_bytes(a.dtype) != dtype_size_bytes(b.dtype) || find(t) == find(out)) continue;
            if (last_use[find(t)] > static_cast<int32_t>(i) || l.consumers[t].size() != 1) continue;
            const int32_t host = find(t), guest = find(out);
            last_use[host] = std::max(last_use[host], last_use[guest]);
            parent[guest] = host;
            break;
        }
    }
    std::vector<int32_t> ids(leaf.tensors.size(), -1);
    for (size_t i = 0; i < leaf.tensors.size(); ++i) {
        LeafTensor& t = leaf.tensors[i];
        if (t.mem == Mem::GM || t.mem == Mem::NONE) continue;
        const int32_t root = find(static_cast<int32_t>(i));
        if (ids[root] < 0) {
            ids[root] = static_cast<int32_t>(leaf.buffer_bytes.size());
            leaf.buffer_bytes.push_back(0);
            leaf.buffer_mem.push_back(t.mem);
        }
        t.buffer = ids[root];
        leaf.buffer_bytes[t.buffer] = std::max(leaf.buffer_bytes[t.buffer], size(static_cast<int32_t>(i)));
    }
}

void name_operation(CapacityFault& fault, int32_t operation, const Block& block, const Program& program) {
    if (operation == NONE) return;
    const BlockOp& from = block.ops[operation];
    if (!from.op_name.empty()) fault.op = from.op_name + " (" + fault.op + ")";
    if (from.line != NONE) fault.line = program.lines[from.line];
}

// A single operation must fit with all its tiles.
void check_capacity(const Leaf& leaf, const Block& block, const Program& program, const Chip& chip) {
    for (const LeafOp& op : leaf.ops) {
        std::array<int64_t, MEMS> need{};
        for (int32_t b : buffers_of(leaf, op)) need[static_cast<int>(leaf.buffer_mem[b])] += leaf.buffer_bytes[b];
        for (int m = 0; m < MEMS; ++m) {
            if (chip.capacity[m] == 0 || need[m] <= chip.capacity[m]) continue;
            CapacityFault fault("");
            fault.memory = mem_name(static_cast<Mem>(m));
            fault.bytes = need[m];
            fault.limit = chip.capacity[m];
            std::set<int32_t> seen;
            for (const Operands* side : {&op.in, &op.out})
                for (int32_t t : *side) {
                    const LeafTensor& x = leaf.tensors[t];
                    if (x.buffer < 0 || static_cast<int>(x.mem) != m || !seen.insert(x.buffer).second) continue;
                    const char* role = side == &op.in ? "input" : t == op.out[0] ? "output" : "scratch";
                    fault.live.push_back({role, {x.tile.d.begin(), x.tile.d.begin() + x.tile.rank}, leaf.buffer_bytes[x.buffer]});
                }
            fault.op = cost::info(op.code).name;
            const LeafTensor* shown = nullptr;
            for (const Operands* side : {&op.in, &op.out})
                for (int32_t t : *side)
                    if (leaf.tensors[t].mem == static_cast<Mem>(m) &&
                        (!shown || leaf.tensors[t].tile.count() > shown->tile.count()))
                        shown = &leaf.tensors[t];
            if (shown) fault.tile.assign(shown->tile.d.begin(), shown->tile.d.begin() + shown->tile.rank);
            name_operation(fault, op.src, block, program);
            fault.suggest_tile();
            throw fault;
        }
    }
}

}  // namespace npu::plan
