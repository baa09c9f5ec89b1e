#include "npu_core/plan/traffic.h"

#include <algorithm>

namespace npu::plan {

bool Traffic::find(const State& s, const Shape& at, const Shape& shape, int64_t& used) {
    bool found = false;
    for (const Line& line : s.lines) {
        if (!(line.shape == shape)) continue;
        int64_t step = -1;
        bool on = true;
        for (int i = 0; on && i < at.rank; ++i) {
            const int64_t d = at[i] - line.at[i];
            if (line.slope[i] == 0) { on = d == 0; continue; }
            const int64_t k = d / line.slope[i];
            on = d % line.slope[i] == 0 && k >= 0 && k < line.count && (step < 0 || step == k);
            step = k;
        }
        if (!on) continue;
        used = found ? std::max(used, line.used + step * line.incoming) : line.used + step * line.incoming;
        found = true;
    }
    return found;
}

void Traffic::skip_moving(Id tensor, const Shape& at, const Shape& shape, const Shape& slope, int64_t count, int64_t incoming) {
    State& s = state_[tensor];
    s.lines.push_back({moved(at, slope, 1), shape, slope, count, s.windows.at(window_key(at, shape)) + incoming, incoming});
    for (const int64_t steps : {int64_t{1}, count}) s.in_run.add(moved(at, slope, steps), shape);
}

void Traffic::skip_fixed(Id tensor, const Shape& at, const Shape& shape, int64_t incoming) {
    state_[tensor].windows.at(window_key(at, shape)) += incoming;
}

void Traffic::skip(Id tensor, int64_t touched, int64_t incoming) {
    state_[tensor].touched += touched;
    state_[tensor].last_use += incoming;
}

Box Traffic::of_others(Id tensor, int64_t run) const {
    const State& s = state_[tensor];
    Box box = s.before;
    if (s.run != run) box.add(s.in_run);
    return box;
}

int64_t Traffic::touch(Id tensor, const Shape& at, const Shape& shape, int64_t bytes, int64_t run) {
    State& s = state_[tensor];
    if (s.run != run) {
        s.before.add(s.in_run);
        s.in_run = {};
        s.run = run;
    }
    s.in_run.add(at, shape);
    auto [it, added] = s.windows.try_emplace(window_key(at, shape), incoming_);
    if (added && !s.lines.empty()) added = !find(s, at, shape, it->second);
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

namespace {
// What is left of a writer's window outside the window that another one has written since: boxes without overlap.
void keep_outside(Writer w, const Shape& at, const Shape& shape, std::vector<Writer>& out) {
    for (int i = 0; i < at.rank; ++i) {
        const int64_t end = w.at[i] + w.shape[i], other_end = at[i] + shape[i];
        if (w.at[i] < at[i]) {
            out.push_back(w);
            out.back().shape[i] = at[i] - w.at[i];
            w.shape[i] = end - at[i];
            w.at[i] = at[i];
        }
        if (end > other_end) {
            out.push_back(w);
            out.back().at[i] = other_end;
            out.back().shape[i] = end - other_end;
            w.shape[i] = other_end - w.at[i];
        }
    }
}
}  // namespace

void Traffic::write(Id tensor, const Shape& at, const Shape& shape, int64_t device_task, int64_t task) {
    State& s = state_[tensor];
    if (!s.written) {
        s.written = true;
        s.cell = shape;
        for (int i = 0; i < s.cell.rank; ++i) s.cell[i] = std::max<int64_t>(1, s.cell[i]);
    }
    cells_of(s.cell, at, shape, [&](uint64_t key, const Shape& cell) {
        std::vector<Writer>& list = s.cells[key];
        std::vector<Writer> kept;
        Shape corner = cell;                 // of the cell: a piece outside it is another cell's affair
        for (int i = 0; i < cell.rank; ++i) corner[i] = cell[i] * s.cell[i];
        for (const Writer& w : list) {
            if (w.device_task != device_task) continue;
            if (overlaps(w.at, w.shape, at, shape)) keep_outside(w, at, shape, kept);
            else kept.push_back(w);
        }
        std::erase_if(kept, [&](const Writer& w) { return !overlaps(w.at, w.shape, corner, s.cell); });
        kept.push_back({at, shape, device_task, task});
        list = std::move(kept);
    });
}

}  // namespace npu::plan
