# A Program as plain lists and dictionaries.

cdef list id_list(const CppProgram& p, Span s):
    return [p.ids[s.begin + i] for i in range(s.count)]


cdef list expr_list(const CppProgram& p, Span s):
    return [text(expr_text(p, p.ids[s.begin + i])) for i in range(s.count)]


cdef str pool_text(const vector[string]& pool, int32_t i):
    return text(pool[i]) if i >= 0 else ""


cdef list list_body(const CppProgram& p, int32_t body):
    cdef list out = []
    cdef size_t i, count = p.bodies[body].items.size()
    for i in range(count):
        out.append(list_item(p, p.bodies[body].items[i]))
    return out


cdef dict list_op(const CppProgram& p, const CppOp& op):
    cdef dict d = {"op": text(op_rows()[op.row].name), "outs": id_list(p, op.outs), "ins": id_list(p, op.ins)}
    d["ints"] = [p.ints[op.ints.begin + i] for i in range(op.ints.count)]
    d["floats"] = [p.floats[op.floats.begin + i] for i in range(op.floats.count)]
    d["scalars"] = expr_list(p, op.scalars)
    d["tile"] = None
    if op.tile >= 0:
        d["tile"] = (tuple(p.tiles[op.tile].vec), tuple(p.tiles[op.tile].cube), p.tiles[op.tile].split_k)
    d["label"] = pool_text(p.labels, op.label)
    d["options"] = pool_text(p.options, op.options)
    d["wide_ins"] = op.wide_ins
    d["wide_out"] = op.wide_out
    return d


cdef dict list_item(const CppProgram& p, const Item& it):
    cdef str kind = item_kind_text(it.kind).decode()
    cdef dict d = {"kind": kind, "line": pool_text(p.lines, it.line)}
    if kind == "op":
        d.update(list_op(p, p.ops[it.a]))
    elif kind == "decl":
        d["tensor"] = it.a
    elif kind == "set":
        d["dst"] = it.a
        d["src"] = it.b
    elif kind == "assemble":
        d["dst"] = it.a
        d["src"] = it.b
        d["offsets"] = expr_list(p, it.span)
    elif kind == "load":
        d["slot"] = it.a
        d["tensor"] = it.b
        d["index"] = expr_list(p, it.span)
    elif kind == "store":
        d["tensor"] = it.a
        d["value"] = text(expr_text(p, it.b))
        d["index"] = expr_list(p, it.span)
    elif kind == "if":
        d["cond"] = text(expr_text(p, it.a))
        d["then"] = list_body(p, it.b)
        d["else"] = list_body(p, it.c)
    elif kind == "loop":
        d["slot"] = it.a
        d["bounds"] = expr_list(p, it.span)
        d["parallel"] = it.parallel
        d["unroll"] = [p.ints[it.unroll.begin + i] for i in range(it.unroll.count)]
        d["submit_before"] = it.submit_before
        d["body"] = list_body(p, it.b)
    elif kind == "trap":
        d["trap"] = it.a
    return d
