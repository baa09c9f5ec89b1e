#include "npu_core/lowering/tile_opcodes.h"

#include <initializer_list>
#include <string>
#include <unordered_map>

namespace npu::lowering {
namespace {

struct Heads { int32_t v[5]; };

OpFacts row(std::string_view name, Price price, float k, float c, int p, int p32, int pi, int extra, Heads heads,
            Pipe pipe, SchedulePipe schedule, CoreType core, OpClass klass, std::initializer_list<Mem> in,
            std::initializer_list<Mem> out) {
    OpFacts f{};
    f.name = name;
    f.price = price;
    f.k = k;
    f.c = c;
    f.p = uint8_t(p);
    f.p_fp32 = uint8_t(p32);
    f.p_int32 = uint8_t(pi);
    f.extra_cycles = extra;
    for (int i = 0; i < 5; ++i) f.head_latency[i] = heads.v[i];
    f.pipe = pipe;
    f.schedule_pipe = schedule;
    f.core = core;
    f.klass = klass;
    for (Mem m : in) f.in.mem[f.in.count++] = m;
    for (Mem m : out) f.out.mem[f.out.count++] = m;
    return f;
}

struct Table {
    OpFacts rows[size_t(Opcode::COUNT)];
    std::unordered_map<std::string_view, Opcode> by_name;
    Table() {
#define UNWRAP(...) __VA_ARGS__
#define OP(id, name, price, k, c, p, p32, pi, extra, heads, pipe, schedule, core, klass, in, out)               \
    rows[size_t(Opcode::id)] =                                                                                  \
        row(name, Price::price, float(k), float(c), p, p32, pi, extra, Heads{UNWRAP heads}, Pipe::pipe,                 \
            SchedulePipe::schedule, CoreType::core, OpClass::klass, UNWRAP in, UNWRAP out);
#include "npu_core/lowering/op_table.inc"
#undef OP
#undef UNWRAP
        for (size_t i = 0; i < size_t(Opcode::COUNT); ++i) by_name.emplace(rows[i].name, Opcode(i));
    }
};

const Table& table() {
    static const Table t;
    return t;
}

constexpr std::string_view MEM_NAMES[] = {"", "GM", "UB", "L1", "L0A", "L0B", "L0C", "BT", "FIX", "OTHER"};
constexpr std::string_view PIPE_NAMES[] = {"ALLOC_UB", "ALLOC_L1", "ALLOC_L0A", "ALLOC_L0B", "ALLOC_L0C", "MTE_IN",
                                           "MTE1", "VECTOR_ALU", "CUBE", "MTE_OUT", "PIPE_S", "NONE"};
constexpr std::string_view CORE_NAMES[] = {"AIV", "AIC", "ANY", "HUB", "GMATOMIC", "NONE"};

}  // namespace

std::string_view mem_name(Mem mem) { return MEM_NAMES[int(mem)]; }
Mem mem_from_name(std::string_view name) {
    for (int i = 0; i < MEM_COUNT; ++i)
        if (MEM_NAMES[i] == name) return Mem(i);
    return Mem::OTHER;
}
std::string_view pipe_name(Pipe pipe) { return PIPE_NAMES[int(pipe)]; }
std::string_view core_name(CoreType core) { return CORE_NAMES[int(core)]; }

const OpFacts& facts(Opcode code) { return table().rows[size_t(code)]; }

Opcode opcode_from_name(std::string_view name) {
    auto it = table().by_name.find(name);
    return it == table().by_name.end() ? Opcode::COUNT : it->second;
}

bool is_pair(Opcode c) {
    return c == Opcode::PAIRSUM || c == Opcode::PAIRMAX || c == Opcode::PAIRMIN || c == Opcode::PAIRPROD;
}
bool is_row_single(Opcode c) {
    return c == Opcode::ROWSUM_SINGLE || c == Opcode::ROWMAX_SINGLE || c == Opcode::ROWMIN_SINGLE ||
           c == Opcode::ROWPROD_SINGLE;
}

}  // namespace npu::lowering
