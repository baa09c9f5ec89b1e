// Walks the iteration space of a group strip by strip: registers of one strip stay in L1.
#pragma once
#include <cstdint>

#include "npu_core/numeric/group.h"
#include "npu_core/numeric/nest.h"

namespace npu {

using GroupNest = Nest<MOST_LOADS + 1>;   // array 0: results; then the loads

class StripRun {
  public:
    // sources: per load; outs: per store; immediates: per immediate, in the register's type.
    StripRun(const Group& group, const GroupNest& nest, const char* const* sources, char* const* outs,
        const uint64_t* immediates);
    int64_t strips() const { return outer_.rows() * strips_per_line(); }
    void operator()(int64_t begin, int64_t end) const;   // these strips, on the calling thread

  private:
    struct Registers { char* slots; const char** ptr; int* step; };

    int64_t strip_length() const { return rows_per_strip_ > 1 ? rows_per_strip_ * inner_ : STRIP; }
    int64_t strips_per_line() const { return (line_ + strip_length() - 1) / strip_length(); }
    void execute(const Group::Code& c, int64_t out_offset, int64_t n, const Registers& r) const;
    void load(int index, int64_t offset, int64_t col, int64_t n, const Registers& r) const;
    void store(int index, int64_t offset, int64_t n, const Registers& r) const;
    template <class T> void gather(const char* from, int64_t col, int64_t n, int64_t stride, int64_t row_stride,
        void* to) const;

    const Group& g_;
    const GroupNest& nest_;
    const char* const* sources_;
    char* const* outs_;
    const uint64_t* immediates_;
    int64_t inner_, rows_per_strip_ = 1, line_;  // line: elements along the innermost (one or two) axes
    GroupNest outer_;                            // of what is around them
};

}  // namespace npu
