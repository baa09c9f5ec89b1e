#include "npu_core/plan/walk.h"

#include <algorithm>
#include <optional>

#include "npu_core/base/fault.h"
#include "npu_core/base/patience.h"
#include "npu_core/program/evaluate.h"

namespace npu::plan {

namespace {

constexpr int64_t UNKNOWN_BASE = int64_t{1} << 50, UNKNOWN_STEP = int64_t{1} << 32;

struct Scalar { int64_t value = 0; bool known = false; };

class Walker {
public:
    Walker(const Program& p, const std::unordered_set<Id>& crossing, const std::vector<IntData>& data,
           const std::vector<Assumed>& assume, const std::function<void(const Instance&)>& use, WalkNotes& notes)
        : p_(p), data_(data), assume_(assume), use_(use), notes_(notes), slots_(static_cast<size_t>(p.scalar_slots)),
          slot_name_(static_cast<size_t>(p.scalar_slots)), written_(p.tensors.size(), 0), has_loop_(p.bodies.size(), -1), crossing_(crossing),
          stamp_(p.tensors.size(), -1), number_(p.tensors.size(), 0) {
        new_block();
    }
    void run() {
        body(0);
        flush();
    }

private:
    const Program& p_;
    const std::vector<IntData>& data_;
    const std::vector<Assumed>& assume_;
    const std::function<void(const Instance&)>& use_;
    WalkNotes& notes_;
    std::vector<Scalar> slots_;
    std::vector<std::string> slot_name_;
    std::vector<char> written_;
    std::vector<signed char> has_loop_, constant_;
    std::vector<Visit> visits_;
    std::vector<Shape> offsets_;
    size_t offset_count_ = 0;
    uint64_t key_[2];
    Id options_ = NONE;
    bool submit_ = false;
    int64_t unknown_ = 0;
    const std::unordered_set<Id>& crossing_;
    std::unordered_map<const Item*, uint64_t> content_;
    std::vector<int32_t> stamp_;
    std::vector<uint32_t> number_;
    int32_t block_ = 0;
    uint32_t next_number_ = 0;
    Patience patience_;

    void new_block() {
        visits_.clear();
        offset_count_ = 0;
        key_[0] = 0x243F6A8885A308D3ull;
        key_[1] = 0x13198A2E03707344ull;
        options_ = NONE;
        ++block_;
        next_number_ = 0;
    }
    void flush() {
        const bool works = std::any_of(visits_.begin(), visits_.end(), [](const Visit& v) { return v.item->kind != ItemKind::DECL; });
        if (works) {
            offsets_.resize(offset_count_);
            use_({visits_, offsets_, {key_[0], key_[1]}, options_, submit_});
            submit_ = false;
        }
        new_block();
    }

    Scalar eval(Id e) const {
        const Expr& x = p_.exprs[e];
        switch (x.op) {
            case ExprOp::CONST: return {x.value, true};
            case ExprOp::INDEX: case ExprOp::LOAD: return slots_[static_cast<size_t>(x.value)];
            default: break;
        }
        const Scalar a = eval(x.a), b = x.b == NONE ? Scalar{0, true} : eval(x.b);
        if (!a.known || !b.known) return {};
        return {evaluate(x.op, a.value, b.value), true};
    }

    bool constant(Id e) {
        if (constant_.size() < p_.exprs.size()) constant_.resize(p_.exprs.size(), -1);
        if (constant_[e] >= 0) return constant_[e];
        const Expr x = p_.exprs[e];
        bool is = x.op != ExprOp::INDEX && x.op != ExprOp::LOAD;
        if (is && x.op != ExprOp::CONST) is = constant(x.a) && (x.b == NONE || constant(x.b));
        constant_[e] = is;
        return is;
    }

    std::string line_of(const Item& item) const { return item.line == NONE ? "" : p_.lines[item.line]; }

    // First unknown scalar of an expression, for messages.
    std::string culprit(Id e) const {
        const Expr& x = p_.exprs[e];
        if (x.op == ExprOp::LOAD || x.op == ExprOp::INDEX)
            return slots_[static_cast<size_t>(x.value)].known ? "" : slot_name_[static_cast<size_t>(x.value)];
        std::string name = x.a == NONE ? "" : culprit(x.a);
        return !name.empty() || x.b == NONE ? name : culprit(x.b);
    }

    std::optional<Scalar> assumed(const std::string& name, const std::string& line) {
        const std::string number = line.substr(line.rfind(':') + 1), bare = name.substr(0, name.find('['));
        for (const Assumed& a : assume_) {
            if (a.key != name && a.key != bare && a.key != line && a.key != number) continue;
            const int64_t value = a.low + (a.high - a.low) / 2;
            notes_.assumptions.insert((name.empty() ? line : name) + " = " + std::to_string(value) +
                                      (a.low == a.high ? " (given)" : " (middle of the given range)"));
            return Scalar{value, true};
        }
        return std::nullopt;
    }

    Scalar must(Id e, const Item& item, const char* what) {
        Scalar s = eval(e);
        if (s.known) return s;
        const std::string name = culprit(e);
        if (auto a = assumed(name, line_of(item))) return *a;
        throw NeedsDataFault(std::string(what) + " depends on " + (name.empty() ? "a value computed in the kernel" : name) +
                             ", whose value is not known in a cost-only run; pass the argument's data, or assume={\"" +
                             (name.empty() ? line_of(item) : name) + "\": value}", line_of(item));
    }

    static uint64_t mix(uint64_t h, uint64_t v, uint64_t k = 0x9E3779B97F4A7C15ull) {
        h = (h ^ v) * k;
        return h ^ (h >> 31);
    }
    uint64_t tensor_hash(Id t) const {
        const TensorInfo& x = p_.tensors[t];
        uint64_t h = mix(static_cast<uint64_t>(x.dtype) + 1, static_cast<uint64_t>(x.shape.rank));
        for (int i = 0; i < x.shape.rank; ++i) h = mix(h, static_cast<uint64_t>(x.shape[i]));
        return h;
    }
    // What an item does, apart from which tensors it does it to.
    uint64_t content(const Item& item) {
        auto [it, added] = content_.try_emplace(&item, 0);
        if (!added) return it->second;
        uint64_t h = mix(static_cast<uint64_t>(item.kind) + 11, static_cast<uint64_t>(item.line + 1));
        if (item.kind == ItemKind::OP) {
            const npu::Op& op = p_.ops[item.a];
            h = mix(mix(h, static_cast<uint64_t>(op.row)), static_cast<uint64_t>(op.options + 1));
            if (op.tile != NONE) {
                const TileInfo& tile = p_.tiles[op.tile];
                for (const std::vector<int64_t>* list : {&tile.vec, &tile.cube})
                    for (int64_t v : *list) h = mix(h, static_cast<uint64_t>(v));
                h = mix(h, tile.split_k);
            }
            for (int i = 0; i < op.ints.count; ++i) h = mix(h, static_cast<uint64_t>(p_.ints[op.ints.begin + i]));
            for (int i = 0; i < op.ins.count; ++i) h = mix(h, tensor_hash(p_.id_at(op.ins)[i]));
            for (int i = 0; i < op.outs.count; ++i) h = mix(h, tensor_hash(p_.id_at(op.outs)[i]));
        } else {
            h = mix(h, tensor_hash(item.a));
        }
        return it->second = h;
    }
    // Arguments and slots are themselves, other tensors are numbered by their first appearance in the root function.
    uint64_t name_of(Id t) {
        if (p_.tensors[t].global() || crossing_.count(t)) return static_cast<uint64_t>(t) << 32;
        if (stamp_[t] != block_) {
            stamp_[t] = block_;
            number_[t] = next_number_++;
        }
        return number_[t];
    }

    void visit(const Item& item) {
        uint64_t h = content(item);
        switch (item.kind) {
            case ItemKind::OP: {
                const npu::Op& op = p_.ops[item.a];
                for (int i = 0; i < op.ins.count; ++i) h = mix(h, name_of(p_.id_at(op.ins)[i]));
                for (int i = 0; i < op.outs.count; ++i) h = mix(h, name_of(p_.id_at(op.outs)[i]));
                break;
            }
            case ItemKind::SET: case ItemKind::ASSEMBLE: h = mix(mix(h, name_of(item.b)), name_of(item.a)); break;
            default: h = mix(h, name_of(item.a)); break;
        }
        key_[0] = mix(key_[0], h);
        key_[1] = mix(key_[1], h, 0xC2B2AE3D27D4EB4Full);
        visits_.push_back({&item, {}, NONE});
    }
    void place(Span span, int rank) {   // evaluated offsets of the last visit
        Visit& v = visits_.back();
        v.at = zeros(rank);
        bool fixed = true;
        for (int i = 0; i < rank && i < span.count; ++i) fixed = fixed && constant(p_.id_at(span)[i]);
        if (!fixed) v.dyn = static_cast<Id>(offset_count_);
        key_[0] = mix(key_[0], fixed);
        for (int i = 0; i < rank && i < span.count; ++i) {
            const Scalar s = eval(p_.id_at(span)[i]);
            v.at[i] = s.known ? s.value : UNKNOWN_BASE + UNKNOWN_STEP * ++unknown_;
            if (fixed) key_[0] = mix(key_[0], static_cast<uint64_t>(s.value));
            if (!s.known) notes_.assumptions.insert("offsets that depend on data are unknown and taken as disjoint");
        }
        if (fixed) return;
        if (offset_count_ == offsets_.size()) offsets_.push_back(v.at);
        else offsets_[offset_count_] = v.at;
        ++offset_count_;
    }

    bool has_loop(Id body) {
        signed char& known = has_loop_[body];
        if (known >= 0) return known;
        known = 0;
        for (const Item& item : p_.bodies[body].items) {
            if (item.kind == ItemKind::LOOP) known = 1;
            if (item.kind == ItemKind::IF && (has_loop(item.b) || has_loop(item.c))) known = 1;
        }
        return known;
    }

    void body(Id id) {
        for (const Item& item : p_.bodies[id].items) {
            switch (item.kind) {
                case ItemKind::OP: {
                    const npu::Op& op = p_.ops[item.a];
                    if (p_.tensors[p_.id_at(op.outs)[0]].alias != NONE) break;   // another shape of an argument
                    visit(item);
                    if (op.options != NONE) options_ = op.options;
                    if (op.scalars.count > 0 && op_rows()[op.row].kernel == "view") {
                        const int rank = p_.tensors[p_.id_at(op.outs)[0]].shape.rank;
                        place({op.scalars.begin, rank}, rank);
                        for (int i = 0; i < rank && rank + i < op.scalars.count; ++i) {
                            const Scalar s = eval(p_.id_at(op.scalars)[rank + i]);
                            if (!s.known || s.value != p_.tensors[p_.id_at(op.outs)[0]].shape[i]) { ++notes_.tails; break; }
                        }
                    }
                    for (int i = 0; i < op.outs.count; ++i) written_[p_.id_at(op.outs)[i]] = 1;
                    break;
                }
                case ItemKind::DECL: visit(item); break;
                case ItemKind::SET: visit(item); written_[item.a] = 1; break;
                case ItemKind::ASSEMBLE:
                    visit(item);
                    place(item.span, p_.tensors[item.a].shape.rank);
                    written(item.a);
                    break;
                case ItemKind::STORE: written(item.a); break;
                case ItemKind::LOAD: load(item); break;
                case ItemKind::BLOCK: flush(); break;
                case ItemKind::TRAP: throw TrapSignal{item.a};   // the kernel raises here, whatever the model
                case ItemKind::IF: {
                    const Scalar c = must(item.a, item, "a condition");
                    body(c.value ? item.b : item.c);
                    return;   // an If is the last item of its body
                }
                case ItemKind::LOOP: loop(item); break;
            }
        }
    }

    void written(Id t) {
        written_[t] = 1;
        if (p_.tensors[t].alias != NONE) written_[p_.tensors[t].alias] = 1;
    }

    void load(const Item& item) {
        const size_t slot = static_cast<size_t>(item.a);
        const TensorInfo& t = p_.tensors[item.b];
        std::string name = (t.name.empty() ? "tensor" : t.name) + "[";
        const Id base = t.alias == NONE ? item.b : t.alias;
        const int argument = p_.tensors[base].arg_index;
        bool known = argument >= 0 && !written_[base];
        int64_t index = 0;
        for (int i = 0; i < item.span.count; ++i) {
            const Scalar s = eval(p_.id_at(item.span)[i]);
            name += (i ? ", " : "") + (s.known ? std::to_string(s.value) : std::string("?"));
            known = known && s.known && s.value >= 0 && s.value < t.shape[i];
            index = index * t.shape[i] + s.value;
        }
        name += "]";
        slot_name_[slot] = name;
        slots_[slot] = {};
        if (auto a = assumed(name, line_of(item))) { slots_[slot] = *a; return; }
        if (!known || argument >= static_cast<int>(data_.size())) return;
        const IntData& d = data_[static_cast<size_t>(argument)];
        const int64_t size = dtype_size_bytes(t.dtype);
        if (!d.data || (index + 1) * size > d.bytes) return;
        const uint8_t* at = d.data + index * size;
        auto get = [&]<typename T>(T) { T v; __builtin_memcpy(&v, at, sizeof v); return static_cast<int64_t>(v); };
        switch (t.dtype) {
            case DType::I8: slots_[slot] = {get(int8_t{}), true}; break;
            case DType::I16: slots_[slot] = {get(int16_t{}), true}; break;
            case DType::I32: slots_[slot] = {get(int32_t{}), true}; break;
            case DType::I64: slots_[slot] = {get(int64_t{}), true}; break;
            case DType::U8: case DType::BOOL: slots_[slot] = {get(uint8_t{}), true}; break;
            case DType::U16: slots_[slot] = {get(uint16_t{}), true}; break;
            case DType::U32: slots_[slot] = {get(uint32_t{}), true}; break;
            case DType::U64: slots_[slot] = {get(uint64_t{}), true}; break;
            default: break;
        }
    }

    void loop(const Item& item) {
        flush();
        submit_ = submit_ || item.submit_before;
        const Id* b = p_.id_at(item.span);
        const int64_t start = must(b[0], item, "a loop start").value, stop = must(b[1], item, "a loop bound").value,
                      step = must(b[2], item, "a loop step").value;
        if (step <= 0) return;
        std::vector<int64_t> factors;
        if (!has_loop(item.b))
            for (int i = 0; i < item.unroll.count; ++i)
                if (int64_t f = p_.ints[item.unroll.begin + i]; f > 1) factors.push_back(f);
        std::sort(factors.rbegin(), factors.rend());
        const size_t slot = static_cast<size_t>(item.a);
        slot_name_[slot] = "loop index";
        int64_t left = start < stop ? (stop - start + step - 1) / step : 0, i = start;
        while (left > 0) {
            int64_t take = 1;
            for (int64_t f : factors)
                if (f <= left) { take = f; break; }
            for (int64_t k = 0; k < take; ++k, i += step) {
                patience_.check();
                slots_[slot] = {i, true};
                body(item.b);
            }
            flush();
            left -= take;
        }
    }
};

}  // namespace

void walk(const Program& program, const std::unordered_set<Id>& crossing, const std::vector<IntData>& data,
          const std::vector<Assumed>& assume, const std::function<void(const Instance&)>& use, WalkNotes& notes) {
    Walker(program, crossing, data, assume, use, notes).run();
}

}  // namespace npu::plan
