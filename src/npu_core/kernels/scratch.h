// Working memory of the kernels: per thread, grown on demand, kept until the thread ends.
#pragma once
#include <cstdint>

namespace npu {

enum class Scratch : uint8_t { PACKED_A, PACKED_B, PARTIAL, COUNT };

// At least `bytes` bytes, aligned to 64; the contents of an earlier call may be lost. Throws std::bad_alloc.
void* kernel_scratch(Scratch use, int64_t bytes);

}  // namespace npu
