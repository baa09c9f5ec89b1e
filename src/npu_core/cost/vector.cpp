// Vector pipe: fixed + slope * repeats of 256 bytes; a chain of back-to-back instructions pays the head once and a barrier
// between dependent instructions. On the 950 the curves of vector functions take the place of the instruction table.
#include <algorithm>
#include <cmath>

#include "npu_core/cost/cost.h"

namespace npu::cost {

namespace {
// 950: curve of the vector function that stands for an instruction; several have no curve of their own.
const char* curve_950(const std::string& instr, DType type) {
    const bool half = type == DType::F16 || type == DType::BF16;
    if (instr == "vexp" || instr == "vln") return half ? "texp_fp16" : "texp_fp32";
    if (instr == "vadd" || instr == "vmax" || instr == "vmin" || instr == "vand" || instr == "vor") return "tadd_fp32";
    if (instr == "vsub") return "tsub_fp32";
    if (instr == "vmul") return "tmul_fp32";
    if (instr == "vdiv") return half ? "tdivs_fp16" : "tdivs_fp32";
    if (instr == "vsqrt") return "tsqrt_fp32";
    if (instr == "vrsqrt" || instr == "vrec") return "trsqrt_fp32";
    if (instr == "vsel" || instr == "vcmpv_ge") return "tsel_fp32";
    if (instr == "vconv") return "tcvt_fp32_fp16";
    if (instr == "vabs" || instr == "vadds" || instr == "vmuls" || instr == "vmaxs" || instr == "vmins" || instr == "vrelu" ||
        instr == "vcopy" || instr == "vector_dup" || instr == "vnot")
        return "tmins_fp32";
    return nullptr;
}

// What of a UB tile an instruction works on: the valid part, where the result is the same tile what is valid of it.
struct Worked { int64_t bytes, row_bytes, repeats; };   // row_bytes: of the tile
Worked worked(const plan::LeafTensor& t, const plan::LeafTensor& result, bool one_block) {
    Shape part = t.exact, tile = t.tile;
    if (one_block && tile.rank)
        for (Shape* s : {&part, &tile}) (*s)[s->rank - 1] = std::min<int64_t>((*s)[s->rank - 1], 32 / dtype_size_bytes(t.dtype));
    else if (t.tile == result.tile)
        for (int i = 0; i < part.rank; ++i) part[i] = std::min(part[i], result.exact[i]);
    const int64_t size = dtype_size_bytes(t.dtype);
    if (part.rank == 0) return {size, size, 1};
    const int last = part.rank - 1;
    auto whole = [&](const Shape& s, int64_t& row) {     // padded bytes; rows without a gap run on
        row = plan::round_up(s[last], 32 / size) * size;
        return s[last] ? s.count() / s[last] * row : 0;
    };
    int64_t row, tile_row;
    const int64_t bytes = whole(part, row), tile_bytes = whole(tile, tile_row);
    if (row == tile_row) return {bytes, row, plan::ceil_div(bytes, 256)};
    // Cut columns leave gaps: repeats by row, never more than for the whole rows.
    const int64_t rows = row ? bytes / row : 0, most = plan::ceil_div(rows * tile_row, 256);
    return {bytes, tile_row, std::min(rows * plan::ceil_div(row, 256), std::max<int64_t>(most, tile_bytes ? 1 : 0))};
}
}  // namespace

Calibrated::Instr Calibrated::instr(const std::string& name) const {
    return {d_["vector_instr." + name + ".0"], d_["vector_instr." + name + ".1"]};
}

Cycles Calibrated::reduce(const plan::Leaf& leaf, const plan::LeafOp& op) const {
    const plan::LeafTensor& x = leaf.tensors[op.in[0]];
    const std::string kind = info(op.code).instr;
    const int64_t cols = x.exact.rank ? x.exact[x.exact.rank - 1] : 1, elements = x.exact.count();
    const double scale = static_cast<double>(dtype_size_bytes(x.dtype)) / 4.0;
    const bool rows_kind = kind == "rowsum" || kind == "rowmax";
    const double rows = static_cast<double>(elements) / static_cast<double>(std::max<int64_t>(cols, 1));
    const double repeats = std::ceil(static_cast<double>(cols * dtype_size_bytes(x.dtype)) / 256.0);
    if (is_950_) {   // two-dimensional curve of the vector function: rows, and registers per row
        const double per_repeat = d_["vector_vf.tadd_fp32_2d.0"], per_row = d_["vector_vf.tadd_fp32_2d.1"];
        const double fixed = d_["vector_vf.tadd_fp32_2d.2"];
        return {static_cast<int64_t>(std::ceil((per_repeat * repeats + per_row) * rows + barrier_)),
                static_cast<int64_t>(std::max(0.0, fixed - barrier_)), 0};
    }
    const double first = d_["vector_instr.vadd.0"];
    double busy, bias;
    if (rows_kind) {   // cycles of a row at the fitted widths, straight lines between and beyond them
        const double width = static_cast<double>(cols) * scale;
        auto fitted = [&](const char* at) {
            const std::string key = "tile_reduce." + kind + "_fp32_" + at;
            return std::pair{d_[key + ".0"] * std::stod(at), d_[key + ".1"]};
        };
        const bool narrow = width <= 128;
        const auto [row_a, bias_a] = fitted(narrow ? "64" : "128");
        const auto [row_b, bias_b] = fitted(narrow ? "128" : "240");
        const double from = narrow ? 64 : 128, part = std::max(0.0, (width - from) / (narrow ? 64 : 112));
        busy = rows * (row_a + (row_b - row_a) * part);
        bias = bias_a + (bias_b - bias_a) * std::min(part, 1.0);
        if (width > 240) bias += barrier_ * std::ceil(std::log2(width / 240));   // one more dependent step per halving
    } else {
        const std::string key = "tile_reduce." + kind + (kind == "colsum" ? "_fp32_128" : "_fp32_64");
        busy = d_[key + ".0"] * scale * static_cast<double>(elements);
        bias = d_[key + ".1"];
    }
    // The steps within wait for each other and the last one drains; only the first instruction's fixed part hides behind
    // work before it.
    busy += std::max(barrier_, bias - first);
    return {static_cast<int64_t>(std::ceil(busy)), static_cast<int64_t>(std::max(0.0, std::min(bias, first) - barrier_)), 0};
}

Cycles Calibrated::vector(const plan::Leaf& leaf, const plan::LeafOp& op) const {
    const CodeInfo& i = info(op.code);
    const std::string name = i.instr;
    if (name == "rowsum" || name == "rowmax" || name == "colsum" || name == "colmax") return reduce(leaf, op);
    int64_t widest = 0, row_bytes = 0, most = 1;
    DType type = DType::F32;
    for (const plan::Operands* side : {&op.in, &op.out})
        for (size_t k = 0; k < side->size(); ++k) {
            if (side == &op.out && k > 0) break;   // scratch
            const plan::LeafTensor& t = leaf.tensors[(*side)[k]];
            if (t.mem != plan::Mem::UB) continue;
            const Worked w = worked(t, leaf.tensors[op.out[0]], op.inlined && side == &op.out);
            if (w.bytes > widest) {
                widest = w.bytes;
                type = t.dtype;
                row_bytes = w.row_bytes;
            }
            most = std::max(most, w.repeats);
        }
    const double repeats = static_cast<double>(most);
    if (op.code == Code::EXPAND && op.in.size() == 1) {
        const Shape &from = leaf.tensors[op.in[0]].exact, &to = leaf.tensors[op.out[0]].exact;
        if (from.rank && from[from.rank - 1] == 1 && to[to.rank - 1] != 1) {
            if (op.inlined) {   // one block per row; the reader repeats it by a stride of zero
                const Instr brcb = instr("vbrcb");
                const double fills = std::ceil(static_cast<double>(from.count()) / 8);
                return {static_cast<int64_t>(std::ceil(fills + barrier_)), static_cast<int64_t>(std::max(0.0, brcb.fixed - barrier_)), 0};
            }
            const double rows = static_cast<double>(to.count()) / static_cast<double>(to[to.rank - 1]);
            const double per = std::ceil(static_cast<double>(to[to.rank - 1] * dtype_size_bytes(type)) / 256.0);
            if (is_950_)
                return {static_cast<int64_t>(std::ceil((d_["vector_vf.tmins_fp32_2d.0"] * per + d_["vector_vf.tmins_fp32_2d.1"]) * rows + barrier_)),
                        static_cast<int64_t>(std::max(0.0, d_["vector_vf.tmins_fp32_2d.2"] - barrier_)), 0};
            // one fill per row: fitted at 128 columns of fp32, two repeats; a further repeat takes one cycle
            const double slope = d_["tile_reduce.rowexpand_fp32_128.0"], bias = d_["tile_reduce.rowexpand_fp32_128.1"];
            return {static_cast<int64_t>(std::ceil(rows * (slope * 128 - 2 + per) + barrier_)),
                    static_cast<int64_t>(std::max(0.0, bias - barrier_)), 0};
        }
    }
    if (is_950_) {
        if (const char* curve = curve_950(name, type)) {
            const double slope = d_[std::string("vector_vf.") + curve + ".0"], fixed = d_[std::string("vector_vf.") + curve + ".1"];
            return {static_cast<int64_t>(std::ceil(i.passes * (slope * repeats + barrier_))),
                    static_cast<int64_t>(std::max(0.0, fixed - barrier_)), 0};
        }
    }
    const Instr in = instr(name.empty() ? "vmul" : name);
    double busy = i.passes * (in.slope * repeats + barrier_);
    if (op.in.size() >= 2 && row_bytes % 256 != 0) busy += d_.get("vector_instr.count_mode_floor", 16);
    return {static_cast<int64_t>(std::ceil(busy)), static_cast<int64_t>(std::max(0.0, in.fixed - barrier_)), 0};
}

}  // namespace npu::cost
