// Ring of global memory for the inner tensors of root function instances.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace npu::lowering {

// Instances take consecutive ranges; where one no longer fits, the ring starts again at its beginning and the new instance
// waits for those whose ranges it overlaps.
class WorkspaceRing {
public:
    explicit WorkspaceRing(int64_t bytes) : bytes_(bytes) {}

    void clear() {
        head_ = 0;
        held_.clear();
    }

    // Gives `owner` a range. Returns the owners of overlapped ranges, oldest first.
    std::vector<int32_t> take(int32_t owner, int64_t bytes) {
        std::vector<int32_t> overlapped;
        if (bytes == 0) return overlapped;
        if (head_ + bytes > bytes_) head_ = 0;
        const int64_t end = head_ + bytes;
        for (const Range& r : held_)
            if (r.begin < end && head_ < r.end) overlapped.push_back(r.owner);
        std::erase_if(held_, [&](const Range& r) { return r.begin < end && head_ < r.end && r.end <= end; });
        held_.push_back({owner, head_, end});
        head_ = end;
        return overlapped;
    }

private:
    struct Range {
        int32_t owner;
        int64_t begin, end;
    };
    int64_t bytes_, head_ = 0;
    std::vector<Range> held_;
};

}  // namespace npu::lowering
