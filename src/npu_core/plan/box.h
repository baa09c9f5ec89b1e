// Bounding boxes of windows.
#pragma once
#include <algorithm>

#include "npu_core/plan/graph.h"

namespace npu::plan {

struct Box {
    Shape low, high;            // high: first place outside
    bool empty = true;

    void add(const Shape& at, const Shape& shape) {
        if (empty) { *this = {at, plus(at, shape), false}; return; }
        for (int i = 0; i < low.rank; ++i) {
            low[i] = std::min(low[i], at[i]);
            high[i] = std::max(high[i], at[i] + shape[i]);
        }
    }
    void add(const Box& o) {
        if (o.empty) return;
        if (empty) { *this = o; return; }
        for (int i = 0; i < low.rank; ++i) {
            low[i] = std::min(low[i], o.low[i]);
            high[i] = std::max(high[i], o.high[i]);
        }
    }
    bool meets(const Box& o) const {
        if (empty || o.empty) return false;
        for (int i = 0; i < low.rank; ++i)
            if (low[i] >= o.high[i] || o.low[i] >= high[i]) return false;
        return true;
    }
};

inline bool still(const Shape& slope) {
    for (int i = 0; i < slope.rank; ++i)
        if (slope[i] != 0) return false;
    return true;
}

// `at` after `steps` steps.
inline Shape moved(Shape at, const Shape& slope, int64_t steps) {
    for (int i = 0; i < slope.rank; ++i) at[i] += steps * slope[i];
    return at;
}

}  // namespace npu::plan
