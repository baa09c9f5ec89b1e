// Whole DeviceTasks of a loop at once. Two equal ones in a row, made of blocks of one run only, are followed by equal ones as
// long as L2 answers alike: windows that stay are as old as before each time, windows that move are new each time or were
// read by the same run a few blocks ago.
#include <algorithm>

#include "npu_core/plan/box.h"
#include "npu_core/plan/launch.h"

namespace npu::plan {

Totals& Totals::add(const Totals& o, int64_t times) {
    for (int64_t Totals::*field : {&Totals::instances, &Totals::aic, &Totals::aiv, &Totals::gm_read, &Totals::gm_write,
                                   &Totals::hbm_read, &Totals::hbm_write, &Totals::edges, &Totals::hubs,
                                   &Totals::miss_cube, &Totals::miss_vector})
        this->*field += times * (o.*field);
    return *this;
}

Launch::Mark Launch::mark(const Planned& planned) const {
    Mark m{device_task_, sequence_.back().device_task, planned.executed, traffic_.incoming(), totals_, {}};
    for (const Touch& t : planned.touches) m.touched.emplace(t.tensor, traffic_.touched(t.tensor));
    return m;
}

int64_t Launch::jump(Planned& planned, const Mark& before, const Mark& now, int64_t left) {
    const int64_t blocks = now.executed - before.executed;
    if (!even_ || run_.lag.blocks == NEVER_ALIKE || blocks <= std::max<int64_t>(0, run_.lag.blocks)) return 0;
    int64_t times = (left - 1) / blocks;                   // the last DeviceTask stays open for what comes behind the loop
    Totals gain = now.totals;
    gain.add(before.totals, -1);
    auto limit = [&times](int64_t room, int64_t pace) { if (pace > 0) times = std::min(times, room / pace); };
    std::vector<const Touch*> windows;
    for (const Touch& t : planned.touches)
        if (t.write || (!traffic_.written(t.tensor) && !t.access->unknown_rows)) windows.push_back(&t);
    if (now.totals.hbm_write <= settings_.absorbed_bytes) limit(settings_.absorbed_bytes - now.totals.hbm_write, gain.hbm_write);

    struct Use { Box fixed, moving; Shape slope; bool alike = true; };
    std::map<Id, Use> uses;
    for (const Touch& t : planned.touches)
        if (t.write || !traffic_.written(t.tensor)) uses[t.tensor];
    for (const Touch* t : windows) {
        const Access& a = *t->access;
        Use& use = uses[t->tensor];
        const Shape slope = slope_of(a);
        if (still(slope)) {
            use.fixed.add(place(a), a.valid);
            continue;
        }
        use.alike = use.alike && (use.moving.empty || use.slope == slope);
        use.slope = slope;
        use.moving.add(place(a), a.valid);
    }
    for (const auto& [tensor, use] : uses) {
        if (!use.alike) return 0;
        const int64_t room = traffic_.bytes(tensor) - now.touched.at(tensor);
        if (room > 0) limit(room, now.touched.at(tensor) - before.touched.at(tensor));
    }
    if (times <= 0) return 0;
    for (const auto& [tensor, use] : uses) {
        if (use.moving.empty) continue;
        for (int i = 0; i < use.slope.rank; ++i)           // how far back a window can have been read by this run
            if (use.slope[i] != 0 && (use.moving.high[i] - use.moving.low[i]) / std::abs(use.slope[i]) > blocks) return 0;
        Box range;                                         // of the latest DeviceTask and of those to come: nobody else was there
        for (const int64_t steps : {1 - blocks, times * blocks})
            range.add({moved(use.moving.low, use.slope, steps), moved(use.moving.high, use.slope, steps), false});
        if (range.meets(use.fixed) || range.meets(traffic_.of_others(tensor, run_.id))) return 0;
    }

    const int64_t incoming = now.incoming - before.incoming, skipped = times * blocks;
    std::set<std::pair<Id, uint64_t>> fixed;               // each window once, however often it is read
    for (const Touch* t : windows) {
        const Access& a = *t->access;
        const Shape slope = slope_of(a), at = place(a);
        if (!still(slope)) traffic_.skip_moving(t->tensor, at, a.valid, slope, skipped, incoming / blocks);
        else if (fixed.emplace(t->tensor, Traffic::window_key(at, a.valid)).second) traffic_.skip_fixed(t->tensor, at, a.valid, times * incoming);
    }
    for (const auto& [tensor, use] : uses)
        traffic_.skip(tensor, times * (now.touched.at(tensor) - before.touched.at(tensor)), times * incoming);
    traffic_.skip_incoming(times * incoming);
    totals_.add(gain, times);
    planned.executed += skipped;
    sequence_.back().times += times;
    device_task_ += times;
    advance(skipped);
    return skipped;
}

}  // namespace npu::plan
