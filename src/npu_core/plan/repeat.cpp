// Blocks of a loop that go like the one before them. A block is like its predecessor when it reads what the blocks a fixed
// distance before it wrote in the same DeviceTask, and as much of it comes from HBM. The first follows from the windows
// (lag), the second is followed for every block.
#include <algorithm>

#include "npu_core/plan/box.h"
#include "npu_core/plan/launch.h"

namespace npu::plan {

namespace {

constexpr size_t MOST_LAGS = 16;               // kept of one root function

// The most blocks c >= 1 after which `read` lies on what `written` covered c blocks before, both moving by `slope`; 0: none.
int64_t farthest(const Box& read, const Box& written, const Shape& slope) {
    int64_t least = 1, most = FOR_EVER;
    for (int i = 0; i < slope.rank; ++i) {
        // read.low < written.high - c * slope  and  written.low - c * slope < read.high
        const int64_t above = written.high[i] - read.low[i], below = written.low[i] - read.high[i];
        if (slope[i] == 0) {
            if (above <= 0 || below >= 0) return 0;
        } else if (slope[i] > 0) {                        // below < c * slope < above
            most = std::min(most, (above - 1) / slope[i] - (above - 1 < 0 && (above - 1) % slope[i] != 0));
            least = std::max(least, below < 0 ? int64_t{1} : below / slope[i] + 1);
        } else {                                          // -above < c * -slope < -below
            const int64_t pace = -slope[i];
            most = std::min(most, (-below - 1) / pace - (-below - 1 < 0 && (-below - 1) % pace != 0));
            least = std::max(least, -above < 0 ? int64_t{1} : -above / pace + 1);
        }
    }
    return least <= most ? most : 0;
}

}  // namespace

Shape Launch::slope_of(const Access& a) const { return a.dyn == NONE ? Shape{} : run_.slope[static_cast<size_t>(a.dyn)]; }

bool Launch::moves(const Access& a) const { return !still(slope_of(a)); }

// Blocks back that the reads of a block of this run reach; NEVER_ALIKE where accesses of one written tensor move differently.
Planned::Lag Launch::lag_of(Planned& planned) {
    Planned::Lag lag{run_.slope, {}};
    for (Id set : planned.mutual) lag.shift.push_back(run_.shift[static_cast<size_t>(set)]);
    for (const Planned::Lag& known : planned.lags)
        if (known.slope == lag.slope && known.shift == lag.shift) return known;
    struct Use { Box read, written; Shape slope; bool alike = true, any = false; };
    std::map<Id, Use> uses;
    const Root& root = planned.root;
    for (const bool write : {false, true})
        for (size_t t = 0; t < root.tasks.size(); ++t)
            for (const Access& a : write ? root.writes[t] : root.reads[t]) {
                Use& use = uses[root.externals[a.external].tensor];
                Shape slope = slope_of(a);
                if (slope.rank == 0) slope = zeros(a.at.rank);
                if (use.any && !(slope == use.slope)) use.alike = false;
                use.any = true;
                use.slope = slope;
                (write ? use.written : use.read).add(place(a), a.shape);
            }
    bool never = false;
    for (const auto& [tensor, use] : uses) {
        const bool fixed = use.alike && still(use.slope);
        if (!fixed && !use.read.empty) lag.moving.push_back(tensor);
        if (use.written.empty || use.read.empty) continue;
        never = never || !use.alike;
        if (use.alike) lag.blocks = std::max(lag.blocks, fixed ? int64_t{1} : farthest(use.read, use.written, use.slope));
    }
    if (never) lag.blocks = NEVER_ALIKE;
    if (planned.lags.size() == MOST_LAGS) planned.lags.clear();
    planned.lags.push_back(lag);
    return lag;
}

// The latest block stands for those that follow, as far as waits go.
bool Launch::settled(Planned& planned) {
    if (run_.lag.blocks == UNKNOWN_LAG) run_.lag = lag_of(planned);
    if (run_.blocks == 0 || run_.lag.blocks == NEVER_ALIKE || run_.blocks <= run_.lag.blocks) return false;
    for (Id tensor : run_.lag.moving) {           // blocks before the run wrote some of what is still to be read
        const Written& w = written_[tensor];
        if ((w.run == run_.id ? w.other_device_task : w.device_task) == device_task_) return false;
    }
    return true;
}

// Writers of the blocks that were appended without: those of a fixed window are the latest block's.
void Launch::catch_up(const Planned& planned) {
    if (behind_ == 0) return;
    const std::vector<Shape> here = run_.shift;
    const int64_t tasks = static_cast<int64_t>(planned.root.tasks.size());
    for (int64_t b = behind_ - 1; b >= 0; --b) {
        for (size_t s = 0; s < here.size(); ++s) run_.shift[s] = moved(here[s], run_.slope[s], -b);
        write(planned, tasks_ - (b + 1) * tasks, b > 0);
    }
    run_.shift = here;
    behind_ = 0;
}

void Launch::advance(int64_t blocks) {
    for (size_t s = 0; s < run_.shift.size(); ++s) run_.shift[s] = moved(run_.shift[s], run_.slope[s], blocks);
}

int64_t Launch::repeat(Planned& planned, const RunOptions& options, int64_t more) {
    Mark before;                               // when the DeviceTask before this one was closed, if that was here
    for (int64_t done = 0; done < more; ++done) {
        patience_.check();
        if (full(planned.root, options)) {
            behind_ = 0;                       // nobody in another DeviceTask waits for them
            close();
            Mark now = mark(planned);
            if (before.device_task >= 0 && before.kind == now.kind)
                if (const int64_t blocks = jump(planned, before, now, more - done); blocks > 0) {
                    done += blocks;
                    now = mark(planned);
                }
            before = std::move(now);
            even_ = true;
        }
        const bool like = settled(planned);
        if (!like) catch_up(planned);
        advance(1);
        next_misses_.clear();
        const int64_t incoming = traffic_.incoming();
        touch(planned, next_misses_);
        even_ = even_ && traffic_.incoming() - incoming == block_incoming_;
        block_incoming_ = traffic_.incoming() - incoming;
        if (like && next_misses_ == misses_) {
            append(planned, run_.record);
            ++behind_;
            continue;
        }
        if (like) {
            advance(-1);
            catch_up(planned);
            advance(1);
        }
        std::swap(misses_, next_misses_);
        block(planned, misses_);
    }
    catch_up(planned);
    return more;
}

}  // namespace npu::plan
