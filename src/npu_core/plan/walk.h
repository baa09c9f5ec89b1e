// Walks a Program without data: evaluates its scalars, cuts it into instances of root functions and hands each one on.
#pragma once
#include <functional>
#include <set>
#include <stdexcept>
#include <string>

#include "npu_core/plan/block.h"
#include "npu_core/program/control.h"

namespace npu::plan {

// One execution of a root function.
struct Instance {
    const std::vector<Visit>& visits;
    const std::vector<Shape>& offsets;    // evaluated offsets of its dynamic accesses, by Visit::dyn
    const Valids& valids;                 // what is valid of results and slots where it is less than the shape
    uint64_t key[2];                      // which items ran: equal keys mean the same root function with the same tails,
                                          // an equal second one the same root function
    Id options;                           // pass options in force, NONE for none
    bool submit_before;                   // a DeviceTask ends before this instance
    const std::vector<Shape>& slopes;     // what each offset gains from one block of the loop to the next
    int64_t more;                         // further blocks of the loop that are sure to go the same way with offsets on that line
};

struct WalkNotes { std::set<std::string> assumptions; };

// `use` answers how many of the `more` blocks it has taken along; the walk goes on behind them.
void walk(const Program& program, const std::unordered_set<Id>& crossing, const std::vector<IntData>& data,
          const std::vector<Assumed>& assume, const std::function<int64_t(const Instance&)>& use, WalkNotes& notes);

}  // namespace npu::plan
