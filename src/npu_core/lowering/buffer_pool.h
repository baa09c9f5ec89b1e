// Address space of the local memories while a leaf is scheduled.
// Source: hicann/pypto@r0.2.0 passes/block_graph_pass/schedule_ooo/buffer_pool.cpp.
#pragma once
#include <vector>

#include "npu_core/lowering/leaf.h"

namespace npu::lowering {

struct Placed {
    int64_t at = 0, bytes = 0;
    int32_t buffer = -1;
};

class BufferPools {
public:
    bool allocate(Mem mem, int32_t buffer, int64_t bytes);   // false: does not fit
    void free(Mem mem, int32_t buffer);
    const std::vector<Placed>& live(Mem mem) const { return live_[int(mem)]; }   // by address
    int64_t largest_gap(Mem mem) const;                       // contiguous free bytes
    const std::array<int64_t, MEM_COUNT>& peak_bytes() const { return peak_; }

private:
    void place(Mem mem, const Placed& p);
    std::vector<Placed> live_[MEM_COUNT];
    std::array<int64_t, MEM_COUNT> used_{}, peak_{};
};

// One count per operand occurrence, the ALLOC included.
std::vector<int32_t> reference_counts(const Leaf& leaf, const std::vector<int32_t>& list);

}  // namespace npu::lowering
