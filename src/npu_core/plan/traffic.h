// GM traffic of arguments and slots over the instances of a launch: who wrote a window last, and what is read again.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "npu_core/plan/graph.h"

namespace npu::plan {

struct Writer { Shape at, shape; int64_t device_task, task; };

class Traffic {
public:
    explicit Traffic(const std::vector<int64_t>& tensor_bytes, int64_t l2_bytes = int64_t{1} << 60)
        : state_(tensor_bytes.size()), bytes_(tensor_bytes), l2_bytes_(l2_bytes) {}

    // Bytes of the window that miss L2: not touched before, or pushed out since by as many bytes as L2 holds.
    int64_t touch(Id tensor, const Shape& at, const Shape& shape, int64_t bytes);
    int64_t random_touch(Id tensor, int64_t bytes);     // rows anywhere in the tensor
    bool overflows() const { return overflows_; }       // something was read again after L2 had lost it
    void write(Id tensor, const Shape& at, const Shape& shape, int64_t device_task, int64_t task);
    void mark_written(Id tensor) { state_[tensor].written = true; }   // without keeping its writers
    bool written(Id tensor) const { return state_[tensor].written; }
    template <typename F> void writers(Id tensor, const Shape& at, const Shape& shape, F&& use) const;

private:
    struct State {
        std::unordered_map<uint64_t, int64_t> windows;   // bytes that had come into L2 at the last use
        int64_t touched = 0, last_use = 0;
        bool written = false;
        Shape cell;
        std::unordered_map<uint64_t, std::vector<Writer>> cells;
    };
    std::vector<State> state_;
    std::vector<int64_t> bytes_;
    int64_t l2_bytes_, incoming_ = 0;                   // incoming: bytes that came into L2 so far
    bool overflows_ = false;

    static uint64_t mix(uint64_t h, int64_t v) {
        h = (h ^ static_cast<uint64_t>(v)) * 0x9E3779B97F4A7C15ull;
        return h ^ (h >> 32);
    }
    static uint64_t window_key(const Shape& at, const Shape& shape) {
        uint64_t h = 7;
        for (int i = 0; i < at.rank; ++i) h = mix(mix(h, at[i]), shape[i]);
        return h;
    }
    template <typename F> static void cells_of(const Shape& cell, const Shape& at, const Shape& shape, F&& use) {
        Shape lo = at, hi = at, c = at;
        int64_t count = 1;
        for (int i = 0; i < at.rank; ++i) {
            lo[i] = at[i] / cell[i];
            hi[i] = (at[i] + shape[i] - 1) / cell[i];
            count *= hi[i] - lo[i] + 1;
        }
        c = lo;
        while (true) {
            uint64_t h = 3;
            for (int i = 0; i < at.rank; ++i) h = mix(h, c[i]);
            use(h, c);
            int i = at.rank - 1;
            for (; i >= 0; --i) {
                if (++c[i] <= hi[i]) break;
                c[i] = lo[i];
            }
            if (i < 0) return;
        }
    }
};

template <typename F> void Traffic::writers(Id tensor, const Shape& at, const Shape& shape, F&& use) const {
    const State& s = state_[tensor];
    if (!s.written) return;
    cells_of(s.cell, at, shape, [&](uint64_t key, const Shape&) {
        auto it = s.cells.find(key);
        if (it == s.cells.end()) return;
        for (const Writer& w : it->second)
            if (overlaps(w.at, w.shape, at, shape)) use(w);
    });
}

}  // namespace npu::plan
