// Reference-counted buffers from a pool with size classes, so that the storage of loop bodies stays in cache.
// A pool serves one Machine at a time; counts are therefore plain integers.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace npu {

class BufferPool;

struct alignas(64) Buffer {
    int32_t refs = 0;
    int32_t size_class = 0;
    int64_t capacity_bytes = 0;
    BufferPool* pool = nullptr;
    Buffer* next = nullptr;
    char* data() { return reinterpret_cast<char*>(this) + sizeof(Buffer); }
};

class BufferPool {
  public:
    BufferPool() = default;
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;
    ~BufferPool() { trim(0); }
    Buffer* take(int64_t bytes);  // uninitialised, 64-byte aligned, refs = 1; throws std::bad_alloc
    void give_back(Buffer* b);
    void trim(int64_t keep_bytes);

  private:
    static constexpr int CLASSES = 4 * 48;
    Buffer* free_[CLASSES] = {};
    int64_t cached_bytes_ = 0;
};

// Pools outlive Machines, so that the next launch finds warm storage.
struct PoolLease {
    PoolLease();
    ~PoolLease();
    PoolLease(const PoolLease&) = delete;
    PoolLease& operator=(const PoolLease&) = delete;
    BufferPool& operator*() const { return *pool; }
    BufferPool* operator->() const { return pool.get(); }
    std::unique_ptr<BufferPool> pool;
};

class BufferRef {
  public:
    BufferRef() = default;
    explicit BufferRef(Buffer* taken) : b_(taken) {}  // takes over the count that `take` gave
    BufferRef(const BufferRef& o) : b_(o.b_) {
        if (b_) ++b_->refs;
    }
    BufferRef(BufferRef&& o) noexcept : b_(std::exchange(o.b_, nullptr)) {}
    BufferRef& operator=(BufferRef o) noexcept {
        std::swap(b_, o.b_);
        return *this;
    }
    ~BufferRef() { reset(); }
    void reset() {
        if (b_ && --b_->refs == 0) b_->pool->give_back(b_);
        b_ = nullptr;
    }
    explicit operator bool() const { return b_ != nullptr; }
    char* data() const { return b_->data(); }
    bool unique() const { return b_->refs == 1; }

  private:
    Buffer* b_ = nullptr;
};

}  // namespace npu
