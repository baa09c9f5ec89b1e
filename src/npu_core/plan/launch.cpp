#include "npu_core/plan/launch.h"

#include <algorithm>

#include "npu_core/base/fault.h"

namespace npu::plan {

using machine::Task;

namespace {

constexpr int64_t MOST_TASKS = int64_t{1} << 25;   // of one DeviceTask: about 3 GB
constexpr int64_t STITCH_CALLS = 20000;          // call operations of one DeviceTask (stitch_function_size)

std::vector<int64_t> tensor_bytes(const Program& p) {
    std::vector<int64_t> b;
    for (const TensorInfo& t : p.tensors) b.push_back(bytes_of(t.shape, t.dtype));
    return b;
}

int64_t argument_bytes(const Program& p) {
    int64_t sum = 0;
    for (const TensorInfo& t : p.tensors)
        if (t.arg_index >= 0) sum += bytes_of(t.shape, t.dtype);
    return sum;
}

}  // namespace

Launch::Launch(const Program& program, const Chip& chip, const cost::Device& device, const LaunchSettings& settings)
    : p_(program), chip_(chip), settings_(settings), crossing_(crossing_locals(program)), leaves_(program, chip, device, settings.timeline),
      traffic_(tensor_bytes(program), settings.l2_bytes), written_(program.tensors.size()) {}

bool Launch::arguments_fit(const Program& program, double bytes) { return static_cast<double>(argument_bytes(program)) <= bytes; }

const RunOptions& Launch::options_of(Id id) {
    auto it = options_.find(id);
    if (it == options_.end()) it = options_.emplace(id, id == NONE ? RunOptions{} : parse_options(p_.options[id])).first;
    return it->second;
}

Planned& Launch::planned_of(const Instance& i, const RunOptions& options) {
    if (latest_ && latest_key_[0] == i.key[0] && latest_key_[1] == i.key[1]) return *latest_;
    std::unique_ptr<Planned>& slot = planned_[{i.key[0], i.key[1]}];
    if (!slot) {
        slot = std::make_unique<Planned>();
        slot->id = static_cast<int64_t>(order_.size());
        slot->root = plan_root(p_, i.visits, i.valids, i.offsets, crossing_, p_.numerics, chip_, options.partition, leaves_);
        prepare(*slot);
        order_.push_back(slot.get());
    }
    latest_ = slot.get();
    latest_key_[0] = i.key[0];
    latest_key_[1] = i.key[1];
    return *slot;
}

void Launch::prepare(Planned& planned) {
    const Root& root = planned.root;
    unmodelled_.insert(root.unmodelled.begin(), root.unmodelled.end());
    std::set<Id> reads, both, mutual;
    for (const bool write : {false, true})
        for (size_t t = 0; t < root.tasks.size(); ++t)
            for (const Access& a : write ? root.writes[t] : root.reads[t]) {
                const External& e = root.externals[a.external];
                (write ? planned.tensors[e.tensor].write : planned.tensors[e.tensor].read) += a.bytes + a.again;
                if (e.argument && !settings_.warm && a.valid.count() > 0) planned.touches.push_back({&a, e.tensor, static_cast<int32_t>(t), write});
                if (write ? reads.count(e.tensor) : (reads.insert(e.tensor), false)) both.insert(e.tensor);
                if (write && !e.argument && slots_.insert(e.tensor).second)
                    totals_.slots += bytes_of(p_.tensors[e.tensor].shape, p_.tensors[e.tensor].dtype);
            }
    for (const auto* side : {&root.reads, &root.writes})
        for (const std::vector<Access>& accesses : *side)
            for (const Access& a : accesses)
                if (a.dyn != NONE && both.count(root.externals[a.external].tensor)) mutual.insert(a.dyn);
    planned.mutual.assign(mutual.begin(), mutual.end());
    // What tasks share misses for the one that reads most: which tile is cut does not decide it.
    std::vector<int64_t> read(root.tasks.size(), 0);
    bool cut = false;
    for (size_t t = 0; t < root.tasks.size(); ++t)
        for (const Access& a : root.reads[t]) {
            read[t] += a.bytes;
            cut = cut || !(a.valid == a.shape);
        }
    if (cut)
        std::stable_sort(planned.touches.begin(), planned.touches.end(), [&](const Touch& a, const Touch& b) {
            return a.write != b.write ? b.write : !a.write && read[a.task] > read[b.task];
        });
}

bool Launch::full(const Root& root, const RunOptions& options) const {
    return !settings_.resident && (in_device_task_ >= options.stitch_max || calls_ + root.calls > STITCH_CALLS);
}

void Launch::close() {
    if (in_device_task_ == 0) return;
    int32_t id = static_cast<int32_t>(device_tasks_.size());
    if (chip_.skip_repeats) {
        std::vector<int64_t> key;
        for (const Piece& p : pieces_) { key.push_back(p.record); key.push_back(p.times); }
        id = device_task_ids_.try_emplace(std::move(key), id).first->second;
    }
    if (static_cast<size_t>(id) == device_tasks_.size()) device_tasks_.push_back(pieces_);
    if (!sequence_.empty() && sequence_.back().device_task == id) ++sequence_.back().times;
    else sequence_.push_back({id, 1});
    ++device_task_;
    pieces_.clear();
    in_device_task_ = calls_ = tasks_ = workspace_ = 0;
    run_.blocks = 0;
}

void Launch::follow(const Planned& planned, const Instance& i) {
    const Root& root = planned.root;
    std::vector<Shape> shift(root.dyn_sets.size()), slope(root.dyn_sets.size());
    for (size_t s = 0; s < root.dyn_sets.size(); ++s)
        for (Id access : root.dyn_sets[s]) {
            const Shape d = minus(i.offsets[access], root.first_offsets[access]);
            shift[s] = shift[s].rank ? plus(shift[s], d) : d;
            slope[s] = slope[s].rank ? plus(slope[s], i.slopes[access]) : i.slopes[access];
        }
    bool on = run_.planned == &planned && slope == run_.slope;
    for (size_t s = 0; on && s < shift.size(); ++s) on = plus(run_.shift[s], slope[s]) == shift[s];
    if (!on) {
        run_.planned = &planned;
        run_.slope = std::move(slope);
        run_.blocks = 0;
        run_.lag.blocks = UNKNOWN_LAG;
        ++run_.id;
    }
    run_.shift = std::move(shift);
}

int64_t Launch::instance(const Instance& i) {
    const RunOptions& options = options_of(i.options);
    Planned& planned = planned_of(i, options);
    if (full(planned.root, options) || (i.submit_before && !settings_.resident)) close();
    sched_mode_ = options.sched_mode;
    follow(planned, i);
    misses_.clear();
    touch(planned, misses_);
    block(planned, misses_);
    return i.more > 0 && chip_.skip_repeats ? repeat(planned, options, i.more) : 0;
}

void Launch::block(Planned& planned, const std::vector<Miss>& misses) {
    if (run_.blocks == 0) run_.first_task = tasks_;
    run_.record = record_of({&planned, -1, waits_of(planned), misses});
    write(planned, tasks_, false);
    append(planned, run_.record);
}

void Launch::touch(const Planned& planned, std::vector<Miss>& misses) {
    for (const Touch& t : planned.touches) {
        if (!t.write && traffic_.written(t.tensor)) continue;
        const Access& a = *t.access;
        const int64_t bytes = a.unknown_rows && !t.write ? traffic_.random_touch(t.tensor, a.bytes)
                                                         : traffic_.touch(t.tensor, place(a), a.valid, a.bytes, run_.id);
        if (bytes == 0) continue;
        if (t.write) {
            const int64_t kept = std::max<int64_t>(0, std::min(bytes, settings_.absorbed_bytes - totals_.hbm_write));
            totals_.hbm_write += bytes;
            if (bytes > kept) misses.push_back({t.task, 0, 0, bytes - kept});
            continue;
        }
        totals_.hbm_read += bytes;
        (planned.root.tasks[t.task].core == cost::Core::AIC ? totals_.miss_cube : totals_.miss_vector) += bytes;
        if (misses.empty() || misses.back().task != t.task) misses.push_back({t.task, 0, 0, 0});
        misses.back().bytes += bytes;
        if (a.row_bytes > 0) misses.back().rows += bytes / a.row_bytes;
    }
}

std::vector<Wait> Launch::waits_of(const Planned& planned) {
    const Root& root = planned.root;
    std::vector<Wait> waits;
    std::vector<int64_t> from;
    for (size_t t = 0; t < root.tasks.size(); ++t) {
        from.clear();
        for (const Access& a : root.reads[t]) {
            const Id tensor = root.externals[a.external].tensor;
            if (!traffic_.written(tensor)) continue;
            traffic_.writers(tensor, place(a), a.shape, [&](const Writer& w) {
                if (w.device_task == device_task_ && w.task < tasks_) from.push_back(w.task);
            });
        }
        std::sort(from.begin(), from.end());
        from.erase(std::unique(from.begin(), from.end()), from.end());
        for (int64_t f : from) waits.push_back({static_cast<int32_t>(t), f < run_.first_task ? -1 - f : tasks_ - f});
    }
    return waits;
}

void Launch::write(const Planned& planned, int64_t first_task, bool moving_only) {
    const Root& root = planned.root;
    for (size_t t = 0; t < root.tasks.size(); ++t)
        for (const Access& a : root.writes[t]) {
            if (moving_only && !moves(a)) continue;
            const Id tensor = root.externals[a.external].tensor;
            traffic_.write(tensor, place(a), a.shape, device_task_, first_task + static_cast<int64_t>(t));
            Written& w = written_[tensor];
            if (w.run != run_.id) {
                w.other_device_task = w.device_task;
                w.run = run_.id;
            }
            w.device_task = device_task_;
        }
}

int32_t Launch::record_of(Record record) {
    std::vector<int64_t> key{record.planned->id, static_cast<int64_t>(record.waits.size())};
    for (const Wait& w : record.waits) { key.push_back(w.task); key.push_back(w.back); }
    record.shape = shape_ids_.try_emplace(key, static_cast<int32_t>(shape_ids_.size())).first->second;
    for (const Miss& m : record.misses) { key.push_back(m.task); key.push_back(m.bytes); key.push_back(m.rows); key.push_back(m.through); }
    const auto [it, added] = record_ids_.try_emplace(std::move(key), static_cast<int32_t>(records_.size()));
    if (added) records_.push_back(std::move(record));
    return it->second;
}

void Launch::append(Planned& planned, int32_t record) {
    const Root& root = planned.root;
    ++planned.executed;
    ++totals_.instances;
    ++in_device_task_;
    ++run_.blocks;
    calls_ += root.calls;
    tasks_ += static_cast<int64_t>(root.tasks.size());
    if (tasks_ > MOST_TASKS)
        throw Fault("usage", "estimate: a DeviceTask of the launch has more than " + std::to_string(MOST_TASKS) + " tasks; every one is "
                             "scheduled. Use larger tiles, unroll or merge tasks, or estimate fewer iterations");
    workspace_ += root.workspace_bytes;
    totals_.workspace = std::max(totals_.workspace, workspace_);
    totals_.gm_read += root.gm_read;
    totals_.gm_write += root.gm_write;
    totals_.aic += root.aic_calls;
    totals_.aiv += root.calls - root.aic_calls;
    totals_.edges += root.edges + static_cast<int64_t>(records_[record].waits.size());
    totals_.hubs += root.hubs;
    if (!pieces_.empty() && pieces_.back().record == record && chip_.skip_repeats) ++pieces_.back().times;
    else pieces_.push_back({record, 1});
}

// Tails of one function are planned apart and are the same function.
int64_t Launch::root_functions() const {
    std::set<uint64_t> functions;
    for (const auto& [key, planned] : planned_) functions.insert(key.second);
    return static_cast<int64_t>(functions.size());
}

int64_t Launch::task_count(int32_t device_task) const {
    int64_t count = 0;
    for (const Piece& p : device_tasks_[device_task])
        count += p.times * static_cast<int64_t>(records_[p.record].planned->root.tasks.size());
    return count;
}

machine::DeviceTask Launch::tasks_of(int32_t device_task) const {
    struct Edge { int32_t from, to; };
    machine::DeviceTask out;
    std::vector<Edge> waits;
    const Pieces& pieces = device_tasks_[device_task];
    int32_t units = 0;
    auto each = [&](auto&& use) {                       // instance by instance
        int32_t base = 0;
        for (const Piece& piece : pieces)
            for (int64_t k = 0; k < piece.times; ++k) {
                const Record& record = records_[piece.record];
                use(record, record.planned->root.tasks, base);
                base += static_cast<int32_t>(record.planned->root.tasks.size());
            }
    };
    each([&](const Record& record, const machine::DeviceTask& root, int32_t base) {
        out.tasks.insert(out.tasks.end(), root.begin(), root.end());
        for (auto t = out.tasks.begin() + base; t != out.tasks.end(); ++t)
            if (t->unit >= 0) t->unit += units;
        units += record.planned->root.units;
        for (const Miss& m : record.misses) {
            Task& t = out.tasks[base + m.task];
            t.miss_bytes += m.bytes;
            t.miss_rows += m.rows;
            t.through_bytes += m.through;
        }
        for (const Wait& w : record.waits) {
            waits.push_back({static_cast<int32_t>(w.back < 0 ? -1 - w.back : base - w.back), base + w.task});
            ++out.tasks[waits.back().to].predecessors;
        }
    });
    std::stable_sort(waits.begin(), waits.end(), [](const Edge& a, const Edge& b) { return a.from < b.from; });
    size_t next = 0;
    each([&](const Record&, const machine::DeviceTask& root, int32_t base) {
        for (int32_t t = base; t < base + static_cast<int32_t>(root.size()); ++t) {
            Task& task = out.tasks[t];
            task.first_edge = static_cast<int32_t>(out.edges.size());
            for (int32_t s : root.successors(root[t - base])) out.edges.push_back(base + s);
            for (; next < waits.size() && waits[next].from == t; ++next) out.edges.push_back(waits[next].to);
            task.edges = static_cast<int32_t>(out.edges.size()) - task.first_edge;
        }
    });
    return out;
}

}  // namespace npu::plan
