// The machine: one leaf on one core, then tasks on cores with dispatch.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "npu_core/cost/cost.h"
#include "npu_core/program/breakdown.h"

namespace npu::machine {

// One execution of a leaf: the same every time.
struct LeafTiming {
    int64_t cycles = 0;                               // from the task's start to its end
    std::array<int64_t, cost::PIPES> busy{};
    std::array<int64_t, cost::PIPES> from{}, until{};         // when a pipe is taken first and given back; 0, 0: unused
    // Memory: first allocation, last release; the first and the last cycle with more than half of it taken. -1: never.
    std::array<int64_t, plan::MEMS> held_from{}, held_until{}, half_from{}, half_until{};
    int64_t read_bytes = 0;                           // GM to the core
    int64_t beside_reads = 0;                         // cycles beyond its reads where reads are slow
    int64_t latency = 0;                              // nominal cycles, independent of the device: the order of tasks
    std::map<cost::Code, std::pair<int64_t, int64_t>> ops;   // count, summed cycles
};

// When an operation of a leaf runs, after the start of the task; parallel to Leaf::ops.
struct OpTime {
    cost::Pipe pipe;
    int64_t start, end;
};

// In-order pipes. `times`: filled where given.
LeafTiming run_calibrated(const plan::Leaf& leaf, const cost::Calibrated& cost, const plan::Chip& chip,
                          std::vector<OpTime>* times = nullptr);

struct Task {
    int32_t leaf = -1;                                // -1: hub
    cost::Core core = cost::Core::AIV;
    int32_t predecessors = 0;
    int32_t unit = -1;                                // tasks of one instance that hang together
    int64_t miss_bytes = 0, miss_rows = 0;            // reads that come from HBM; contiguous runs of them
    int64_t through_bytes = 0;                        // writes that L2 hands on to HBM at once: it absorbs no more
    int32_t first_edge = 0, edges = 0;                // range of DeviceTask::edges: who waits for it
};
struct DeviceTask {
    std::vector<Task> tasks;
    std::vector<int32_t> edges;                       // successors, those of one task together

    size_t size() const { return tasks.size(); }
    const Task& operator[](size_t t) const { return tasks[t]; }
    auto begin() const { return tasks.begin(); }
    auto end() const { return tasks.end(); }
    std::span<const int32_t> successors(const Task& t) const {
        return {edges.data() + t.first_edge, static_cast<size_t>(t.edges)};
    }
};

struct Run {
    Idle idle;
    int64_t cycles = 0;                               // whole run, launch not included
    int64_t span = 0;                                 // first task start to last task end
    int64_t aic_busy = 0, aiv_busy = 0, dispatch_busy = 0;   // dispatch: the busiest AICPU thread
    int64_t critical = 0, longest = 0;                // longest chain of tasks, without waiting for cores; longest task; sums over DeviceTasks
    int cores_used = 0;
};

// When and where a task runs; core -1: a hub.
struct TaskTime {
    int32_t core = -1;                                // AIC first, then AIV
    int64_t start = 0, end = 0;
};

// List schedule over the cores with dispatch, completion and resolve cost per task on the owning AICPU thread.
// last_first, in_turn: device_sched_mode, bits 0 and 1. In turn: tasks go to the threads one after another, and each thread
// has a range of cores of its own; else to whichever thread and core is free first.
struct DispatchCost {
    double dispatch, pickup, completion, resolve, stitch;
    int threads;
    bool last_first = false, in_turn = false;
};
struct Pools;

// One DeviceTask on an idle machine; times from its start.
struct DeviceRun {
    Idle idle;                                        // no_task not included
    int64_t cycles = 0;                               // to the end of its last task, completion included
    int64_t first = -1, last = 0;                     // first task start, last task end; -1: no task
    int64_t aic_busy = 0, aiv_busy = 0, critical = 0, longest = 0;
    int64_t no_task_aic = 0, no_task_aiv = 0;         // after the last task of each core
    std::vector<int64_t> thread_busy;                 // by AICPU thread
    std::vector<char> used;                           // by core, AIC first
};
// order, taken: serving_order() and shared_cycles() of the tasks. times: filled where given.
struct Order;
DeviceRun schedule_cores(const DeviceTask& tasks, const Order& order, const std::vector<int64_t>& taken,
                         const std::vector<LeafTiming>& leaves, const plan::Chip& chip, const DispatchCost& cost,
                         std::vector<TaskTime>* times = nullptr);

// DeviceTasks one after another: the next one is stitched when the one before has ended.
class Sequence {
public:
    Sequence(const plan::Chip& chip, const DispatchCost& cost);
    void add(const DeviceRun& one, int64_t times);
    int64_t next_start() const { return empty_ ? 0 : run_.cycles + stitch_; }
    Run finish() const;

private:
    const plan::Chip& chip_;
    const int64_t stitch_;
    bool empty_ = true;
    int64_t first_ = -1, last_ = 0, no_task_aic_ = 0, no_task_aiv_ = 0;
    Run run_;
    std::vector<int64_t> thread_busy_;
    std::vector<char> used_;
};

// One program per core, as hand-written kernels have it: every cluster works through its share of the tasks in a fixed
// order, its pipes run on from one task into the next, and cube and vector cores of a cluster overlap. handover: cycles from
// the end of a task on one core to the start of its successor on another.
Run schedule_resident(const DeviceTask& tasks, const std::vector<LeafTiming>& leaves, const plan::Chip& chip, const Pools& pools,
                      int64_t handover, std::vector<TaskTime>* times = nullptr);

}  // namespace npu::machine
