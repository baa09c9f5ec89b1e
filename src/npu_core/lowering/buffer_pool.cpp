#include "npu_core/lowering/buffer_pool.h"

#include <algorithm>

namespace npu::lowering {
namespace {

struct Gap {
    int64_t at, bytes;
};

std::vector<Gap> gaps(const std::vector<Placed>& live, int64_t room) {
    std::vector<Gap> list;
    int64_t at = 0;
    for (const Placed& p : live) {
        if (p.at > at) list.push_back({at, p.at - at});
        at = p.at + p.bytes;
    }
    if (at < room) list.push_back({at, room - at});
    return list;
}

}  // namespace

void BufferPools::place(Mem mem, const Placed& p) {
    auto& live = live_[int(mem)];
    live.insert(std::upper_bound(live.begin(), live.end(), p, [](const Placed& a, const Placed& b) { return a.at < b.at; }), p);
    used_[int(mem)] += p.bytes;
    peak_[int(mem)] = std::max(peak_[int(mem)], used_[int(mem)]);
}

bool BufferPools::allocate(Mem mem, int32_t buffer, int64_t bytes) {
    const int64_t room = capacity_bytes(mem);
    if (!room) {  // bias table and fixpipe memory hold one buffer at a time
        if (!live_[int(mem)].empty()) return false;
        place(mem, {0, bytes, buffer});
        return true;
    }
    const std::vector<Gap> list = gaps(live_[int(mem)], room);
    const Gap* best = nullptr;
    for (const Gap& g : list)
        if (g.bytes >= bytes && (!best || g.bytes < best->bytes)) best = &g;
    if (!best) return false;
    int64_t at = best->at;
    if (mem == Mem::L0A || mem == Mem::L0B || mem == Mem::L0C) {
        if (list.front().at == 0 && list.front().bytes >= bytes) at = 0;
        else if (list.back().at + list.back().bytes == room && list.back().bytes >= bytes) at = room - bytes;
    }
    place(mem, {at, bytes, buffer});
    return true;
}

void BufferPools::free(Mem mem, int32_t buffer) {
    std::erase_if(live_[int(mem)], [&](const Placed& p) {
        if (p.buffer != buffer) return false;
        used_[int(mem)] -= p.bytes;
        return true;
    });
}

int64_t BufferPools::largest_gap(Mem mem) const {
    int64_t most = 0;
    for (const Gap& g : gaps(live_[int(mem)], capacity_bytes(mem))) most = std::max(most, g.bytes);
    return most;
}

std::vector<int32_t> reference_counts(const Leaf& leaf, const std::vector<int32_t>& list) {
    std::vector<int32_t> refs(leaf.buffers.size(), 0);
    for (int32_t id : list) {
        if (leaf.buffer_of_alloc[id] >= 0) { ++refs[leaf.buffer_of_alloc[id]]; continue; }
        for (const Ids* operands : {&leaf.graph.ops[id].in, &leaf.graph.ops[id].out})
            for (int32_t t : *operands)
                if (leaf.buffer_of[t] >= 0) ++refs[leaf.buffer_of[t]];
    }
    return refs;
}

}  // namespace npu::lowering
