#include "npu_core/lowering/graph.h"

#include <algorithm>

namespace npu::lowering {

Offset zero_offset(int rank) {
    Offset o;
    o.rank = rank;
    return o;
}

Shape shape2(int64_t rows, int64_t columns) {
    Shape s;
    s.rank = 2;
    s[0] = rows;
    s[1] = columns;
    return s;
}

Offset offset2(int64_t row, int64_t column) {
    Offset o = zero_offset(2);
    o.d[0].at = row;
    o.d[1].at = column;
    return o;
}

int32_t Graph::add_raw(const Shape& shape, DType dtype) {
    raws.push_back({shape, dtype});
    return int32_t(raws.size()) - 1;
}

int32_t Graph::add_tensor(int32_t raw, const Shape& shape, const Offset& offset, DType dtype, Mem mem) {
    Tensor t;
    t.raw = raw;
    t.shape = shape;
    t.offset = offset;
    t.dtype = dtype;
    t.mem = mem;
    tensors.push_back(std::move(t));
    return int32_t(tensors.size()) - 1;
}

int32_t Graph::add_fresh(const Shape& shape, DType dtype, Mem mem) {
    return add_tensor(add_raw(shape, dtype), shape, zero_offset(shape.rank), dtype, mem);
}

int32_t Graph::add_op(Opcode code, const Ids& in, const Ids& out) {
    Op op;
    op.code = code;
    op.in = in;
    op.out = out;
    op.latency = initial_latency(*this, code, in, out);
    ops.push_back(std::move(op));
    const int32_t id = int32_t(ops.size()) - 1;
    link(id);
    order.push_back(id);
    stale = true;
    return id;
}

int32_t Graph::clone_op(int32_t from, const Ids& in, const Ids& out) {
    Op op = ops[from];
    op.in = in;
    op.out = out;
    op.dead = false;
    ops.push_back(std::move(op));
    const int32_t id = int32_t(ops.size()) - 1;
    link(id);
    order.push_back(id);
    stale = true;
    return id;
}

int32_t Graph::symbol(const std::string& text, std::vector<std::pair<int32_t, int32_t>> terms) {
    if (text.empty()) return 0;
    for (size_t i = 1; i < symbols.size(); ++i)
        if (symbols[i].text == text) return int32_t(i);
    symbols.push_back({text, std::move(terms)});
    return int32_t(symbols.size()) - 1;
}

void Graph::link(int32_t id) {
    for (int32_t t : ops[id].in) tensors[t].consumers.insert_sorted(id);
    for (int32_t t : ops[id].out) tensors[t].producers.insert_sorted(id);
}

void Graph::unlink(int32_t id) {
    for (int32_t t : ops[id].in) tensors[t].consumers.erase_value(id);
    for (int32_t t : ops[id].out) tensors[t].producers.erase_value(id);
}

void Graph::kill(int32_t id) {
    if (ops[id].dead) return;
    unlink(id);
    ops[id].dead = true;
}

void Graph::kill_all(const std::vector<int32_t>& list) {
    std::vector<int32_t> touched;
    for (int32_t id : list) {
        if (ops[id].dead) continue;
        ops[id].dead = true;
        for (const Ids* operands : {&ops[id].in, &ops[id].out}) touched.insert(touched.end(), operands->begin(), operands->end());
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (int32_t t : touched) {
        tensors[t].producers.erase_if([&](int32_t id) { return ops[id].dead; });
        tensors[t].consumers.erase_if([&](int32_t id) { return ops[id].dead; });
    }
}

void Graph::replace_input(int32_t id, int32_t from, int32_t to) {
    for (int32_t& t : ops[id].in)
        if (t == from) t = to;
    tensors[from].consumers.erase_value(id);
    tensors[to].consumers.insert_sorted(id);
}

void Graph::replace_output(int32_t id, int32_t from, int32_t to) {
    for (int32_t& t : ops[id].out)
        if (t == from) t = to;
    tensors[from].producers.erase_value(id);
    tensors[to].producers.insert_sorted(id);
}

void Graph::drop_dead() {
    std::erase_if(order, [&](int32_t id) { return ops[id].dead; });
}

bool Graph::is_output(int32_t tensor) const {
    return std::find(outputs.begin(), outputs.end(), tensor) != outputs.end();
}
bool Graph::is_input(int32_t tensor) const {
    return std::find(inputs.begin(), inputs.end(), tensor) != inputs.end();
}

Coord Graph::add(const Coord& a, const Coord& b) {
    Coord c{a.at + b.at, a.symbol ? a.symbol : b.symbol};
    if (a.symbol && b.symbol) {
        std::vector<std::pair<int32_t, int32_t>> terms = symbols[a.symbol].terms;
        terms.insert(terms.end(), symbols[b.symbol].terms.begin(), symbols[b.symbol].terms.end());
        c.symbol = symbol("(" + symbols[a.symbol].text + ")+(" + symbols[b.symbol].text + ")", std::move(terms));
    }
    return c;
}

Offset Graph::add(const Offset& a, const Offset& b) {
    Offset o;
    o.rank = std::max(a.rank, b.rank);
    for (int i = 0; i < o.rank; ++i) o.d[i] = add(a.d[i], b.d[i]);
    return o;
}

int64_t bytes_of(const Shape& shape, DType dtype) { return shape.count() * dtype_size_bytes(dtype); }

// interface/operation/cycles.cpp: the table of that file uses old names, so every operation takes the default.
int32_t initial_latency(const Graph& g, Opcode code, const Ids& in, const Ids& out) {
    if (code == Opcode::NOP) return 0;
    if (is_alloc_name(facts(code).name)) return 1;
    const bool by_output = code == Opcode::VIEW || code == Opcode::COPY_IN;
    const Ids& operands = by_output ? out : in;
    if (operands.empty()) return 1;
    int64_t elements = 0;
    for (int32_t t : operands) elements = std::max(elements, g.tensors[t].shape.count());
    const int size = dtype_size_bytes(g.tensors[operands[0]].dtype);
    const int64_t repeat = std::max<int64_t>(1, (256 / size) / 128);
    const int64_t blocks = (elements * size + 255) / 256;
    return int32_t(10 + (blocks - 1) * repeat);
}

std::vector<int32_t> sorted_ops(const Graph& g, const std::vector<int32_t>& list) {
    static thread_local std::vector<int32_t> waiting;      // -1 between calls: short lists of large graphs are sorted often
    if (waiting.size() < g.ops.size()) waiting.resize(g.ops.size(), -1);
    for (int32_t id : list)
        if (!g.ops[id].dead) waiting[id] = 0;
    for (int32_t id : list) {
        if (waiting[id] < 0) continue;
        for (int32_t t : g.ops[id].in)
            for (int32_t p : g.tensors[t].producers)
                if (waiting[p] >= 0) ++waiting[p];
    }
    std::vector<int32_t> done;
    done.reserve(list.size());
    for (int32_t id : list)
        if (waiting[id] == 0) done.push_back(id);
    for (size_t head = 0; head < done.size(); ++head)
        for (int32_t t : g.ops[done[head]].in)
            for (int32_t p : g.tensors[t].producers)
                if (waiting[p] > 0 && --waiting[p] == 0) done.push_back(p);
    std::reverse(done.begin(), done.end());
    for (int32_t id : list) waiting[id] = -1;
    return done;
}

void sort_ops(Graph& g) {
    g.order = sorted_ops(g, g.order);
    g.stale = false;
}

void sort_if_stale(Graph& g) {
    if (g.stale) sort_ops(g);
}

bool erase_dead_ops(Graph& g) {
    std::vector<char> is_output(g.tensors.size(), 0);
    for (int32_t t : g.outputs) is_output[t] = 1;
    bool any = false;
    std::vector<int32_t> work(g.order.rbegin(), g.order.rend());
    while (!work.empty()) {
        std::vector<int32_t> next;
        for (int32_t id : work) {
            const Op& op = g.ops[id];
            if (op.dead || op.out.empty()) continue;
            bool used = false;
            for (int32_t t : op.out) used |= is_output[t] || !g.tensors[t].consumers.empty();
            if (used) continue;
            for (int32_t t : op.in)
                for (int32_t p : g.tensors[t].producers) next.push_back(p);
            g.kill(id);
            any = true;
        }
        work = std::move(next);
    }
    if (any) g.drop_dead();
    return any;
}

}  // namespace npu::lowering
