// From operations on whole tensors to operations on tiles.
#pragma once
#include <functional>
#include <vector>

#include "npu_core/base/patience.h"
#include "npu_core/lowering/graph.h"
#include "npu_core/lowering/tile_index.h"

namespace npu::lowering {

void auto_cast(Graph& graph);        // AutoCast: fp32 around operations without 16-bit arithmetic
void expand_function(Graph& graph);  // ExpandFunction

// A tensor of the tensor graph, or one the expansion makes up on the way: a window of some storage.
struct Ref {
    int32_t raw = -1, tensor = -1;   // tensor -1: only tiles of it exist
    Shape shape;
    Offset offset;
    DType dtype = DType::F32;
};

// Emits tile operations in order. Windows are linked to the tiles that hold them (ConnectWithOverlap).
class Expander {
public:
    explicit Expander(Graph& graph);
    void run();

    Graph& graph() { return g_; }
    const Op& source() const { return g_.ops[source_]; }     // operation being expanded
    const TileShapes& tiles() const;
    const Attributes& attributes() const;

    Ref ref(int32_t tensor) const;
    Ref fresh(const Shape& shape, DType dtype);               // new storage
    int32_t fresh_tensor(const Shape& shape, DType dtype);
    int32_t out_tile(const Ref& whole, const Shape& at, const Shape& shape);   // window to be produced
    int32_t in_tile(const Ref& whole, const Shape& at, const Shape& shape);    // window, linked to its producers
    int32_t in_whole(const Ref& whole) { return in_tile(whole, zeros(whole.shape.rank), whole.shape); }
    int32_t emit(Opcode code, const Ids& in, const Ids& out);                  // keeps tile and attributes of the source
    int32_t emit(Opcode code, const Ids& in, const Ids& out, const Attributes& attributes);
    int32_t view(int32_t from, const Offset& at, int32_t to, Mem target, bool transpose = false);

    // Calls use(offset, shape) for every tile, last dim innermost. Steps default to the vector tile.
    void each_tile(const Shape& whole, const std::function<void(const Shape&, const Shape&)>& use);
    void each_tile(const Shape& whole, const Shape& step, const std::function<void(const Shape&, const Shape&)>& use);
    Shape vec_step(int rank) const;   // vector tile cut to `rank` entries
    static Shape zeros(int rank);

private:
    int32_t linked(const Ref& whole, const Offset& at, const Shape& shape);
    void produced(int32_t tensor);
    void one(int32_t op);

    Graph& g_;
    Patience patience_;
    int32_t source_ = -1;
    std::vector<TileIndex> tiles_of_;   // raw -> tensors produced so far
    std::vector<int32_t> near_;         // scratch of linked
};

// Families. Each expands the current source operation.
void expand_elementwise(Expander& e);
void expand_broadcast_axis(Expander& e);   // EXPAND
void expand_reduce_last(Expander& e);
void expand_reduce_line(Expander& e);
void expand_transpose(Expander& e);
void expand_fill(Expander& e);
void expand_matmul(Expander& e);
void expand_topk(Expander& e);
void expand_index(Expander& e);
void expand_cumulative(Expander& e);

// EXPAND axis by axis; `symbolic`: the result has a symbolic valid size.
Ref expand_to(Expander& e, const Ref& from, const Shape& to, int32_t symbolic);
bool is_reduce_line(Opcode code);

}  // namespace npu::lowering
