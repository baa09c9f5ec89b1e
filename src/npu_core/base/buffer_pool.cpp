#include "npu_core/base/buffer_pool.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>

namespace npu {

namespace {

constexpr int64_t SMALLEST_BYTES = 256;
constexpr int64_t MOST_CACHED_BYTES = int64_t{1} << 30;
constexpr int64_t KEPT_BETWEEN_LAUNCHES_BYTES = int64_t{128} << 20;
constexpr size_t HUGE_PAGE_BYTES = size_t{2} << 20;

// Four classes per power of two: at most 25 % of a buffer is unused.
int size_class_of(int64_t bytes) {
    if (bytes < SMALLEST_BYTES) bytes = SMALLEST_BYTES;
    const uint64_t v = static_cast<uint64_t>(bytes - 1);
    const int log = 63 - std::countl_zero(v);
    return 4 * log + static_cast<int>((v >> (log - 2)) & 3) + 1;
}
int64_t class_bytes(int c) {
    const int log = (c - 1) / 4, quarter = (c - 1) % 4;
    return (int64_t{1} << log) + (int64_t{quarter} + 1) * (int64_t{1} << (log - 2));
}

std::mutex& lease_mutex() { static std::mutex m; return m; }
std::vector<std::unique_ptr<BufferPool>>& idle_pools() { static std::vector<std::unique_ptr<BufferPool>> v; return v; }

}  // namespace

Buffer* BufferPool::take(int64_t wanted_bytes) {
    const int c = size_class_of(wanted_bytes);
    if (c >= CLASSES) throw std::bad_alloc();
    Buffer* b = free_[c];
    if (b) {
        free_[c] = b->next;
        cached_bytes_ -= b->capacity_bytes;
    } else {
        const int64_t capacity = class_bytes(c);
        const size_t bytes = sizeof(Buffer) + static_cast<size_t>(capacity);
        const size_t align = bytes >= 2 * HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : 64;
        const size_t whole = (bytes + align - 1) / align * align;
        void* p = std::aligned_alloc(align, whole);
        if (!p) throw std::bad_alloc();
#if defined(__linux__)
        if (align == HUGE_PAGE_BYTES) madvise(p, whole, MADV_HUGEPAGE);  // a hint: large results cost few page faults
#endif
        b = new (p) Buffer;
        b->size_class = c;
        b->capacity_bytes = capacity;
        b->pool = this;
    }
    b->refs = 1;
    return b;
}

void BufferPool::give_back(Buffer* b) {
    if (cached_bytes_ + b->capacity_bytes > MOST_CACHED_BYTES) {
        std::free(b);
        return;
    }
    b->next = free_[b->size_class];
    free_[b->size_class] = b;
    cached_bytes_ += b->capacity_bytes;
}

void BufferPool::trim(int64_t keep_bytes) {
    for (int c = CLASSES - 1; c >= 0 && cached_bytes_ > keep_bytes; --c)
        while (free_[c] && cached_bytes_ > keep_bytes) {
            Buffer* b = free_[c];
            free_[c] = b->next;
            cached_bytes_ -= b->capacity_bytes;
            std::free(b);
        }
}

PoolLease::PoolLease() {
    std::lock_guard lock(lease_mutex());
    auto& idle = idle_pools();
    if (idle.empty()) {
        pool = std::make_unique<BufferPool>();
    } else {
        pool = std::move(idle.back());
        idle.pop_back();
    }
}

PoolLease::~PoolLease() {
    pool->trim(KEPT_BETWEEN_LAUNCHES_BYTES);
    std::lock_guard lock(lease_mutex());
    if (idle_pools().size() < 4) idle_pools().push_back(std::move(pool));
}

}  // namespace npu
