#include "npu_core/lowering/paths.h"

#include <algorithm>
#include <map>

namespace npu::lowering {
namespace {

constexpr int64_t UNKNOWN_STEP = int64_t(1) << 36;   // values nobody knows lie this far apart

bool has_loop(const Program& p, Id body) {
    for (const Item& it : p.bodies[body].items) {
        if (it.kind == ItemKind::LOOP) return true;
        if (it.kind == ItemKind::IF && (has_loop(p, it.b) || has_loop(p, it.c))) return true;
    }
    return false;
}

int64_t element(const uint8_t* data, DType type, int64_t at) {
    switch (type) {
        case DType::I8: return reinterpret_cast<const int8_t*>(data)[at];
        case DType::U8: case DType::BOOL: return data[at];
        case DType::I16: return reinterpret_cast<const int16_t*>(data)[at];
        case DType::U16: return reinterpret_cast<const uint16_t*>(data)[at];
        case DType::I32: return reinterpret_cast<const int32_t*>(data)[at];
        case DType::U32: return reinterpret_cast<const uint32_t*>(data)[at];
        default: return reinterpret_cast<const int64_t*>(data)[at];
    }
}

class Runner {
public:
    Runner(const Program& p, const std::vector<ArgumentData>& data)
        : p_(p), data_(data), scalars_(p.scalar_slots, 0), known_(p.scalar_slots, 1) {}

    ControlFlow run() {
        body(0, 0);
        flush();
        return std::move(flow_);
    }

private:
    void body(Id id, int32_t copy) {
        for (const Item& it : p_.bodies[id].items) {
            switch (it.kind) {
                case ItemKind::LOOP: loop(it); break;
                case ItemKind::IF: body(value(it.a, it) ? it.b : it.c, copy); break;
                case ItemKind::BLOCK: flush(); break;
                case ItemKind::TRAP: throw std::runtime_error("the path that ran raises an error in the kernel");
                case ItemKind::LOAD: load(it); break;
                default: add(it, copy);
            }
        }
    }

    void add(const Item& it, int32_t copy) {
        if (it.kind == ItemKind::OP && p_.tensors[p_.id_at(p_.ops[it.a].outs)[0]].alias != NONE) return;   // an argument's memory
        if (size_t(copy) >= copies_.size()) copies_.resize(copy + 1);
        copies_[copy] = scalars_;
        path_.steps.push_back({&it, copy});
    }

    void loop(const Item& it) {
        flush();
        const Id* bounds = p_.id_at(it.span);
        const int64_t start = value(bounds[0], it), stop = value(bounds[1], it), step = std::max<int64_t>(1, value(bounds[2], it));
        std::vector<int64_t> factors{1};
        if (!has_loop(p_, it.b))
            for (int i = 0; i < it.unroll.count; ++i) factors.push_back(std::max<int64_t>(1, p_.ints[it.unroll.begin + i]));
        std::sort(factors.rbegin(), factors.rend());
        submit_before_ |= it.submit_before;
        for (int64_t i = start; i < stop;) {
            const int64_t left = (stop - i + step - 1) / step;
            const int64_t k = *std::find_if(factors.begin(), factors.end(), [&](int64_t f) { return f <= left; });
            for (int64_t j = 0; j < k; ++j, i += step) {
                scalars_[it.a] = i;
                known_[it.a] = 1;
                body(it.b, int32_t(j));
            }
            flush();
        }
    }

    void load(const Item& it) {
        const TensorInfo& t = p_.tensors[it.b];
        const int number = p_.tensors[t.alias == NONE ? it.b : t.alias].arg_index;
        const ArgumentData* arg = number >= 0 && size_t(number) < data_.size() ? &data_[number] : nullptr;
        int64_t at = 0;
        for (int d = 0; d < it.span.count; ++d) {
            const int64_t i = evaluate(p_, p_.id_at(it.span)[d], scalars_);
            at = at * t.shape[d] + std::clamp<int64_t>(i, 0, t.shape[d] - 1);
        }
        known_[it.a] = arg && arg->data && (at + 1) * dtype_size_bytes(t.dtype) <= arg->bytes;
        scalars_[it.a] = known_[it.a] ? element(arg->data, t.dtype, at) : ++unknown_ * UNKNOWN_STEP;
    }

    bool all_known(Id e) const {
        const Expr& x = p_.exprs[e];
        if (x.op == ExprOp::CONST) return true;
        if (x.op == ExprOp::INDEX || x.op == ExprOp::LOAD) return known_[x.value];
        return (x.a == NONE || all_known(x.a)) && (x.b == NONE || all_known(x.b));
    }

    int64_t value(Id e, const Item& it) const {
        if (!all_known(e))
            throw MissingData("control flow needs a value that is not known: " + expr_text(p_, e),
                              it.line == NONE ? "" : p_.lines[it.line]);
        return evaluate(p_, e, scalars_);
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
            flow_.instances.push_back({at->second, std::move(copies_), submit_before_});
            submit_before_ = false;
        }
        path_.steps.clear();
        copies_.clear();
    }

    const Program& p_;
    const std::vector<ArgumentData>& data_;
    std::vector<int64_t> scalars_;
    std::vector<char> known_;
    std::vector<std::vector<int64_t>> copies_;
    RootPath path_;
    std::map<std::vector<std::pair<const Item*, int32_t>>, int32_t> root_of_;
    ControlFlow flow_;
    int64_t unknown_ = 0;
    bool submit_before_ = false;
};

int64_t floor_div(int64_t a, int64_t b) {
    const int64_t q = a / b;
    return q - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

}  // namespace

ControlFlow run_control_flow(const Program& p, const std::vector<ArgumentData>& data) { return Runner(p, data).run(); }

int64_t evaluate(const Program& p, Id id, const std::vector<int64_t>& scalars) {
    const Expr& e = p.exprs[id];
    switch (e.op) {
        case ExprOp::CONST: return e.value;
        case ExprOp::INDEX: case ExprOp::LOAD: return scalars[e.value];
        default: break;
    }
    const int64_t a = evaluate(p, e.a, scalars), b = e.b == NONE ? 0 : evaluate(p, e.b, scalars);
    switch (e.op) {
        case ExprOp::ADD: return a + b;
        case ExprOp::MUL: return a * b;
        case ExprOp::FLOORDIV: return b ? floor_div(a, b) : 0;
        case ExprOp::MOD: return b ? a - floor_div(a, b) * b : 0;
        case ExprOp::MIN: return std::min(a, b);
        case ExprOp::MAX: return std::max(a, b);
        case ExprOp::GE0: return a >= 0;
        default: return a == 0;
    }
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
