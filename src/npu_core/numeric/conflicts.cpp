#include "npu_core/numeric/conflicts.h"

#include <algorithm>
#include <unordered_set>

namespace npu {

namespace {

bool contiguous(const Touch& t) {
    int64_t inner = 1;
    for (int i = t.shape.rank - 1, whole = 1; i >= 0; --i) {
        if (!whole && t.extent[i] != 1) return false;
        whole = whole && t.extent[i] == t.shape[i];
        inner *= t.extent[i];
    }
    return inner > 0;
}

// Boxes of one shape are compared exactly; boxes of different shapes of one memory only where both are contiguous.
bool overlap(const Touch& a, const Touch& b) {
    if (a.first >= b.last || b.first >= a.last) return false;
    if (!(a.shape == b.shape) || a.tensor != b.tensor) return contiguous(a) && contiguous(b);
    for (int i = 0; i < a.at.rank; ++i)
        if (a.at[i] >= b.at[i] + b.extent[i] || b.at[i] >= a.at[i] + a.extent[i]) return false;
    return true;
}

}  // namespace

const Touch* ConflictWatch::block_write(const Touch& write) {
    for (const Touch& t : block_)
        if (overlap(t, write)) return &t;
    if (block_.size() < MOST_WRITES) block_.push_back(write);
    return nullptr;
}

void ConflictWatch::touch(const Touch& t) {
    for (Loop& loop : loops_) {
        if (loop.touches.size() >= MOST_TOUCHES) continue;
        loop.touches.push_back(t);
        loop.touches.back().iteration = loop.iteration;
    }
}

std::vector<ConflictWatch::Race> ConflictWatch::leave() {
    Loop loop = std::move(loops_.back());
    loops_.pop_back();
    auto& all = loop.touches;
    std::vector<Race> races;
    if (std::none_of(all.begin(), all.end(), [](const Touch& t) { return t.write; })) return races;
    std::sort(all.begin(), all.end(), [](const Touch& a, const Touch& b) { return a.first < b.first; });
    std::vector<const Touch*> open;
    std::unordered_set<int32_t> reported;
    int64_t pairs = 0;
    for (const Touch& t : all) {
        std::erase_if(open, [&](const Touch* o) { return o->last <= t.first; });
        for (const Touch* o : open) {
            if (o->iteration == t.iteration || (!o->write && !t.write)) continue;
            if (++pairs > MOST_PAIRS) return races;
            if (!overlap(*o, t)) continue;
            const Touch &w = t.write ? t : *o, &other = t.write ? *o : t;
            if (reported.insert(w.line).second) races.push_back({w, other, loop.line});
        }
        open.push_back(&t);
    }
    return races;
}

}  // namespace npu
