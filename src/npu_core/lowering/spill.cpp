// Source: hicann/pypto@r0.2.0 passes/block_graph_pass/schedule_ooo/spill_buffer.cpp, scheduler.cpp (GenSpillSchedule).
#include "npu_core/lowering/spill.h"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace npu::lowering {
namespace {

constexpr int32_t SPILL_LATENCY = 511;
constexpr size_t NEVER = SIZE_MAX;

class Spill {
public:
    Spill(Leaf& leaf, const BufferPools& pools, int32_t alloc, const std::vector<char>& executed)
        : leaf_(leaf), g_(leaf.graph), executed_(executed), own_(leaf.buffer_of_alloc[alloc]) {
        const Buffer& b = leaf.buffers[own_];
        mem_ = b.mem;
        need_ = b.bytes;
        live_ = pools.live(mem_);
        last_use_.assign(leaf.buffers.size(), -1);
        last_writer_.assign(leaf.buffers.size(), -1);
        next_use_.assign(leaf.buffers.size(), NEVER);
        place_.assign(g_.ops.size(), 0);
        for (size_t i = 0; i < leaf.list.size(); ++i) place_[leaf.list[i]] = i;
        for (const Placed& p : live_) scan(p.buffer);
        waiting_ = users(own_);
        std::sort(waiting_.begin(), waiting_.end(), [&](int32_t x, int32_t y) { return place_[x] < place_[y]; });
        find_protected();
    }

    std::vector<int32_t> run() {
        std::vector<int32_t> chosen = best_group();
        if (chosen.empty())
            for (const Placed& p : live_)
                if (!is_empty(p.buffer) && !is_window_made(p.buffer)) chosen.push_back(p.buffer);
        for (int32_t b : chosen) spill(b);
        return chosen;
    }

private:
    bool done(int32_t id) const { return size_t(id) < executed_.size() && executed_[id]; }

    // Operations with an operand in the buffer, ALLOC apart; some twice.
    std::vector<int32_t> users(int32_t b) const {
        std::vector<int32_t> list;
        for (int32_t t : leaf_.buffers[b].tensors)
            for (const Ids* ops : {&g_.tensors[t].producers, &g_.tensors[t].consumers}) list.insert(list.end(), ops->begin(), ops->end());
        return list;
    }

    void scan(int32_t b) {
        auto later = [&](int32_t& best, int32_t id) {
            if (best < 0 || place_[best] < place_[id]) best = id;
        };
        for (int32_t t : leaf_.buffers[b].tensors)
            for (const Ids* ops : {&g_.tensors[t].producers, &g_.tensors[t].consumers})
                for (int32_t id : *ops) {
                    if (!done(id)) next_use_[b] = std::min(next_use_[b], place_[id]);
                    else {
                        later(last_use_[b], id);
                        if (ops == &g_.tensors[t].producers) later(last_writer_[b], id);
                    }
                }
    }

    // Producers of what the operations waiting for this ALLOC read.
    void find_protected() {
        auto protect = [&](int32_t id) {
            for (int32_t t : g_.ops[id].in)
                for (int32_t p : g_.tensors[t].producers) protected_.insert(p);
        };
        for (int32_t s : waiting_) protect(s);
        if (waiting_.empty() || g_.ops[waiting_.front()].code != Opcode::COPY_IN) return;
        for (int32_t t : g_.ops[waiting_.front()].out)
            for (int32_t s : g_.tensors[t].consumers) protect(s);
    }

    bool is_empty(int32_t b) const { return last_writer_[b] < 0; }
    bool is_window_made(int32_t b) const {
        const Opcode c = g_.ops[last_writer_[b]].code;
        return c == Opcode::ASSEMBLE || c == Opcode::VIEW;
    }
    bool excluded(int32_t b) const { return is_empty(b) || protected_.count(last_use_[b]); }

    std::vector<int32_t> best_group() const {
        std::vector<int32_t> best;
        size_t best_value = 0;
        const int64_t room = capacity_bytes(mem_);
        const size_t n = live_.size();
        for (size_t i = 0; i < n; ++i) {
            const int64_t start = i ? live_[i - 1].at + live_[i - 1].bytes : 0;
            if (room - start < need_) break;
            size_t j = i;
            while (j < n && live_[j].at - start < need_) ++j;
            const int64_t end = j < n ? live_[j].at : room;
            while (i + 1 < j && end - (live_[i].at + live_[i].bytes) >= need_) ++i;
            size_t value = NEVER;
            bool usable = true;
            for (size_t k = i; k < j; ++k) {
                usable &= !excluded(live_[k].buffer);
                value = std::min(value, next_use_[live_[k].buffer]);
            }
            if (!usable || i == j || (!best.empty() && value <= best_value)) continue;
            best.clear();
            for (size_t k = i; k < j; ++k) best.push_back(live_[k].buffer);
            best_value = value;
        }
        return best;
    }

    int32_t new_tensor(int32_t like, Mem mem, int32_t buffer) {
        const Tensor t = g_.tensors[like];
        const int32_t id = g_.add_tensor(g_.add_raw(t.shape, t.dtype), t.shape, zero_offset(t.shape.rank), t.dtype, mem);
        leaf_.buffer_of.push_back(buffer);
        if (buffer >= 0) leaf_.buffers[buffer].tensors.push_back(id);
        return id;
    }

    int32_t new_op(Opcode code, const Ids& in, const Ids& out, int32_t latency) {
        const int32_t id = g_.add_op(code, in, out);
        g_.ops[id].latency = latency;
        leaf_.buffer_of_alloc.push_back(-1);
        return id;
    }

    int32_t new_buffer(Buffer like) {           // a copy: the list grows
        const int32_t b = int32_t(leaf_.buffers.size());
        leaf_.buffers.push_back({like.mem, like.bytes, -1, {}});
        const int32_t id = new_op(g_.ops[like.alloc].code, {}, {}, 1);
        g_.order.pop_back();
        leaf_.buffer_of_alloc[id] = b;
        leaf_.buffers[b].alloc = id;
        return b;
    }

    size_t place(int32_t id) const {
        return size_t(std::find(leaf_.list.begin(), leaf_.list.end(), id) - leaf_.list.begin());
    }
    void insert_after(int32_t anchor, int32_t id) { leaf_.list.insert(leaf_.list.begin() + long(place(anchor)) + 1, id); }

    void spill(int32_t b) {
        const int32_t writer = last_writer_[b];
        int32_t held = -1;
        for (int32_t t : g_.ops[writer].out)
            if (leaf_.buffer_of[t] == b) held = t;
        int32_t source, copy = -1;
        Offset at = zero_offset(g_.tensors[held].shape.rank);
        if (g_.ops[writer].code == Opcode::COPY_IN) {
            source = g_.ops[writer].in[0];
            at = g_.ops[writer].at;
        } else {
            source = new_tensor(held, Mem::GM, -1);
            copy = new_op(Opcode::COPY_OUT, {held}, {source}, SPILL_LATENCY);
            ++leaf_.spills;
            insert_after(last_copy_after(last_use_[b]), copy);
        }
        reload(b, held, source, at, copy);
    }

    // Copies written after the same operation stay in the order they were made.
    int32_t last_copy_after(int32_t id) {
        auto [it, fresh] = copy_after_.try_emplace(id, id);
        const int32_t anchor = it->second;
        it->second = int32_t(g_.ops.size()) - 1;
        return anchor;
    }

    void reload(int32_t b, int32_t held, int32_t source, const Offset& at, int32_t copy) {
        int32_t user = -1;
        for (int32_t id : users(b))
            if (id != copy && !done(id) && (user < 0 || place_[id] < place_[user])) user = id;
        if (user < 0) return;
        const int32_t fresh = new_buffer(leaf_.buffers[b]);
        std::vector<int32_t> added{leaf_.buffers[fresh].alloc};
        int32_t again = -1;
        if (g_.ops[last_writer_[b]].code == Opcode::ASSEMBLE) {
            again = new_tensor(held, mem_, fresh);
            for (int32_t p : Ids(g_.tensors[held].producers)) {
                if (!done(p)) continue;
                const int32_t piece = new_tensor(g_.ops[p].in[0], mem_, fresh);
                added.push_back(new_op(Opcode::COPY_IN, {source}, {piece}, SPILL_LATENCY));
                g_.ops[added.back()].at = g_.ops[p].at;
                added.push_back(g_.clone_op(p, {piece}, {again}));
                leaf_.buffer_of_alloc.push_back(-1);
                leaf_.spills += 2;
            }
        } else {
            again = new_tensor(held, mem_, fresh);
            added.push_back(new_op(Opcode::COPY_IN, {source}, {again}, SPILL_LATENCY));
            g_.ops[added.back()].at = at;
            ++leaf_.spills;
        }
        leaf_.list.insert(leaf_.list.begin() + long(place(user)), added.begin(), added.end());
        if (copy >= 0) added.push_back(copy);
        redirect(b, held, again, fresh, added);
    }

    void redirect(int32_t b, int32_t held, int32_t again, int32_t fresh, const std::vector<int32_t>& added) {
        for (int32_t id : users(b)) {
            if (done(id) || std::find(added.begin(), added.end(), id) != added.end()) continue;
            for (int32_t t : Ids(g_.ops[id].in)) {
                if (leaf_.buffer_of[t] != b) continue;
                if (t == held) g_.replace_input(id, held, again);
                else move_tensor(t, fresh);
            }
            for (int32_t t : Ids(g_.ops[id].out)) {
                if (leaf_.buffer_of[t] != b) continue;
                if (t == held) g_.replace_output(id, held, again);
                else move_tensor(t, fresh);
            }
        }
    }

    void move_tensor(int32_t t, int32_t buffer) {
        std::erase(leaf_.buffers[leaf_.buffer_of[t]].tensors, t);
        leaf_.buffer_of[t] = buffer;
        leaf_.buffers[buffer].tensors.push_back(t);
    }

    Leaf& leaf_;
    Graph& g_;
    const std::vector<char>& executed_;
    int32_t own_;                          // buffer that wants room
    Mem mem_;
    int64_t need_;
    std::vector<Placed> live_;
    std::vector<int32_t> last_use_, last_writer_;
    std::vector<size_t> next_use_, place_;   // place_: before anything was inserted
    std::vector<int32_t> waiting_;         // operations that use it
    std::unordered_set<int32_t> protected_;
    std::map<int32_t, int32_t> copy_after_;
};

}  // namespace

std::vector<int32_t> spill_for(Leaf& leaf, const BufferPools& pools, int32_t alloc, const std::vector<char>& executed) {
    const Mem mem = leaf.buffers[leaf.buffer_of_alloc[alloc]].mem;
    if (mem != Mem::UB && mem != Mem::L1) return {};
    return Spill(leaf, pools, alloc, executed).run();
}

// Operand occurrences of a buffer in operations not yet executed, its ALLOC included.
static int32_t references_left(const Leaf& leaf, int32_t buffer, const std::vector<char>& executed) {
    const Buffer& b = leaf.buffers[buffer];
    const Graph& g = leaf.graph;
    int32_t count = !executed[b.alloc];
    for (int32_t t : b.tensors) {
        for (int32_t id : g.tensors[t].producers)
            if (!executed[id]) count += int32_t(std::count(g.ops[id].out.begin(), g.ops[id].out.end(), t));
        for (int32_t id : g.tensors[t].consumers)
            if (!executed[id]) count += int32_t(std::count(g.ops[id].in.begin(), g.ops[id].in.end(), t));
    }
    return count;
}

void insert_spills(Leaf& leaf) {
    BufferPools pools;
    std::vector<int32_t> refs = reference_counts(leaf, leaf.list);
    std::vector<char> executed(leaf.graph.ops.size(), 0);
    auto release = [&](int32_t b) {
        if (--refs[b] == 0) pools.free(leaf.buffers[b].mem, b);
    };
    for (size_t i = 0; i < leaf.list.size(); ++i) {
        const int32_t id = leaf.list[i];
        const int32_t own = leaf.buffer_of_alloc[id];
        if (own >= 0) {
            const Buffer want = leaf.buffers[own];
            if (!pools.allocate(want.mem, own, want.bytes)) {
                const size_t known = leaf.buffers.size();
                const std::vector<int32_t> spilled = spill_for(leaf, pools, id, executed);
                for (int32_t b : spilled) pools.free(want.mem, b);
                executed.resize(leaf.graph.ops.size(), 0);
                i = size_t(std::find(leaf.list.begin(), leaf.list.end(), id) - leaf.list.begin());
                for (size_t k = 0; k < i; ++k) executed[leaf.list[k]] = 1;
                refs.resize(leaf.buffers.size());
                for (int32_t b : spilled) refs[b] = references_left(leaf, b, executed);
                for (size_t b = known; b < leaf.buffers.size(); ++b) refs[b] = references_left(leaf, int32_t(b), executed);
                if (!pools.allocate(want.mem, own, want.bytes)) refuse_buffer(leaf, own, pools.largest_gap(want.mem));
            }
            release(own);
        } else {
            for (const Ids* operands : {&leaf.graph.ops[id].in, &leaf.graph.ops[id].out})
                for (int32_t t : *operands)
                    if (leaf.buffer_of[t] >= 0) release(leaf.buffer_of[t]);
        }
        executed[id] = 1;
    }
}

}  // namespace npu::lowering
