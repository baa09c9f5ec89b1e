#include "npu_core/kernels/scratch.h"

#include <new>

namespace npu {
namespace {

constexpr std::align_val_t ALIGNMENT{64};

struct Buffers {
    void* data[static_cast<int>(Scratch::COUNT)] = {};
    int64_t bytes[static_cast<int>(Scratch::COUNT)] = {};
    ~Buffers() {
        for (void* p : data) operator delete(p, ALIGNMENT);
    }
};

}  // namespace

void* kernel_scratch(Scratch use, int64_t bytes) {
    static thread_local Buffers buffers;
    const int i = static_cast<int>(use);
    if (buffers.bytes[i] < bytes) {
        operator delete(buffers.data[i], ALIGNMENT);
        buffers.data[i] = nullptr;
        buffers.bytes[i] = 0;
        const int64_t rounded = (bytes + 4095) / 4096 * 4096;
        buffers.data[i] = operator new(static_cast<std::size_t>(rounded), ALIGNMENT);
        buffers.bytes[i] = rounded;
    }
    return buffers.data[i];
}

}  // namespace npu
