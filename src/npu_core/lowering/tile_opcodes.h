// Tile operations of the 0.2.0 stack: names, pipes, core types, operand memories, price in its cost machine.
#pragma once
#include <cstdint>
#include <string_view>

namespace npu::lowering {

enum class Mem : uint8_t { UNKNOWN, GM, UB, L1, L0A, L0B, L0C, BT, FIX, OTHER };
constexpr int MEM_COUNT = 10;
std::string_view mem_name(Mem mem);
Mem mem_from_name(std::string_view name);  // "" is UNKNOWN

// Pipes of the cost machine in its own order: five allocators first.
enum class Pipe : uint8_t { ALLOC_UB, ALLOC_L1, ALLOC_L0A, ALLOC_L0B, ALLOC_L0C, MTE_IN, MTE1, VECTOR_ALU, CUBE, MTE_OUT, S, NONE };
constexpr int PIPE_COUNT = 11;
std::string_view pipe_name(Pipe pipe);

// Pipes of the in-core scheduler, in the order it visits them.
enum class SchedulePipe : uint8_t { S, V, M, MTE1, MTE2, MTE3, FIX, NONE };
constexpr int SCHEDULE_PIPE_COUNT = 7;

enum class CoreType : uint8_t { AIV, AIC, ANY, HUB, GMATOMIC, NONE };
std::string_view core_name(CoreType core);

enum class OpClass : uint8_t {
    ELMWISE, BROADCAST, REDUCE, CAST, MATMUL, CONV, MOVE_IN, MOVE_OUT, MOVE_LOCAL, SYS, SYNC, DISTRIBUTED, OTHER, NONE
};

// LISTED: fitted line k, c. DEFAULT: head latency plus two cycles per 256 bytes. ONE: one cycle. DROPPED: not simulated.
enum class Price : uint8_t { LISTED, DEFAULT, ONE, DROPPED };

enum class Opcode : uint16_t {
#define OP(id, ...) id,
#include "npu_core/lowering/op_table.inc"
#undef OP
    COUNT
};

struct MemList {
    Mem mem[8]{};
    uint8_t count = 0;
    Mem at(int i) const { return i < count ? mem[i] : Mem::UNKNOWN; }
};

struct OpFacts {
    std::string_view name;
    Price price;
    float k, c;                      // microseconds per MB and microseconds, single precision as in the simulator
    uint8_t p, p_fp32, p_int32;      // precision factor by dtype of the first operand
    int32_t extra_cycles;            // 1400 for COPY_IN, 300 for COPY_OUT
    int32_t head_latency[5];         // default rule: fp16, fp32, int32, int16, other
    Pipe pipe;                       // NONE: the cost machine refuses the operation
    SchedulePipe schedule_pipe;
    CoreType core;
    OpClass klass;
    MemList in, out;
};

const OpFacts& facts(Opcode code);
Opcode opcode_from_name(std::string_view name);  // COUNT when there is none

inline bool is_alloc_name(std::string_view name) { return name.find("ALLOC") != std::string_view::npos; }
inline bool is_matmul(Opcode c) {
    return c == Opcode::A_MUL_B || c == Opcode::A_MULACC_B || c == Opcode::A_MUL_Bt || c == Opcode::A_MULACC_Bt;
}
bool is_pair(Opcode c);        // PAIRSUM, PAIRMAX, PAIRMIN, PAIRPROD
bool is_row_single(Opcode c);  // ROWSUM_SINGLE, ROWMAX_SINGLE, ...

}  // namespace npu::lowering
