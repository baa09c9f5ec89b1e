// Tensors that hold windows of one storage, in order of production.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "npu_core/lowering/graph.h"
#include "npu_core/lowering/window_grid.h"

namespace npu::lowering {

class TileIndex {
public:
    void add(const Graph& g, int32_t tensor) {
        for (size_t i = list_.size(); i-- > 0 && i + 8 > list_.size();)
            if (list_[i] == tensor) return;
        list_.push_back(tensor);
        if (grid_) return enter(g, list_.size() - 1);
        if (list_.size() < INDEX_FROM) return;
        grid_ = std::make_unique<WindowGrid>(g.tensors[list_[0]].shape);
        for (size_t i = 0; i < list_.size(); ++i) enter(g, i);
    }

    // Every tensor whose window may overlap the one asked for, in order of production.
    void candidates(const Offset& at, const Shape& shape, std::vector<int32_t>& found) const {
        if (!grid_ || !grid_->candidates(place(at).data(), shape, found)) {
            found = list_;
            return;
        }
        for (int32_t& i : found) i = list_[i];
    }

private:
    static constexpr size_t INDEX_FROM = 16;   // fewer are looked through one by one

    static std::array<int64_t, MAX_RANK> place(const Offset& o) {
        std::array<int64_t, MAX_RANK> at{};
        for (int d = 0; d < o.rank; ++d) at[d] = o.d[d].at;
        return at;
    }
    void enter(const Graph& g, size_t i) { grid_->add(place(g.tensors[list_[i]].offset).data(), g.tensors[list_[i]].shape, int32_t(i)); }

    std::vector<int32_t> list_;
    std::unique_ptr<WindowGrid> grid_;
};

}  // namespace npu::lowering
