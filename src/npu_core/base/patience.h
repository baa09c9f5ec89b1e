// Long work asks now and then whether it should end (Ctrl-C).
#pragma once
#include <chrono>

namespace npu {

struct Interrupted {};                         // thrown by Patience; whoever was asked has noted why

void set_interrupt_check(bool (*should_end)()); // asked about every 20 ms by the thread that works; null: never

class Patience {
  public:
    void check() {
        if (++steps_ >= steps_per_look_) look();
    }

  private:
    void look();
    std::chrono::steady_clock::time_point asked_{};
    int steps_ = 0, steps_per_look_ = 1;       // since the clock was looked at
};

}  // namespace npu
