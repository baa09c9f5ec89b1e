#include "npu_core/program/listing.h"

#include "npu_core/base/fault.h"

namespace npu {

namespace {

constexpr int DEEPEST_TEXT = 12;  // longer expressions are cut: the text is for reading

std::string bounded_text(const Program& p, Id e, int depth) {
    if (e == NONE) return "";
    const Expr& x = p.exprs[e];
    if (x.op == ExprOp::CONST) return std::to_string(x.value);
    if (x.op == ExprOp::INDEX) return "i" + std::to_string(x.value);
    if (x.op == ExprOp::LOAD) return "l" + std::to_string(x.value);
    if (depth == 0) return "...";
    const std::string a = bounded_text(p, x.a, depth - 1), b = bounded_text(p, x.b, depth - 1);
    switch (x.op) {
        case ExprOp::ADD: return "(" + a + " + " + b + ")";
        case ExprOp::MUL: return a + " * " + b;
        case ExprOp::FLOORDIV: return "(" + a + " // " + b + ")";
        case ExprOp::MOD: return "(" + a + " % " + b + ")";
        case ExprOp::MIN: return "min(" + a + ", " + b + ")";
        case ExprOp::MAX: return "max(" + a + ", " + b + ")";
        case ExprOp::GE0: return "(" + a + " >= 0)";
        default: return "(" + a + " == 0)";
    }
}

using npu::expr_text;

std::string list_text(const Program& p, Span s, std::string (*text)(const Program&, Id)) {
    std::string out;
    for (int i = 0; i < s.count; ++i) out += (i ? ", " : "") + text(p, p.ids[s.begin + i]);
    return out;
}

std::string short_name(const Program& p, Id t) {
    const TensorInfo& info = p.tensors[t];
    return info.name.empty() ? "%" + std::to_string(t) : info.name;
}

void body_text(const Program& p, Id body, int depth, std::string& out) {
    for (const Item& it : p.bodies[body].items) {
        out.append(static_cast<size_t>(depth) * 2, ' ');
        switch (it.kind) {
            case ItemKind::OP: out += op_text(p, p.ops[it.a]); break;
            case ItemKind::DECL: out += "declare " + tensor_text(p, it.a); break;
            case ItemKind::SET: out += short_name(p, it.a) + "[:] = " + short_name(p, it.b); break;
            case ItemKind::ASSEMBLE:
                out += "assemble " + short_name(p, it.b) + " into " + short_name(p, it.a) + " at [" + list_text(p,
                    it.span, expr_text) + "]";
                break;
            case ItemKind::LOAD:
                out += "l" + std::to_string(it.a) + " = " + short_name(p, it.b) + "[" + list_text(p, it.span,
                    expr_text) + "]";
                break;
            case ItemKind::STORE:
                out += short_name(p, it.a) + "[" + list_text(p, it.span, expr_text) + "] = " + expr_text(p, it.b);
                break;
            case ItemKind::BLOCK: out += "block"; break;
            case ItemKind::IF: out += "if " + expr_text(p, it.a) + ":"; break;
            case ItemKind::LOOP: out += "for i" + std::to_string(it.a) + " in loop(" + list_text(p, it.span,
                expr_text) + "):"; break;
            case ItemKind::TRAP: out += "raise recorded exception " + std::to_string(it.a); break;
        }
        if (it.line != NONE) out += "    # " + p.lines[it.line];
        out += "\n";
        if (it.kind == ItemKind::LOOP) body_text(p, it.b, depth + 1, out);
        if (it.kind == ItemKind::IF) {
            body_text(p, it.b, depth + 1, out);
            out.append(static_cast<size_t>(depth) * 2, ' ');
            out += "else:\n";
            body_text(p, it.c, depth + 1, out);
        }
    }
}

}  // namespace

std::string expr_text(const Program& p, Id e) { return bounded_text(p, e, DEEPEST_TEXT); }

std::string tensor_text(const Program& p, Id t) {
    return short_name(p, t) + ": " + dtype_name(p.tensors[t].dtype) + to_text(p.tensors[t].shape);
}

std::string op_text(const Program& p, const Op& op) {
    std::string out = list_text(p, op.outs, tensor_text) + " = " + op_rows()[op.row].name + "(" + list_text(p,
        op.ins, short_name);
    const auto add = [&](const std::string& text) { out += (out.back() == '(' ? "" : ", ") + text; };
    for (int i = 0; i < op.ints.count; ++i) add(std::to_string(p.ints[op.ints.begin + i]));
    for (int i = 0; i < op.floats.count; ++i) add(std::to_string(p.floats[op.floats.begin + i]));
    for (int i = 0; i < op.scalars.count; ++i) add(expr_text(p, p.ids[op.scalars.begin + i]));
    out += ")";
    if (op.wide_out) out += "  [fp32 twin]";
    return out;
}

const char* item_kind_text(ItemKind kind) {
    constexpr const char* names[] = {"op", "decl", "set", "assemble", "load", "store", "block", "if", "loop", "trap"};
    return names[static_cast<int>(kind)];
}

std::string program_text(const Program& p) {
    std::string out;
    if (!p.bodies.empty()) body_text(p, 0, 0, out);
    return out;
}

}  // namespace npu
