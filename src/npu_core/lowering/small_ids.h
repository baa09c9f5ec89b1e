// A short list of ids: three inline, more on the heap. Graph nodes have few operands and mostly one consumer.
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>

namespace npu::lowering {

class Ids {
public:
    Ids() = default;
    Ids(std::initializer_list<int32_t> list) { for (int32_t x : list) push_back(x); }
    Ids(const Ids& o) { assign(o.begin(), o.end()); }
    Ids(Ids&& o) noexcept : size_(o.size_), capacity_(o.capacity_), heap_(std::move(o.heap_)) {
        std::copy(o.inline_, o.inline_ + INLINE, inline_);
        o.size_ = 0;
        o.capacity_ = INLINE;
    }
    Ids& operator=(const Ids& o) {
        if (this != &o) { size_ = 0; assign(o.begin(), o.end()); }
        return *this;
    }
    Ids& operator=(Ids&& o) noexcept {
        size_ = o.size_;
        capacity_ = o.capacity_;
        heap_ = std::move(o.heap_);
        std::copy(o.inline_, o.inline_ + INLINE, inline_);
        o.size_ = 0;
        o.capacity_ = INLINE;
        return *this;
    }

    int32_t* begin() { return heap_ ? heap_.get() : inline_; }
    int32_t* end() { return begin() + size_; }
    const int32_t* begin() const { return heap_ ? heap_.get() : inline_; }
    const int32_t* end() const { return begin() + size_; }
    int32_t operator[](size_t i) const { return begin()[i]; }
    int32_t& operator[](size_t i) { return begin()[i]; }
    int32_t front() const { return begin()[0]; }
    int32_t back() const { return begin()[size_ - 1]; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    void clear() { size_ = 0; }

    void push_back(int32_t x) {
        if (size_ == capacity_) grow();
        begin()[size_++] = x;
    }
    template <class It> void assign(It first, It last) {
        size_ = 0;
        for (; first != last; ++first) push_back(*first);
    }
    void sort_unique() {
        if (size_ < 2) return;
        std::sort(begin(), end());
        size_ = uint32_t(std::unique(begin(), end()) - begin());
    }
    bool contains(int32_t x) const { return std::find(begin(), end(), x) != end(); }

    // As an ordered set of creation numbers.
    void insert_sorted(int32_t x) {
        int32_t* at = std::lower_bound(begin(), end(), x);
        if (at != end() && *at == x) return;
        const size_t i = size_t(at - begin());
        push_back(x);
        std::rotate(begin() + i, end() - 1, end());
    }
    template <class P> void erase_if(P&& drop) { size_ = uint32_t(std::remove_if(begin(), end(), drop) - begin()); }
    // Of an ordered set.
    void erase_value(int32_t x) {
        int32_t* at = std::lower_bound(begin(), end(), x);
        if (at == end() || *at != x) return;
        std::move(at + 1, end(), at);
        --size_;
    }
    bool operator==(const Ids& o) const { return size_ == o.size_ && std::equal(begin(), end(), o.begin()); }

private:
    static constexpr uint32_t INLINE = 3;
    void grow() {
        std::unique_ptr<int32_t[]> more(new int32_t[capacity_ * 2]);
        std::copy(begin(), end(), more.get());
        heap_ = std::move(more);
        capacity_ *= 2;
    }
    uint32_t size_ = 0, capacity_ = INLINE;
    int32_t inline_[INLINE];
    std::unique_ptr<int32_t[]> heap_;
};

}  // namespace npu::lowering
