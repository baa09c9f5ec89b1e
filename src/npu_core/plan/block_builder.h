// Builds the tensor graph of one root function; its families of operations are in block_*.cpp.
#pragma once
#include "npu_core/plan/block.h"

namespace npu::plan {

struct Simple { Code code; int scratch = 0; bool fp32_only = false; };   // an operation per tile

class BlockBuilder {
public:
    BlockBuilder(const Program& program, const Valids& valids, const std::unordered_set<Id>& crossing, Numerics numerics, const Chip& chip)
        : p_(program), valids_(valids), crossing_(crossing), numerics_(numerics), chip_(chip) {}

    Block run(const std::vector<Visit>& visits);

private:
    const Program& p_;
    const Valids& valids_;
    const std::unordered_set<Id>& crossing_;
    Numerics numerics_;
    const Chip& chip_;
    Block b_;
    const Item* item_ = nullptr;
    const Visit* visit_ = nullptr;
    const npu::Op* op_ = nullptr;
    std::unordered_map<Id, Id> current_;              // Program tensor -> block tensor of its present version
    std::unordered_map<Id, Id> view_of_in_;           // external -> the view of it that operations read
    std::unordered_map<Id, Id> external_in_, external_out_;
    std::unordered_map<Id, Id> open_;                 // local -> assemble target nobody read yet
    std::unordered_set<Id> declared_;
    std::vector<Id> dirty_order_;
    std::unordered_map<Id, Id> wide_;                 // 16-bit block tensor -> its fp32 form

    Id tensor(const Shape& shape, DType dtype) {
        return tensor(shape, dtype, shape);
    }
    Id tensor(const Shape& shape, DType dtype, const Shape& valid) {
        b_.tensors.push_back({shape, dtype, valid});
        return static_cast<Id>(b_.tensors.size()) - 1;
    }
    Id like(Id t, DType dtype) { return tensor(shape(t), dtype, valid(t)); }   // for a value element by element
    Shape shape(Id t) const { return b_.tensors[t].shape; }  // a copy: the list grows
    Shape valid(Id t) const { return b_.tensors[t].valid; }
    DType dtype(Id t) const { return b_.tensors[t].dtype; }

    Id external(Id t, bool out);
    Id external_out(Id t) { return external(t, true); }
    void emit(BlockOp op);
    Shape vec_tile(Id tile) const;
    // Block tensor an operation reads for a Program tensor: the version of this block, else a view of GM.
    Id read(Id t);
    void set(Id t, Id value);
    void assemble(const Visit& v);
    Id cast_to(Id x, DType to);
    bool promotes(DType t) const {
        const OpRow& row = op_rows()[op_->row];
        return (t == DType::BF16 && !row.bf16_arith) ||
               (t == DType::F16 && !row.fp16_arith && numerics_ == Numerics::CURRENT);
    }
    Id widen(Id x) {
        if (auto it = wide_.find(x); it != wide_.end()) return it->second;
        return wide_[x] = cast_to(x, DType::F32);
    }

    const std::string& name() const { return op_rows()[op_->row].name; }

    // Result of the operation under its legal dtype; `finish` registers it and adds the rounded twin.
    struct Result { Id program, exact; bool widened; };
    Result result(size_t i);
    void finish(const Result& r);
    void define(Id t, Id value);

    // block_operations.cpp
    void operation(const Visit& v);
    // Index updates, block formats, bytes, sorts of runs, random numbers, scaled products, convolution.
    void other(const OpRow& row, std::vector<Id> in, const int64_t* ints);

    // block_vector.cpp
    // Tile operations over operands of the result's shape; widening and broadcasting done here.
    void map(const Simple& simple, std::vector<Id> in);
    // log(1 + x) with a correction for small x, as the public package composes it.
    void log1p(Id x);
    void chain(Id x, std::initializer_list<Code> codes);
    void where(std::vector<Id> in, const int64_t* ints);
    void reduce(const std::string& k, Id x, int axis);

    // block_moves.cpp
    // x in the shape of `result`; what an axis grows to is as valid as the result.
    Id broadcast(Id x, Id result);
    Id reshaped(Id x, const Shape& to, DType type);
    void bitcast(Id x);
    // Rows of the source written (or added by the write) to their places; operands: destination, indices, source.
    void index_update(std::vector<Id> in, bool source_second);
    void simple_move(Family family, Code code, Id x, const Visit& v);
    void fill(Code code);
    void concat(const std::vector<Id>& in, int axis);
    void transpose(Id x, const int64_t* perm);
    void topk(Id x, int64_t k);

    // block_products.cpp
    void matmul(const std::vector<Id>& in, const int64_t* ints);
    static Shape two(const Shape& s);              // the last two axes
    // Partial products per L1 chunk of k in GM, then vector additions from left to right.
    void split_k(const BlockOp& op);
    // A product of 8-bit operands whose contracted axis is longer by the scales, one byte for 32 elements.
    void scaled_product(const std::vector<Id>& in, const int64_t* ints);
    // One product per group: rows are the places of the result, the contracted axis channels times taps.
    void convolution(const std::vector<Id>& in, const int64_t* ints);
};

}  // namespace npu::plan
