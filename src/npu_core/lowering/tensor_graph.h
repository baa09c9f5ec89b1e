// Tensor graph of one root function, as the front end of the 0.2.0 stack hands it to its passes.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "npu_core/base/fault.h"
#include "npu_core/lowering/graph.h"
#include "npu_core/lowering/paths.h"

namespace npu::lowering {

struct RootGraph {
    Graph graph;
    std::vector<Id> input_slots, output_slots;   // Program tensors behind graph.inputs and graph.outputs
    std::string options;                         // options in force at the first operation
};

// Program tensors a path reads without having made them.
std::set<Id> outside_reads(const Program& program, const RootPath& path);

// `crossing`: Program tensors that some root reads from another one.
RootGraph build_tensor_graph(const Program& program, const RootPath& path, const std::set<Id>& crossing,
                             std::set<std::string>& unmodelled);

// Builds the graph operation by operation; forms of operations are in op_forms.cpp.
class TensorGraphBuilder {
public:
    TensorGraphBuilder(const Program& program, const RootPath& path, const std::set<Id>& crossing,
                       std::set<std::string>& unmodelled);
    RootGraph build();

    const Program& program() const { return p_; }
    Graph& graph() { return root_.graph; }
    int32_t use(Id tensor);                               // graph tensor of the current version
    int32_t result(Id tensor);                            // fresh graph tensor for an operation's output
    int32_t fresh(const Shape& shape, DType dtype) { return root_.graph.add_fresh(shape, dtype); }
    int32_t fresh_end(Id slot);   // of the root function
    int32_t emit(Opcode code, const Ids& in, const Ids& out);
    int32_t emit(Opcode code, const Ids& in, const Ids& out, const Attributes& attributes);
    Offset offset(Span exprs);
    void unmodelled(const std::string& name) { unmodelled_.insert(name); }
    const TileShapes& tiles() const;
    void set_vec_tile(const Shape& tile);                 // for the operations emitted next

private:
    void step(const PathStep& s);
    void assemble(const Item& it);
    void finish();
    std::vector<int32_t> held_values() const;
    void number_ends_last();
    Coord coordinate(Id expr);
    int32_t written_argument(Id tensor);

    struct Outcast { Id slot; int32_t tensor; };

    const Program& p_;
    const RootPath& path_;
    const std::set<Id>& crossing_;
    std::set<std::string>& unmodelled_;
    RootGraph root_;
    std::map<Id, int32_t> version_;        // Program tensor -> graph tensor
    std::vector<std::pair<Id, int32_t>> incasts_;   // slot and the view of it
    std::vector<int32_t> stored_;          // ends that are written, in program order: a target, then its source
    std::map<Id, int32_t> written_;        // slot -> function output written by assembles
    std::map<Id, int32_t> whole_;          // slot -> tensor that becomes it at the end
    std::set<Id> declared_;
    int32_t tile_ = -1, scope_ = -1, copy_ = 0, source_ = -1;
};

void emit_program_op(TensorGraphBuilder& b, const npu::Op& op);

}  // namespace npu::lowering
