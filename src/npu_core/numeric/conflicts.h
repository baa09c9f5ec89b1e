// Writes and reads of argument memory whose order the device does not keep: two assembles of one block to one place, and
// iterations of a parallel loop that touch each other's data.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "npu_core/program/program.h"

namespace npu {

struct Touch {
    Id tensor = -1;              // the argument, or an argument reshaped in place
    Shape shape, at, extent;     // of the tensor; of the box
    const char* first = nullptr; // bytes from the box's first element to behind its last
    const char* last = nullptr;
    int32_t line = -1;
    bool write = false;
    int64_t iteration = 0;
};

class ConflictWatch {
  public:
    // An earlier write of this block that the box overlaps; null: none. Notes the write.
    const Touch* block_write(const Touch& write);
    void new_block() { if (!block_.empty()) block_.clear(); }

    bool in_parallel() const { return !loops_.empty(); }
    void enter(int32_t line) { loops_.push_back({line, 0, {}}); }
    void next_iteration(int64_t i) { loops_.back().iteration = i; }
    void touch(const Touch& t);
    struct Race { Touch a, b; int32_t loop_line; };
    std::vector<Race> leave();   // at most one per line that writes

  private:
    static constexpr size_t MOST_WRITES = 64, MOST_TOUCHES = 1 << 17;   // beyond: not looked at
    static constexpr int64_t MOST_PAIRS = 20'000'000;
    struct Loop { int32_t line; int64_t iteration; std::vector<Touch> touches; };
    std::vector<Touch> block_;
    std::vector<Loop> loops_;
};

}  // namespace npu
