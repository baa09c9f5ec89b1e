#include "npu_core/base/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace npu {

namespace {

class ThreadPool {
  public:
    explicit ThreadPool(int helpers) {
        for (int i = 0; i < helpers; ++i) threads_.emplace_back([this] { serve(); });
    }
    ~ThreadPool() {
        {
            std::lock_guard lock(mutex_);
            stop_ = true;
        }
        wake_.notify_all();
        for (auto& t : threads_) t.join();
    }
    int helpers() const { return static_cast<int>(threads_.size()); }

    void run(TaskFn fn, void* context, int64_t tasks) {
        {
            std::lock_guard lock(mutex_);
            fn_ = fn; context_ = context; tasks_ = tasks;
            next_ = 0; busy_ = 0; error_ = nullptr; ++generation_;
        }
        wake_.notify_all();
        work();
        std::unique_lock lock(mutex_);
        fn_ = nullptr;                                 // a helper that wakes late finds nothing to do
        done_.wait(lock, [this] { return busy_ == 0; });
        if (error_) std::rethrow_exception(error_);
    }

  private:
    void work() {
        for (int64_t t; (t = next_.fetch_add(1)) < tasks_;) {
            try {
                fn_(context_, t);
            } catch (...) {
                std::lock_guard lock(mutex_);
                if (!error_) error_ = std::current_exception();
            }
        }
    }
    void serve() {
        uint64_t seen = 0;
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
            if (stop_) return;
            seen = generation_;
            if (!fn_) continue;
            ++busy_;
            lock.unlock();
            work();
            lock.lock();
            if (--busy_ == 0) done_.notify_all();
        }
    }

    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    TaskFn fn_ = nullptr;
    void* context_ = nullptr;
    int64_t tasks_ = 0;
    std::atomic<int64_t> next_{0};
    int busy_ = 0;
    uint64_t generation_ = 0;
    bool stop_ = false;
    std::exception_ptr error_;
};

std::atomic<int> wanted{0};
std::mutex* owner_mutex = new std::mutex;      // who may use the pool; leaked with it: threads must not outlive statics
ThreadPool* pool = nullptr;
thread_local bool inside = false;

// In a forked child the helpers are gone: forget them (a leak, once per fork) and start new ones on the next use.
void after_fork_in_child() {
    owner_mutex = new std::mutex;
    pool = nullptr;
    inside = false;
}
const int fork_handler = pthread_atfork(nullptr, nullptr, after_fork_in_child);

}  // namespace

int default_thread_count() {
    static const int n = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
    return n;
}

void set_thread_count(int n) {
    if (n < 1 || n > 1024) throw std::invalid_argument("the number of threads must be between 1 and 1024");
    wanted = n;
}

int thread_count() {
    const int n = wanted.load(std::memory_order_relaxed);
    return n ? n : default_thread_count();
}

void run_tasks(TaskFn fn, void* context, int64_t tasks) {
    (void)fork_handler;
    const int threads = thread_count();
    std::unique_lock lock(*owner_mutex, std::defer_lock);
    if (threads == 1 || tasks < 2 || inside || !lock.try_lock()) {
        for (int64_t t = 0; t < tasks; ++t) fn(context, t);
        return;
    }
    if (pool && pool->helpers() != threads - 1) {
        delete pool;
        pool = nullptr;
    }
    if (!pool) pool = new ThreadPool(threads - 1);
    struct Inside {
        Inside() { inside = true; }
        ~Inside() { inside = false; }
    } guard;
    pool->run(fn, context, tasks);
}

}  // namespace npu
