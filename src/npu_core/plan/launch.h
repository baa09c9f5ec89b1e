// The instances of a launch, gathered into DeviceTasks: who waits for whom, which reads miss L2, what moves. Equal
// DeviceTasks are kept once. Blocks of a loop that are sure to go like the one before them are taken in one go
// (plan/repeat.cpp, plan/jump.cpp); with Chip::skip_repeats off every one is planned by itself and the result is the same.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "npu_core/base/patience.h"
#include "npu_core/plan/options.h"
#include "npu_core/plan/root.h"
#include "npu_core/plan/traffic.h"
#include "npu_core/plan/walk.h"

namespace npu::plan {

// A window of an argument that a task reads or writes: it comes into L2, or is there already.
struct Touch {
    const Access* access;
    Id tensor;
    int32_t task;
    bool write;
};

struct Planned {
    struct Lag {                                    // how far back reads reach in a run
        std::vector<Shape> slope, shift;            // of this slope; shift: of the `mutual` sets where it begins
        int64_t blocks = 0;
        std::vector<Id> moving{};                   // tensors that are read at windows that move
    };
    int64_t id = 0;
    Root root;
    std::vector<Touch> touches;                     // reads in task order (of cut tiles: most bytes first), then writes
    std::map<Id, TensorTraffic> tensors;            // traffic of one execution
    std::vector<Id> mutual;                         // dynamic sets of tensors that it reads and writes
    std::vector<Lag> lags;                          // of late
    int64_t executed = 0;
};

// back: of a task of the same run, how many tasks before the instance's first one it is; else -1 - its place in the DeviceTask.
struct Wait { int32_t task; int64_t back; };
struct Miss {
    int32_t task;
    int64_t bytes, rows;                            // read from HBM
    int64_t through;                                // written, and handed on to HBM at once
    bool operator==(const Miss&) const = default;
};

// What one instance is within its DeviceTask.
struct Record {
    const Planned* planned;
    int32_t shape;                                  // the same for equal instances whatever misses L2
    std::vector<Wait> waits;
    std::vector<Miss> misses;
};

struct Piece { int32_t record; int64_t times; };    // so often in a row
using Pieces = std::vector<Piece>;
struct Stretch { int32_t device_task; int64_t times; };

struct Totals {
    int64_t instances = 0, aic = 0, aiv = 0, gm_read = 0, gm_write = 0, hbm_read = 0, hbm_write = 0;
    int64_t workspace = 0, slots = 0, edges = 0, hubs = 0, miss_cube = 0, miss_vector = 0;

    Totals& add(const Totals& o, int64_t times);    // all but workspace and slots
};

struct LaunchSettings {
    bool timeline = false;                          // leaves keep when their operations run
    bool resident = false;                          // one program per core instead of tasks under the AICPU: one DeviceTask
    bool warm = false;                              // the arguments lie in L2 when the launch starts, and stay there
    int64_t l2_bytes = 0;
    int64_t absorbed_bytes = 0;                     // of the launch's writes: L2 keeps them for itself
};

class Launch {
public:
    Launch(const Program& program, const Chip& chip, const cost::Device& device, const LaunchSettings& settings);

    int64_t instance(const Instance& i);            // answers how many of i.more it has taken along
    void end() { close(); }

    const std::unordered_set<Id>& crossing() const { return crossing_; }
    const LeafTable& leaves() const { return leaves_; }
    const std::vector<const Planned*>& planned() const { return order_; }
    const std::vector<Stretch>& sequence() const { return sequence_; }      // DeviceTasks in order
    size_t kinds() const { return device_tasks_.size(); }                    // of DeviceTasks
    const Pieces& pieces(int32_t device_task) const { return device_tasks_[static_cast<size_t>(device_task)]; }
    const Record& record(int32_t id) const { return records_[static_cast<size_t>(id)]; }
    machine::DeviceTask tasks_of(int32_t device_task) const;
    int64_t task_count(int32_t device_task) const;
    int64_t root_functions() const;
    int sched_mode() const { return sched_mode_; }
    int64_t device_tasks() const { return device_task_; }
    const Totals& totals() const { return totals_; }
    const std::set<std::string>& unmodelled() const { return unmodelled_; }
    bool overflows() const { return traffic_.overflows(); }
    static bool arguments_fit(const Program& program, double bytes);

private:
    static constexpr int64_t UNKNOWN_LAG = -1, NEVER_ALIKE = -2;

    // Instances of one root function in a row whose offsets go on along one line.
    struct Run {
        const Planned* planned = nullptr;
        std::vector<Shape> shift, slope;            // by dynamic set of the root function
        int64_t id = 0, blocks = 0;                 // blocks: those of the present DeviceTask
        int64_t first_task = 0;                     // of the first of these
        Planned::Lag lag{};                         // blocks: UNKNOWN_LAG at first
        int32_t record = -1;                        // of the latest
    };
    // Where things stand when a DeviceTask has been closed.
    struct Mark {
        int64_t device_task = -1;                   // the next one
        int32_t kind = -1;                          // of the one closed
        int64_t executed = 0, incoming = 0;
        Totals totals{};
        std::map<Id, int64_t> touched{};            // by argument
    };
    struct Written { int64_t device_task = -1, run = -1, other_device_task = -1; };   // last by which run; last by another one

    const Program& p_;
    const Chip& chip_;
    const LaunchSettings settings_;
    const std::unordered_set<Id> crossing_;
    LeafTable leaves_;
    Traffic traffic_;
    std::map<std::pair<uint64_t, uint64_t>, std::unique_ptr<Planned>> planned_;
    std::vector<const Planned*> order_;
    Planned* latest_ = nullptr;
    uint64_t latest_key_[2] = {0, 0};
    std::map<Id, RunOptions> options_;
    std::vector<Record> records_;
    std::map<std::vector<int64_t>, int32_t> record_ids_, shape_ids_, device_task_ids_;
    std::vector<Pieces> device_tasks_;
    std::vector<Stretch> sequence_;
    Totals totals_;
    std::set<Id> slots_;
    std::set<std::string> unmodelled_;
    std::vector<Written> written_;                  // by tensor
    int64_t device_task_ = 0;                       // number of the present one
    Pieces pieces_;                                 // its instances
    int64_t in_device_task_ = 0, calls_ = 0, tasks_ = 0, workspace_ = 0;
    Run run_;
    std::vector<Miss> misses_, next_misses_;        // of the latest block of the run
    bool even_ = false;                             // blocks of this DeviceTask brought as many bytes into L2 each
    int64_t block_incoming_ = -1;                   // the latest one
    int64_t behind_ = 0;                            // blocks whose writes are not noted yet
    int sched_mode_ = 0;                            // of the kernel
    Patience patience_;

    const RunOptions& options_of(Id id);
    Planned& planned_of(const Instance& i, const RunOptions& options);
    void prepare(Planned& planned);
    bool full(const Root& root, const RunOptions& options) const;
    void close();
    void follow(const Planned& planned, const Instance& i);
    Shape place(const Access& a) const { return a.dyn == NONE ? a.at : plus(a.at, run_.shift[static_cast<size_t>(a.dyn)]); }
    void touch(const Planned& planned, std::vector<Miss>& misses);
    std::vector<Wait> waits_of(const Planned& planned);
    void block(Planned& planned, const std::vector<Miss>& misses);
    void write(const Planned& planned, int64_t first_task, bool moving_only);
    int32_t record_of(Record record);
    void append(Planned& planned, int32_t record);

    int64_t repeat(Planned& planned, const RunOptions& options, int64_t more);
    Shape slope_of(const Access& a) const;
    bool moves(const Access& a) const;
    Planned::Lag lag_of(Planned& planned);
    bool settled(Planned& planned);
    void catch_up(const Planned& planned);
    void advance(int64_t blocks);
    Mark mark(const Planned& planned) const;
    int64_t jump(Planned& planned, const Mark& before, const Mark& now, int64_t left);   // blocks, in whole DeviceTasks
};

}  // namespace npu::plan
