// The values of a running Program by tensor id. Only tensors that are alive take room: their Values are reused, so a long
// stepped launch does not grow with every operation.
#pragma once
#include <deque>
#include <vector>

#include "npu_core/numeric/value.h"
#include "npu_core/program/program.h"

namespace npu {

class Env {
  public:
    size_t size() const { return by_id_.size(); }
    void resize(size_t n) { by_id_.resize(n, nullptr); }
    bool ready(Id t) const { return by_id_[t] && by_id_[t]->state == State::READY; }
    // References stay good until the tensor is released.
    Value& operator[](Id t) {
        Value*& v = by_id_[t];
        if (!v) [[unlikely]] v = take();
        return *v;
    }
    void release(Id t) {
        Value*& v = by_id_[t];
        if (!v) return;
        v->clear();
        idle_.push_back(v);
        v = nullptr;
    }

  private:
    Value* take() {
        if (idle_.empty()) return &storage_.emplace_back();
        Value* v = idle_.back();
        idle_.pop_back();
        return v;
    }
    std::deque<Value> storage_;
    std::vector<Value*> by_id_, idle_;
};

}  // namespace npu
