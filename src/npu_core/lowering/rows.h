// Plain rows <-> Graph, for tests that feed one stage and look at the next.
#pragma once
#include <string>
#include <vector>

#include "npu_core/lowering/graph.h"

namespace npu::lowering {

struct TensorRow {
    int32_t id = 0, raw = 0;
    std::vector<int64_t> shape, offset, raw_shape;
    std::string dtype, mem;
};

struct OpRow {
    int32_t id = 0;
    std::string code;
    std::vector<int32_t> in, out;
    int32_t sub_graph = -1, latency = 0;
    std::vector<int64_t> at;               // constants of the window offset
    std::vector<std::string> at_symbols;   // expressions, "" for none
    std::string to;
    bool transpose = false, has_scalar = false, trans_a = false, trans_b = false, direct = false;
    int32_t axis = -100;                   // -100: none
    double scalar = 0;
    std::vector<int64_t> ints, vec_tile, cube_tile;   // cube_tile: m, m1, k, ka, kb, n, n1
    int32_t scope = -1;
};

DType dtype_from_name(const std::string& name);
std::string dtype_name(DType dtype);

Graph graph_from_rows(const std::vector<TensorRow>& tensors, const std::vector<OpRow>& ops,
                      const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs);
std::vector<TensorRow> tensor_rows(const Graph& graph);   // those operations and function ends use, by id
std::vector<OpRow> op_rows_of(const Graph& graph);        // in list order

}  // namespace npu::lowering
