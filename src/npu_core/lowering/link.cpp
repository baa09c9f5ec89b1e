// Which tiles hold a window. Source: hicann/pypto@r0.2.0 interface/function/function.cpp (ConnectWithOverlap).
#include <algorithm>

#include "npu_core/lowering/expand.h"

namespace npu::lowering {
namespace {

bool contains(const Tensor& t, const Offset& at, const Shape& shape) {
    for (int d = 0; d < shape.rank; ++d)
        if (at.d[d].at < t.offset.d[d].at || at.d[d].at + shape[d] > t.offset.d[d].at + t.shape[d]) return false;
    return true;
}

bool overlaps(const Tensor& t, const Offset& at, const Shape& shape) {
    for (int d = 0; d < shape.rank; ++d)
        if (at.d[d].at + shape[d] <= t.offset.d[d].at || t.offset.d[d].at + t.shape[d] <= at.d[d].at) return false;
    return true;
}

bool same_window(const Tensor& t, const Offset& at, const Shape& shape) {
    return t.shape == shape && t.offset == at;
}

Offset minus(const Offset& a, const Offset& b) {
    Offset o = a;
    for (int d = 0; d < o.rank; ++d) o.d[d].at -= b.d[d].at;
    return o;
}

}  // namespace

int32_t Expander::linked(const Ref& whole, const Offset& at, const Shape& asked) {
    std::vector<int32_t> found;
    Shape shape = asked;   // a reduction asks for full tiles, past the end of the tensor
    const Shape& storage = g_.raws[whole.raw].shape;
    for (int d = 0; d < shape.rank; ++d) shape[d] = std::min(shape[d], storage[d] - at.d[d].at);
    near_.clear();
    if (size_t(whole.raw) < tiles_of_.size()) tiles_of_[whole.raw].candidates(at, shape, near_);
    for (int32_t t : near_) {
        const Tensor& tile = g_.tensors[t];
        if (tile.shape.rank != shape.rank || !overlaps(tile, at, shape)) continue;
        if (same_window(tile, at, shape)) return t;
        found.push_back(t);
    }
    if (found.empty()) return whole.tensor;
    for (int32_t t : found)
        if (contains(g_.tensors[t], at, shape)) {
            const int32_t part = g_.add_fresh(asked, whole.dtype);
            view(t, at, part, Mem::UNKNOWN);
            return part;
        }
    std::sort(found.begin(), found.end(), [&](int32_t a, int32_t b) {
        const Offset &x = g_.tensors[a].offset, &y = g_.tensors[b].offset;
        for (int d = 0; d < x.rank; ++d)
            if (x.d[d].at != y.d[d].at) return x.d[d].at < y.d[d].at;
        return a < b;
    });
    Offset low = at;
    Shape box = shape, high = shape;
    for (int d = 0; d < shape.rank; ++d) high[d] = at.d[d].at + shape[d];
    for (int32_t t : found)
        for (int d = 0; d < shape.rank; ++d) {
            low.d[d].at = std::min(low.d[d].at, g_.tensors[t].offset.d[d].at);
            high[d] = std::max(high[d], g_.tensors[t].offset.d[d].at + g_.tensors[t].shape[d]);
        }
    for (int d = 0; d < shape.rank; ++d) box[d] = high[d] - low.d[d].at;
    const int32_t joined = g_.add_fresh(box, whole.dtype);
    for (int32_t t : found) {
        const int32_t id = g_.add_op(Opcode::ASSEMBLE, {t}, {joined});
        g_.ops[id].at = minus(g_.tensors[t].offset, low);
        g_.ops[id].scope = source().scope;
        g_.ops[id].source = source().source;
    }
    if (box == shape) return joined;
    const int32_t part = g_.add_fresh(shape, whole.dtype);
    view(joined, minus(at, low), part, Mem::UNKNOWN);
    return part;
}

}  // namespace npu::lowering
