// Source: hicann/pypto@r0.2.0 passes/tile_graph_pass (MergeViewAssemble).
#include <vector>

#include "npu_core/lowering/cleanup.h"

namespace npu::lowering {
namespace {

class ViewChains {
public:
    explicit ViewChains(Graph& g) : g_(g), visited_(g.ops.size(), 0) {}

    void run() {
        for (int32_t id : std::vector<int32_t>(g_.order))
            if (g_.ops[id].code == Opcode::VIEW && !visited_[id]) follow(id);
        for (const Merged& m : merged_) {
            const int32_t id = g_.clone_op(m.last, {m.from}, {m.to});
            Op& op = g_.ops[id];
            op.at = m.at;
            op.valid = m.valid;
        }
        g_.kill_all(dropped_);
    }

private:
    struct Merged {
        int32_t last, from, to, valid;
        Offset at;
    };

    void follow(int32_t id) {
        visited_[id] = 1;
        chain_.push_back(id);
        bool end = true;
        for (int32_t c : Ids(g_.tensors[g_.ops[id].out[0]].consumers)) {
            const Op& next = g_.ops[c];
            if (next.code != Opcode::VIEW) continue;
            const Mem target = g_.ops[id].to;
            if (target != Mem::UNKNOWN && target != next.to) continue;
            end = false;
            follow(c);
        }
        if (end && chain_.size() > 1) close();
        chain_.pop_back();
    }

    void close() {
        Merged m{chain_.back(), g_.ops[chain_.front()].in[0], g_.ops[chain_.back()].out[0], 0, g_.ops[chain_[0]].at};
        m.valid = g_.ops[chain_[0]].valid;
        for (size_t i = 1; i < chain_.size(); ++i) {
            m.at = g_.add(m.at, g_.ops[chain_[i]].at);
            if (g_.ops[chain_[i]].valid) m.valid = g_.ops[chain_[i]].valid;
        }
        merged_.push_back(m);
        dropped_.push_back(chain_.back());
    }

    Graph& g_;
    std::vector<char> visited_;
    std::vector<int32_t> chain_, dropped_;
    std::vector<Merged> merged_;
};

class AssembleChains {
public:
    explicit AssembleChains(Graph& g) : g_(g), visited_(g.ops.size(), 0) {}

    void run() {
        for (int32_t id : std::vector<int32_t>(g_.order))
            if (!g_.ops[id].dead && g_.ops[id].code == Opcode::ASSEMBLE && !visited_[id]) follow(id);
        for (const Merged& m : merged_) {
            const int32_t id = g_.clone_op(m.first, {m.from}, {m.to});
            g_.ops[id].at = m.at;
        }
        g_.kill_all(dropped_);
    }

private:
    struct Merged {
        int32_t first, from, to;
        Offset at;
    };

    void follow(int32_t id) {
        visited_[id] = 1;
        chain_.push_back(id);
        const Ids& readers = g_.tensors[g_.ops[id].out[0]].consumers;
        bool end = readers.empty();
        for (int32_t c : Ids(readers)) {
            if (g_.ops[c].code == Opcode::ASSEMBLE) follow(c);
            else end = true;
        }
        if (end && chain_.size() > 1) close();
        chain_.pop_back();
    }

    void close() {
        Merged m{chain_.front(), g_.ops[chain_.front()].in[0], g_.ops[chain_.back()].out[0], g_.ops[chain_[0]].at};
        for (size_t i = 1; i < chain_.size(); ++i) m.at = g_.add(m.at, g_.ops[chain_[i]].at);
        merged_.push_back(m);
        dropped_.push_back(chain_.back());
    }

    Graph& g_;
    std::vector<char> visited_;
    std::vector<int32_t> chain_, dropped_;
    std::vector<Merged> merged_;
};

}  // namespace

void merge_view_assemble(Graph& g) {
    sort_ops(g);
    ViewChains(g).run();
    AssembleChains(g).run();
    for (int32_t id : g.order) {
        const Op& op = g.ops[id];
        if (!op.dead && op.code == Opcode::ASSEMBLE && g.tensors[op.in[0]].producers.empty() && !g.is_input(op.in[0])) g.kill(id);
    }
    g.drop_dead();
    erase_dead_ops(g);
    sort_ops(g);
}

}  // namespace npu::lowering
