// Makes room for a buffer by moving live ones to global memory and back.
#pragma once
#include <vector>

#include "npu_core/lowering/buffer_pool.h"

namespace npu::lowering {

// `alloc` does not fit. Chooses live buffers, adds copies to leaf.list and redirects operations not yet executed.
// Returns the buffers whose room becomes free once the operations that still use them have run; empty: impossible.
std::vector<int32_t> spill_for(Leaf& leaf, const BufferPools& pools, int32_t alloc, const std::vector<char>& executed);

}  // namespace npu::lowering
