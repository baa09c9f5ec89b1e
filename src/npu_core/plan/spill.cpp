// Spills: walks the leaf in list order with the addresses of UB and L1; where an allocation finds no room, a run of
// neighbouring buffers is moved to GM and reloaded at its next use.
#include <algorithm>
#include <map>
#include <set>

#include "npu_core/plan/leaf.h"

namespace npu::plan {

namespace {

using cost::Pipe;

constexpr int32_t LATENCY = 511;

class Spiller {
public:
    Spiller(Leaf& leaf, const Chip& chip) : leaf_(leaf), chip_(chip), n_(static_cast<int32_t>(leaf.ops.size())), emitted_(leaf.spare) {}

    void run() {
        bool tight = false;
        for (Mem m : {Mem::UB, Mem::L1}) {   // nothing to do where everything fits at once
            int64_t total = 0;
            for (size_t b = 0; b < leaf_.buffer_bytes.size(); ++b)
                if (leaf_.buffer_mem[b] == m) total += leaf_.buffer_bytes[b];
            tight = tight || (chip_.capacity[static_cast<int>(m)] && total > chip_.capacity[static_cast<int>(m)]);
        }
        if (!tight) return;
        prepare();
        for (now_ = 0; now_ < n_; ++now_) {
            for (int32_t k = first_reload_[now_]; k >= 0; k = reloads_[k].next) {
                const LeafOp op = reloads_[k].op;
                const int32_t b = leaf_.tensors[op.out[0]].buffer;
                if (!allocate(b, op)) return give_up(b);
                emit(op);
                holds_[b] = op.out[0];
                source_[b] = op.in[0];
                emitted_last_[b] = static_cast<int32_t>(emitted_.size()) - 1;
            }
            const LeafOp& op = leaf_.ops[now_];
            for (size_t k = op.out.size(); k-- > 0;) {
                const int32_t b = leaf_.tensors[op.out[k]].buffer;
                if (b >= 0 && managed(b) && address_[b] < 0 && !allocate(b, op)) return give_up(b);
            }
            emit(op);
            for (int32_t t : op.out)
                if (const int32_t b = leaf_.tensors[t].buffer; b >= 0 && managed(b)) {
                    holds_[b] = t;
                    source_[b] = op.code == Code::COPY_IN ? op.in[0] : -1;
                }
            for (const Operands* side : {&op.in, &op.out})
                for (int32_t t : *side) {
                    const int32_t b = leaf_.tensors[t].buffer;
                    if (b < 0 || !managed(b)) continue;
                    emitted_last_[b] = static_cast<int32_t>(emitted_.size()) - 1;
                    Range& uses = uses_[b];
                    while (uses.begin < uses.end && items_[uses.begin] <= now_) ++uses.begin;
                    if (uses.begin == uses.end) free_buffer(b);
                }
        }
        finish();
    }

private:
    struct Range { size_t begin = 0, end = 0; };           // of items_
    struct Reload { LeafOp op; int32_t next; };            // next: of the same place, -1 for none

    Leaf& leaf_;
    const Chip& chip_;
    const int32_t n_;
    int32_t now_ = 0;
    std::vector<int32_t> items_;                           // places in the list, by owner
    std::vector<Range> uses_;                              // by buffer of UB and L1: the uses to come
    std::vector<Range> consumers_;                         // by tensor there: who reads it
    std::vector<Reload> reloads_;
    std::vector<int32_t> first_reload_, last_reload_;      // by place
    std::vector<int64_t> address_;                         // by buffer; -1: not there
    std::vector<int32_t> holds_, emitted_last_, source_;   // by buffer: tensor, last emitted use, tensor in GM that it equals
    std::vector<int32_t> result_after_;                    // by place: the next copy out of L0C
    std::map<int64_t, int32_t> live_[MEMS];                // address -> buffer
    std::set<std::pair<int64_t, int64_t>> gaps_[MEMS];     // bytes, address of the free room between them
    std::vector<LeafOp>& emitted_;                         // Leaf::spare, the new order
    std::vector<std::pair<int32_t, LeafOp>> after_;        // saves, to follow an emitted operation
    std::vector<int32_t> kept_;                            // by buffer: the last search that must not move it out
    int32_t search_ = 0;

    void prepare() {
        const size_t buffers = leaf_.buffer_bytes.size(), tensors = leaf_.tensors.size();
        std::vector<int32_t> last(buffers, -1);
        uses_.resize(buffers);
        consumers_.resize(tensors);
        auto each = [&](auto use, auto read) {
            std::fill(last.begin(), last.end(), -1);
            for (int32_t i = 0; i < n_; ++i) {
                const LeafOp& op = leaf_.ops[i];
                for (const Operands* side : {&op.in, &op.out})
                    for (int32_t t : *side) {
                        const int32_t b = leaf_.tensors[t].buffer;
                        if (b < 0 || !managed(b)) continue;
                        if (last[b] != i) use(b, i);
                        last[b] = i;
                        if (side == &op.in) read(t, i);
                    }
            }
        };
        each([&](int32_t b, int32_t) { ++uses_[b].end; }, [&](int32_t t, int32_t) { ++consumers_[t].end; });
        size_t at = 0;
        for (std::vector<Range>* lists : {&uses_, &consumers_})
            for (Range& r : *lists) {
                const size_t count = r.end;
                r = {at, at};
                at += count;
            }
        items_.resize(at);
        each([&](int32_t b, int32_t i) { items_[uses_[b].end++] = i; }, [&](int32_t t, int32_t i) { items_[consumers_[t].end++] = i; });
        first_reload_.assign(static_cast<size_t>(n_), -1);
        last_reload_.assign(static_cast<size_t>(n_), -1);
        address_.assign(buffers, -1);
        for (std::vector<int32_t>* list : {&holds_, &emitted_last_, &source_}) list->assign(buffers, -1);
        kept_.assign(buffers, 0);
        result_after_.assign(static_cast<size_t>(n_) + 1, n_);
        for (int32_t i = n_ - 1; i >= 0; --i)
            result_after_[i] = leaf_.ops[i].pipe == Pipe::FIX ? i : result_after_[i + 1];
        for (Mem m : {Mem::UB, Mem::L1}) gaps_[static_cast<int>(m)].emplace(chip_.capacity[static_cast<int>(m)], 0);
        emitted_.clear();
        emitted_.reserve(std::max(leaf_.ops.capacity(), static_cast<size_t>(n_) + static_cast<size_t>(n_) / 4));
    }
    void emit(const LeafOp& op) { emitted_.push_back(op); }
    bool managed(int32_t b) const {
        const Mem m = leaf_.buffer_mem[b];
        return (m == Mem::UB || m == Mem::L1) && chip_.capacity[static_cast<int>(m)] && leaf_.buffer_bytes[b];
    }

    void free_buffer(int32_t b) {
        if (address_[b] < 0) return;
        const int m = static_cast<int>(leaf_.buffer_mem[b]);
        const auto it = live_[m].find(address_[b]);
        const auto after = std::next(it);
        int64_t from = 0, to = after == live_[m].end() ? chip_.capacity[m] : after->first;
        if (it != live_[m].begin()) {
            const auto before = std::prev(it);
            from = before->first + leaf_.buffer_bytes[before->second];
        }
        const int64_t begin = address_[b], end = begin + leaf_.buffer_bytes[b];
        if (from < begin) gaps_[m].erase({begin - from, from});
        if (end < to) gaps_[m].erase({to - end, end});
        gaps_[m].emplace(to - from, from);
        live_[m].erase(it);
        address_[b] = -1;
    }

    // Smallest free interval that fits, the lowest address among equals.
    bool place(int32_t b) {
        const int m = static_cast<int>(leaf_.buffer_mem[b]);
        const int64_t need = leaf_.buffer_bytes[b];
        const auto it = gaps_[m].lower_bound({need, 0});
        if (it == gaps_[m].end()) return false;
        const auto [bytes, at] = *it;
        gaps_[m].erase(it);
        if (bytes > need) gaps_[m].emplace(bytes - need, at + need);
        live_[m].emplace(at, b);
        address_[b] = at;
        return true;
    }

    bool allocate(int32_t b, const LeafOp& op) {
        while (!place(b))
            if (!make_room(b, op)) return false;
        return true;
    }

    // Marks the buffers that the operation, or for a load its readers, are about to read.
    void keep_operands(const LeafOp& op) {
        ++search_;
        auto keep = [&](const LeafOp& o) {
            for (int32_t t : o.in)
                if (const int32_t b = leaf_.tensors[t].buffer; b >= 0) kept_[b] = search_;
        };
        keep(op);
        if (op.code == Code::COPY_IN && !op.out.empty())
            for (size_t k = consumers_[op.out[0]].begin; k < consumers_[op.out[0]].end; ++k) keep(leaf_.ops[items_[k]]);
    }
    bool kept(int32_t b) const { return kept_[b] == search_; }

    size_t first_use_from_now(int32_t b) const {
        size_t k = uses_[b].begin;
        while (k < uses_[b].end && items_[k] < now_) ++k;
        return k;
    }
    int32_t use_after(int32_t b) const {
        const size_t k = first_use_from_now(b);
        return k < uses_[b].end ? items_[k] : n_;
    }

    bool make_room(int32_t wanted, const LeafOp& op) {
        const int m = static_cast<int>(leaf_.buffer_mem[wanted]);
        const int64_t need = leaf_.buffer_bytes[wanted], capacity = chip_.capacity[m];
        std::vector<int32_t> by_address;
        by_address.reserve(live_[m].size());
        for (const auto& [address, b] : live_[m]) by_address.push_back(b);
        const size_t count = by_address.size();
        auto end_of = [&](size_t i) { return address_[by_address[i]] + leaf_.buffer_bytes[by_address[i]]; };
        keep_operands(op);
        if (m == static_cast<int>(Mem::L1)) {   // what this output tile does not read again
            const int32_t horizon = result_after_[now_];
            bool dropped = false;
            for (int32_t b : by_address) {
                if (source_[b] < 0 || kept(b) || use_after(b) <= horizon) continue;
                move_out(b);
                dropped = true;
            }
            if (dropped) return true;
        }
        std::vector<int32_t> best;
        int32_t best_value = -1;
        for (size_t i = 0; i < count; ++i) {
            const int64_t start = i == 0 ? 0 : end_of(i - 1);
            if (capacity - start < need) break;
            size_t j = i;
            while (j < count && address_[by_address[j]] - start < need) ++j;
            const int64_t limit = j < count ? address_[by_address[j]] : capacity;
            while (i + 1 < j && limit - end_of(i) >= need) ++i;
            int32_t value = n_ + 1;
            bool allowed = true;
            for (size_t k = i; k < j; ++k) {
                const int32_t b = by_address[k];
                allowed = allowed && holds_[b] >= 0 && !kept(b);
                value = std::min(value, use_after(b));
            }
            if (allowed && value > best_value) {
                best_value = value;
                best.assign(by_address.begin() + static_cast<int64_t>(i), by_address.begin() + static_cast<int64_t>(j));
            }
        }
        if (best.empty()) return false;
        for (int32_t b : best) move_out(b);
        return true;
    }

    void move_out(int32_t b) {
        const int32_t tensor = holds_[b];
        const Range later{first_use_from_now(b), uses_[b].end};
        const int32_t next = later.begin < later.end ? items_[later.begin] : n_;
        const LeafTensor t = leaf_.tensors[tensor];
        const int64_t bytes = bytes_of(t.exact, t.dtype);
        int32_t source = source_[b];
        const Id from = next < n_ ? leaf_.ops[next].src : NONE;
        if (source < 0) {
            LeafTensor gm = t;
            gm.mem = Mem::GM;
            gm.buffer = -1;
            gm.graph = NONE;
            source = add(gm);
            LeafOp save{Code::COPY_OUT, Pipe::MTE3, {tensor}, {source}, LATENCY, from};
            save.gm_bytes = bytes;
            save.spill = true;
            after_.emplace_back(emitted_last_[b], save);
            leaf_.spill_bytes += bytes;
            leaf_.gm_write += bytes;
        }
        free_buffer(b);
        if (next >= n_) return;
        const int32_t fresh_buffer = static_cast<int32_t>(leaf_.buffer_bytes.size());
        leaf_.buffer_bytes.push_back(leaf_.buffer_bytes[b]);
        leaf_.buffer_mem.push_back(leaf_.buffer_mem[b]);
        address_.push_back(-1);
        for (std::vector<int32_t>* list : {&holds_, &emitted_last_, &source_}) list->push_back(-1);
        kept_.push_back(0);
        uses_.push_back(later);
        uses_[b] = {};
        LeafTensor copy = t;
        copy.buffer = fresh_buffer;
        const int32_t fresh = add(copy);
        const size_t first_reader = items_.size();
        for (size_t k = later.begin; k < later.end; ++k) {
            bool reads = false;
            for (Operands* side : {&leaf_.ops[items_[k]].in, &leaf_.ops[items_[k]].out})
                for (int32_t& x : *side) {
                    if (x == tensor) { x = fresh; reads = true; }
                    else if (leaf_.tensors[x].buffer == b) leaf_.tensors[x].buffer = fresh_buffer;
                }
            if (reads) items_.push_back(items_[k]);
        }
        consumers_[fresh] = {first_reader, items_.size()};
        LeafOp reload{Code::COPY_IN, Pipe::MTE2, {source}, {fresh}, LATENCY, from};
        reload.gm_bytes = bytes;
        reload.spill = true;
        const int32_t added = static_cast<int32_t>(reloads_.size());
        reloads_.push_back({reload, -1});
        if (last_reload_[next] < 0) first_reload_[next] = added;
        else reloads_[last_reload_[next]].next = added;
        last_reload_[next] = added;
        leaf_.spill_bytes += bytes;
        leaf_.gm_read += bytes;
    }

    int32_t add(const LeafTensor& t) {
        leaf_.tensors.push_back(t);
        consumers_.emplace_back();
        return static_cast<int32_t>(leaf_.tensors.size()) - 1;
    }

    void finish() {
        leaf_.ops.swap(emitted_);
        if (after_.empty()) return;
        std::stable_sort(after_.begin(), after_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        const size_t count = leaf_.ops.size();
        emitted_.clear();
        size_t next = 0;
        for (size_t i = 0; i < count; ++i) {
            emitted_.push_back(leaf_.ops[i]);
            for (; next < after_.size() && static_cast<size_t>(after_[next].first) <= i; ++next) emitted_.push_back(after_[next].second);
        }
        leaf_.ops.swap(emitted_);
    }

    // No room for buffer `wanted` and nothing can be moved out: free room may be there, but in pieces.
    void give_up(int32_t wanted) {
        CapacityFault fault("");
        const Mem memory = leaf_.buffer_mem[wanted];
        const int m = static_cast<int>(memory);
        fault.memory = mem_name(memory);
        fault.limit = chip_.capacity[m];
        fault.operation = leaf_.ops[now_].src;
        fault.op = cost::info(leaf_.ops[now_].code).name;
        auto shape_of = [&](int32_t t) {
            const Shape& x = leaf_.tensors[t].tile;
            return std::vector<int64_t>(x.d.begin(), x.d.begin() + x.rank);
        };
        int64_t at = 0;
        for (const auto& [address, b] : live_[m]) {
            fault.largest_gap = std::max(fault.largest_gap, address - at);
            at = address + leaf_.buffer_bytes[b];
            fault.bytes += leaf_.buffer_bytes[b];
            const std::vector<int64_t> shape = holds_[b] >= 0 ? shape_of(holds_[b]) : std::vector<int64_t>{};
            fault.live.push_back({"at " + std::to_string(address), shape, leaf_.buffer_bytes[b]});
        }
        fault.largest_gap = std::max(fault.largest_gap, fault.limit - at);
        fault.bytes += leaf_.buffer_bytes[wanted];
        for (size_t t = 0; t < leaf_.tensors.size() && fault.tile.empty(); ++t)
            if (leaf_.tensors[t].buffer == wanted) fault.tile = shape_of(static_cast<int32_t>(t));
        fault.live.push_back({"wanted", fault.tile, leaf_.buffer_bytes[wanted]});
        throw fault;
    }
};

}  // namespace

void insert_spills(Leaf& leaf, const Chip& chip) { Spiller(leaf, chip).run(); }

}  // namespace npu::plan
