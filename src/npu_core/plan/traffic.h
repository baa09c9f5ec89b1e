// GM traffic of arguments and slots over the instances of a launch: who wrote a window last, and what is read again.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "npu_core/plan/box.h"

namespace npu::plan {

struct Writer { Shape at, shape; int64_t device_task, task; };

class Traffic {
public:
    explicit Traffic(const std::vector<int64_t>& tensor_bytes, int64_t l2_bytes = int64_t{1} << 60)
        : state_(tensor_bytes.size()), bytes_(tensor_bytes), l2_bytes_(l2_bytes) {}

    // Bytes of the window that miss L2: not touched before, or pushed out since by as many bytes as L2 holds. run: of blocks
    // of a loop that it is part of.
    int64_t touch(Id tensor, const Shape& at, const Shape& shape, int64_t bytes, int64_t run = -1);
    int64_t random_touch(Id tensor, int64_t bytes);     // rows anywhere in the tensor
    bool overflows() const { return overflows_; }       // something was read again after L2 had lost it
    void write(Id tensor, const Shape& at, const Shape& shape, int64_t device_task, int64_t task);
    void mark_written(Id tensor) { state_[tensor].written = true; }   // without keeping its writers
    bool written(Id tensor) const { return state_[tensor].written; }
    // Blocks of a loop that are not touched one by one. Moving: `count` windows that follow the one at `at`, a slope apart,
    // with so many bytes into L2 between two. Fixed: a window whose latest use comes so many bytes later.
    void skip_moving(Id tensor, const Shape& at, const Shape& shape, const Shape& slope, int64_t count, int64_t incoming);
    void skip_fixed(Id tensor, const Shape& at, const Shape& shape, int64_t incoming);
    void skip(Id tensor, int64_t touched, int64_t incoming);
    void skip_incoming(int64_t bytes) { incoming_ += bytes; }
    int64_t incoming() const { return incoming_; }
    int64_t touched(Id tensor) const { return state_[tensor].touched; }
    int64_t bytes(Id tensor) const { return bytes_[tensor]; }
    Box of_others(Id tensor, int64_t run) const;          // windows that were touched outside this run

    template <typename F> void writers(Id tensor, const Shape& at, const Shape& shape, F&& use) const;

    static uint64_t mix(uint64_t h, int64_t v) {
        h = (h ^ static_cast<uint64_t>(v)) * 0x9E3779B97F4A7C15ull;
        return h ^ (h >> 32);
    }
    static uint64_t window_key(const Shape& at, const Shape& shape) {
        uint64_t h = 7;
        for (int i = 0; i < at.rank; ++i) h = mix(mix(h, at[i]), shape[i]);
        return h;
    }

private:
    struct Line {                                        // windows skip_moving() stands for
        Shape at, shape, slope;
        int64_t count, used, incoming;                   // used: bytes that had come into L2 at the use of the first one
    };
    struct State {
        std::unordered_map<uint64_t, int64_t> windows;   // bytes that had come into L2 at the last use
        std::vector<Line> lines;
        Box before, in_run;                              // windows of earlier runs and of this one
        int64_t run = -1;
        int64_t touched = 0, last_use = 0;
        bool written = false;
        Shape cell;
        std::unordered_map<uint64_t, std::vector<Writer>> cells;
    };
    std::vector<State> state_;
    std::vector<int64_t> bytes_;
    int64_t l2_bytes_, incoming_ = 0;                   // incoming: bytes that came into L2 so far
    bool overflows_ = false;

    static bool find(const State& s, const Shape& at, const Shape& shape, int64_t& used);

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
