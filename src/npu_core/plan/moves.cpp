// Copies between sub-graphs, moves in place of views and assembles, and the collapse of equal operations.
#include <algorithm>
#include <map>

#include "npu_core/plan/hash.h"
#include "npu_core/plan/stages.h"

namespace npu::plan {

namespace {

bool local(Mem m) { return m != Mem::GM && m != Mem::NONE; }

// A tensor in local memory used by another sub-graph goes through GM: one assemble after its producer, one view per
// consuming sub-graph.
void adapt(Graph& g, const Chip& chip) {
    const std::vector<Id> list = g.order;
    const size_t count = g.tensors.size();
    std::vector<char> seen(count, 0);
    for (Id id : list)
        for (size_t o = 0; o < g.ops[id].out.size(); ++o) {
            const Id t = g.ops[id].out[o];
            if (t >= static_cast<Id>(count) || seen[t]) continue;
            seen[t] = 1;
            if (!local(g.tensors[t].mem)) continue;
            const Id home = g.ops[id].sub;
            std::map<Id, std::vector<Id>> away;
            for (Id c : g.tensors[t].consumers) {
                if (g.ops[c].sub == home) continue;
                const bool moves = g.ops[c].code == Code::VIEW || g.ops[c].code == Code::ASSEMBLE;
                const Mem from = g.tensors[t].mem, to = g.tensors[g.ops[c].out[0]].mem;
                const bool direct = chip.direct_cv && moves && ((from == Mem::UB && to == Mem::L1) || (from == Mem::L0C && to == Mem::UB));
                const bool from_cube = chip.direct_cv && from == Mem::UB && (g.ops[id].code == Code::ASSEMBLE || g.ops[id].code == Code::VIEW) &&
                                       g.tensors[g.ops[id].in[0]].mem == Mem::L0C;
                if (!direct && !from_cube) away[g.ops[c].sub].push_back(c);
            }
            if (away.empty()) continue;
            const Shape shape = g.tensors[t].shape;
            const Id gm = g.add_like(t);
            g.tensors[gm].mem = Mem::GM;
            const Id src = g.ops[id].src;
            for (Id p : Ids(g.tensors[t].producers)) {
                // a tensor assembled from pieces in several sub-graphs is assembled in GM
                if (g.ops[p].sub == home) continue;
                g.replace_output(p, 0, gm);
            }
            const Id out = g.add_op(Code::ASSEMBLE, {t}, {gm}, src);
            g.ops[out].at = zeros(shape.rank);
            g.ops[out].sub = home;
            for (auto& [sub, all] : away) {
                std::vector<Id> users;   // a view loads its part by itself
                for (Id user : all) {
                    if (g.ops[user].code == Code::VIEW) g.replace_input(user, t, gm);
                    else users.push_back(user);
                }
                if (users.empty()) continue;
                const Id copy = g.add_like(t);
                g.tensors[copy].mem = g.tensors[t].mem;
                const Id in = g.add_op(Code::VIEW, {gm}, {copy}, src);
                g.ops[in].at = zeros(shape.rank);
                g.ops[in].sub = sub;
                for (Id user : users) g.replace_input(user, t, copy);
            }
        }
    if (g.stale) g.sort();
}

// GM to GM: copies in and out through UB, in as few pieces as fit a half of it.
void copy_through_ub(Graph& g, Id id, const Chip& chip) {
    const Op op = g.ops[id];
    const Shape whole = g.tensors[op.in[0]].shape;
    const DType type = g.tensors[op.in[0]].dtype;
    const int64_t limit = chip.capacity[static_cast<int>(Mem::UB)] / 2;
    Shape piece = whole;
    for (int d = 0; d < whole.rank && bytes_of(whole, type) > 2 * limit && bytes_of(piece, type) > limit; ++d) {
        piece[d] = 1;
        if (const int64_t one = bytes_of(piece, type); one <= limit) piece[d] = std::max<int64_t>(1, limit / std::max<int64_t>(one, 1));
    }
    Shape at = zeros(whole.rank);
    while (true) {
        Shape extent = whole;
        for (int d = 0; d < whole.rank; ++d) extent[d] = std::min(piece[d], whole[d] - at[d]);
        const Id mid = g.add_fresh(extent, type);
        g.tensors[mid].mem = Mem::UB;
        g.set_valid(mid, within(g.moved(op), at, extent));
        const Id in = g.add_op(Code::COPY_IN, {op.in[0]}, {mid}, op.src);
        g.ops[in].at = at;
        g.ops[in].sub = op.sub;
        const Id out = g.add_op(Code::COPY_OUT, {mid}, {op.out[0]}, op.src);
        g.ops[out].at = plus(op.at, at);
        g.ops[out].dyn = op.dyn;
        g.ops[out].sub = op.sub;
        int d = whole.rank - 1;
        for (; d >= 0; --d) {
            at[d] += piece[d];
            if (at[d] < whole[d]) break;
            at[d] = 0;
        }
        if (d < 0) break;
    }
    g.kill(id);
}

void name_moves(Graph& g, const Chip& chip) {
    for (Id id : std::vector<Id>(g.order)) {
        Op& op = g.ops[id];
        if (op.code != Code::VIEW && op.code != Code::ASSEMBLE) continue;
        const Mem from = g.tensors[op.in[0]].mem, to = g.tensors[op.out[0]].mem;
        if (from == to && from == Mem::GM && op.code == Code::ASSEMBLE) {
            const Ids& producers = g.tensors[op.in[0]].producers;
            const bool reshaped = producers.size() == 1 && g.ops[producers[0]].code == Code::RESHAPE;
            const bool moved_out = producers.size() == 1 && (g.ops[producers[0]].code == Code::TRANSPOSE_MOVEOUT ||
                                                             g.ops[producers[0]].code == Code::INDEX_OUTCAST);
            if (moved_out) continue;
            if (reshaped || producers.empty()) copy_through_ub(g, id, chip);
            continue;
        }
        if (from == to) continue;
        if (from == Mem::GM) op.code = Code::COPY_IN;
        else if (to == Mem::GM) op.code = Code::COPY_OUT;
        else if (from == Mem::L0C && to == Mem::L1) op.code = Code::L0C_COPY_L1;
        else if (from == Mem::L0C && to == Mem::UB) op.code = Code::L0C_COPY_UB;
        else if (from == Mem::UB && to == Mem::L1) op.code = Code::UB_COPY_L1;
    }
    if (g.stale) g.sort();
}

// Equal operations of one sub-graph collapse; copies out of one tile to one place of several GM boxes make the boxes one.
void eliminate_common(Graph& g) {
    auto hash = [&](const Op& op) {
        const Tensor& out = g.tensors[op.out[0]];
        Hash h = mix(mix(static_cast<Hash>(op.code), static_cast<uint64_t>(op.sub)), static_cast<uint64_t>(op.dyn));
        for (Id t : op.in) h = mix(h, static_cast<uint64_t>(t));
        return mix(mix(mix(h, op.at), out.shape), static_cast<uint64_t>(out.dtype));
    };
    auto same_move = [](const Op& a, const Op& b) {
        return a.code == b.code && a.in == b.in && a.at == b.at && a.sub == b.sub && a.dyn == b.dyn;
    };
    auto equal = [&](const Op& a, const Op& b) {
        const Tensor &x = g.tensors[a.out[0]], &y = g.tensors[b.out[0]];
        return same_move(a, b) && x.shape == y.shape && x.dtype == y.dtype && (x.valid == NONE) == (y.valid == NONE) &&
               (x.valid == NONE || g.valid_of(a.out[0]) == g.valid_of(b.out[0])) && (a.valid == NONE) == (b.valid == NONE) &&
               (a.valid == NONE || g.valid_shapes[a.valid] == g.valid_shapes[b.valid]);
    };
    size_t slots = 16;
    while (slots < 2 * g.order.size()) slots *= 2;
    bool any = false;
    for (bool changed = true; changed;) {
        changed = false;
        std::vector<Id> first(slots, NONE);
        for (Id id : g.order) {
            const Op& op = g.ops[id];
            if (op.dead || op.code == Code::VIEW || op.out.size() != 1 || op.mm != NONE || op.in.empty()) continue;
            if (g.tensors[op.out[0]].fn_out) continue;
            size_t slot = hash(op) & (slots - 1);
            while (first[slot] != NONE && !equal(g.ops[first[slot]], op)) slot = (slot + 1) & (slots - 1);
            if (first[slot] == NONE) { first[slot] = id; continue; }
            const Id kept = g.ops[first[slot]].out[0], gone = op.out[0];
            if (kept == gone) { g.kill(id); changed = true; continue; }
            if (op.code == Code::COPY_OUT || op.code == Code::ASSEMBLE) {
                // boxes become one only if every writer of the one also writes the other
                if (g.tensors[kept].producers.size() != g.tensors[gone].producers.size()) continue;
                bool same = true;
                const Ids &ours = g.tensors[kept].producers, &theirs = g.tensors[gone].producers;
                for (size_t p = 0; p < ours.size() && same; ++p) {
                    const Op& a = g.ops[ours[p]];
                    same = same_move(a, g.ops[theirs[p]]) ||      // as a rule both are written in one order
                           std::any_of(theirs.begin(), theirs.end(), [&](Id q) { return same_move(a, g.ops[q]); });
                }
                if (!same) continue;
                g.kill_all({g.tensors[gone].producers.begin(), g.tensors[gone].producers.end()});
            } else {
                g.kill(id);
            }
            g.move_consumers(gone, kept);
            changed = any = true;
        }
        g.drop_dead();
    }
    if (any) g.drop_dead();
}

void drop_unread(Graph& g) {
    for (auto it = g.order.rbegin(); it != g.order.rend(); ++it) {
        const Op& op = g.ops[*it];
        bool used = false;
        for (Id t : op.out) used = used || g.tensors[t].fn_out || !g.tensors[t].consumers.empty();
        if (!used) g.kill(*it);
    }
    g.drop_dead();
}

}  // namespace

void generate_moves(Graph& g, std::vector<SubGraph>& subs, const Chip& chip) {
    adapt(g, chip);
    name_moves(g, chip);
    eliminate_common(g);
    drop_unread(g);
    for (SubGraph& s : subs) s.ops.clear();
    for (Id id : g.order) subs[g.ops[id].sub].ops.push_back(id);
    std::vector<Id> place(subs.size(), NONE);
    Id next = 0;
    for (size_t i = 0; i < subs.size(); ++i)
        if (!subs[i].ops.empty()) place[i] = next++;
    for (Id id : g.order) g.ops[id].sub = place[g.ops[id].sub];
    std::erase_if(subs, [](const SubGraph& s) { return s.ops.empty(); });
}

}  // namespace npu::plan
