// Cycles of the operations of a leaf by the formulas of the device table.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "npu_core/plan/leaf.h"

namespace npu::cost {

// Device table as flat "section.key" -> number. Keys that are read are remembered, so that an estimate can name the
// assumed ones among them.
class Device {
public:
    explicit Device(std::unordered_map<std::string, double> values) : values_(std::move(values)) {}
    double operator[](const std::string& key) const;                 // throws std::out_of_range naming the key
    double get(const std::string& key, double fallback) const;
    bool has(const std::string& key) const { return values_.count(key) > 0; }
    const std::set<std::string>& used() const { return used_; }

private:
    std::unordered_map<std::string, double> values_;
    mutable std::set<std::string> used_;
};

// Calibrated duration of one operation.
struct Cycles {
    int64_t busy = 0;    // the pipe is taken
    int64_t head = 0;    // more if the pipe was idle: first instruction, first byte
    int64_t tail = 0;    // until the result can be read
};

class Calibrated {
public:
    explicit Calibrated(const Device& device);
    Cycles cycles(const plan::Leaf& leaf, const plan::LeafOp& op) const;      // of the operation alone
    // Of every operation of a leaf. 950: operations of one vector function share its cycles (cost/vector_function.cpp).
    std::vector<Cycles> leaf_cycles(const plan::Leaf& leaf) const;

    const Device& device() const { return d_; }

private:
    const Device& d_;
    bool is_950_;
    struct Instr { double fixed, slope; };
    std::unordered_map<std::string, Instr> instr_;

    Instr instr(const std::string& name) const;
    Cycles vector(const plan::Leaf& leaf, const plan::LeafOp& op) const;    // cost/vector.cpp
    Cycles reduce(const plan::Leaf& leaf, const plan::LeafOp& op) const;
    void fuse(const plan::Leaf& leaf, std::vector<Cycles>& out) const;
    Cycles cube(const plan::Leaf& leaf, const plan::LeafOp& op) const;      // cost/cube.cpp
    Cycles move(const plan::Leaf& leaf, const plan::LeafOp& op) const;      // cost/mte.cpp
    // parameters read once
    double l1_rate_, ub_rate_, ub_out_rate_, fix_rate_, l0a_rate_, l0b_rate_, bt_rate_, mte1_issue_, dma_fixed_, first_byte_,
        write_tail_, barrier_, mad_head_, l0c_l1_rate_, l0c_ub_rate_, ub_l1_rate_, nd_row_, cube_first_byte_;
};

}  // namespace npu::cost
