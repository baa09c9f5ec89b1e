#include "npu_core/plan/walk.h"

#include <algorithm>

#include "npu_core/base/fault.h"
#include "npu_core/base/patience.h"
#include "npu_core/program/control.h"

namespace npu::plan {

namespace {

constexpr int64_t UNKNOWN_BASE = int64_t{1} << 50, UNKNOWN_STEP = int64_t{1} << 32, MOST_UNKNOWN = int64_t{1} << 29;

// Blocks for which a valid extent stays no less than `full`, or no more than nothing.
int64_t blocks_beyond(const Affine& extent, int64_t full) {
    if (extent.value >= full) return affine::until(extent.value - full, -extent.slope);
    return extent.value <= 0 ? affine::until(-extent.value, extent.slope) : 0;
}

constexpr size_t MOST_TAILS = 256;   // root functions with tails before extents are rounded

using Scalar = ControlScalars::Scalar;

class Walker {
public:
    Walker(const Program& p, const std::unordered_set<Id>& crossing, const std::vector<IntData>& data,
           const std::vector<Assumed>& assume, const std::function<int64_t(const Instance&)>& use, WalkNotes& notes)
        : p_(p), use_(use), notes_(notes), scalars_(p, data, assume, notes.assumptions), crossing_(crossing),
          stamp_(p.tensors.size(), -1), number_(p.tensors.size(), 0), extents_(p.extents.size()) {
        new_block();
    }
    void run() {
        body(0);
        flush();
    }

private:
    const Program& p_;
    const std::function<int64_t(const Instance&)>& use_;
    WalkNotes& notes_;
    ControlScalars scalars_;
    std::vector<Visit> visits_;
    std::vector<Shape> offsets_, slopes_;
    std::vector<std::pair<size_t, int>> unknown_offsets_;   // place and axis in offsets_
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
    int64_t flushed_ = 0;                    // root functions so far, empty ones too
    Patience patience_;
    struct Extents {
        int64_t version = -1;
        Shape shape;
        Scalar scalars[MAX_RANK];
        bool moves = false;                      // from block to block of a loop
    };
    std::vector<Extents> extents_;               // Program::extents as last evaluated
    int64_t version_ = 0;                        // counts changes of scalars
    std::unordered_map<Id, Shape> held_;         // locals that were set to a value of which a part is valid
    Valids valids_;
    bool partial_ = false;                       // this block has tails
    std::unordered_set<uint64_t> tail_keys_;

    void new_block() {
        visits_.clear();
        valids_.shapes.clear();
        valids_.slots.clear();
        partial_ = false;
        offset_count_ = 0;
        unknown_offsets_.clear();
        key_[0] = 0x243F6A8885A308D3ull;
        key_[1] = 0x13198A2E03707344ull;
        options_ = NONE;
        ++block_;
        next_number_ = 0;
    }
    // more: further blocks of the loop that go the same way. Answers how many of them are done.
    int64_t flush(int64_t more = 0, int64_t unknown_before = 0) {
        const bool works = std::any_of(visits_.begin(), visits_.end(), [](const Visit& v) { return v.item->kind != ItemKind::DECL; });
        int64_t done = more;
        if (works) {
            offsets_.resize(offset_count_);
            slopes_.resize(offset_count_);
            if (partial_) tail_keys_.insert(key_[0]);
            const int64_t unknowns = unknown_ - unknown_before;
            for (const auto& [place, axis] : unknown_offsets_) slopes_[place][axis] = UNKNOWN_STEP * unknowns;
            if (!unknown_offsets_.empty()) more = std::min(more, MOST_UNKNOWN / unknowns - unknown_ / unknowns - 1);
            done = use_({visits_, offsets_, valids_, {key_[0], key_[1]}, options_, submit_, slopes_, std::max<int64_t>(0, more)});
            unknown_ += done * unknowns;
            submit_ = false;
        }
        ++flushed_;
        new_block();
        return done;
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

    // What is valid of tensor t now where that is less than its shape; false: all of it.
    bool valid_now(Id t, Shape& valid) {
        if (!held_.empty())
            if (auto it = held_.find(t); it != held_.end()) {
                valid = it->second;
                return !(valid == p_.tensors[t].shape);
            }
        return made_valid(t, valid);
    }
    bool made_valid(Id t, Shape& valid) {        // as its operation leaves it
        const TensorInfo& info = p_.tensors[t];
        if (info.extents == NONE) return false;
        Extents& e = extents_[info.extents];
        if (e.version != version_) {
            e.version = version_;
            e.shape = info.shape;
            e.moves = false;
            for (int i = 0; i < info.shape.rank; ++i) {
                const Scalar s = scalars_.eval(p_.id_at(p_.extents[info.extents])[i]);
                e.shape[i] = s.known ? std::max<int64_t>(s.value, 0) : UNKNOWN_BASE;
                e.scalars[i] = s;
                e.moves = e.moves || s.slope != 0;
                if (!s.known) notes_.assumptions.insert("valid extents that are not known before the run: their tiles cost as full tiles");
            }
        }
        valid = e.shape;
        if (e.moves)
            for (int i = 0; i < valid.rank; ++i)
                if (e.scalars[i].slope != 0) scalars_.alike_at_most(blocks_beyond(e.scalars[i], info.shape[i]));
        const bool coarse = tail_keys_.size() > MOST_TAILS;
        for (int i = 0; i < valid.rank; ++i) {
            if (coarse) valid[i] = round_up(valid[i], std::max<int64_t>(1, ceil_div(info.shape[i], 16)));
            valid[i] = std::min(valid[i], info.shape[i]);
        }
        if (valid == info.shape) return false;
        if (coarse) notes_.assumptions.insert("more than " + std::to_string(MOST_TAILS) + " kinds of tails: further ones are rounded up to sixteenths of their tile");
        return true;
    }
    void hold(Id t, bool partial, const Shape& valid) {
        if (partial || p_.tensors[t].extents != NONE) held_[t] = partial ? valid : p_.tensors[t].shape;
        else if (!held_.empty()) held_.erase(t);
        carry(t, partial ? valid : p_.tensors[t].shape);
    }
    void carry(Id t, const Shape& valid) {
        for (const CarriedExtent& c : p_.carried)
            if (c.tensor == t) {
                scalars_.set_index(c.slot, valid[c.axis]);
                ++version_;
            }
    }
    void mix_valid(const Shape& valid) {
        partial_ = true;
        for (int i = 0; i < valid.rank; ++i) key_[0] = mix(key_[0], static_cast<uint64_t>(valid[i]) + 3);
    }
    void results_valid(const npu::Op& op) {      // of the operation that was just visited
        Shape valid;
        for (int i = 0; i < op.outs.count; ++i) {
            const Id t = p_.id_at(op.outs)[i];
            if (!held_.empty()) held_.erase(t);
            const bool partial = made_valid(t, valid);
            if (!p_.carried.empty()) carry(t, partial ? valid : p_.tensors[t].shape);
            if (!partial) continue;
            Visit& v = visits_.back();
            if (v.valid == NONE) {
                v.valid = static_cast<Id>(valids_.shapes.size());
                for (int k = 0; k < op.outs.count; ++k) valids_.shapes.push_back(p_.tensors[p_.id_at(op.outs)[k]].shape);
            }
            valids_.shapes[v.valid + i] = valid;
            key_[0] = mix(key_[0], static_cast<uint64_t>(i));
            mix_valid(valid);
        }
    }
    void slot_valid(Id t) {                      // a local that this block reads
        Shape valid;
        if ((held_.empty() && p_.tensors[t].extents == NONE) || !crossing_.count(t) || !valid_now(t, valid) || valids_.slot(t)) return;
        valids_.slots.push_back({t, valid});
        mix_valid(valid);
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
    void place(Span span, Id tensor, int32_t line) {   // evaluated offsets of the last visit into `tensor`
        const int rank = p_.tensors[tensor].shape.rank;
        Visit& v = visits_.back();
        v.at = zeros(rank);
        bool fixed = true;
        for (int i = 0; i < rank && i < span.count; ++i) fixed = fixed && scalars_.constant(p_.id_at(span)[i]);
        if (!fixed) v.dyn = static_cast<Id>(offset_count_);
        key_[0] = mix(key_[0], fixed);
        Shape slope = zeros(rank);
        for (int i = 0; i < rank && i < span.count; ++i) {
            const Scalar s = scalars_.eval(p_.id_at(span)[i]);
            v.at[i] = s.known ? s.value : UNKNOWN_BASE + UNKNOWN_STEP * ++unknown_;
            slope[i] = s.slope;
            if (s.known) inside(s, tensor, i, line);
            if (fixed) key_[0] = mix(key_[0], static_cast<uint64_t>(s.value));
            if (s.known) continue;
            unknown_offsets_.emplace_back(offset_count_, i);
            notes_.assumptions.insert("offsets that depend on data are unknown and taken as disjoint");
        }
        if (fixed) return;
        if (offset_count_ == offsets_.size()) offsets_.emplace_back();
        if (offset_count_ == slopes_.size()) slopes_.emplace_back();
        offsets_[offset_count_] = v.at;
        slopes_[offset_count_] = slope;
        ++offset_count_;
    }

    void inside(const Scalar& start, Id tensor, int axis, int32_t line) {
        const int64_t last = p_.tensors[tensor].shape[axis] - 1;
        if (start.value >= 0 && start.value <= last) {
            if (start.slope != 0)
                scalars_.alike_at_most(std::min(affine::until(last - start.value, start.slope), affine::until(start.value, -start.slope)));
        } else if (last >= 0) {
            const std::string& name = p_.tensors[tensor].name;
            notes_.assumptions.insert("a window starts outside of " + (name.empty() ? "a tensor" : "`" + name + "`") +
                                      (line == NONE ? "" : " (" + p_.lines[static_cast<size_t>(line)] + ")") +
                                      ": it is priced as if the rows were there");
        }
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
                        place({op.scalars.begin, rank}, p_.id_at(op.ins)[0], item.line);
                    }
                    for (int i = 0; i < op.ins.count; ++i) slot_valid(p_.id_at(op.ins)[i]);
                    results_valid(op);
                    for (int i = 0; i < op.outs.count; ++i) scalars_.written(p_.id_at(op.outs)[i]);
                    break;
                }
                case ItemKind::DECL: visit(item); hold(item.a, false, {}); break;
                case ItemKind::SET: {
                    visit(item);
                    slot_valid(item.b);
                    Shape valid;
                    const bool partial = valid_now(item.b, valid);
                    if (!partial) valid = p_.tensors[item.b].shape;
                    hold(item.a, partial, valid);
                    scalars_.written(item.a);
                    break;
                }
                case ItemKind::ASSEMBLE:
                    visit(item);
                    slot_valid(item.b);
                    if (!p_.tensors[item.a].global()) hold(item.a, false, {});
                    place(item.span, item.a, item.line);
                    scalars_.written(item.a);
                    break;
                case ItemKind::STORE: scalars_.written(item.a); break;
                case ItemKind::LOAD: scalars_.load(item); ++version_; break;
                case ItemKind::BLOCK: flush(); break;
                case ItemKind::TRAP: throw TrapSignal{item.a};   // the kernel raises here, whatever the model
                case ItemKind::IF: {
                    body(scalars_.must(item.a, item, "a condition") ? item.b : item.c);
                    return;   // an If is the last item of its body
                }
                case ItemKind::LOOP: loop(item); break;
            }
        }
    }

    void loop(const Item& item) {
        flush();
        submit_ = submit_ || item.submit_before;
        const Id* b = p_.id_at(item.span);
        const int64_t start = scalars_.must(b[0], item, "a loop start"), stop = scalars_.must(b[1], item, "a loop bound"),
                      step = scalars_.must(b[2], item, "a loop step");
        if (step <= 0) return;
        int64_t left = start < stop ? (stop - start + step - 1) / step : 0, i = start;
        const bool innermost = !scalars_.has_loop(item.b);
        uint64_t before[2] = {0, 0};                                 // key of the block before
        while (left > 0) {
            const int64_t take = scalars_.unrolled(item, left), flushed = flushed_, unknown_before = unknown_;
            int64_t pace = 0;
            const bool line = innermost && !__builtin_mul_overflow(take, step, &pace);
            scalars_.alike_from_here();
            for (int64_t k = 0; k < take; ++k, i += step) {
                patience_.check();
                scalars_.set_index(item.a, i, line ? pace : 0);
                ++version_;
                body(item.b);
            }
            // One root function, twice the same: what a block leaves behind (valid extents of locals, what was written) is
            // settled, and the next ones can differ by their scalars only.
            const bool same = line && flushed_ == flushed && before[0] == key_[0] && before[1] == key_[1];
            before[0] = key_[0];
            before[1] = key_[1];
            const int64_t done = flush(same ? std::min(scalars_.alike(), left / take - 1) : 0, unknown_before);
            i += done * pace;
            left -= take * (done + 1);
        }
    }
};

}  // namespace

void walk(const Program& program, const std::unordered_set<Id>& crossing, const std::vector<IntData>& data,
          const std::vector<Assumed>& assume, const std::function<int64_t(const Instance&)>& use, WalkNotes& notes) {
    Walker(program, crossing, data, assume, use, notes).run();
}

}  // namespace npu::plan
