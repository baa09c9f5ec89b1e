"""Grouped-query attention with repeated KV heads: copies made by expand_clone, or KV heads shared in the head loop."""
import functools

import pypto_sim as pypto

from .attention import online, sizes, table
from .attention.parts import NPU
from .base import DTYPES, Claim, Launch, Observation, Operator, Part, Phase, Preset, Strategy, Tolerance, points, powers
from .check import dtype_of
from .cost import gm_bytes

OPERATOR = Operator(name="repeat_kv", title="repeat_kv", size_keys=("kv", "seq"), tensors=sizes.tensors,
                    defaults={**sizes.OPERATOR.defaults, "chunk": 128})


def _repeated(t, kv_heads: int, group: int, length: int, chunk: int, dim: int, name: str):
    """[kv_heads group length, dim]: every head of t [kv_heads length, dim] `group` times, copied chunk by chunk."""
    wide = pypto.tensor([kv_heads * group, length, dim], t.dtype, name)
    for h in pypto.loop(kv_heads, name="copy_heads", idx_name="c"):
        for n in pypto.loop((length + chunk - 1) // chunk, name="copy", idx_name="n"):
            valid = pypto.min(chunk, length - n * chunk)
            pypto.set_vec_tile_shapes(chunk, dim)
            part = pypto.view(t, [chunk, dim], [h * length + n * chunk, 0], valid_shape=[valid, dim])
            part = pypto.unsqueeze(pypto.unsqueeze(pypto.unsqueeze(part, 0), 0), 2)
            pypto.set_vec_tile_shapes(1, 1, 1, chunk, dim)
            part = pypto.expand_clone(part, [1, 1, group, chunk, dim], valid_shape=[1, 1, group, valid, dim])
            pypto.set_vec_tile_shapes(1, chunk, dim)
            part = pypto.reshape(part, [group, chunk, dim], valid_shape=[group, valid, dim])
            pypto.assemble(part, [h * group, n * chunk, 0], wide)
    return pypto.reshape(wide, [kv_heads * group * length, dim], inplace=True)


@functools.cache
def expand_decode_kernel(kv_heads: int, group: int, dim: int, kv: int, block: int, chunk: int, cube: tuple, vec: tuple,
                         scale: float, unroll: tuple[int, ...], dtype: pypto.DataType):
    """q [heads, dim], k and v [kv_heads kv, dim] -> out; attention reads copies of k and v per query head."""
    heads = kv_heads * group

    @pypto.frontend.jit(runtime_options=NPU)
    def repeat_kv_decode(q: pypto.Tensor([heads, dim], dtype), k: pypto.Tensor([kv_heads * kv, dim], dtype),
                         v: pypto.Tensor([kv_heads * kv, dim], dtype), out: pypto.Tensor([heads, dim], dtype)):
        wide_k = _repeated(k, kv_heads, group, kv, chunk, dim, "k_repeated")
        wide_v = _repeated(v, kv_heads, group, kv, chunk, dim, "v_repeated")
        carried = online.state(heads, dim)
        for j in pypto.loop((kv + block - 1) // block, name="keys", idx_name="j", unroll_list=list(unroll),
                            submit_before_loop=True):
            pypto.set_cube_tile_shapes(*map(list, cube))
            pypto.set_vec_tile_shapes(*vec)
            valid = pypto.min(block, kv - j * block)
            queries = [pypto.view(q, [1, dim], [n, 0]) for n in range(heads)]
            keys, values = ([pypto.view(t, [block, dim], [n * kv + j * block, 0], valid_shape=[valid, dim])
                             for n in range(heads)] for t in (wide_k, wide_v))
            online.step(j, carried, queries, keys, values, valid, None, 1, scale, dtype, False, out,
                        list(range(heads)))
    return repeat_kv_decode


@functools.cache
def expand_prefill_kernel(kv_heads: int, group: int, dim: int, seq: int, rows: int, block: int, chunk: int,
                          cube: tuple, vec: tuple, scale: float, unroll: tuple[int, ...], dtype: pypto.DataType):
    """q [heads seq, dim], k and v [kv_heads seq, dim], band -> out; causal, on copies of k and v per query head."""
    heads = kv_heads * group

    @pypto.frontend.jit(runtime_options=NPU)
    def repeat_kv_prefill(q: pypto.Tensor([heads * seq, dim], dtype), k: pypto.Tensor([kv_heads * seq, dim], dtype),
                          v: pypto.Tensor([kv_heads * seq, dim], dtype),
                          band: pypto.Tensor([group * rows, 2 * block + rows], dtype),
                          out: pypto.Tensor([heads * seq, dim], dtype)):
        wide_k = _repeated(k, kv_heads, group, seq, chunk, dim, "k_repeated")
        wide_v = _repeated(v, kv_heads, group, seq, chunk, dim, "v_repeated")
        carried = online.state(group * rows, dim)
        for h in pypto.loop(kv_heads, name="heads", idx_name="h", submit_before_loop=True):
            for i in pypto.loop((seq + rows - 1) // rows, name="rows", idx_name="i"):
                last = pypto.min(seq, (i + 1) * rows)
                for j in pypto.loop((last + block - 1) // block, name="keys", idx_name="j",
                                    unroll_list=list(unroll)):
                    pypto.set_cube_tile_shapes(*map(list, cube))
                    pypto.set_vec_tile_shapes(*vec)
                    valid = pypto.min(block, last - j * block)
                    targets = [(h * group + n) * seq + i * rows for n in range(group)]
                    queries = [pypto.view(q, [rows, dim], [target, 0]) for target in targets]
                    keys, values = ([pypto.view(t, [block, dim], [(h * group + n) * seq + j * block, 0],
                                                valid_shape=[valid, dim]) for n in range(group)]
                                    for t in (wide_k, wide_v))
                    hidden = None
                    if pypto.is_loop_end(j):
                        hidden = online.window(band, group * rows, block, i * rows - j * block)
                    online.step(j, carried, queries, keys, values, valid, hidden, rows, scale, dtype, False, out,
                                targets, pypto.min(rows, seq - i * rows), online.rows_there(q, targets, rows))
    return repeat_kv_prefill


def _expand_launches(c):
    block, g = table.key_block(c), table.group(c)
    length = c["kv"] if c["phase"] == "decode" else c["seq"]
    rest = (min(c["chunk"], length), table._cube(c), table.vec(c, block), table._scale(c), tuple(c["unroll"]),
            dtype_of(c))
    if c["phase"] == "decode":
        kernel = expand_decode_kernel(c["kv_heads"], g, c["dim"], c["kv"], block, *rest)
    else:
        kernel = expand_prefill_kernel(c["kv_heads"], g, c["dim"], c["seq"], table.row_tile(c), block, *rest)
    return (Launch(kernel, table.online_names(c)),)


def golden(config, inputs=None, key="out", sample=None):
    """float64 attention; both strategies compute the same."""
    return sizes.golden(config, inputs, key, sample)


_PART = (Part(output="out", golden="out", tolerance=Tolerance(rtol=5e-3, atol=5e-3)),)
STRATEGIES = (
    Strategy(id="expand_clone", label="unsqueeze, expand_clone, reshape, then attention", launches=_expand_launches,
             tensors=table.online_tensors, parts=lambda c: _PART, maturity="reference"),
    Strategy(id="head_loop", label="query heads of a group share the KV head in the loop", tensors=table.online_tensors,
             launches=lambda c: (Launch(table.online_kernel(c), table.online_names(c)),), parts=lambda c: _PART,
             maturity="production"),
)


def _preset(name, heads, kv_heads):
    return Preset(name, {"heads": heads, "kv_heads": kv_heads, "dim": 128, "v_dim": 128}, {
        "decode": Phase(points("kv", 4096), points("kv", *powers(4096, 131072))),
        "prefill": Phase(points("seq", 1024), points("seq", *powers(2048, 32768)), table.PREFILL_TILES)})


PRESETS = (
    _preset("qwen3-1.7b", 16, 8),
    _preset("llama3-8b", 32, 8),
    Preset("llama3-8b-new-token", {"heads": 32, "kv_heads": 8, "dim": 128, "v_dim": 128},
           {"decode": Phase(points("kv", 1), points("kv", 1))}),
)


def _copy_bytes(c):
    length = c["kv"] if c["phase"] == "decode" else c["seq"]
    return 2 * c["heads"] * length * c["dim"] * DTYPES[c["dtype"]].size_bytes


def _copies(ctx):
    axis = "kv" if ctx.config()["phase"] == "decode" else "seq"
    values = sorted({1, *(s[axis] for s in ctx.sizes())}) if axis == "kv" else [s[axis] for s in ctx.sizes()]
    found, extra, slower = [], {}, {}
    for size in dict.fromkeys((values[0], values[len(values) // 2], values[-1])):
        both = {s: ctx.try_estimate(s, **{axis: size})[0] for s in ("expand_clone", "head_loop")}
        if any(e is None for e in both.values()):
            found.append(f"{axis} {size}: does not plan")
            continue
        wide, shared = both["expand_clone"], both["head_loop"]
        extra[size] = wide["workspace_bytes"] - shared["workspace_bytes"]
        slower[size] = wide["time_us"] / shared["time_us"]
        copies = _copy_bytes(ctx.config(**{axis: size}))
        found.append(f"{axis} {size}: workspace +{extra[size]:,} B (copies {copies:,} B), GM bytes "
                     f"{gm_bytes(wide):,} against {gm_bytes(shared):,}, time x{slower[size]:.2f}")
    if not extra:
        return Observation("; ".join(found), None, "no size plans with both strategies")
    longest = max(extra)
    return Observation("; ".join(found), extra[longest] >= _copy_bytes(ctx.config(**{axis: longest})))


def _no_copy(ctx):
    axis = "kv" if ctx.config()["phase"] == "decode" else "seq"
    lengths = [s[axis] for s in ctx.sizes()]
    small, large = lengths[0], max(lengths[-1], 4 * lengths[0])
    own = {name: {s: ctx.declared_bytes(name, **{axis: s}) for s in (small, large)}
           for name in ("head_loop", "expand_clone")}
    extra = {name: by[large] - by[small] for name, by in own.items()}
    space = ctx.estimate("head_loop", **{axis: large})["workspace_bytes"]
    text = (f"tensors the head loop makes for itself: {own['head_loop'][small]:,} B at {axis} {small} and "
            f"{own['head_loop'][large]:,} B at {large} (the online state), {extra['head_loop']:,} B more; "
            f"expand_clone: {extra['expand_clone']:,} B more. Its workspace of {space:,} B is tiles in flight")
    return Observation(text, extra["head_loop"] == 0)


CLAIMS = (
    Claim("repeat_kv.copies", "expand_clone really copies: negligible at S = 1, costly at long prefill", _copies),
    Claim("repeat_kv.head_loop", "the head loop needs no extra memory", _no_copy),
)
