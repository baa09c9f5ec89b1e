// A small pool of threads for work inside one operation. Started on first use, dropped in a forked child.
#pragma once
#include <cstdint>
#include <type_traits>

namespace npu {

int default_thread_count();
void set_thread_count(int n);  // n >= 1; throws std::invalid_argument
int thread_count();

using TaskFn = void (*)(void* context, int64_t task);
// Calls fn for tasks [0, tasks), each once, in any order, on any thread; returns when all are done. A call from inside
// a task, or while another caller has the pool, runs on the calling thread. The first exception of a task is rethrown.
void run_tasks(TaskFn fn, void* context, int64_t tasks);

// Splits [0, n) into contiguous ranges, one or a few per thread: f(begin, end). `ns` is the estimated time of all the
// work; below 50 us everything stays on this thread.
template <class F>
void parallel_ranges(int64_t n, double ns, F&& f) {
    const int threads = thread_count();
    if (threads == 1 || ns < 50e3 || n < 2) {
        if (n > 0) f(int64_t{0}, n);
        return;
    }
    struct Context { std::remove_reference_t<F>* f; int64_t n, tasks; } c{&f, n, 0};
    c.tasks = static_cast<int64_t>(threads) * 4;
    if (const int64_t most = static_cast<int64_t>(ns / 25e3) + 1; c.tasks > most) c.tasks = most;
    if (c.tasks > n) c.tasks = n;
    run_tasks([](void* p, int64_t t) {
        auto& x = *static_cast<Context*>(p);
        (*x.f)(x.n * t / x.tasks, x.n * (t + 1) / x.tasks);
    }, &c, c.tasks);
}

}  // namespace npu
