// Which operations of the 0.2.0 tensor graph each operation of a Program becomes.
// Source: hicann/pypto@r0.2.0 interface/operation; forms marked [M] in the lowering specification were observed.
#include <algorithm>

#include "npu_core/lowering/op_forms.h"
#include "npu_core/program/opcodes.h"

namespace npu::lowering {
namespace {

using Source = npu::Opcode;

struct Form {
    TensorGraphBuilder& b;
    const npu::Op& op;
    Source code;

    const Program& p() const { return b.program(); }
    Id in_id(int i) const { return p().id_at(op.ins)[i]; }
    Id out_id(int i = 0) const { return p().id_at(op.outs)[i]; }
    int32_t in(int i) { return b.use(in_id(i)); }
    int32_t out(int i = 0) { return b.result(out_id(i)); }
    int64_t integer(int i) const { return p().ints[op.ints.begin + i]; }
    double number(int i) const { return i < op.floats.count ? p().floats[op.floats.begin + i] : 0; }
    const Shape& shape(int32_t t) { return b.graph().tensors[t].shape; }
    DType dtype(int32_t t) { return b.graph().tensors[t].dtype; }
    int32_t like(int32_t t) { return b.fresh(shape(t), dtype(t)); }
    int32_t like(int32_t t, DType type) { return b.fresh(shape(t), type); }

    int32_t scalar(Opcode c, int32_t x, double value) {
        const int32_t y = like(x);
        scalar_to(c, x, value, y);
        return y;
    }
    void scalar_to(Opcode c, int32_t x, double value, int32_t y) {
        Attributes a;
        a.has_scalar = true;
        a.scalar = value;
        b.emit(c, {x}, {y}, a);
    }
    int32_t binary(Opcode c, int32_t x, int32_t y) {
        const int32_t z = like(x);
        b.emit(c, {x, y}, {z});
        return z;
    }
    int32_t cast(int32_t x, DType to) {
        const int32_t y = like(x, to);
        b.emit(Opcode::CAST, {x}, {y});
        return y;
    }
    // Leading ones so that ranks agree.
    int32_t ranked(int32_t t, int rank) {
        const Shape from = shape(t);
        if (from.rank >= rank) return t;
        Shape to;
        to.rank = rank;
        for (int d = 0; d < rank; ++d) to[d] = d < rank - from.rank ? 1 : from[d - (rank - from.rank)];
        const int32_t y = b.fresh(to, dtype(t));
        b.emit(Opcode::RESHAPE, {t}, {y});
        return y;
    }
};

Opcode unary_of(Source c) {
    switch (c) {
        case Source::EXP: return Opcode::EXP;
        case Source::SQRT: return Opcode::SQRT;
        case Source::ABS: return Opcode::ABS;
        case Source::RECIPROCAL: return Opcode::RECIPROCAL;
        case Source::RELU: return Opcode::RELU;
        case Source::EXP2: return Opcode::EXP2;
        case Source::EXPM1: return Opcode::EXPM1;
        case Source::SIGN: return Opcode::SIGN;
        case Source::BITWISE_NOT: return Opcode::BITWISENOT;
        case Source::LOGICAL_NOT: return Opcode::LOGICALNOT;
        case Source::TRIL: case Source::TRIU: return Opcode::TRIUL;
        case Source::CLONE: return Opcode::REGISTER_COPY;
        case Source::FILLPAD: return Opcode::FILLPAD;
        default: return Opcode::COUNT;
    }
}

Opcode binary_of(Source c) {
    switch (c) {
        case Source::ADD: return Opcode::ADD;
        case Source::SUB: return Opcode::SUB;
        case Source::MUL: return Opcode::MUL;
        case Source::DIV: return Opcode::DIV;
        case Source::MAXIMUM: return Opcode::MAXIMUM;
        case Source::MINIMUM: return Opcode::MINIMUM;
        case Source::FMOD: return Opcode::MOD;
        case Source::REMAINDER: return Opcode::REM;
        case Source::POW: return Opcode::POW;
        case Source::HYPOT: return Opcode::HYPOT;
        case Source::COPYSIGN: return Opcode::COPYSIGN;
        case Source::GCD: return Opcode::GCD;
        case Source::BITWISE_AND: return Opcode::BITWISEAND;
        case Source::BITWISE_OR: return Opcode::BITWISEOR;
        case Source::BITWISE_XOR: return Opcode::BITWISEXOR;
        case Source::SHIFT_LEFT: return Opcode::BITWISELEFTSHIFT;
        case Source::SHIFT_RIGHT: return Opcode::BITWISERIGHTSHIFT;
        case Source::LOGICAL_AND: return Opcode::LOGICALAND;
        case Source::EQ: case Source::NE: case Source::LT: case Source::LE: case Source::GT: case Source::GE:
            return Opcode::CMP;
        default: return Opcode::COUNT;
    }
}

Opcode scalar_of(Source c) {
    switch (c) {
        case Source::ADDS: return Opcode::ADDS;
        case Source::SUBS: return Opcode::SUBS;
        case Source::MULS: return Opcode::MULS;
        case Source::DIVS: return Opcode::DIVS;
        case Source::MAXS: return Opcode::MAXS;
        case Source::MINS: return Opcode::MINS;
        case Source::FMODS: return Opcode::MODS;
        case Source::REMAINDERS: return Opcode::REMS;
        case Source::RREMAINDERS: return Opcode::REMRS;
        case Source::GCDS: return Opcode::GCDS;
        case Source::BITWISE_ANDS: return Opcode::BITWISEANDS;
        case Source::BITWISE_ORS: return Opcode::BITWISEORS;
        case Source::BITWISE_XORS: return Opcode::BITWISEXORS;
        case Source::SHIFT_LEFTS: return Opcode::BITWISELEFTSHIFTS;
        case Source::SHIFT_RIGHTS: return Opcode::BITWISERIGHTSHIFTS;
        case Source::RSHIFT_LEFTS: return Opcode::SBITWISELEFTSHIFT;
        case Source::RSHIFT_RIGHTS: return Opcode::SBITWISERIGHTSHIFT;
        case Source::EQS: case Source::NES: case Source::LTS: case Source::LES: case Source::GTS: case Source::GES:
            return Opcode::CMPS;
        default: return Opcode::COUNT;
    }
}

// A rounding or logarithm works in fp32.
void through_fp32(Form& f, auto&& body) {
    const int32_t x = f.in(0);
    const DType type = f.dtype(x);
    if (type == DType::F32) {
        body(x, f.out());
        return;
    }
    const int32_t wide = f.cast(x, DType::F32), y = f.like(wide);
    body(wide, y);
    f.b.emit(Opcode::CAST, {y}, {f.out()});
}

bool logarithm(Form& f) {
    switch (f.code) {
        case Source::LOG:
            through_fp32(f, [&](int32_t x, int32_t y) { f.b.emit(Opcode::LN, {x}, {y}); });
            return true;
        case Source::LOG2: case Source::LOG10:
            through_fp32(f, [&](int32_t x, int32_t y) {
                const int32_t ln = f.like(x);
                f.b.emit(Opcode::LN, {x}, {ln});
                f.scalar_to(Opcode::DIVS, ln, f.code == Source::LOG2 ? 0.6931471805599453 : 2.302585092994046, y);
            });
            return true;
        case Source::LOG1P:   // [M]: ADDS, ADDS, DIV, LN, MUL, CMPS, CMPS, WHERE_TT, WHERE_ST
            through_fp32(f, [&](int32_t x, int32_t y) {
                const int32_t u = f.scalar(Opcode::ADDS, x, 1.0), d = f.scalar(Opcode::ADDS, u, -1.0);
                const int32_t q = f.binary(Opcode::DIV, x, d), ln = f.like(x);
                f.b.emit(Opcode::LN, {u}, {ln});
                const int32_t r = f.binary(Opcode::MUL, ln, q);
                const int32_t same = f.like(x, DType::BOOL), large = f.like(x, DType::BOOL), picked = f.like(x);
                f.scalar_to(Opcode::CMPS, d, 0.0, same);
                f.scalar_to(Opcode::CMPS, u, 3.0e38, large);
                f.b.emit(Opcode::WHERE_TT, {same, x, r}, {picked});
                f.b.emit(Opcode::WHERE_ST, {large, picked}, {y});
            });
            return true;
        case Source::FLOOR: case Source::CEIL: case Source::TRUNC: case Source::ROUND:
            through_fp32(f, [&](int32_t x, int32_t y) {
                f.b.emit(f.code == Source::FLOOR ? Opcode::FLOOR : f.code == Source::CEIL ? Opcode::CEIL :
                         f.code == Source::TRUNC ? Opcode::TRUNC : Opcode::ROUND, {x}, {y});
            });
            return true;
        default:
            return false;
    }
}

// sin of 0.2.0: range reduction and a polynomial. The mix of operations was counted on the package [M] (3 ADD, 10 ADDS,
// 5 CAST, 11 MUL, 29 MULS, 27 SUB); their order inside the chain is ours and does not change the length of the chain.
void sine(Form& f) {
    through_fp32(f, [&](int32_t x, int32_t y) {
        int32_t v = x;
        for (int i = 0; i < 4; ++i) v = f.cast(v, i % 2 ? DType::F32 : DType::I32);
        v = f.cast(v, DType::F32);
        for (int i = 0; i < 29; ++i) v = f.scalar(Opcode::MULS, v, 1.0 + i);
        for (int i = 0; i < 27; ++i) v = f.binary(Opcode::SUB, v, x);
        for (int i = 0; i < 11; ++i) v = f.binary(Opcode::MUL, v, x);
        for (int i = 0; i < 10; ++i) v = f.scalar(Opcode::ADDS, v, 1.0 + i);
        for (int i = 0; i < 2; ++i) v = f.binary(Opcode::ADD, v, x);
        f.b.emit(Opcode::ADD, {v, x}, {y});
    });
}

void power(Form& f) {
    const double e = f.number(0);
    const int32_t x = f.in(0);
    if (e == 2) f.b.emit(Opcode::MUL, {x, x}, {f.out()});
    else if (e == 3) {
        const int32_t square = f.binary(Opcode::MUL, x, x);
        f.b.emit(Opcode::MUL, {square, x}, {f.out()});
    } else if (e == 0.5) f.b.emit(Opcode::SQRT, {x}, {f.out()});
    else {
        const int32_t exponent = f.like(x);
        f.b.emit(Opcode::VEC_DUP, {}, {exponent});
        f.b.emit(Opcode::POW, {x, exponent}, {f.out()});
    }
}

void where(Form& f) {
    const bool a_scalar = f.integer(0), b_scalar = f.integer(1);
    const int rank = f.p().tensors[f.out_id()].shape.rank;
    Ids in;
    for (int i = 0; i < f.op.ins.count; ++i) in.push_back(f.ranked(f.in(i), rank));
    const Opcode c = a_scalar ? (b_scalar ? Opcode::WHERE_SS : Opcode::WHERE_ST) : (b_scalar ? Opcode::WHERE_TS : Opcode::WHERE_TT);
    f.b.emit(c, in, {f.out()});
}

}  // namespace

void emit_program_op(TensorGraphBuilder& b, const npu::Op& op) {
    const npu::OpRow& row = npu::op_rows()[op.row];
    const uint8_t found = find_opcode(row.kernel);
    if (found == NO_OPCODE) fail("not_lowered", "operation " + row.name + " has no lowering");
    Form f{b, op, Source(found)};
    if (emit_movement(b, op, f.code) || emit_reduction(b, op, f.code)) return;
    if (f.code == Source::MATMUL) return emit_matmul(b, op);
    if (logarithm(f)) return;
    if (const Opcode c = unary_of(f.code); c != Opcode::COUNT) {
        b.emit(c, {f.in(0)}, {f.out()});
        return;
    }
    if (const Opcode c = binary_of(f.code); c != Opcode::COUNT) {
        const int rank = f.p().tensors[f.out_id()].shape.rank;
        const int32_t x = f.ranked(f.in(0), rank), y = f.ranked(f.in(1), rank);
        b.emit(c, {x, y}, {f.out()});
        return;
    }
    if (const Opcode c = scalar_of(f.code); c != Opcode::COUNT) {
        const int32_t x = f.in(0);
        f.scalar_to(c, x, f.number(0), f.out());
        return;
    }
    switch (f.code) {
        case Source::NEG: { const int32_t x = f.in(0); return f.scalar_to(Opcode::MULS, x, -1.0, f.out()); }
        case Source::RSUBS: { const int32_t d = f.scalar(Opcode::SUBS, f.in(0), f.number(0)); return f.scalar_to(Opcode::MULS, d, -1.0, f.out()); }
        case Source::RDIVS: {
            const int32_t r = f.like(f.in(0));
            b.emit(Opcode::RECIPROCAL, {f.in(0)}, {r});
            return f.scalar_to(Opcode::MULS, r, f.number(0), f.out());
        }
        case Source::POWS: return power(f);
        case Source::SIN: return sine(f);
        case Source::WHERE: return where(f);
        case Source::CAST: { const int32_t x = f.in(0); b.emit(Opcode::CAST, {x}, {f.out()}); return; }
        case Source::FULL: {
            Attributes a;
            a.has_scalar = true;
            a.scalar = f.number(0);
            b.emit(Opcode::VEC_DUP, {}, {f.out()}, a);
            return;
        }
        case Source::ARANGE: b.emit(Opcode::RANGE, {}, {f.out()}); return;
        default: break;
    }
    // Operations the 0.2.0 release does not have: one tile operation of the default price.
    b.unmodelled(row.name);
    Ids in;
    const int rank = f.p().tensors[f.out_id()].shape.rank;
    for (int i = 0; i < std::min(op.ins.count, 2); ++i) in.push_back(f.ranked(f.in(i), rank));
    b.emit(in.size() > 1 ? Opcode::MINIMUM : Opcode::ABS, in, {f.out()});
}

}  // namespace npu::lowering
