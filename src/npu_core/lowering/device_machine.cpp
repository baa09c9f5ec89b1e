#include "npu_core/lowering/device_machine.h"

#include <algorithm>
#include <deque>
#include <queue>
#include <stdexcept>

#include "npu_core/base/patience.h"

namespace npu::lowering {
namespace {

constexpr int64_t START_CYCLE = 542;       // 2 per AICPU, 10 per AIC, 6 per AIV, 2 for the hub
constexpr int64_t POLL_CYCLES = 240;       // per owned core
constexpr int64_t RESOLVE_CYCLES = 390;    // per successor
constexpr int64_t DISPATCH_CYCLES = 200;   // per task
constexpr int64_t NEVER = INT64_MAX;
constexpr int AIC_PER_AICPU = 4, AIV_PER_AICPU = 8;

struct CoreState {
    CoreType type = CoreType::AIC;
    int32_t task = -1;           // assigned; kept until an AICPU has polled its end
    int64_t arrives_at = 0;      // submission reaches the core
    bool taken = false, finished = false;
    int64_t start = 0, end = 0;
};

struct LocalEntry {
    int32_t task;
    int64_t matures_at;
};

struct Aicpu {
    std::vector<int> cores;               // four AIC, then eight AIV
    int64_t poll_end = 0, dispatch_end = 0;
    std::deque<LocalEntry> local;         // became ready here; moved to the global queues one per step
};

class Device {
public:
    Device(const std::vector<std::vector<MachineTask>>& device_tasks, const std::vector<LeafCost>& leaves)
        : device_tasks_(device_tasks), leaves_(leaves), leaf_done_(leaves.size(), 0), cores_(AIC_COUNT + AIV_COUNT) {
        for (int a = 0; a < AICPU_COUNT; ++a) {
            for (int i = 0; i < AIC_PER_AICPU; ++i) aicpus_[a].cores.push_back(AIC_PER_AICPU * a + i);
            for (int i = 0; i < AIV_PER_AICPU; ++i) aicpus_[a].cores.push_back(AIC_COUNT + AIV_PER_AICPU * a + i);
        }
        for (int c = AIC_COUNT; c < AIC_COUNT + AIV_COUNT; ++c) cores_[c].type = CoreType::AIV;
        run_.tasks.resize(device_tasks.size());
        for (size_t i = 0; i < device_tasks.size(); ++i) run_.tasks[i].resize(device_tasks[i].size());
    }

    DeviceRun run() {
        wake(START_CYCLE);
        while (!wakes_.empty()) {
            now_ = std::min(wakes_.top(), passing_wake_);
            passing_wake_ = NEVER;
            while (!wakes_.empty() && wakes_.top() == now_) wakes_.pop();
            patience_.check();
            step();
            if (alive_ == 0 && next_device_task_ == device_tasks_.size()) break;
        }
        if (alive_) throw std::runtime_error("cost machine: tasks left that nothing wakes");
        run_.cycles = now_;
        return std::move(run_);
    }

private:
    const std::vector<MachineTask>& tasks() const { return device_tasks_[next_device_task_ - 1]; }

    void wake(int64_t at) { wakes_.push(at); }

    std::deque<int32_t>& ready(CoreType type) { return ready_[type == CoreType::AIV ? 0 : type == CoreType::AIC ? 1 : 2]; }

    void step() {
        arriving_.clear();
        for (Aicpu& a : aicpus_)
            if (!a.local.empty() && a.local.front().matures_at <= now_) {
                arriving_.push_back(a.local.front().task);
                a.local.pop_front();
            }
        if (alive_ == 0 && next_device_task_ < device_tasks_.size()) load();
        for (Aicpu& a : aicpus_) {
            if (alive_) {
                if (now_ >= a.dispatch_end && now_ > a.poll_end) poll(a);
                else if (now_ >= a.poll_end && now_ > a.dispatch_end) dispatch(a);
            }
            for (int c : a.cores) advance(cores_[c], c);
        }
        for (int32_t t : arriving_) ready(tasks()[t].core).push_back(t);
        for (int c : finishing_) cores_[c].finished = true;
        finishing_.clear();
    }

    void load() {
        ++next_device_task_;
        open_.clear();
        for (size_t i = 0; i < tasks().size(); ++i) {
            open_.push_back(tasks()[i].predecessors);
            if (open_[i] == 0) ready(tasks()[i].core).push_back(int32_t(i));
        }
        alive_ = tasks().size();
    }

    void resolve(Aicpu& a, int32_t task, int64_t& spent) {
        for (int32_t s : tasks()[task].successors) {
            spent += RESOLVE_CYCLES;
            if (--open_[s] == 0) a.local.push_back({s, now_ + spent});
        }
        --alive_;
    }

    void poll(Aicpu& a) {
        int64_t spent = 0;
        for (int c : a.cores) {
            spent += POLL_CYCLES;
            if (!cores_[c].finished) continue;
            resolve(a, cores_[c].task, spent);
            passing_wake_ = std::min(passing_wake_, now_ + spent);   // derived from the records, docs/lowering.md
            cores_[c].task = -1;
            cores_[c].taken = cores_[c].finished = false;
        }
        a.poll_end = now_ + spent;
        wake(a.poll_end);
    }

    void dispatch(Aicpu& a) {
        bool any_idle = false;
        for (int c : a.cores) any_idle |= cores_[c].task < 0;
        if (!any_idle) return;
        auto& hubs = ready(CoreType::HUB);
        while (!hubs.empty()) {
            const int32_t hub = hubs.front();
            hubs.pop_front();
            int64_t spent = 0;                                       // every hub counts from now
            resolve(a, hub, spent);
        }
        int64_t assigned = 0;
        for (int c : a.cores) {
            CoreState& core = cores_[c];
            auto& queue = ready(core.type);
            if (core.task >= 0 || queue.empty()) continue;
            core.task = queue.front();
            queue.pop_front();
            core.arrives_at = now_ + DISPATCH_CYCLES * ++assigned;
            wake(core.arrives_at);
        }
        a.dispatch_end = now_ + DISPATCH_CYCLES * assigned;
        wake(assigned ? a.dispatch_end : now_ + 1);
    }

    void advance(CoreState& core, int index) {
        if (core.task < 0) return;
        if (!core.taken && core.arrives_at <= now_) take(core, index);
        if (core.taken && !core.finished && core.end == now_) {
            finishing_.push_back(index);
            leaf_done_[tasks()[core.task].leaf] = 1;
        }
    }

    void take(CoreState& core, int index) {
        const int32_t leaf = tasks()[core.task].leaf;
        core.taken = true;
        core.start = now_ + 1;
        core.end = core.start + leaves_[leaf].cycles;
        run_.tasks[next_device_task_ - 1][core.task] = {index, core.start, core.end};
        wake(core.start);
        wake(core.end);
        wake(core.end + 1);
        if (!leaf_done_[leaf] && leaves_[leaf].events)
            for (int64_t e : *leaves_[leaf].events) wake(core.start + e);
    }

    const std::vector<std::vector<MachineTask>>& device_tasks_;
    const std::vector<LeafCost>& leaves_;
    std::vector<char> leaf_done_;          // leaves one execution of which has ended
    std::vector<CoreState> cores_;
    Aicpu aicpus_[AICPU_COUNT];
    std::deque<int32_t> ready_[3];
    std::vector<int32_t> arriving_;        // reach the global queues at the end of the step
    std::vector<int> finishing_;
    std::vector<int32_t> open_;            // predecessors left
    size_t next_device_task_ = 0, alive_ = 0;
    int64_t now_ = 0;
    std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> wakes_;
    int64_t passing_wake_ = NEVER;         // asked for in the last step; forgotten if an earlier cycle comes first
    Patience patience_;
    DeviceRun run_;
};

}  // namespace

DeviceRun run_device(const std::vector<std::vector<MachineTask>>& device_tasks, const std::vector<LeafCost>& leaves) {
    return Device(device_tasks, leaves).run();
}

}  // namespace npu::lowering
