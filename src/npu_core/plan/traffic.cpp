#include "npu_core/plan/traffic.h"

#include <algorithm>

namespace npu::plan {

int64_t Traffic::touch(Id tensor, const Shape& at, const Shape& shape, int64_t bytes) {
    State& s = state_[tensor];
    auto [it, added] = s.windows.try_emplace(window_key(at, shape), incoming_);
    int64_t miss = 0;
    if (added && s.touched < bytes_[tensor]) {
        miss = std::max<int64_t>(0, std::min(bytes, bytes_[tensor] - s.touched));
        s.touched += miss;
    } else if (incoming_ - (added ? s.last_use : it->second) > l2_bytes_) {
        miss = bytes;
        overflows_ = true;
    }
    incoming_ += miss;
    it->second = s.last_use = incoming_;
    return miss;
}

int64_t Traffic::random_touch(Id tensor, int64_t bytes) {
    State& s = state_[tensor];
    const int64_t fresh = std::max<int64_t>(0, std::min(bytes, bytes_[tensor] - s.touched));
    s.touched += fresh;
    incoming_ += fresh;
    s.last_use = incoming_;
    return fresh;
}

void Traffic::write(Id tensor, const Shape& at, const Shape& shape, int64_t task) {
    State& s = state_[tensor];
    if (!s.written) {
        s.written = true;
        s.cell = shape;
        for (int i = 0; i < s.cell.rank; ++i) s.cell[i] = std::max<int64_t>(1, s.cell[i]);
    }
    cells_of(s.cell, at, shape, [&](uint64_t key) {
        std::vector<Writer>& list = s.cells[key];
        std::erase_if(list, [&](const Writer& w) { return contains(at, shape, w.at, w.shape) || (w.task >> 40) != (task >> 40); });
        list.push_back({at, shape, task});
    });
}

}  // namespace npu::plan
