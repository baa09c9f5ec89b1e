// Data movement: DMA between GM and the core, loads into L0, the fixpipe.
#include <algorithm>
#include <cmath>

#include "npu_core/cost/cost.h"

namespace npu::cost {

double Device::operator[](const std::string& key) const {
    auto it = values_.find(key);
    if (it == values_.end()) throw std::out_of_range("the device table has no " + key);
    used_.insert(key);
    return it->second;
}

double Device::get(const std::string& key, double fallback) const {
    auto it = values_.find(key);
    if (it == values_.end()) return fallback;
    used_.insert(key);
    return it->second;
}

Calibrated::Calibrated(const Device& device) : d_(device), is_950_(device.get("chip.is_950", 0) != 0) {
    l1_rate_ = d_["bandwidth.gm_to_l1_l2hit_bpc"];
    ub_rate_ = d_["bandwidth.gm_to_ub_l2hit_bpc"];
    ub_out_rate_ = d_["bandwidth.ub_to_gm_bpc"];
    if (is_950_ && d_.has("bandwidth.aiv_l2_bpc")) {
        ub_rate_ = d_["bandwidth.aiv_l2_bpc"];
        ub_out_rate_ = d_["bandwidth.aiv_ub_to_l2_bpc"];
    }
    fix_rate_ = d_["bandwidth.l0c_to_gm_bpc"];
    l0a_rate_ = d_["bandwidth.l1_to_l0a_bpc"];
    l0b_rate_ = d_["bandwidth.l1_to_l0b_bpc"];
    bt_rate_ = d_["bandwidth.l1_to_bt_bpc"];
    mte1_issue_ = d_["bandwidth.mte1_issue_cycles"];
    dma_fixed_ = d_["bandwidth.gm_to_ub_fixed_cycles"];
    first_byte_ = d_["latency.gm_read_latency"];
    cube_first_byte_ = is_950_ ? d_.get("latency.gm_miss_latency_cycles", first_byte_) : first_byte_;
    write_tail_ = d_["latency.gm_write_latency"];
    barrier_ = d_["latency.pipe_v_barrier_effective"];
    nd_row_ = d_.get("bandwidth.nd_row_cycles", 512 / l1_rate_);
    mad_head_ = d_["cube.mad_head_cycles"];
    l0c_l1_rate_ = d_["bandwidth.l0c_to_l1_bpc"];
    l0c_ub_rate_ = d_.get("bandwidth.l0c_to_ub_bpc", l0c_l1_rate_);
    ub_l1_rate_ = d_.get("bandwidth.ub_to_l1_bpc", l0c_l1_rate_);
}

// A tile wholly outside the valid region: the operation finds an extent of zero and goes on.
static bool nothing_valid(const plan::Leaf& leaf, const plan::LeafOp& op) {
    auto empty = [&](int32_t t) { return leaf.tensors[t].exact.count() == 0; };
    if (op.code == Code::FILLPAD) return empty(op.out[0]);
    return (!op.out.empty() && empty(op.out[0])) || std::any_of(op.in.begin(), op.in.end(), [&](int32_t t) {
        return leaf.tensors[t].mem != plan::Mem::GM && empty(t);
    });
}

Cycles Calibrated::cycles(const plan::Leaf& leaf, const plan::LeafOp& op) const {
    const CodeInfo& i = info(op.code);
    if (op.code == Code::VIEW || op.code == Code::ASSEMBLE || op.code == Code::RESHAPE) return {1, 0, 0};
    if (nothing_valid(leaf, op)) return {1, 0, 0};
    if (op.code == Code::GATHER || op.code == Code::INDEX_OUTCAST) return move(leaf, op);
    switch (i.pipe) {
        case Pipe::VEC: return vector(leaf, op);
        case Pipe::CUBE: return cube(leaf, op);
        default: return move(leaf, op);
    }
}

Cycles Calibrated::move(const plan::Leaf& leaf, const plan::LeafOp& op) const {
    auto whole = [](double x) { return static_cast<int64_t>(std::ceil(x)); };
    const plan::LeafTensor &from = leaf.tensors[op.in[0]], &to = leaf.tensors[op.out[0]];
    const double local = static_cast<double>(plan::bytes_of(to.exact, to.dtype));
    // Runs of a strided copy are rounded up: a fractal load to L1 pays whole lines, UB copies whole blocks.
    struct Runs { int64_t bytes, row; };
    auto burst_bytes_of = [](const Runs& r, int64_t unit) {
        if (r.row == 0) return static_cast<double>(plan::round_up(r.bytes, unit));
        return static_cast<double>(r.bytes / r.row * plan::round_up(r.row, unit));
    };
    const Runs runs{op.gm_bytes, op.row_bytes};
    auto burst_bytes = [&](int64_t unit) { return burst_bytes_of(runs, unit); };
    // Cut columns make runs out of one piece: never dearer than the whole tile.
    auto whole_tile = [&](const plan::LeafTensor& local, const plan::LeafTensor& gm, DType type) -> Runs {
        const Shape& tile = local.tile;
        if (op.spill || tile == local.exact || tile.rank == 0) return runs;
        const int last = tile.rank - 1;
        const int64_t row = tile[last] * dtype_size_bytes(type);
        return {plan::bytes_of(tile, type), gm.tile.rank != tile.rank || gm.tile[last] <= tile[last] ? 0 : row};
    };
    switch (op.code) {
        case Code::COPY_IN: case Code::TRANSPOSE_MOVEIN: {
            const bool l1 = to.mem == plan::Mem::L1;
            auto load = [&](const Runs& r) {
                const double busy = burst_bytes_of(r, l1 ? 64 : 32) / (l1 ? l1_rate_ : ub_rate_);
                // a load into fractals takes a row at a time
                return l1 && r.row > 0 ? std::max(busy, static_cast<double>(r.bytes / r.row) * nd_row_) : busy;
            };
            const double busy = std::min(load(runs), load(whole_tile(to, from, to.dtype)));
            return {whole(busy), whole(l1 ? cube_first_byte_ : first_byte_), whole(dma_fixed_)};
        }
        case Code::COPY_OUT: case Code::TRANSPOSE_MOVEOUT: {
            const bool cube = from.mem == plan::Mem::L0C;
            double bytes = cube ? static_cast<double>(op.gm_bytes)
                                : std::min(burst_bytes(32), burst_bytes_of(whole_tile(from, to, to.dtype), 32));
            // 950: the rate was measured on results of two bytes; what limits it is the four-byte sums that leave L0C.
            if (cube && is_950_) bytes = static_cast<double>(plan::bytes_of(from.exact, DType::F32)) / 2;
            return {whole(bytes / (cube ? fix_rate_ : ub_out_rate_)), 0, whole(write_tail_)};
        }
        case Code::GATHER: {   // one DMA per row
            const int64_t rows = op.row_bytes ? op.gm_bytes / op.row_bytes : 1;
            return {whole(burst_bytes(512) / ub_rate_ + 16.0 * static_cast<double>(rows)), whole(first_byte_), whole(dma_fixed_)};
        }
        case Code::INDEX_OUTCAST: {
            const int64_t rows = op.row_bytes ? op.gm_bytes / op.row_bytes : 1;
            return {whole(burst_bytes(512) / ub_out_rate_ + 16.0 * static_cast<double>(rows)), 0, whole(write_tail_)};
        }
        case Code::L1_TO_L0A: case Code::L1_TO_L0At: return {whole(mte1_issue_ + local / l0a_rate_), 0, 0};
        case Code::L1_TO_L0B: case Code::L1_TO_L0Bt: return {whole(mte1_issue_ + local / l0b_rate_), 0, 0};
        case Code::L1_TO_BT: return {whole(mte1_issue_ + local / bt_rate_), 0, 0};
        case Code::L0C_COPY_L1: return {whole(local / l0c_l1_rate_), 0, 0};
        case Code::L0C_COPY_UB: return {whole(local / l0c_ub_rate_), 0, 0};
        case Code::UB_COPY_L1: return {whole(local / ub_l1_rate_), 0, 0};
        default: return {1, 0, 0};
    }
}

}  // namespace npu::cost
