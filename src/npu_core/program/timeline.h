// When each task of a launch runs on which core, and what its pipes do meanwhile: handed out only when asked for.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace npu {

// Pipes by the names of the public simulator.
constexpr std::array<const char*, 6> TIMELINE_PIPES = {"MTE_IN", "MTE1", "CUBE", "VECTOR_ALU", "MTE_OUT", "PIPE_S"};

struct TimelineOp {
    int8_t pipe;                  // index of TIMELINE_PIPES
    int64_t start, end;           // cycles after the start of the task
    const char* name;
};

// One leaf function: equal in every execution.
struct TimelineLeaf {
    const char* core = "AIV";     // AIC, AIV or HUB
    std::string ops, label, line; // operations of the kernel in it, first semantic label, first line
    int64_t cycles = 0;
    std::vector<std::string> in, out;   // tiles loaded and stored, such as "fp32[32, 512]"
    std::vector<TimelineOp> timings;
};

struct TimelineTask {
    int32_t device_task = 0, instance = 0, id = 0;   // id: within the instance's root function
    int32_t root = 0, leaf = -1, sub_graph = -1;     // leaf -1: a hub
    int32_t core = -1;                               // AIC first, then AIV; -1 for a hub
    int64_t start = 0, end = 0;                      // cycles
    int32_t last = -1;                               // task that ended last among those it waited for
};

struct Timeline {
    int64_t aic = 0, aiv = 0;
    double cycles_per_us = 1, launch_us = 0;         // launch_us: before cycle 0
    std::vector<TimelineLeaf> leaves;
    std::vector<TimelineTask> tasks;                 // by device task and id
    int64_t tasks_left_out = 0;

    // Sets TimelineTask::last of tasks [first, end): successors(i) lists places behind `first`.
    template <class F> void link(size_t first, F&& successors);
    void keep_first(int64_t most);                   // drops the tasks that start last and counts them
    std::string json() const;
};

template <class F> void Timeline::link(size_t first, F&& successors) {
    std::vector<int32_t> open(tasks.size() - first, 0), ready;
    for (size_t i = 0; i < open.size(); ++i)
        for (int32_t s : successors(i)) ++open[s];
    for (size_t i = 0; i < open.size(); ++i)
        if (open[i] == 0) ready.push_back(int32_t(i));
    for (size_t head = 0; head < ready.size(); ++head) {
        const size_t i = size_t(ready[head]);
        TimelineTask& task = tasks[first + i];
        if (task.leaf < 0 && task.last >= 0) task.start = task.end = tasks[task.last].end;   // a hub takes no time
        for (int32_t s : successors(i)) {
            TimelineTask& next = tasks[first + s];
            if (next.last < 0 || tasks[next.last].end < task.end) next.last = int32_t(first + i);
            if (--open[s] == 0) ready.push_back(s);
        }
    }
    for (size_t i = 0; first + i < tasks.size(); ++i) {   // a hub in front of everything: when the first task behind it starts
        TimelineTask& task = tasks[first + i];
        if (task.leaf >= 0 || task.last >= 0) continue;
        bool any = false;
        for (int32_t s : successors(i)) {
            if (any && tasks[first + s].start >= task.start) continue;
            task.start = task.end = tasks[first + s].start;
            any = true;
        }
    }
}

}  // namespace npu
