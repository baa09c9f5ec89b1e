// Windows of one storage, found by place.
#pragma once
#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "npu_core/base/types.h"

namespace npu::lowering {

// Windows by the cells of a regular grid that they touch; those over many cells are kept apart.
class WindowGrid {
public:
    explicit WindowGrid(const Shape& cell) : cell_(cell) {
        for (int d = 0; d < cell_.rank; ++d) cell_[d] = std::max<int64_t>(cell_[d], 1);
    }

    void add(const int64_t* at, const Shape& shape, int32_t number) {
        const Span s = span(at, shape);
        ++count_;
        if (s.cells > MOST_CELLS || shape.rank != cell_.rank) wide_.push_back(number);
        else each_cell(s, [&](uint64_t key) { cells_[key].push_back(number); });
    }

    // Numbers of all windows that may overlap this one, ascending. False: it touches more cells than there are windows.
    bool candidates(const int64_t* at, const Shape& shape, std::vector<int32_t>& found) const {
        const Span s = span(at, shape);
        found.clear();
        if (s.cells > count_) return false;
        found = wide_;
        each_cell(s, [&](uint64_t key) {
            if (auto it = cells_.find(key); it != cells_.end()) found.insert(found.end(), it->second.begin(), it->second.end());
        });
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
        return true;
    }

private:
    static constexpr int64_t MOST_CELLS = 64;   // of one window

    struct Span { int64_t low[MAX_RANK], high[MAX_RANK], cells = 1; };

    Span span(const int64_t* at, const Shape& shape) const {
        Span s;
        for (int d = 0; d < cell_.rank; ++d) {
            auto index = [&](int64_t x) { return x >= 0 ? x / cell_[d] : -((-x + cell_[d] - 1) / cell_[d]); };
            s.low[d] = index(at[d]);
            s.high[d] = index(at[d] + std::max<int64_t>(d < shape.rank ? shape[d] : 1, 1) - 1);
            s.cells = std::min<int64_t>(s.cells * (s.high[d] - s.low[d] + 1), INT32_MAX);
        }
        return s;
    }

    template <class F> void each_cell(const Span& s, F&& use) const {
        int64_t place[MAX_RANK];
        std::copy(s.low, s.low + cell_.rank, place);
        while (true) {
            uint64_t key = 0;
            for (int d = 0; d < cell_.rank; ++d) key = (key + uint64_t(place[d])) * 0x9E3779B97F4A7C15ull;
            use(key);
            int d = cell_.rank - 1;
            while (d >= 0 && ++place[d] > s.high[d]) { place[d] = s.low[d]; --d; }
            if (d < 0) return;
        }
    }

    Shape cell_;
    int64_t count_ = 0;
    std::unordered_map<uint64_t, std::vector<int32_t>> cells_;   // by hash of the cell
    std::vector<int32_t> wide_;
};

}  // namespace npu::lowering
