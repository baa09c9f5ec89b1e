#include "npu_core/lowering/paths.h"

#include <algorithm>
#include <map>

#include "npu_core/base/fault.h"
#include "npu_core/base/patience.h"
#include "npu_core/lowering/limits.h"
#include "npu_core/program/evaluate.h"
#include "npu_core/program/program.h"

namespace npu::lowering {
namespace {

constexpr int64_t UNKNOWN_STEP = int64_t(1) << 36;   // values nobody knows lie this far apart

class Runner {
public:
    Runner(const Program& p, const std::vector<IntData>& data, const std::vector<Assumed>& assume, std::set<std::string>& assumptions)
        : p_(p), control_(p, data, assume, assumptions), assumptions_(assumptions), scalars_(p.scalar_slots, 0) {}

    ControlFlow run() {
        run_body(0, 0);
        flush();
        return std::move(flow_);
    }

private:
    void run_body(Id id, int32_t copy) {
        const Body& body = p_.bodies[id];
        auto held = body.held.begin();
        auto hold = [&](size_t place) {
            for (; held != body.held.end() && size_t(held->before) == place; ++held)
                path_.held.assign(p_.id_at(held->tensors), p_.id_at(held->tensors) + held->tensors.count);
        };
        for (size_t place = 0; place < body.items.size(); ++place) {
            hold(place);
            const Item& it = body.items[place];
            switch (it.kind) {
                case ItemKind::LOOP: loop(it); break;
                case ItemKind::IF: run_body(control_.must(it.a, it, "a condition") ? it.b : it.c, copy); break;
                case ItemKind::BLOCK: flush(); break;
                case ItemKind::TRAP: throw TrapSignal{it.a};
                case ItemKind::LOAD: load(it); break;
                case ItemKind::STORE: control_.written(it.a); break;
                case ItemKind::OP:
                    add(it, copy);
                    note_view(p_.ops[it.a]);
                    for (int i = 0; i < p_.ops[it.a].outs.count; ++i) control_.written(p_.id_at(p_.ops[it.a].outs)[i]);
                    break;
                case ItemKind::SET: case ItemKind::ASSEMBLE:
                    add(it, copy);
                    control_.written(it.a);
                    break;
                default: add(it, copy);
            }
        }
        hold(body.items.size());
    }

    void add(const Item& it, int32_t copy) {
        if (it.kind == ItemKind::OP && p_.tensors[p_.id_at(p_.ops[it.a].outs)[0]].alias != NONE) return;   // an argument's memory
        if (size_t(copy) >= copies_.size()) copies_.resize(copy + 1);
        copies_[copy] = scalars_;
        path_.steps.push_back({&it, copy});
    }

    void note_view(const npu::Op& op) {
        if (op.scalars.count == 0 || op_rows()[op.row].kernel != "view") return;
        const Shape& shape = p_.tensors[p_.id_at(op.outs)[0]].shape;
        for (int i = 0; i < shape.rank && shape.rank + i < op.scalars.count; ++i) {
            const auto size = control_.eval(p_.id_at(op.scalars)[shape.rank + i]);
            if (size.known && size.value == shape[i]) continue;
            ++flow_.tails;
            return;
        }
    }

    void loop(const Item& it) {
        flush();
        const Id* bounds = p_.id_at(it.span);
        const int64_t start = control_.must(bounds[0], it, "a loop start"), stop = control_.must(bounds[1], it, "a loop bound"),
                      step = control_.must(bounds[2], it, "a loop step");
        submit_before_ |= it.submit_before;
        if (step <= 0) return;
        int64_t left = start < stop ? (stop - start + step - 1) / step : 0, i = start;
        while (left > 0) {
            const int64_t take = control_.unrolled(it, left);
            for (int64_t j = 0; j < take; ++j, i += step) {
                patience_.check();
                scalars_[it.a] = i;
                control_.set_index(it.a, i);
                run_body(it.b, int32_t(j));
            }
            flush();
            left -= take;
        }
    }

    void load(const Item& it) {
        control_.load(it);
        const auto& loaded = control_.slot(size_t(it.a));
        scalars_[it.a] = loaded.known ? loaded.value : ++unknown_ * UNKNOWN_STEP;
        if (!loaded.known) assumptions_.insert("values that depend on data are unknown; offsets made of them are taken as disjoint");
    }

    void flush() {
        const bool work = std::any_of(path_.steps.begin(), path_.steps.end(), [](const PathStep& s) {
            return s.item->kind == ItemKind::OP || s.item->kind == ItemKind::ASSEMBLE || s.item->kind == ItemKind::SET;
        });
        if (work) {
            std::vector<std::pair<const Item*, int32_t>> key;
            for (const PathStep& s : path_.steps) key.emplace_back(s.item, s.copy);
            auto [at, fresh] = root_of_.try_emplace(std::move(key), int32_t(flow_.roots.size()));
            if (fresh) flow_.roots.push_back(path_);
            if (flow_.instances.size() >= size_t(MOST_INSTANCES)) too_large("root function calls", MOST_INSTANCES);
            flow_.instances.push_back({at->second, std::move(copies_), submit_before_});
            submit_before_ = false;
        }
        path_.steps.clear();
        path_.held.clear();
        copies_.clear();
    }

    const Program& p_;
    ControlScalars control_;
    std::set<std::string>& assumptions_;
    std::vector<int64_t> scalars_;
    std::vector<std::vector<int64_t>> copies_;
    RootPath path_;
    std::map<std::vector<std::pair<const Item*, int32_t>>, int32_t> root_of_;
    ControlFlow flow_;
    Patience patience_;
    int64_t unknown_ = 0;
    bool submit_before_ = false;
};

}  // namespace

ControlFlow run_control_flow(const Program& p, const std::vector<IntData>& data, const std::vector<Assumed>& assume,
                             std::set<std::string>& assumptions) {
    return Runner(p, data, assume, assumptions).run();
}

int64_t value_of(const Program& p, Id id, const std::vector<int64_t>& scalars) {
    const Expr& e = p.exprs[id];
    if (e.op == ExprOp::CONST) return e.value;
    if (e.op == ExprOp::INDEX || e.op == ExprOp::LOAD) return scalars[e.value];
    return evaluate(e.op, value_of(p, e.a, scalars), e.b == NONE ? 0 : value_of(p, e.b, scalars));
}

bool is_constant(const Program& p, Id id) {
    const Expr& e = p.exprs[id];
    if (e.op == ExprOp::CONST) return true;
    if (e.op == ExprOp::INDEX || e.op == ExprOp::LOAD) return false;
    return is_constant(p, e.a) && (e.b == NONE || is_constant(p, e.b));
}

std::string expr_text(const Program& p, Id id) {
    const Expr& e = p.exprs[id];
    switch (e.op) {
        case ExprOp::CONST: return std::to_string(e.value);
        case ExprOp::INDEX: return "i" + std::to_string(e.value);
        case ExprOp::LOAD: return "l" + std::to_string(e.value);
        default: break;
    }
    static const char* NAMES[] = {"", "", "", "+", "*", "//", "%", "min", "max", ">=0", "==0"};
    return "(" + expr_text(p, e.a) + NAMES[int(e.op)] + (e.b == NONE ? "" : expr_text(p, e.b)) + ")";
}

}  // namespace npu::lowering
