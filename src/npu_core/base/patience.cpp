#include "npu_core/base/patience.h"

#include <algorithm>
#include <atomic>

namespace npu {

namespace {
std::atomic<bool (*)()> interrupt_check{nullptr};
constexpr int MOST_STEPS = 16;
}  // namespace

void set_interrupt_check(bool (*should_end)()) { interrupt_check = should_end; }

// Looks at the clock every few steps while they are short, else after each.
void Patience::look() {
    using namespace std::chrono_literals;
    steps_ = 0;
    const auto now = std::chrono::steady_clock::now();
    if (now - asked_ < 20ms) {
        steps_per_look_ = std::min(2 * steps_per_look_, MOST_STEPS);
        return;
    }
    steps_per_look_ = 1;
    bool (*const should_end)() = interrupt_check;
    if (should_end && should_end()) throw Interrupted{};
    asked_ = std::chrono::steady_clock::now();
}

}  // namespace npu
