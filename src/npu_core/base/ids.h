// A short list of ids: four inline, more on the heap. Graph nodes have few operands and mostly one consumer.
#pragma once
#include <algorithm>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace npu {

class Ids {
public:
    Ids() = default;
    Ids(std::initializer_list<int32_t> list) { assign(list.begin(), list.end()); }
    Ids(const std::vector<int32_t>& list) { assign(list.begin(), list.end()); }
    Ids(const Ids& o) { assign(o.begin(), o.end()); }
    Ids(Ids&& o) noexcept : size_(o.size_), capacity_(o.capacity_), room_(o.room_) { o.size_ = 0; o.capacity_ = INLINE; }
    ~Ids() { release(); }
    Ids& operator=(const Ids& o) {
        if (this != &o) assign(o.begin(), o.end());
        return *this;
    }
    Ids& operator=(Ids&& o) noexcept {
        std::swap(size_, o.size_);
        std::swap(capacity_, o.capacity_);
        std::swap(room_, o.room_);
        return *this;
    }

    int32_t* begin() { return capacity_ > INLINE ? room_.heap : room_.here; }
    int32_t* end() { return begin() + size_; }
    const int32_t* begin() const { return capacity_ > INLINE ? room_.heap : room_.here; }
    const int32_t* end() const { return begin() + size_; }
    int32_t operator[](size_t i) const { return begin()[i]; }
    int32_t& operator[](size_t i) { return begin()[i]; }
    int32_t front() const { return begin()[0]; }
    int32_t back() const { return begin()[size_ - 1]; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    void clear() { size_ = 0; }

    void reserve(size_t count) {
        if (count > capacity_) grow(static_cast<uint32_t>(count));
    }
    void push_back(int32_t x) {
        if (size_ == capacity_) grow(2 * capacity_);
        begin()[size_++] = x;
    }
    template <class It> void assign(It first, It last) {
        size_ = 0;
        reserve(static_cast<size_t>(std::distance(first, last)));
        for (; first != last; ++first) push_back(*first);
    }
    bool contains(int32_t x) const { return std::find(begin(), end(), x) != end(); }

    // As an ordered set of creation numbers.
    void insert_sorted(int32_t x) {
        if (empty() || back() < x) return push_back(x);
        const int32_t* at = std::lower_bound(begin(), end(), x);
        if (*at == x) return;
        const auto i = at - begin();
        push_back(x);
        std::rotate(begin() + i, end() - 1, end());
    }
    void erase_value(int32_t x) {
        int32_t* at = std::lower_bound(begin(), end(), x);
        if (at == end() || *at != x) return;
        std::move(at + 1, end(), at);
        --size_;
    }
    void sort_unique() {
        std::sort(begin(), end());
        size_ = static_cast<uint32_t>(std::unique(begin(), end()) - begin());
    }
    template <class F> void erase_if(F&& gone) { size_ = static_cast<uint32_t>(std::remove_if(begin(), end(), gone) - begin()); }
    bool operator==(const Ids& o) const { return size_ == o.size_ && std::equal(begin(), end(), o.begin()); }
    auto operator<=>(const Ids& o) const { return std::lexicographical_compare_three_way(begin(), end(), o.begin(), o.end()); }

private:
    static constexpr uint32_t INLINE = 4;
    void grow(uint32_t capacity) {
        int32_t* more = new int32_t[capacity];
        std::copy(begin(), end(), more);
        release();
        room_.heap = more;
        capacity_ = capacity;
    }
    void release() {
        if (capacity_ > INLINE) delete[] room_.heap;
    }
    uint32_t size_ = 0, capacity_ = INLINE;
    union { int32_t here[INLINE]; int32_t* heap; } room_ = {};
};

}  // namespace npu
