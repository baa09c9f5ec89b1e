#include "npu_core/numeric/schedule.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "npu_core/base/fault.h"
#include "npu_core/numeric/liveness.h"
#include "npu_core/program/opcodes.h"

namespace npu {

namespace {

constexpr size_t MOST_COMPILED_OPS = 20000;  // a longer Program runs its operations one by one

struct Uses { int32_t narrow = 0, wide = 0; };

class Scheduler {
  public:
    Scheduler(const Program& p, Schedule& s) : p_(p), s_(s), live_(find_liveness(p)) {
        s_.ids = live_.ids;
        s_.bodies.resize(p.bodies.size());
        count_uses();
        for (size_t b = 0; b < p.bodies.size(); ++b) {
            if (live_.after[b].size() != p.bodies[b].items.size()) live_.after[b].resize(p.bodies[b].items.size());
            s_.bodies[b].dead_at_entry = live_.at_entry[b];
            plain(static_cast<Id>(b));
            if (p.ops.size() <= MOST_COMPILED_OPS) fused(static_cast<Id>(b));
            else s_.bodies[b].fused = s_.bodies[b].plain;
        }
    }

  private:
    // A run under construction: elementwise operations over one space, and other operations that move in front of it
    // because they do not need its results (values are immutable, so their order among each other is free).
    struct Run {
        GroupBuilder builder;
        std::vector<int32_t> grouped, before;   // item indices
        std::vector<int32_t> ops;               // of `grouped`
        std::unordered_set<Id> made, loaded;
        explicit Run(const Program& p)
            : builder(p, [&p](Id t) { return TensorType{p.tensors[t].dtype, p.tensors[t].shape}; }) {}
    };

    void count_uses() {
        uses_.resize(p_.tensors.size());
        for (const Op& op : p_.ops) count(op, 1, uses_);
        for (const Body& body : p_.bodies)
            for (const Item& it : body.items) {
                if (it.kind == ItemKind::SET || it.kind == ItemKind::ASSEMBLE) ++uses_[it.b].narrow;
                if (it.kind == ItemKind::ASSEMBLE || it.kind == ItemKind::STORE) ++uses_[it.a].narrow;
                if (it.kind == ItemKind::LOAD) ++uses_[it.b].narrow;
            }
    }
    template <class Map>
    void count(const Op& op, int by, Map& uses) const {
        for (int i = 0; i < op.ins.count; ++i) {
            Uses& u = uses[p_.id_at(op.ins)[i]];
            (i < 32 && (op.wide_ins >> i & 1) ? u.wide : u.narrow) += by;
        }
    }

    const Op* op_of(const Item& it) const { return it.kind == ItemKind::OP ? &p_.ops[it.a] : nullptr; }
    Span dead_of(Id body, int32_t item) const { return live_.after[body][item]; }

    void plain(Id body) {
        for (size_t i = 0; i < p_.bodies[body].items.size(); ++i)
            s_.bodies[body].plain.push_back({static_cast<int32_t>(i), NONE, NONE, dead_of(body,
                static_cast<int32_t>(i))});
    }

    void fused(Id body) {
        const auto& items = p_.bodies[body].items;
        std::optional<Run> run;
        for (int32_t i = 0; i < static_cast<int32_t>(items.size()); ++i) {
            const Op* op = op_of(items[i]);
            if (op && is_elementwise(info(static_cast<Opcode>(op->opcode)).family)) {
                if (run && join(*run, i, *op)) continue;
                if (run && may_precede(*run, *op) && smaller(*op, *run)) {
                    run->before.push_back(i);
                    continue;
                }
                close(body, run);
                run.emplace(p_);
                if (!join(*run, i, *op)) {
                    run.reset();
                    single(body, i);
                }
            } else if (run && (op ? !updates(*op) && may_precede(*run, *op) : items[i].kind == ItemKind::LOAD &&
                !run->made.count(items[i].b))) {
                run->before.push_back(i);
            } else if (run && items[i].kind == ItemKind::ASSEMBLE && absorbs(*run, items[i])) {
                close(body, run, i);
            } else {
                close(body, run);
                single(body, i);
            }
        }
        close(body, run);
    }

    bool join(Run& run, int32_t i, const Op& op) const {
        for (int k = 0; k < op.outs.count; ++k)           // a second definition of something the run reads or makes
            if (run.loaded.count(p_.id_at(op.outs)[k]) || run.made.count(p_.id_at(op.outs)[k])) return false;
        try {
            if (!run.builder.add(static_cast<int32_t>(&op - p_.ops.data()))) return false;
        } catch (const Fault&) {                           // reported when the operation runs alone
            if (run.grouped.empty()) return false;
            rebuild(run);
            return false;
        }
        run.grouped.push_back(i);
        for (int k = 0; k < op.outs.count; ++k) run.made.insert(p_.id_at(op.outs)[k]);
        for (int k = 0; k < op.ins.count; ++k)
            if (!run.made.count(p_.id_at(op.ins)[k])) run.loaded.insert(p_.id_at(op.ins)[k]);
        run.ops.push_back(static_cast<int32_t>(&op - p_.ops.data()));
        return true;
    }
    void rebuild(Run& run) const {
        Run fresh(p_);
        for (const int32_t k : run.ops) fresh.builder.add(k);
        run.builder = std::move(fresh.builder);
    }
    bool may_precede(const Run& run, const Op& op) const {
        for (int k = 0; k < op.ins.count; ++k)
            if (run.made.count(p_.id_at(op.ins)[k])) return false;
        for (int k = 0; k < op.outs.count; ++k)
            if (run.loaded.count(p_.id_at(op.outs)[k]) || run.made.count(p_.id_at(op.outs)[k])) return false;
        return true;
    }
    // Operations that may write an argument's memory keep their place.
    static bool updates(const Op& op) {
        const auto code = static_cast<Opcode>(op.opcode);
        return code == Opcode::SCATTER || code == Opcode::SCATTER_UPDATE || code == Opcode::INDEX_ADD ||
               code == Opcode::INDEX_PUT;
    }
    bool smaller(const Op& op, const Run& run) const {
        const Op& first = p_.ops[run.ops.front()];
        return p_.tensors[p_.id_at(op.outs)[0]].shape.count() < p_.tensors[p_.id_at(first.outs)[0]].shape.count();
    }

    void single(Id body, int32_t i) { s_.bodies[body].fused.push_back({i, NONE, NONE, dead_of(body, i)}); }

    // Whether this assemble is all that happens to all that the group gives.
    bool absorbs(const Run& run, const Item& it) {
        const TensorInfo &from = p_.tensors[it.b], &to = p_.tensors[it.a];
        if (!run.made.count(it.b) || to.kind != TensorKind::ARG || from.dtype != to.dtype ||
            from.shape.rank != to.shape.rank) return false;
        std::unordered_map<Id, Uses> inside;
        for (const int32_t k : run.ops) count(p_.ops[k], 1, inside);
        for (const Id t : run.made) {
            const Uses all = uses_[t], in = inside[t];
            if (all.wide != in.wide || all.narrow != in.narrow + (t == it.b)) return false;
        }
        return true;
    }

    void close(Id body, std::optional<Run>& run, int32_t assemble = NONE) {
        if (!run) return;
        // What the group reads dies after it, also where an operation now in front of it was the last reader.
        std::vector<Id> later;
        for (const int32_t i : run->before) {
            std::vector<Id> now;
            const Span dead = dead_of(body, i);
            for (int k = 0; k < dead.count; ++k) {
                const Id t = live_.ids[dead.begin + k];
                (run->loaded.count(t) ? later : now).push_back(t);
            }
            s_.bodies[body].fused.push_back({i, NONE, NONE, span(now)});
        }
        std::unordered_map<Id, Uses> inside;
        for (const int32_t i : run->grouped) {
            const Span dead = dead_of(body, i);
            later.insert(later.end(), live_.ids.begin() + dead.begin, live_.ids.begin() + dead.begin + dead.count);
            count(p_.ops[p_.bodies[body].items[i].a], 1, inside);
        }
        if (assemble != NONE) {
            const Span dead = dead_of(body, assemble);
            later.insert(later.end(), live_.ids.begin() + dead.begin, live_.ids.begin() + dead.begin + dead.count);
        }
        s_.groups.push_back(run->builder.finish([&](Id t, const Op&) {
            const Uses in = inside.count(t) ? inside.at(t) : Uses{};
            return Wanted{uses_[t].narrow > in.narrow, uses_[t].wide > in.wide};
        }));
        s_.group_items.push_back(run->grouped);
        s_.bodies[body].fused.push_back({run->grouped.front(), static_cast<int32_t>(s_.groups.size()) - 1, assemble,
            span(later)});
        run.reset();
    }
    Span span(const std::vector<Id>& v) {
        const Span s{static_cast<int32_t>(s_.ids.size()), static_cast<int32_t>(v.size())};
        s_.ids.insert(s_.ids.end(), v.begin(), v.end());
        return s;
    }

    const Program& p_;
    Schedule& s_;
    Liveness live_;
    std::vector<Uses> uses_;
};

}  // namespace

std::shared_ptr<const Schedule> make_schedule(const Program& p) {
    auto s = std::make_shared<Schedule>();
    Scheduler scheduler(p, *s);
    return s;
}

}  // namespace npu
