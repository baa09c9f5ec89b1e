// Spills: walks the leaf in list order with the addresses of UB and L1; where an allocation finds no room, a run of
// neighbouring buffers is moved to GM and reloaded at its next use.
#include <algorithm>
#include <map>

#include "npu_core/plan/leaf.h"

namespace npu::plan {

namespace {

using cost::Pipe;

constexpr int32_t LATENCY = 511;

class Spiller {
public:
    Spiller(Leaf& leaf, const Chip& chip) : leaf_(leaf), chip_(chip), n_(static_cast<int32_t>(leaf.ops.size())) {
        uses_.resize(leaf.buffer_bytes.size());
        for (int32_t i = 0; i < n_; ++i) touch(i);
        consumers_.resize(leaf.tensors.size());
        for (int32_t i = 0; i < n_; ++i)
            for (int32_t t : leaf.ops[i].in) consumers_[t].push_back(i);
        reload_at_.resize(static_cast<size_t>(n_));
        address_.assign(leaf.buffer_bytes.size(), -1);
        next_use_.assign(leaf.buffer_bytes.size(), 0);
        holds_.assign(leaf.buffer_bytes.size(), -1);
        writer_.assign(leaf.buffer_bytes.size(), -1);
        emitted_last_.assign(leaf.buffer_bytes.size(), -1);
        result_after_.assign(static_cast<size_t>(n_) + 1, n_);
        for (int32_t i = n_ - 1; i >= 0; --i)
            result_after_[i] = leaf.ops[i].pipe == Pipe::FIX ? i : result_after_[i + 1];
    }

    void run() {
        for (Mem m : {Mem::UB, Mem::L1}) {   // nothing to do where everything fits at once
            int64_t total = 0;
            for (size_t b = 0; b < leaf_.buffer_bytes.size(); ++b)
                if (leaf_.buffer_mem[b] == m) total += leaf_.buffer_bytes[b];
            tight_ = tight_ || (chip_.capacity[static_cast<int>(m)] && total > chip_.capacity[static_cast<int>(m)]);
        }
        if (!tight_) return;
        for (now_ = 0; now_ < n_; ++now_) {
            for (size_t k = 0; k < reload_at_[now_].size(); ++k) {
                LeafOp op = reload_at_[now_][k];
                const int32_t b = leaf_.tensors[op.out[0]].buffer;
                if (!allocate(b, op)) return give_up(b);
                emit(op);
                holds_[b] = op.out[0];
                writer_[b] = -2;
                source_[b] = op.in[0];
                emitted_last_[b] = static_cast<int32_t>(emitted_.size()) - 1;
            }
            LeafOp& op = leaf_.ops[now_];
            for (size_t k = op.out.size(); k-- > 0;) {
                const int32_t b = leaf_.tensors[op.out[k]].buffer;
                if (b >= 0 && address_[b] < 0 && !allocate(b, op)) return give_up(b);
            }
            emit(op);
            for (int32_t t : op.out)
                if (const int32_t b = leaf_.tensors[t].buffer; b >= 0) {
                    holds_[b] = t;
                    writer_[b] = now_;
                    source_.erase(b);
                    if (op.code == Code::COPY_IN) source_[b] = op.in[0];
                }
            for (const Operands* side : {&op.in, &op.out})
                for (int32_t t : *side) {
                    const int32_t b = leaf_.tensors[t].buffer;
                    if (b < 0) continue;
                    emitted_last_[b] = static_cast<int32_t>(emitted_.size()) - 1;
                    while (next_use_[b] < uses_[b].size() && uses_[b][next_use_[b]] <= now_) ++next_use_[b];
                    if (next_use_[b] == uses_[b].size()) free_buffer(b);
                }
        }
        finish();
    }

private:
    Leaf& leaf_;
    const Chip& chip_;
    const int32_t n_;
    int32_t now_ = 0;
    bool tight_ = false;
    std::vector<std::vector<int32_t>> uses_, consumers_;   // by buffer, by tensor: positions
    std::vector<std::vector<LeafOp>> reload_at_;
    std::vector<int64_t> address_;
    std::vector<size_t> next_use_;
    std::vector<int32_t> holds_, writer_, emitted_last_;   // by buffer: tensor, last writer, last emitted use
    std::vector<int32_t> result_after_;                    // by position: the next copy out of L0C
    std::map<int32_t, int32_t> source_;                    // buffers that still equal a tensor in GM
    std::map<int64_t, int32_t> live_[MEMS];                // address -> buffer
    std::vector<LeafOp> emitted_;
    std::vector<std::pair<int32_t, LeafOp>> after_;        // saves, to follow an emitted operation

    void touch(int32_t i) {
        for (const Operands* side : {&leaf_.ops[i].in, &leaf_.ops[i].out})
            for (int32_t t : *side) {
                const int32_t b = leaf_.tensors[t].buffer;
                if (b >= 0 && (uses_[b].empty() || uses_[b].back() != i)) uses_[b].push_back(i);
            }
    }
    void emit(const LeafOp& op) { emitted_.push_back(op); }
    bool managed(int32_t b) const { return leaf_.buffer_mem[b] == Mem::UB || leaf_.buffer_mem[b] == Mem::L1; }

    void free_buffer(int32_t b) {
        if (address_[b] < 0 || !managed(b)) { address_[b] = -1; return; }
        live_[static_cast<int>(leaf_.buffer_mem[b])].erase(address_[b]);
        address_[b] = -1;
    }

    // Smallest free interval that fits, the lowest address among equals.
    bool place(int32_t b) {
        const int m = static_cast<int>(leaf_.buffer_mem[b]);
        const int64_t need = leaf_.buffer_bytes[b];
        int64_t best = -1, best_gap = INT64_MAX, at = 0;
        auto consider = [&](int64_t from, int64_t to) {
            if (to - from >= need && to - from < best_gap) { best = from; best_gap = to - from; }
        };
        for (const auto& [address, other] : live_[m]) {
            consider(at, address);
            at = address + leaf_.buffer_bytes[other];
        }
        consider(at, chip_.capacity[m]);
        if (best < 0) return false;
        live_[m][best] = b;
        address_[b] = best;
        return true;
    }

    bool allocate(int32_t b, const LeafOp& op) {
        if (!managed(b) || chip_.capacity[static_cast<int>(leaf_.buffer_mem[b])] == 0) { address_[b] = 0; return true; }
        while (!place(b))
            if (!make_room(b, op)) return false;
        return true;
    }

    // Buffers that the operation, or for a load its readers, are about to read.
    std::vector<int32_t> pinned(const LeafOp& op) const {
        std::vector<int32_t> buffers;
        auto add = [&](const LeafOp& o) {
            for (int32_t t : o.in)
                if (leaf_.tensors[t].buffer >= 0) buffers.push_back(leaf_.tensors[t].buffer);
        };
        add(op);
        if (op.code == Code::COPY_IN && !op.out.empty())
            for (int32_t i : consumers_[op.out[0]]) add(leaf_.ops[i]);
        return buffers;
    }

    int32_t use_after(int32_t b) const {
        for (size_t k = next_use_[b]; k < uses_[b].size(); ++k)
            if (uses_[b][k] >= now_) return uses_[b][k];
        return n_;
    }

    bool make_room(int32_t wanted, const LeafOp& op) {
        const int m = static_cast<int>(leaf_.buffer_mem[wanted]);
        const int64_t need = leaf_.buffer_bytes[wanted], capacity = chip_.capacity[m];
        std::vector<int32_t> by_address;
        for (const auto& [address, b] : live_[m]) by_address.push_back(b);
        const size_t count = by_address.size();
        auto end_of = [&](size_t i) { return address_[by_address[i]] + leaf_.buffer_bytes[by_address[i]]; };
        const std::vector<int32_t> keep = pinned(op);
        if (m == static_cast<int>(Mem::L1)) {   // what this output tile does not read again
            const int32_t horizon = result_after_[now_];
            bool dropped = false;
            for (int32_t b : by_address) {
                if (!source_.count(b) || use_after(b) <= horizon || std::find(keep.begin(), keep.end(), b) != keep.end()) continue;
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
                allowed = allowed && holds_[b] >= 0 && std::find(keep.begin(), keep.end(), b) == keep.end();
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
        const int32_t tensor = holds_[b], next = use_after(b);
        const LeafTensor t = leaf_.tensors[tensor];
        const int64_t bytes = bytes_of(t.exact, t.dtype);
        int32_t source = -1;
        if (auto it = source_.find(b); it != source_.end()) source = it->second;
        const Id from = next < n_ ? leaf_.ops[next].src : NONE;
        if (source < 0) {
            LeafTensor gm = t;
            gm.mem = Mem::GM;
            gm.buffer = -1;
            gm.graph = NONE;
            leaf_.tensors.push_back(gm);
            consumers_.emplace_back();
            source = static_cast<int32_t>(leaf_.tensors.size()) - 1;
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
        next_use_.push_back(0);
        holds_.push_back(-1);
        writer_.push_back(-1);
        emitted_last_.push_back(-1);
        LeafTensor copy = t;
        copy.buffer = fresh_buffer;
        leaf_.tensors.push_back(copy);
        consumers_.emplace_back();
        const int32_t fresh = static_cast<int32_t>(leaf_.tensors.size()) - 1;
        std::vector<int32_t> later;
        for (size_t k = next_use_[b]; k < uses_[b].size(); ++k)
            if (uses_[b][k] >= now_) later.push_back(uses_[b][k]);
        uses_.push_back(later);
        uses_[b].clear();
        next_use_[b] = 0;
        for (int32_t i : later) {
            bool reads = false;
            for (Operands* side : {&leaf_.ops[i].in, &leaf_.ops[i].out})
                for (int32_t& x : *side) {
                    if (x == tensor) { x = fresh; reads = true; }
                    else if (leaf_.tensors[x].buffer == b) leaf_.tensors[x].buffer = fresh_buffer;
                }
            if (reads) consumers_[fresh].push_back(i);
        }
        LeafOp reload{Code::COPY_IN, Pipe::MTE2, {source}, {fresh}, LATENCY, from};
        reload.gm_bytes = bytes;
        reload.spill = true;
        reload_at_[next].push_back(reload);
        leaf_.spill_bytes += bytes;
        leaf_.gm_read += bytes;
    }

    void finish() {
        std::stable_sort(after_.begin(), after_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        std::vector<LeafOp> ops;
        size_t next = 0;
        for (int32_t i = 0; i < static_cast<int32_t>(emitted_.size()); ++i) {
            ops.push_back(std::move(emitted_[i]));
            for (; next < after_.size() && after_[next].first <= i; ++next) ops.push_back(after_[next].second);
        }
        leaf_.ops = std::move(ops);
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
