// 950: vector operations over one index space run as one vector function. Its loop loads what comes from outside into
// registers, computes every operation there and stores what is read outside; the call is paid once.
//
// Operations join when one reads the other's result element by element. A row or column reduction ends its function: its
// result is there after the loop only. Cycles of a register of 256 bytes: the largest of instructions over issue ports,
// loads over load ports and stores over the store port (device section vector_uarch; the curves of single operations in
// vector_vf follow from the same rule).
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "npu_core/cost/cost.h"

namespace npu::cost {

namespace {

enum class Form : uint8_t { NONE, ELEMENT, ROW_REDUCE, COLUMN_REDUCE };

struct Member {
    Form form = Form::NONE;
    int32_t level = 0;             // functions that must have ended before
    int64_t rows = 0, cols = 0;              // index space: the tile
    int64_t valid_rows = 0, valid_cols = 0;  // what of it is valid
    double interval = 0, latency = 0;
};

// Instruction of the documented intervals that an instruction of the operation table runs as, and how often.
std::pair<const char*, double> issue_of(const std::string& instr) {
    if (instr == "vadd" || instr == "vsub") return {"vadd", 1};
    if (instr == "vmul") return {"vmul", 1};
    if (instr == "vmax" || instr == "vmin" || instr == "vand" || instr == "vor") return {"vmax", 1};
    if (instr == "vdiv") return {"vdiv_fp32", 1};
    if (instr == "vexp" || instr == "vln" || instr == "vsqrt") return {"vexp_fp32", 1};
    if (instr == "vrsqrt" || instr == "vrec") return {"vdiv_fp32", 2};     // curve trsqrt: two intervals of 4
    if (instr == "vsel" || instr == "vcmpv_ge") return {"vsel", 1};
    if (instr == "vconv") return {"vcvt", 1};
    if (instr == "vabs" || instr == "vadds" || instr == "vmuls" || instr == "vmaxs" || instr == "vmins" || instr == "vrelu" ||
        instr == "vcopy" || instr == "vector_dup" || instr == "vnot")
        return {"vadds", 1};
    return {nullptr, 0};
}

int32_t root_of(std::vector<int32_t>& parent, int32_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
}

bool in_ub(const plan::Leaf& leaf, int32_t t) { return leaf.tensors[t].mem == plan::Mem::UB; }

void space_of(const Shape& s, int64_t& rows, int64_t& cols) {
    cols = s.rank ? s[s.rank - 1] : 1;
    rows = cols ? s.count() / cols : 0;
}

}  // namespace

std::vector<Cycles> Calibrated::leaf_cycles(const plan::Leaf& leaf) const {
    std::vector<Cycles> out;
    out.reserve(leaf.ops.size());
    for (const plan::LeafOp& op : leaf.ops) out.push_back(cycles(leaf, op));
    if (is_950_ && d_.has("vector_uarch.issue_ports")) fuse(leaf, out);   // a user's table may know single operations only
    return out;
}

void Calibrated::fuse(const plan::Leaf& leaf, std::vector<Cycles>& out) const {
    const int32_t n = static_cast<int32_t>(leaf.ops.size());
    std::vector<Member> members(leaf.ops.size());
    std::vector<int32_t> parent(leaf.ops.size()), producer(leaf.tensors.size(), -1);
    std::iota(parent.begin(), parent.end(), 0);
    std::map<std::string, std::pair<double, double>> issue;   // interval, latency
    auto uarch = [&](const char* name) {
        auto [it, added] = issue.try_emplace(name);
        if (added) it->second = {d_[std::string("vector_uarch.") + name + ".1"], d_[std::string("vector_uarch.") + name + ".0"]};
        return it->second;
    };
    for (int32_t i = 0; i < n; ++i) {
        const plan::LeafOp& op = leaf.ops[i];
        const CodeInfo& code = info(op.code);
        Member& m = members[i];
        if (op.pipe == Pipe::VEC && !op.in.empty() && in_ub(leaf, op.in[0]) && in_ub(leaf, op.out[0])) {
            const std::string name = code.instr;
            const bool rowwise = name == "rowsum" || name == "rowmax", column = name == "colsum" || name == "colmax";
            if (rowwise || column) {
                m.form = rowwise ? Form::ROW_REDUCE : Form::COLUMN_REDUCE;
                const auto [interval, latency] = uarch("vadd");
                const auto [at_end, end_latency] = uarch(name == "rowmax" ? "vcmax_fp32" : "vcadd_fp32");
                m.interval = interval;
                m.latency = latency + (rowwise ? end_latency + at_end : 0);
            } else if (code.cls == Class::COMPUTE) {
                if (const auto [instr, times] = issue_of(name); instr) {
                    m.form = Form::ELEMENT;
                    const auto [interval, latency] = uarch(instr);
                    m.interval = interval * times * code.passes;
                    m.latency = latency * times * code.passes;
                }
            }
            const plan::LeafTensor& space = leaf.tensors[m.form == Form::ELEMENT ? op.out[0] : op.in[0]];
            space_of(space.tile, m.rows, m.cols);
            space_of(space.exact, m.valid_rows, m.valid_cols);
            if (m.valid_rows * m.valid_cols == 0) m.form = Form::NONE;   // outside the valid region
        }
        for (int32_t t : op.in) {
            const int32_t p = producer[t];
            if (p < 0) continue;
            const Member& from = members[p];
            const bool joins = m.form != Form::NONE && from.form == Form::ELEMENT && from.rows == m.rows && from.cols == m.cols;
            m.level = std::max(m.level, from.level + (joins ? 0 : 1));
        }
        if (m.form != Form::NONE)
            for (int32_t t : op.in) {
                const int32_t p = producer[t];
                if (p < 0) continue;
                const Member& from = members[p];
                if (from.form == Form::ELEMENT && from.level == m.level && from.rows == m.rows && from.cols == m.cols)
                    parent[root_of(parent, p)] = root_of(parent, i);
            }
        for (int32_t t : op.out) producer[t] = i;
    }

    std::map<int32_t, std::vector<int32_t>> functions;
    for (int32_t i = 0; i < n; ++i)
        if (members[i].form != Form::NONE) functions[root_of(parent, i)].push_back(i);
    std::vector<char> outside(leaf.tensors.size(), 0), read(leaf.tensors.size(), 0);
    for (int32_t i = 0; i < n; ++i)
        for (int32_t t : leaf.ops[i].in) {
            read[t] = 1;
            const int32_t p = producer[t];
            if (p < 0 || members[i].form == Form::NONE || members[p].form == Form::NONE || root_of(parent, p) != root_of(parent, i))
                outside[t] = 1;
        }
    const double issue_ports = d_["vector_uarch.issue_ports"], load_ports = d_["vector_uarch.load_ports"],
                 store_ports = d_["vector_uarch.store_ports"];
    for (const auto& [root, ops] : functions) {
        if (ops.size() < 2) continue;
        double intervals = 0, latency = 0;
        int64_t loads = 0, stores = 0, size = 2;
        int64_t rows_run = 0, cols_run = 0;
        bool by_row = false;
        std::map<int32_t, char> loaded;
        for (int32_t i : ops) {
            const plan::LeafOp& op = leaf.ops[i];
            const Member& m = members[i];
            rows_run = std::max(rows_run, m.valid_rows);
            cols_run = std::max(cols_run, m.valid_cols);
            intervals += m.interval;
            latency += m.latency;
            by_row = by_row || m.form == Form::ROW_REDUCE;
            for (int32_t t : op.in) {
                const int32_t p = producer[t];
                const plan::LeafTensor& x = leaf.tensors[t];
                const bool inside = p >= 0 && members[p].form != Form::NONE && root_of(parent, p) == root;
                if (!inside) {
                    int64_t rows, cols;
                    space_of(x.tile, rows, cols);
                    if (cols == 1 && m.cols > 1) by_row = true;      // one element per row, broadcast as it is loaded
                    else if (in_ub(leaf, t) && loaded.try_emplace(t, 1).second) ++loads;
                }
                size = std::max<int64_t>(size, dtype_size_bytes(x.dtype));
            }
            const int32_t o = op.out[0];
            size = std::max<int64_t>(size, dtype_size_bytes(leaf.tensors[o].dtype));
            if (m.form == Form::ELEMENT && (outside[o] || !read[o])) ++stores;
        }
        const Member& m = members[ops.front()];
        const double per_register = std::max({intervals / issue_ports, static_cast<double>(loads) / load_ports,
                                              static_cast<double>(stores) / store_ports, 1.0});
        double busy = barrier_;
        auto registers = [&](int64_t elements) { return static_cast<double>(plan::ceil_div(elements * size, 256)); };
        if (by_row) {
            busy += static_cast<double>(rows_run) * (per_register * registers(cols_run) + d_["vector_vf.tadd_fp32_2d.1"]);
        } else if (cols_run == m.cols) {
            busy += per_register * registers(rows_run * cols_run);
        } else {   // cut columns leave gaps: row by row, never more than whole rows
            busy += per_register * std::min(static_cast<double>(rows_run) * registers(cols_run), registers(rows_run * m.cols));
        }
        const double head = std::max(0.0, d_["latency.vf_call_fixed_cycles"] + latency - barrier_);
        double given = 0;
        for (size_t k = 0; k < ops.size(); ++k) {     // each operation its share of the loop; whole cycles, none lost
            const double upto = k + 1 == ops.size() ? busy : given + busy * members[ops[k]].interval / intervals;
            out[ops[k]] = {static_cast<int64_t>(std::ceil(upto)) - static_cast<int64_t>(std::ceil(given)),
                           k == 0 ? static_cast<int64_t>(head) : 0, 0};
            given = upto;
        }
    }
}

}  // namespace npu::cost
