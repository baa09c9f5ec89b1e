#include "npu_core/plan/block.h"

#include <algorithm>
#include <functional>

#include "npu_core/program/opcodes.h"

namespace npu::plan {

namespace {

struct Simple { Code code; int scratch = 0; bool fp32_only = false; };

const std::unordered_map<std::string, Simple>& elementwise() {
    static const std::unordered_map<std::string, Simple> table = {
        {"exp", {Code::EXP}}, {"log", {Code::LN, 0, true}}, {"sqrt", {Code::SQRT}}, {"abs", {Code::ABS}},
        {"neg", {Code::MULS}}, {"tanh", {Code::TANH, 0, true}}, {"erf", {Code::ERF, 0, true}},
        {"reciprocal", {Code::RECIPROCAL}}, {"relu", {Code::RELU}}, {"floor", {Code::FLOOR, 0, true}},
        {"ceil", {Code::CEIL, 0, true}}, {"trunc", {Code::TRUNC, 0, true}}, {"round", {Code::ROUND, 32}},
        {"add", {Code::ADD}}, {"sub", {Code::SUB}}, {"mul", {Code::MUL}}, {"div", {Code::DIV}},
        {"maximum", {Code::MAXIMUM}}, {"minimum", {Code::MINIMUM}},
        {"adds", {Code::ADDS}}, {"subs", {Code::SUBS}}, {"muls", {Code::MULS}}, {"divs", {Code::DIVS}},
        {"maxs", {Code::MAXS}}, {"mins", {Code::MINS}},
        {"eq", {Code::CMP, 512}}, {"ne", {Code::CMP, 512}}, {"lt", {Code::CMP, 512}}, {"le", {Code::CMP, 512}},
        {"gt", {Code::CMP, 512}}, {"ge", {Code::CMP, 512}},
        {"eqs", {Code::CMPS, 512}}, {"nes", {Code::CMPS, 512}}, {"lts", {Code::CMPS, 512}},
        {"les", {Code::CMPS, 512}}, {"gts", {Code::CMPS, 512}}, {"ges", {Code::CMPS, 512}},
        {"logical_and", {Code::LOGICALAND, 20768}}, {"logical_or", {Code::LOGICALOR, 20768}},
        {"logical_not", {Code::LOGICALNOT, 20768}},
        {"cast", {Code::CAST}}, {"clone", {Code::REGISTER_COPY}}, {"fillpad", {Code::FILLPAD}},
        {"tril", {Code::TRIUL}}, {"triu", {Code::TRIUL}}, {"expm1", {Code::EXPM1, 32}}, {"cumsum", {Code::CUM_SUM}},
        {"pow", {Code::POW, -1}}, {"sign", {Code::SIGN, 32}},
        // functions that the chip computes by a sequence of instructions (cost/function_opcodes.h)
        {"pows", {Code::POW, -1}}, {"exp2", {Code::EXP2, 0, true}}, {"sin", {Code::SIN, 0, true}},
        {"cos", {Code::COS, 0, true}}, {"tan", {Code::TAN, 0, true}}, {"asin", {Code::ASIN, 0, true}},
        {"acos", {Code::ACOS, 0, true}}, {"atan", {Code::ATAN, 0, true}}, {"atan2", {Code::ATAN2, 0, true}},
        {"sinh", {Code::SINH, 0, true}}, {"cosh", {Code::COSH, 0, true}}, {"asinh", {Code::ASINH, 0, true}},
        {"acosh", {Code::ACOSH, 0, true}}, {"atanh", {Code::ATANH, 0, true}}, {"erfc", {Code::ERFC, 0, true}},
        {"cbrt", {Code::CBRT, 0, true}}, {"hypot", {Code::HYPOT, 0, true}}, {"copysign", {Code::COPYSIGN}},
        {"fmod", {Code::FMOD, 0, true}}, {"fmods", {Code::FMOD, 0, true}},
        {"remainder", {Code::REMAINDER, 0, true}}, {"remainders", {Code::REMAINDER, 0, true}},
        {"rremainders", {Code::REMAINDER, 0, true}},
        {"floor_div", {Code::FLOORDIV, 0, true}}, {"floor_divs", {Code::FLOORDIV, 0, true}},
        {"ceil_div", {Code::CEILDIV}}, {"ceil_divs", {Code::CEILDIV}}, {"gcd", {Code::GCD}}, {"gcds", {Code::GCD}},
        {"bitwise_not", {Code::BITNOT}}, {"bitwise_and", {Code::BITAND}}, {"bitwise_ands", {Code::BITAND}},
        {"bitwise_or", {Code::BITOR}}, {"bitwise_ors", {Code::BITOR}}, {"bitwise_xor", {Code::BITXOR}},
        {"bitwise_xors", {Code::BITXOR}}, {"shift_lefts", {Code::SHIFT}}, {"shift_rights", {Code::SHIFT}},
        {"shift_left", {Code::SHIFT_TENSOR}}, {"shift_right", {Code::SHIFT_TENSOR}},
        {"rshift_lefts", {Code::SHIFT_TENSOR}}, {"rshift_rights", {Code::SHIFT_TENSOR}},
        {"cumprod", {Code::CUM_PROD}},
    };
    return table;
}

class Builder {
public:
    Builder(const Program& program, const Valids& valids, const std::unordered_set<Id>& crossing, Numerics numerics, const Chip& chip)
        : p_(program), valids_(valids), crossing_(crossing), numerics_(numerics), chip_(chip) {}

    Block run(const std::vector<Visit>& visits) {
        for (const Visit& v : visits) {
            item_ = v.item;
            visit_ = &v;
            switch (v.item->kind) {
                case ItemKind::OP: operation(v); break;
                case ItemKind::SET: set(v.item->a, read(v.item->b)); break;
                case ItemKind::ASSEMBLE: assemble(v); break;
                case ItemKind::DECL: current_.erase(v.item->a); open_.erase(v.item->a); declared_.insert(v.item->a); break;
                default: break;   // element loads and stores move a few bytes by the scalar unit
            }
        }
        for (Id t : dirty_order_)
            if (auto it = current_.find(t); it != current_.end()) {
                Id slot = external_out(t);
                emit({.family = Family::ASSEMBLE, .code = Code::ASSEMBLE, .in = {it->second}, .out = {slot},
                      .at = zeros(b_.tensors[slot].shape.rank)});
            }
        return std::move(b_);
    }

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

    Id external(Id t, bool out) {
        auto& known = out ? external_out_ : external_in_;
        if (auto it = known.find(t); it != known.end()) return it->second;
        Id e = NONE;
        for (size_t i = 0; i < b_.externals.size(); ++i)
            if (b_.externals[i].tensor == t) e = static_cast<Id>(i);
        if (e == NONE) {
            e = static_cast<Id>(b_.externals.size());
            b_.externals.push_back({t, p_.tensors[t].global()});
        }
        Id id = tensor(p_.tensors[t].shape, p_.tensors[t].dtype);
        b_.tensors[id].external = e;
        (out ? b_.tensors[id].fn_out : b_.tensors[id].fn_in) = true;
        return known[t] = id;
    }
    Id external_out(Id t) { return external(t, true); }

    void emit(BlockOp op) {
        if (op.line == NONE && item_) op.line = item_->line;
        if (op_) {
            op.label = op_->label;
            op.options = op_->options;
            op.row = op_->row;
            if (op.tile.rank == 0 && op_->tile != NONE) op.tile = vec_tile(op_->tile);
        }
        b_.ops.push_back(std::move(op));
    }
    Shape vec_tile(Id tile) const {
        Shape s;
        for (int64_t v : p_.tiles[tile].vec)
            if (s.rank < MAX_RANK) s[s.rank++] = v;
        return s;
    }

    // Block tensor an operation reads for a Program tensor: the version of this block, else a view of GM.
    Id read(Id t) {
        open_.erase(t);
        if (auto it = current_.find(t); it != current_.end()) return it->second;
        if (auto it = view_of_in_.find(t); it != view_of_in_.end()) return it->second;
        Id from = external(t, false);
        const Shape* left = valids_.slot(t);
        Id view = tensor(shape(from), dtype(from), left ? *left : shape(from));
        emit({.family = Family::VIEW, .code = Code::VIEW, .in = {from}, .out = {view}, .at = zeros(shape(from).rank)});
        return view_of_in_[t] = view;
    }

    void set(Id t, Id value) {
        current_[t] = value;
        open_.erase(t);
        declared_.erase(t);
        if (crossing_.count(t) && std::find(dirty_order_.begin(), dirty_order_.end(), t) == dirty_order_.end())
            dirty_order_.push_back(t);
    }

    void assemble(const Visit& v) {
        op_ = nullptr;
        Id dst = item_->a, src = read(item_->b);
        Id target;
        if (p_.tensors[dst].global() || (!current_.count(dst) && !declared_.count(dst) && crossing_.count(dst))) {
            target = external_out(dst);
        } else if (auto it = open_.find(dst); it != open_.end()) {
            target = it->second;
        } else {
            target = tensor(p_.tensors[dst].shape, p_.tensors[dst].dtype);
            if (auto old = current_.find(dst); old != current_.end())
                emit({.family = Family::ASSEMBLE, .code = Code::ASSEMBLE, .in = {old->second}, .out = {target},
                      .at = zeros(shape(target).rank)});
            set(dst, target);
            open_[dst] = target;
        }
        if (dtype(src) != dtype(target)) src = cast_to(src, dtype(target));
        emit({.family = Family::ASSEMBLE, .code = Code::ASSEMBLE, .in = {src}, .out = {target}, .at = v.at, .dyn = v.dyn});
    }

    Id cast_to(Id x, DType to) {
        Id y = like(x, to);
        emit({.family = Family::ELEMENTWISE, .code = Code::CAST, .in = {x}, .out = {y}, .op_name = "cast"});
        return y;
    }

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
    Result result(size_t i) {
        Id t = p_.id_at(op_->outs)[i];
        const TensorInfo& info = p_.tensors[t];
        const bool widened = promotes(info.dtype);
        const Shape& valid = visit_->valid == NONE ? info.shape : valids_.shapes[visit_->valid + i];
        return {t, tensor(info.shape, widened ? DType::F32 : info.dtype, valid), widened};
    }
    void finish(const Result& r) {
        Id value = r.exact;
        if (r.widened) {
            value = cast_to(r.exact, p_.tensors[r.program].dtype);
            wide_[value] = r.exact;
        }
        define(r.program, value);
    }
    void define(Id t, Id value) {
        if (p_.tensors[t].kind == TensorKind::ARG) {
            Id out = external_out(t);
            emit({.family = Family::ASSEMBLE, .code = Code::ASSEMBLE, .in = {value}, .out = {out},
                  .at = zeros(shape(out).rank)});
            return;
        }
        set(t, value);
    }

    // x in the shape of `result`; what an axis grows to is as valid as the result.
    Id broadcast(Id x, Id result) {
        const Shape want = shape(result), want_valid = valid(result);
        Shape s = shape(x), part = valid(x);
        if (s.rank < want.rank) {
            auto leading = [&](const Shape& from) {
                Shape padded = want;
                for (int i = 0; i < want.rank; ++i) padded[i] = i < want.rank - from.rank ? 1 : from[i - (want.rank - from.rank)];
                return padded;
            };
            part = leading(part);
            s = leading(s);
            Id y = tensor(s, dtype(x), part);
            emit({.family = Family::RESHAPE, .code = Code::RESHAPE, .in = {x}, .out = {y}});
            x = y;
        }
        for (int axis = want.rank - 1; axis >= 0; --axis) {
            if (s[axis] == want[axis]) continue;
            s[axis] = want[axis];
            part[axis] = part[axis] ? want_valid[axis] : 0;
            Id y = tensor(s, dtype(x), part);
            emit({.family = Family::EXPAND, .code = Code::EXPAND, .in = {x}, .out = {y}, .axis = axis, .op_name = name()});
            x = y;
        }
        return x;
    }

    void operation(const Visit& v) {
        op_ = &p_.ops[item_->a];
        const OpRow& row = op_rows()[op_->row];
        const std::string& k = row.kernel;
        std::vector<Id> in;
        in.resize(op_->ins.count);
        for (int i = op_->ins.count - 1; i >= 0; --i) in[i] = read(p_.id_at(op_->ins)[i]);
        const int64_t* ints = p_.ints.data() + op_->ints.begin;

        if (k == "view") return simple_move(Family::VIEW, Code::VIEW, in[0], v);
        if (k == "reshape" || k == "unsqueeze" || k == "squeeze") return simple_move(Family::RESHAPE, Code::RESHAPE, in[0], v);
        if (k == "matmul") return matmul(in, ints);
        if (k == "argmax" || k == "argmin") return reduce(k, in[0], static_cast<int>(ints[0]));
        if (k == "log2" || k == "log10") return chain(in[0], {Code::LN, Code::DIVS});
        if (k == "log1p") return log1p(in[0]);
        if (k == "sum" || k == "amax" || k == "amin" || k == "prod") return reduce(k, in[0], static_cast<int>(ints[0]));
        if (k == "where") return where(in, ints);
        if (k == "rsubs") return chain(in[0], {Code::SUBS, Code::MULS});
        if (k == "rdivs") return chain(in[0], {Code::RECIPROCAL, Code::MULS});
        if (k == "full" || k == "arange") return fill(k == "full" ? Code::VEC_DUP : Code::RANGE);
        if (k == "concat") return concat(in, static_cast<int>(ints[0]));
        if (k == "expand") {
            Result r = result(0);
            Id y = broadcast(in[0], r.exact);
            return define(r.program, y);
        }
        if (k == "transpose") return transpose(in[0], ints);
        if (k == "topk") return topk(in[0], ints[0]);
        if (k == "index_select") {
            Result r = result(0);
            emit({.family = Family::GATHER, .code = Code::GATHER, .in = in, .out = {r.exact}, .axis = static_cast<int>(ints[0]),
                  .op_name = row.name});
            return define(r.program, r.exact);
        }
        if (k == "gather") {
            Result r = result(0);
            emit({.family = Family::GATHER_AXIS, .code = Code::GATHER_ELEMENT, .in = in, .out = {r.exact},
                  .axis = static_cast<int>(ints[0]), .op_name = row.name});
            return define(r.program, r.exact);
        }
        if (k == "scatter" || k == "scatter_update") {
            Result r = result(0);
            emit({.family = Family::SCATTER, .code = k == "scatter" ? Code::SCATTER_ELEMENT : Code::INDEX_OUTCAST, .in = in,
                  .out = {r.exact}, .axis = static_cast<int>(ints[0]), .op_name = row.name});
            return define(r.program, r.exact);
        }
        if (k == "deinterleave" || k == "gathermask") {
            std::vector<Id> outs;
            std::vector<Result> results;
            for (int i = 0; i < op_->outs.count; ++i) {
                results.push_back(result(i));
                outs.push_back(results.back().exact);
            }
            emit({.family = Family::WHOLE_AXIS, .code = k == "gathermask" ? Code::GATHER_MASK : Code::DEINTERLEAVE, .in = in,
                  .out = outs, .op_name = row.name});
            for (const Result& r : results) define(r.program, r.exact);
            return;
        }
        if (info(static_cast<Opcode>(op_->opcode)).family == npu::Family::OTHER) return other(row, in, ints);
        auto it = elementwise().find(k);
        Simple simple = it != elementwise().end() ? it->second : Simple{Code::UNKNOWN_VEC};
        if (it == elementwise().end()) b_.unmodelled.push_back(row.name + " (no cost rule; one vector pass over the tile)");
        map(simple, in);
    }

    // Index updates, block formats, bytes, sorts of runs, random numbers, scaled products, convolution.
    void other(const OpRow& row, std::vector<Id> in, const int64_t* ints) {
        const std::string& k = row.kernel;
        if (k == "scaled_matmul") return scaled_product(in, ints);
        if (k == "conv") return convolution(in, ints);
        if (k == "bitcast") return bitcast(in[0]);
        if (k == "index_add" || k == "index_put") return index_update(std::move(in), k == "index_put");
        static const std::unordered_map<std::string, Code> codes = {
            {"one_hot", Code::ONE_HOT}, {"interleave", Code::INTERLEAVE}, {"pack4", Code::PACK_BITS},
            {"unpack4", Code::PACK_BITS}, {"unpack_bits", Code::PACK_BITS}, {"quant_mx", Code::QUANT_MX},
            {"philox", Code::PHILOX}, {"sort32", Code::SORT32}, {"mrgsort", Code::MERGE_RUNS}};
        auto it = codes.find(k);
        if (it == codes.end()) b_.unmodelled.push_back(row.name + " (no cost rule; one vector pass over the result)");
        std::vector<Id> outs;
        std::vector<Result> results;
        for (int i = 0; i < op_->outs.count; ++i) {
            results.push_back(result(i));
            outs.push_back(results.back().exact);
        }
        for (Id& x : in)
            if (promotes(dtype(x))) x = widen(x);
        emit({.family = Family::SCALED, .code = it == codes.end() ? Code::UNKNOWN_VEC : it->second, .in = in, .out = outs,
              .op_name = row.name});
        for (const Result& r : results) finish(r);
    }

    void bitcast(Id x) {
        Result r = result(0);
        emit({.family = Family::RESHAPE, .code = Code::RESHAPE, .in = {x}, .out = {r.exact}});
        define(r.program, r.exact);
    }

    // Rows of the source written (or added by the write) to their places; operands: destination, indices, source.
    void index_update(std::vector<Id> in, bool source_second) {
        Result r = result(0);
        if (source_second) std::rotate(in.begin() + 1, in.begin() + 2, in.end());
        b_.tensors[r.exact].dtype = dtype(in[0]);
        emit({.family = Family::SCATTER, .code = Code::INDEX_OUTCAST, .in = in, .out = {r.exact}, .op_name = name()});
        define(r.program, r.exact);
    }

    Id reshaped(Id x, const Shape& to, DType type) {
        Id y = tensor(to, type);
        emit({.family = Family::RESHAPE, .code = Code::RESHAPE, .in = {x}, .out = {y}});
        return y;
    }

    // A product of 8-bit operands whose contracted axis is longer by the scales, one byte for 32 elements.
    void scaled_product(const std::vector<Id>& in, const int64_t* ints) {
        std::vector<Id> operands{in[0], in[1]};
        // FP4 that is packed along K in both operands goes by its bytes.
        const bool packed_k = is_packed4(dtype(in[0])) && is_packed4(dtype(in[1])) && !ints[0] && ints[1];
        for (size_t i = 0; i < 2; ++i) {
            auto with_scales = [&](Shape s) {
                if (!packed_k && is_packed4(dtype(in[i]))) s[s.rank - 1] *= 2;
                const int k = ((i == 0) != (ints[i] != 0)) ? s.rank - 1 : s.rank - 2;
                s[k] += ceil_div(s[k] * (packed_k ? 2 : 1), 32);
                return s;
            };
            operands[i] = reshaped(in[i], with_scales(shape(in[i])), packed_k ? dtype(in[i]) : DType::F8E4M3);
            b_.tensors[operands[i]].valid = with_scales(valid(in[i]));
        }
        if (ints[2]) operands.push_back(in[4]);
        matmul(operands, ints);
    }

    // One product per group: rows are the places of the result, the contracted axis channels times taps.
    void convolution(const std::vector<Id>& in, const int64_t* ints) {
        Result r = result(0);
        const Shape out = shape(r.exact), weight = shape(in[1]);
        const int64_t groups = ints[0], columns = out[1] / groups;
        Shape a = zeros(2), b = zeros(2), c = zeros(2), made = zeros(2);
        a[0] = c[0] = made[0] = out.count() / out[1];
        a[1] = b[1] = weight.count() / weight[0];
        b[0] = c[1] = columns;
        made[1] = out[1];
        const Id whole = tensor(made, dtype(r.exact));
        for (int64_t g = 0; g < groups; ++g) {
            const Id product = groups == 1 ? whole : tensor(c, dtype(r.exact));
            BlockOp op{.family = Family::MATMUL, .code = Code::MATMUL_TILE,
                       .in = {reshaped(in[0], a, dtype(in[0])), reshaped(in[1], b, dtype(in[1]))}, .out = {product}};
            if (in.size() > 2) {
                Shape row = zeros(2);
                row[0] = 1;
                row[1] = columns;
                op.in.push_back(reshaped(in[2], row, dtype(in[2])));
                op.has_bias = true;
            }
            op.b_trans = true;
            op.cube = p_.tiles[op_->tile].cube;
            op.op_name = name();
            emit(op);
            if (groups == 1) break;
            Shape at = zeros(2);
            at[1] = g * columns;
            emit({.family = Family::ASSEMBLE, .code = Code::ASSEMBLE, .in = {product}, .out = {whole}, .at = at});
        }
        emit({.family = Family::RESHAPE, .code = Code::RESHAPE, .in = {whole}, .out = {r.exact}});
        define(r.program, r.exact);
    }

    // Tile operations over operands of the result's shape; widening and broadcasting done here.
    void map(const Simple& simple, std::vector<Id> in) {
        Result r = result(0);
        for (Id& x : in)
            if (promotes(dtype(x))) x = widen(x);
        for (Id& x : in) x = broadcast(x, r.exact);
        DType out_type = dtype(r.exact);
        if (simple.fp32_only && dtype(in[0]) != DType::F32 && is_float(dtype(in[0]))) {   // casts around, inside the operation
            for (Id& x : in) x = cast_to(x, DType::F32);
            Id y = like(r.exact, DType::F32);
            emit({.family = Family::ELEMENTWISE, .code = simple.code, .in = in, .out = {y}, .scratch_bytes = simple.scratch,
                  .op_name = name()});
            emit({.family = Family::ELEMENTWISE, .code = Code::CAST, .in = {y}, .out = {r.exact}, .op_name = name()});
        } else {
            (void)out_type;
            emit({.family = Family::ELEMENTWISE, .code = simple.code, .in = in, .out = {r.exact},
                  .scratch_bytes = simple.scratch, .op_name = name()});
        }
        finish(r);
    }

    // log(1 + x) with a correction for small x, as the public package composes it.
    void log1p(Id x) {
        Result r = result(0);
        if (promotes(dtype(x))) x = widen(x);
        auto step = [&](Code c, std::vector<Id> in, int scratch = 0, bool last = false, DType type = DType::F32) {
            Id y = last ? r.exact : like(x, type);
            emit({.family = Family::ELEMENTWISE, .code = c, .in = std::move(in), .out = {y}, .scratch_bytes = scratch, .op_name = name()});
            return y;
        };
        const Id u = step(Code::ADDS, {x}), d = step(Code::ADDS, {u}), q = step(Code::DIV, {x, d});
        const Id y = step(Code::MUL, {step(Code::LN, {u}), q});
        const Id one = step(Code::CMPS, {u}, 512, false, DType::BOOL), inf = step(Code::CMPS, {x}, 512, false, DType::BOOL);
        const Id z = step(Code::WHERE_TT, {one, x, y}, 12448);
        step(Code::WHERE_ST, {inf, z}, 12448, true);
        finish(r);
    }

    void chain(Id x, std::initializer_list<Code> codes) {
        Result r = result(0);
        if (promotes(dtype(x))) x = widen(x);
        size_t left = codes.size();
        for (Code c : codes) {
            Id y = --left == 0 ? r.exact : like(x, dtype(x));
            emit({.family = Family::ELEMENTWISE, .code = c, .in = {x}, .out = {y}, .op_name = name()});
            x = y;
        }
        finish(r);
    }

    void simple_move(Family family, Code code, Id x, const Visit& v) {
        Result r = result(0);
        b_.tensors[r.exact].dtype = dtype(x);
        if (family == Family::RESHAPE && shape(x) == shape(r.exact)) {
            if (valid(x) == valid(r.exact)) return define(r.program, x);
            family = Family::VIEW;                       // other valid extents and nothing else
            code = Code::VIEW;
        }
        emit({.family = family, .code = code, .in = {x}, .out = {r.exact},
              .at = v.at.rank ? v.at : zeros(shape(x).rank), .dyn = v.dyn});
        define(r.program, r.exact);
    }

    void fill(Code code) {
        Result r = result(0);
        emit({.family = Family::FILL, .code = code, .in = {}, .out = {r.exact}, .op_name = name()});
        finish(r);
    }

    void where(std::vector<Id> in, const int64_t* ints) {
        const bool a_scalar = ints[0], b_scalar = ints[1];
        Code code = a_scalar ? (b_scalar ? Code::WHERE_SS : Code::WHERE_ST) : (b_scalar ? Code::WHERE_TS : Code::WHERE_TT);
        map({code, 12448}, std::move(in));
    }

    void reduce(const std::string& k, Id x, int axis) {
        Result r = result(0);
        if (promotes(dtype(x))) x = widen(x);
        const bool last = axis == shape(x).rank - 1;
        struct Codes { Code pair, single, line; };
        Codes c = k.starts_with("arg") ? Codes{Code::PAIRARG, k == "argmax" ? Code::ROWMAX_SINGLE : Code::ROWMIN_SINGLE,
                                               Code::ROWARGLINE}
                  : k == "sum"  ? Codes{Code::PAIRSUM, Code::ROWSUM_SINGLE, Code::ROWSUMLINE}
                  : k == "amax" ? Codes{Code::PAIRMAX, Code::ROWMAX_SINGLE, Code::ROWMAXLINE}
                  : k == "amin" ? Codes{Code::PAIRMIN, Code::ROWMIN_SINGLE, Code::ROWMINLINE}
                                : Codes{Code::PAIRPROD, Code::ROWPROD_SINGLE, Code::ROWPRODLINE};
        Shape kept = shape(x), part = valid(x);
        kept[axis] = 1;
        part[axis] = std::min<int64_t>(part[axis], 1);
        const bool reshaped = !(kept == shape(r.exact));
        Id y = reshaped ? tensor(kept, dtype(x), part) : r.exact;
        b_.tensors[y].dtype = dtype(x);
        emit({.family = Family::REDUCE, .code = last ? c.single : c.line, .in = {x}, .out = {y}, .axis = axis, .pair = c.pair,
              .op_name = name()});
        if (reshaped) {
            b_.tensors[r.exact].dtype = dtype(x);
            emit({.family = Family::RESHAPE, .code = Code::RESHAPE, .in = {y}, .out = {r.exact}});
        }
        finish(r);
    }

    void concat(const std::vector<Id>& in, int axis) {
        Result r = result(0);
        Shape at = zeros(shape(r.exact).rank);
        for (Id x : in) {
            Id copy = like(x, dtype(x));
            emit({.family = Family::ELEMENTWISE, .code = Code::REGISTER_COPY, .in = {x}, .out = {copy}, .op_name = name()});
            emit({.family = Family::ASSEMBLE, .code = Code::ASSEMBLE, .in = {copy}, .out = {r.exact}, .at = at});
            at[axis] += shape(x)[axis];
        }
        define(r.program, r.exact);
    }

    void transpose(Id x, const int64_t* perm) {
        Result r = result(0);
        const int rank = shape(x).rank;
        int first = -1, second = -1;
        for (int i = 0; i < rank; ++i)
            if (perm[i] != i) { if (first < 0) first = i; second = i; }
        if (first < 0) return define(r.program, x);
        const bool last_two = first == rank - 2 && second == rank - 1;
        Family family = last_two || second == rank - 1 ? Family::TRANSPOSE : Family::TRANSPOSE_OUT;
        if (family == Family::TRANSPOSE && !last_two)
            b_.unmodelled.push_back("transpose of axes that are not the last two: moves in and out not separated");
        Code code = family == Family::TRANSPOSE ? Code::TRANSPOSE_VNCHWCONV : Code::TRANSPOSE_MOVEOUT;
        emit({.family = family, .code = code, .in = {x}, .out = {r.exact}, .axis = first, .axis2 = second, .op_name = name()});
        define(r.program, r.exact);
    }

    void topk(Id x, int64_t k) {
        Result values = result(0), indices = result(1);
        if (promotes(dtype(x))) x = widen(x);
        emit({.family = Family::TOPK, .code = Code::BITSORT, .in = {x}, .out = {values.exact, indices.exact}, .extra = k,
              .op_name = name()});
        finish(values);
        finish(indices);
    }

    void matmul(const std::vector<Id>& in, const int64_t* ints) {
        Result r = result(0);
        const std::vector<int64_t>& cube = p_.tiles[op_->tile].cube;
        const int rank = shape(r.exact).rank;
        BlockOp op{.family = Family::MATMUL, .code = Code::MATMUL_TILE, .in = in, .out = {r.exact}};
        op.a_trans = ints[0] != 0;
        op.b_trans = ints[1] != 0;
        op.has_bias = ints[2] != 0 && in.size() > 2;
        op.cube = cube;
        if (is_packed4(dtype(in[0])))
            for (size_t i : {2, 3, 4}) op.cube[i] = ceil_div(op.cube[i], 2);
        op.op_name = name();
        if (rank == 2) {
            if (p_.tiles[op_->tile].split_k) split_k(op);
            else emit(op);
            return define(r.program, r.exact);
        }
        // One 2-D product per batch entry: operands flattened to 2-D and viewed, the result reshaped and assembled.
        const Shape out = shape(r.exact);
        int64_t batch = 1;
        for (int i = 0; i < rank - 2; ++i) batch *= out[i];
        std::vector<Id> flat = in;
        for (size_t i = 0; i < in.size() && i < 2; ++i) {
            const Shape s = shape(in[i]);
            if (s.rank < 3) continue;
            Shape rows = two(s);
            rows[0] = s.count() / std::max<int64_t>(s[s.rank - 1], 1);
            flat[i] = tensor(rows, dtype(in[i]));
            emit({.family = Family::RESHAPE, .code = Code::RESHAPE, .in = {in[i]}, .out = {flat[i]}});
        }
        for (int64_t b = 0; b < batch; ++b) {
            std::vector<Id> parts;
            for (size_t i = 0; i < in.size(); ++i) {
                const Shape s = shape(in[i]);
                if (i >= 2 || s.rank < 3) { parts.push_back(in[i]); continue; }
                int64_t rest = b, entry = 0, scale = 1;
                for (int d = s.rank - 3; d >= 0; --d) {
                    const int64_t extent = out[rank - s.rank + d];
                    entry += (s[d] == 1 ? 0 : rest % extent) * scale;
                    scale *= s[d];
                    rest /= extent;
                }
                Shape at = zeros(2);
                at[0] = entry * s[s.rank - 2];
                Id view = tensor(two(s), dtype(in[i]), two(valid(in[i])));
                emit({.family = Family::VIEW, .code = Code::VIEW, .in = {flat[i]}, .out = {view}, .at = at});
                parts.push_back(view);
            }
            Shape one = out, at = zeros(rank);
            int64_t rest = b;
            for (int d = rank - 3; d >= 0; --d) { at[d] = rest % out[d]; one[d] = 1; rest /= out[d]; }
            const Shape part = within(valid(r.exact), at, one);
            bool inside = true;                          // this entry of the batch is valid
            for (int d = 0; d < rank - 2; ++d) inside = inside && part[d];
            Id c = tensor(two(one), dtype(r.exact), inside ? two(part) : zeros(2)), back = tensor(one, dtype(r.exact), part);
            BlockOp product = op;
            product.in = parts;
            product.out = {c};
            emit(product);
            emit({.family = Family::RESHAPE, .code = Code::RESHAPE, .in = {c}, .out = {back}});
            emit({.family = Family::ASSEMBLE, .code = Code::ASSEMBLE, .in = {back}, .out = {r.exact}, .at = at});
        }
        define(r.program, r.exact);
    }
    static Shape two(const Shape& s) {
        Shape t;
        t.rank = 2;
        t[0] = s[s.rank - 2];
        t[1] = s[s.rank - 1];
        return t;
    }

    // Partial products per L1 chunk of k in GM, then vector additions from left to right.
    void split_k(const BlockOp& op) {
        const Shape a = shape(op.in[0]);
        const int64_t k = op.a_trans ? a[0] : a[1], step = op.cube[3];
        if (k <= step) return emit(op);
        Id sum = NONE;
        for (int64_t at = 0; at < k; at += step) {
            const int64_t len = std::min(step, k - at);
            auto part = [&](Id x, int axis) {
                Shape s = shape(x), offset = zeros(2);
                s[axis] = len;
                offset[axis] = at;
                Id y = tensor(s, dtype(x), within(valid(x), offset, s));
                emit({.family = Family::VIEW, .code = Code::VIEW, .in = {x}, .out = {y}, .at = offset});
                return y;
            };
            BlockOp product = op;
            product.in = {part(op.in[0], op.a_trans ? 0 : 1), part(op.in[1], op.b_trans ? 1 : 0)};
            product.out = {like(op.out[0], dtype(op.out[0]))};
            emit(product);
            if (sum == NONE) { sum = product.out[0]; continue; }
            Id next = at + step >= k ? op.out[0] : like(op.out[0], dtype(op.out[0]));
            BlockOp add{.family = Family::ELEMENTWISE, .code = Code::ADD, .in = {sum, product.out[0]}, .out = {next}};
            add.op_name = op.op_name;
            add.tile = zeros(2);
            const bool fits = 2 * op.cube[0] * op.cube[5] * 4 <= chip_.capacity[static_cast<int>(Mem::UB)];
            add.tile[0] = fits ? op.cube[0] : 128;
            add.tile[1] = fits ? op.cube[5] : 128;
            emit(add);
            sum = next;
        }
    }
};

}  // namespace

std::unordered_set<Id> crossing_locals(const Program& program) {
    std::unordered_set<Id> crossing;
    std::function<void(Id, std::unordered_set<Id>)> walk = [&](Id body, std::unordered_set<Id> defined) {
        auto read = [&](Id t) {
            if (!program.tensors[t].global() && !defined.count(t)) crossing.insert(t);
        };
        for (const Item& item : program.bodies[body].items) {
            switch (item.kind) {
                case ItemKind::OP: {
                    const npu::Op& op = program.ops[item.a];
                    for (int i = 0; i < op.ins.count; ++i) read(program.id_at(op.ins)[i]);
                    for (int i = 0; i < op.outs.count; ++i) defined.insert(program.id_at(op.outs)[i]);
                    break;
                }
                case ItemKind::SET: read(item.b); defined.insert(item.a); break;
                case ItemKind::ASSEMBLE: read(item.b); break;   // partial: does not define the destination
                case ItemKind::DECL: defined.insert(item.a); break;
                case ItemKind::LOAD: case ItemKind::STORE: case ItemKind::TRAP: break;
                case ItemKind::BLOCK: defined.clear(); break;
                case ItemKind::IF: walk(item.b, defined); walk(item.c, defined); break;
                case ItemKind::LOOP: walk(item.b, {}); defined.clear(); break;
            }
        }
    };
    if (!program.bodies.empty()) walk(0, {});
    return crossing;
}

}  // namespace npu::plan

namespace npu::plan {
Block build_block(const Program& program, const std::vector<Visit>& visits, const Valids& valids,
                  const std::unordered_set<Id>& crossing, Numerics numerics, const Chip& chip) {
    return Builder(program, valids, crossing, numerics, chip).run(visits);
}
}  // namespace npu::plan
