#include "npu_core/lowering/tensor_graph.h"

#include <algorithm>

#include "npu_core/program/pass_options.h"

namespace npu::lowering {

std::set<Id> outside_reads(const Program& p, const RootPath& path) {
    std::set<Id> made, read;
    auto use = [&](Id t) { if (!made.count(t) && !p.tensors[t].global()) read.insert(t); };
    for (const PathStep& s : path.steps) {
        const Item& it = *s.item;
        if (it.kind == ItemKind::OP) {
            const npu::Op& op = p.ops[it.a];
            for (int i = 0; i < op.ins.count; ++i) use(p.id_at(op.ins)[i]);
            for (int i = 0; i < op.outs.count; ++i) made.insert(p.id_at(op.outs)[i]);
        } else if (it.kind == ItemKind::SET) {
            use(it.b);
            made.insert(it.a);
        } else if (it.kind == ItemKind::ASSEMBLE) {
            use(it.b);
        } else if (it.kind == ItemKind::DECL) {
            made.insert(it.a);
        }
    }
    return read;
}

TensorGraphBuilder::TensorGraphBuilder(const Program& program, const RootPath& path, const std::set<Id>& crossing,
                                       std::set<std::string>& unmodelled)
    : p_(program), path_(path), crossing_(crossing), unmodelled_(unmodelled) {
    for (const TileInfo& t : p_.tiles) {
        TileShapes s;
        s.vec.rank = int(std::min<size_t>(t.vec.size(), MAX_RANK));
        for (int d = 0; d < s.vec.rank; ++d) s.vec[d] = t.vec[d];
        if (t.cube.size() == 7) {
            s.m = t.cube[0]; s.m1 = t.cube[1]; s.k = t.cube[2]; s.ka = t.cube[3]; s.kb = t.cube[4];
            s.n = t.cube[5]; s.n1 = t.cube[6];
        }
        s.split_k = t.split_k;
        root_.graph.tiles.push_back(s);
    }
}

// Which axes of each tensor have a valid size that depends on a loop index: bit masks in Tensor::valid.
static void mark_symbolic_sizes(Graph& g) {
    for (const Op& op : g.ops) {
        if (op.out.empty()) continue;
        Tensor& out = g.tensors[op.out[0]];
        int32_t mask = 0;
        if (op.code == Opcode::VIEW) {
            mask = g.tensors[op.in[0]].valid;
            for (int d = 0; d < op.at.rank; ++d)
                if (op.at.d[d].symbol) mask |= 1 << d;
        } else if (is_matmul(op.code)) {
            const Attributes* a = g.attrs(op);
            const bool ta = a && a->trans_a, tb = a && a->trans_b;
            mask = (g.tensors[op.in[0]].valid >> (ta ? 1 : 0) & 1) | (g.tensors[op.in[1]].valid >> (tb ? 0 : 1) & 1) << 1;
        } else if (op.code != Opcode::ASSEMBLE && op.code != Opcode::RESHAPE) {
            for (int d = 0; d < out.shape.rank; ++d)
                for (int32_t t : op.in) {
                    const Tensor& in = g.tensors[t];
                    if (in.shape.rank != out.shape.rank || in.shape[d] != out.shape[d]) continue;
                    mask |= in.valid & 1 << d;
                    break;
                }
        }
        for (int32_t t : op.out) g.tensors[t].valid = mask;
    }
}

// The sort of operation lists on a graph in which each of the first `steps` operations also follows the one before it: the
// front end records a sequence.
static void sort_in_program_order(Graph& g, int32_t steps) {
    std::vector<int32_t> waiting(g.ops.size(), 0), done;
    for (const Op& op : g.ops)
        for (int32_t t : op.in)
            for (int32_t p : g.tensors[t].producers) ++waiting[p];
    for (int32_t id = 0; id + 1 < steps; ++id) ++waiting[id];
    auto ready = [&](int32_t id) {
        if (--waiting[id] == 0) done.push_back(id);
    };
    for (int32_t id : g.order)
        if (waiting[id] == 0) done.push_back(id);
    for (size_t head = 0; head < done.size(); ++head) {
        const int32_t id = done[head];
        if (id > 0 && id < steps) ready(id - 1);
        for (int32_t t : g.ops[id].in)
            for (int32_t p : g.tensors[t].producers) ready(p);
    }
    std::reverse(done.begin(), done.end());
    g.order = std::move(done);
    g.stale = false;
}

// The ends of a root function are numbered after everything within it: first what it reads, then what it stores.
void TensorGraphBuilder::number_ends_last() {
    Graph& g = root_.graph;
    std::vector<char> is_end(g.tensors.size(), 0);
    std::vector<int32_t> ends;
    auto end = [&](int32_t t) {
        if (is_end[t]) return;
        is_end[t] = 1;
        ends.push_back(t);
    };
    for (size_t i = 0; i < incasts_.size(); ++i) {
        end(g.inputs[i]);
        end(incasts_[i].second);
    }
    for (int32_t t : stored_) end(t);
    std::vector<int32_t> order;
    for (size_t t = 0; t < g.tensors.size(); ++t)
        if (!is_end[t]) order.push_back(int32_t(t));
    order.insert(order.end(), ends.begin(), ends.end());
    std::vector<int32_t> place(order.size());
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < order.size(); ++i) {
        place[order[i]] = int32_t(i);
        tensors.push_back(std::move(g.tensors[order[i]]));
    }
    g.tensors = std::move(tensors);
    for (Op& op : g.ops)
        for (Ids* operands : {&op.in, &op.out})
            for (int32_t& t : *operands) t = place[t];
    for (auto* list : {&g.inputs, &g.outputs})
        for (int32_t& t : *list) t = place[t];
}

RootGraph TensorGraphBuilder::build() {
    for (const PathStep& s : path_.steps) step(s);
    const int32_t steps = int32_t(root_.graph.ops.size());
    finish();
    mark_symbolic_sizes(root_.graph);
    number_ends_last();
    sort_in_program_order(root_.graph, steps);
    return std::move(root_);
}

int32_t TensorGraphBuilder::use(Id t) {
    auto it = version_.find(t);
    if (it != version_.end()) return it->second;
    if (declared_.count(t)) fail("read_before_write", "local tensor " + p_.tensors[t].name + " is read before any write");
    const int32_t local = fresh(p_.tensors[t].shape, p_.tensors[t].dtype);
    incasts_.emplace_back(t, local);
    return version_[t] = local;
}

int32_t TensorGraphBuilder::fresh_end(Id slot) {
    const int32_t end = fresh(p_.tensors[slot].shape, p_.tensors[slot].dtype);
    root_.graph.tensors[end].dynamic = p_.tensors[slot].dynamic_axes;
    return end;
}

int32_t TensorGraphBuilder::result(Id t) { return version_[t] = fresh(p_.tensors[t].shape, p_.tensors[t].dtype); }

int32_t TensorGraphBuilder::emit(Opcode code, const Ids& in, const Ids& out) {
    const int32_t id = root_.graph.add_op(code, in, out);
    root_.graph.ops[id].tile = tile_;
    root_.graph.ops[id].scope = scope_;
    root_.graph.ops[id].source = source_;
    return id;
}

int32_t TensorGraphBuilder::emit(Opcode code, const Ids& in, const Ids& out, const Attributes& attributes) {
    const int32_t id = emit(code, in, out);
    root_.graph.ops[id].attributes = int32_t(root_.graph.attributes.size());
    root_.graph.attributes.push_back(attributes);
    return id;
}

const TileShapes& TensorGraphBuilder::tiles() const {
    static const TileShapes none;
    return tile_ < 0 ? none : root_.graph.tiles[tile_];
}

void TensorGraphBuilder::set_vec_tile(const Shape& tile) {
    TileShapes t = tiles();
    t.vec = tile;
    tile_ = int32_t(root_.graph.tiles.size());
    root_.graph.tiles.push_back(t);
}

Coord TensorGraphBuilder::coordinate(Id expr) {
    if (is_constant(p_, expr)) return {value_of(p_, expr, {}), 0};
    const std::string text = expr_text(p_, expr) + (copy_ ? "@" + std::to_string(copy_) : "");
    return {0, root_.graph.symbol(text, {{expr, copy_}})};
}

Offset TensorGraphBuilder::offset(Span exprs) {
    Offset o;
    o.rank = std::min<int>(exprs.count, MAX_RANK);
    for (int d = 0; d < o.rank; ++d) o.d[d] = coordinate(p_.id_at(exprs)[d]);
    return o;
}

void TensorGraphBuilder::step(const PathStep& s) {
    const Item& it = *s.item;
    copy_ = s.copy;
    source_ = int32_t(root_.graph.sources.size());
    root_.graph.sources.push_back({it.kind == ItemKind::OP ? p_.ops[it.a].row : NONE, it.line, it.kind == ItemKind::OP ? p_.ops[it.a].label : NONE});
    switch (it.kind) {
        case ItemKind::OP: {
            const npu::Op& op = p_.ops[it.a];
            tile_ = op.tile;
            const std::string& options = op.options == NONE ? root_.options : p_.options[op.options];
            if (root_.options.empty()) root_.options = options;
            scope_ = scope_option(options);
            emit_program_op(*this, op);
            break;
        }
        case ItemKind::DECL:             // in a further iteration of an unrolled loop: another tensor
            declared_.insert(it.a);
            version_.erase(it.a);
            break;
        case ItemKind::SET:
            version_[it.a] = use(it.b);
            if (crossing_.count(it.a)) whole_[it.a] = version_[it.a];
            break;
        case ItemKind::ASSEMBLE: assemble(it); break;
        default: break;   // element stores are work of the control processor
    }
}

int32_t TensorGraphBuilder::written_argument(Id slot) {
    auto it = written_.find(slot);
    if (it != written_.end()) return it->second;
    const int32_t out = fresh_end(slot);
    root_.graph.outputs.push_back(out);
    root_.output_slots.push_back(slot);
    return written_[slot] = out;
}

void TensorGraphBuilder::assemble(const Item& it) {
    const Offset at = offset(it.span);
    const int32_t from = use(it.b);
    const TensorInfo& target = p_.tensors[it.a];
    const bool global = target.global() || (crossing_.count(it.a) && !declared_.count(it.a));
    bool covers = root_.graph.tensors[from].shape == target.shape && at.is_static();
    for (int d = 0; d < at.rank; ++d) covers &= at.d[d].at == 0;
    if (global && covers && !written_.count(it.a)) {
        whole_[it.a] = from;
        return;
    }
    int32_t to;
    if (global) {
        to = written_argument(it.a);
    } else {
        auto known = version_.find(it.a);
        to = known == version_.end() ? version_[it.a] = fresh(target.shape, target.dtype) : known->second;
    }
    Attributes a;
    a.direct = true;
    const int32_t id = emit(Opcode::ASSEMBLE, {from}, {to}, a);
    root_.graph.ops[id].at = at;
}

void TensorGraphBuilder::finish() {
    tile_ = -1;
    scope_ = -1;
    source_ = -1;
    for (Id t : crossing_)   // values of this path that another root reads
        if (!whole_.count(t) && !written_.count(t)) {
            auto it = version_.find(t);
            const bool incast = std::any_of(incasts_.begin(), incasts_.end(), [&](auto& p) { return p.first == t && it != version_.end() && p.second == it->second; });
            if (it != version_.end() && !incast) whole_[t] = it->second;
        }
    Graph& g = root_.graph;
    for (const auto& [slot, local] : incasts_) {
        const int32_t in = fresh_end(slot);
        g.inputs.push_back(in);
        root_.input_slots.push_back(slot);
        const int32_t id = emit(Opcode::VIEW, {in}, {local});
        g.ops[id].at = zero_offset(p_.tensors[slot].shape.rank);
    }
    std::vector<std::pair<int32_t, Id>> ends;
    for (const auto& [slot, tensor] : whole_) ends.emplace_back(tensor, slot);
    for (int32_t tensor : held_values()) ends.emplace_back(tensor, NONE);
    for (const auto& [slot, out] : written_) ends.emplace_back(out, slot);
    std::sort(ends.begin(), ends.end());
    for (const auto& [tensor, slot] : ends) {
        if (slot != NONE && written_.count(slot) && written_[slot] == tensor) {   // assembled window by window
            stored_.push_back(tensor);
            continue;
        }
        const Tensor source = g.tensors[tensor];
        const int32_t out = slot == NONE ? fresh(source.shape, source.dtype) : fresh_end(slot);
        if (slot != NONE) {
            g.outputs.push_back(out);
            root_.output_slots.push_back(slot);
        }
        const int32_t id = emit(Opcode::ASSEMBLE, {tensor}, {out});
        g.ops[id].at = zero_offset(source.shape.rank);
        stored_.push_back(out);
        stored_.push_back(tensor);
    }
}

// Values made here that variables still hold: each is stored to a tensor that nobody reads. A value that leaves the root
// function anyway was moved there.
std::vector<int32_t> TensorGraphBuilder::held_values() const {
    std::set<int32_t> taken;
    for (const auto& [slot, tensor] : whole_) taken.insert(tensor);
    for (const auto& [slot, local] : incasts_) taken.insert(local);
    std::vector<int32_t> held;
    for (Id t : path_.held)
        if (auto it = version_.find(t); it != version_.end() && taken.insert(it->second).second) held.push_back(it->second);
    return held;
}

RootGraph build_tensor_graph(const Program& program, const RootPath& path, const std::set<Id>& crossing,
                             std::set<std::string>& unmodelled) {
    return TensorGraphBuilder(program, path, crossing, unmodelled).build();
}

}  // namespace npu::lowering
