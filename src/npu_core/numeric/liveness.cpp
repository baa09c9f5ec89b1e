#include "npu_core/numeric/liveness.h"

#include <algorithm>

namespace npu {

namespace {

// Backward over the decision tree. Sets are bit vectors over tensor ids.
class Backward {
  public:
    Backward(const Program& p, Liveness& out) : p_(p), out_(out), words_((p.tensors.size() + 63) / 64) {
        out_.after.resize(p.bodies.size());
        out_.at_entry.resize(p.bodies.size());
    }
    using Set = std::vector<uint64_t>;
    Set empty() const { return Set(words_, 0); }

    // Tensors alive at the entry of `body`, given those alive at its end. `record`: write the result too.
    Set body(Id body, Set live, bool record) {
        const auto& items = p_.bodies[body].items;
        std::vector<Span> after(record ? items.size() : 0);
        for (size_t i = items.size(); i-- > 0;) {
            const Item& it = items[i];
            std::vector<Id> dead;
            const auto read = [&](Id t) {
                if (add(live, t)) dead.push_back(t);
            };
            const auto written = [&](Id t) {
                if (!drop(live, t)) dead.push_back(t);
            };
            switch (it.kind) {
                case ItemKind::OP: {
                    const Op& op = p_.ops[it.a];
                    for (int k = 0; k < op.outs.count; ++k) written(p_.id_at(op.outs)[k]);
                    for (int k = 0; k < op.ins.count; ++k) read(p_.id_at(op.ins)[k]);
                    break;
                }
                case ItemKind::DECL: written(it.a); break;
                case ItemKind::SET:
                    if (it.a != it.b) written(it.a);
                    read(it.b);
                    break;
                case ItemKind::ASSEMBLE:
                    read(it.a);
                    read(it.b);
                    break;
                case ItemKind::LOAD: read(it.b); break;
                case ItemKind::STORE: read(it.a); break;
                case ItemKind::IF: {
                    Set then_in = this->body(it.b, live, record), else_in = this->body(it.c, live, record);
                    Set both = then_in;
                    merge(both, else_in);
                    if (record) {
                        out_.at_entry[it.b] = dead_span(both, then_in);
                        out_.at_entry[it.c] = dead_span(both, else_in);
                    }
                    live = std::move(both);
                    break;
                }
                case ItemKind::LOOP: {
                    // What the next iteration reads stays alive at the end of an iteration.
                    Set at_end = live;
                    for (;;) {
                        Set in = this->body(it.b, at_end, false), more = at_end;
                        merge(more, in);
                        if (more == at_end) break;
                        at_end = std::move(more);
                    }
                    if (record) {
                        this->body(it.b, at_end, true);
                        for_each_missing(at_end, live, [&](Id t) { dead.push_back(t); });
                    }
                    live = std::move(at_end);
                    break;
                }
                case ItemKind::BLOCK:
                case ItemKind::TRAP: break;
            }
            if (record) after[i] = span(dead);
        }
        if (record) out_.after[body] = std::move(after);
        return live;
    }

  private:
    static bool add(Set& s, Id t) {  // true if it was absent
        uint64_t& w = s[t / 64];
        const uint64_t bit = uint64_t{1} << (t % 64);
        const bool absent = !(w & bit);
        w |= bit;
        return absent;
    }
    static bool drop(Set& s, Id t) {  // true if it was present
        uint64_t& w = s[t / 64];
        const uint64_t bit = uint64_t{1} << (t % 64);
        const bool present = w & bit;
        w &= ~bit;
        return present;
    }
    static void merge(Set& a, const Set& b) {
        for (size_t i = 0; i < a.size(); ++i) a[i] |= b[i];
    }
    template <class F>
    static void for_each_missing(const Set& all, const Set& kept, F&& f) {
        for (size_t w = 0; w < all.size(); ++w)
            for (uint64_t bits = all[w] & ~kept[w]; bits; bits &= bits - 1)
                f(static_cast<Id>(w * 64 + static_cast<size_t>(__builtin_ctzll(bits))));
    }
    Span dead_span(const Set& all, const Set& kept) {
        std::vector<Id> dead;
        for_each_missing(all, kept, [&](Id t) { dead.push_back(t); });
        return span(dead);
    }
    Span span(std::vector<Id>& dead) {
        std::erase_if(dead, [&](Id t) { return p_.tensors[t].kind == TensorKind::ARG; });
        const Span s{static_cast<int32_t>(out_.ids.size()), static_cast<int32_t>(dead.size())};
        out_.ids.insert(out_.ids.end(), dead.begin(), dead.end());
        return s;
    }

    const Program& p_;
    Liveness& out_;
    size_t words_;
};

}  // namespace

Liveness find_liveness(const Program& p) {
    Liveness out;
    Backward b(p, out);
    if (!p.bodies.empty()) b.body(0, b.empty(), true);
    return out;
}

}  // namespace npu
