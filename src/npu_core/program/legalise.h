// Legalise: which half-precision results keep an fp32 twin, and which operands are read as that twin.
//
// An operation whose row says that its dtype has no arithmetic takes fp32 operands and gives an fp32 result, kept with
// its half-even rounded twin. A later such operation in the same block reads the fp32 one; every other consumer reads
// the rounded one. One rule serves stepping (item by item) and a finished decision tree.
#pragma once
#include <vector>

#include "npu_core/program/program.h"

namespace npu {

class Legaliser {
  public:
    void op(Program& p, Op& op);                 // sets wide_ins and wide_out
    void written(Id tensor) { forget(tensor); }  // SET, ASSEMBLE, STORE, DECL: the twin is gone
    void new_block() { block_ = ++last_block_; }
    void body(Program& p, Id body);              // a whole body with everything inside

  private:
    struct Undo { Id tensor; int32_t block; };
    void mark(Id tensor, int32_t block);
    void forget(Id tensor);

    std::vector<int32_t> twin_block_;            // per tensor: block whose arithmetic made it, 0: no twin
    std::vector<Undo> undo_;                     // changes made inside open branches
    int32_t block_ = 1, last_block_ = 1;
    int branch_depth_ = 0;
};

// Legalises the whole Program from scratch.
void legalise(Program& p);

}  // namespace npu
