#include "npu_core/plan/traffic.h"

#include <algorithm>

namespace npu::plan {

int64_t Traffic::first_touch(Id tensor, const Shape& at, const Shape& shape, int64_t bytes) {
    State& s = state_[tensor];
    if (!s.windows.insert(window_key(at, shape)).second) return 0;
    const int64_t fresh = std::min(bytes, bytes_[tensor] - s.touched);
    s.touched += std::max<int64_t>(fresh, 0);
    return std::max<int64_t>(fresh, 0);
}

int64_t Traffic::random_touch(Id tensor, int64_t bytes) {
    State& s = state_[tensor];
    const int64_t fresh = std::max<int64_t>(0, std::min(bytes, bytes_[tensor] - s.touched));
    s.touched += fresh;
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
