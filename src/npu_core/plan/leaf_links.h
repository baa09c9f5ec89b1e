// Who makes and who reads what in a leaf, in flat arrays, and the steps of its scheduling (plan/schedule.cpp).
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "npu_core/plan/leaf.h"

namespace npu::plan {

// Lists of small integers by owner, in one array.
struct Lists {
    std::vector<int32_t> begin, items;
    struct Range {
        const int32_t *first, *last;
        const int32_t* begin() const { return first; }
        const int32_t* end() const { return last; }
        size_t size() const { return static_cast<size_t>(last - first); }
        bool empty() const { return first == last; }
        int32_t back() const { return last[-1]; }
    };
    Range operator[](size_t i) const { return {items.data() + begin[i], items.data() + begin[i + 1]}; }
    // `each(put)` calls put(owner, item) in the order of the items; it runs twice.
    template <typename F> void fill(size_t owners, F&& each) {
        begin.assign(owners + 1, 0);
        each([&](size_t owner, int32_t) { ++begin[owner + 1]; });
        for (size_t i = 0; i < owners; ++i) begin[i + 1] += begin[i];
        items.resize(static_cast<size_t>(begin[owners]));
        std::vector<int32_t> next(begin.begin(), begin.end() - 1);
        each([&](size_t owner, int32_t item) { items[next[owner]++] = item; });
    }
};

struct Links {
    Lists producers, consumers;   // by tensor: operations, ascending
    Lists pred, succ;             // by operation, each once
};

// A set of integers below a limit whose least member is found in a few steps: bits, and bits that say which words have some.
class FirstSet {
public:
    explicit FirstSet(size_t limit) {
        do {
            limit = (limit + 63) / 64;
            levels_.emplace_back(limit, 0);
        } while (limit > 1);
    }
    bool empty() const { return levels_.back().empty() || levels_.back()[0] == 0; }
    void insert(int32_t x) {
        size_t at = static_cast<size_t>(x);
        for (std::vector<uint64_t>& level : levels_) {
            uint64_t& word = level[at / 64];
            const bool known = word != 0;
            word |= uint64_t{1} << (at % 64);
            if (known) break;
            at /= 64;
        }
    }
    int32_t take_first() {
        size_t at = 0;
        for (size_t k = levels_.size(); k-- > 0;) at = at * 64 + static_cast<size_t>(std::countr_zero(levels_[k][at]));
        const int32_t found = static_cast<int32_t>(at);
        for (std::vector<uint64_t>& level : levels_) {
            level[at / 64] &= ~(uint64_t{1} << (at % 64));
            if (level[at / 64]) break;
            at /= 64;
        }
        return found;
    }

private:
    std::vector<std::vector<uint64_t>> levels_;
};

struct Buffers {   // distinct local buffers of an operation
    int32_t ids[16];
    size_t count = 0;
    const int32_t* begin() const { return ids; }
    const int32_t* end() const { return ids + count; }
};
inline Buffers buffers_of(const Leaf& leaf, const LeafOp& op) {
    Buffers b;
    for (const Operands* side : {&op.in, &op.out})
        for (int32_t t : *side)
            if (const int32_t x = leaf.tensors[t].buffer; x >= 0 && std::find(b.begin(), b.end(), x) == b.end()) b.ids[b.count++] = x;
    return b;
}

// Puts the operations into the given order.
inline void reorder(Leaf& leaf, const std::vector<int32_t>& order) {
    leaf.spare.clear();
    leaf.spare.reserve(leaf.ops.capacity());
    for (int32_t i : order) leaf.spare.push_back(leaf.ops[i]);
    leaf.ops.swap(leaf.spare);
}

Links link(const Leaf& leaf);
std::vector<int32_t> backwards_order(const Leaf& leaf);                      // the sort of the operation list, of the leaf alone
std::vector<int32_t> depth_first(const Leaf& leaf, const Links& l);          // from the sinks; copies out as early as they can be
void share_buffers(Leaf& leaf, const Links& l);                              // sets buffers of tensors, their bytes and memories
void check_capacity(const Leaf& leaf, const Block& block, const Program& program, const Chip& chip);   // throws CapacityFault
void name_operation(CapacityFault& fault, int32_t operation, const Block& block, const Program& program);

}  // namespace npu::plan
