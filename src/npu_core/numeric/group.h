// Elementwise operations over one iteration space, compiled to straight code over rows of registers (rows.h). One
// operation is a group of one; a run of operations is executed strip by strip, so that what lies between stays in L1.
#pragma once
#include <functional>
#include <vector>

#include "npu_core/numeric/rows.h"
#include "npu_core/program/program.h"

namespace npu {

struct Group {
    struct Register { DType type; int16_t slot; int16_t direct = -1; };  // direct: store whose memory it is computed in
    struct Load { Id tensor; bool wide; DType logical, dtype; Shape shape; int16_t reg; };   // dtype: as stored
    struct Immediate { int16_t reg; double f; int64_t i; Id expr; };
    struct Store { Id tensor; bool wide; DType logical, dtype; int16_t reg; };
    struct Result {                       // one per operation: where its valid box comes from
        int32_t op;
        DType dtype;
        int16_t count = 0;
        int16_t in[3] = {};               // >= 0: load; < 0: result ~in
    };
    enum class Kind : uint8_t { LOAD, EXEC, STORE };
    struct Code {
        Kind kind;
        int16_t y = -1, a = -1, b = -1, c = -1;  // registers; LOAD and STORE: y = index of the load or store
        RowFn fn = nullptr;
        uint64_t constant = 0;
    };

    Shape space;
    std::vector<Register> registers;
    std::vector<Load> loads;
    std::vector<Immediate> immediates;
    std::vector<Store> stores;
    std::vector<Result> results;
    std::vector<Code> code;
    int slots = 0;
    double ns_per_element = 0;            // rough, for splitting over threads
};

constexpr int MOST_LOADS = 12, MOST_STORES = 12, MOST_REGISTERS = 96, MOST_RESULTS = 32;

struct TensorType { DType dtype; Shape shape; };
struct Wanted { bool narrow, wide; };     // which storage of a result somebody outside reads

class GroupBuilder {
  public:
    using TypeOf = std::function<TensorType(Id)>;
    GroupBuilder(const Program& p, TypeOf type_of) : p_(&p), type_of_(std::move(type_of)) {}

    // False if the operation does not belong to this group (another space, no room): the group is as it was.
    // A Fault if the operation makes no sense for its dtypes.
    bool add(int32_t op_index);
    bool empty() const { return g_.results.empty(); }
    bool makes(Id tensor) const { return find(tensor) >= 0; }
    Group finish(const std::function<Wanted(Id tensor, const Op& op)>& wanted);

  private:
    struct Made { Id tensor; DType dtype; bool wide; int16_t raw, rounded; };

    int find(Id tensor) const;
    int16_t new_register(DType type);
    int16_t exec(RowFn fn, DType type, int16_t a, int16_t b = -1, int16_t c = -1, uint64_t constant = 0);
    int16_t operand(const Op& op, int i, Group::Result& result);
    int16_t immediate(const Op& op, DType type, int int_index, int float_index, bool symbolic);
    int16_t converted(int16_t reg, DType type);
    int16_t truth(int16_t reg);
    int16_t compute(const Op& op, Group::Result& result, DType out);
    int16_t compute_cast(const Op& op, Group::Result& result, DType out);
    void assign_slots();

    const Program* p_;
    TypeOf type_of_;
    Group g_;
    std::vector<Made> made_;
};

// Per axis the valid extent of the first operand whose size is the result's (pypto_api README, section 6).
Shape result_box(const Shape& out, const Shape* const* shapes, const Shape* const* valids, int count);

}  // namespace npu
