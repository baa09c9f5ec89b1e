"""Grouped-query attention with repeated KV heads: copies made by expand_clone, or KV heads shared in the head loop."""
import functools

import pypto_sim as pypto

from .attention import online, sizes, table
from .attention.parts import NPU
from .base import DTYPES, Claim, Launch, Observation, Operator, Part, Phase, Preset, Strategy, Tolerance, points, powers
from .check import dtype_of
from .cost import gm_bytes

OPERATOR = Operator(name="repeat_kv", title="repeat_kv", size_keys=("kv", "seq"), tensors=sizes.tensors,
                    defaults=dict(sizes.OPERATOR.defaults))


def _repeated(t, copies, kv_heads: int, group: int, length, block: int, dim: int, vec):
    """copies [kv_heads group, length, dim] = every head of t [kv_heads, length, dim] `group` times, block by block."""
    for n in pypto.loop((length + block - 1) // block, name="copy", idx_name="n"):
        valid = pypto.min(block, length - n * block)
        pypto.set_vec_tile_shapes(*vec)
        part = pypto.view(t, [kv_heads, block, dim], [0, n * block, 0], valid_shape=[kv_heads, valid, dim])
        part = pypto.unsqueeze(pypto.unsqueeze(part, 0), 2)
        pypto.set_vec_tile_shapes(1, 1, *vec)
        wide = pypto.expand_clone(part, [1, kv_heads, group, block, dim],
                                  valid_shape=[1, kv_heads, group, valid, dim])
        pypto.set_vec_tile_shapes(*vec)
        wide = pypto.reshape(wide, [kv_heads * group, block, dim], valid_shape=[kv_heads * group, valid, dim])
        pypto.assemble(wide, [0, n * block, 0], copies)


@functools.cache
def expand_decode_kernel(kv_heads: int, group: int, dim: int, kv: int, block: int, cube: tuple, vec: tuple,
                         scale: float, unroll: tuple[int, ...], dtype: pypto.DataType):
    """q [kv_heads, group, dim], k and v [kv_heads, kv, dim] -> out; attention reads copies of k and v per head."""
    heads = kv_heads * group

    @pypto.frontend.jit(runtime_options=NPU)
    def repeat_kv_decode(q: pypto.Tensor([heads, 1, dim], dtype), k: pypto.Tensor([kv_heads, kv, dim], dtype),
                         v: pypto.Tensor([kv_heads, kv, dim], dtype), out: pypto.Tensor([heads, 1, dim], dtype)):
        wide_k = pypto.tensor([heads, kv, dim], dtype, "k_repeated")
        wide_v = pypto.tensor([heads, kv, dim], dtype, "v_repeated")
        tile = (1, min(block, 64), dim)
        _repeated(k, wide_k, kv_heads, group, kv, min(block, kv), dim, tile)
        _repeated(v, wide_v, kv_heads, group, kv, min(block, kv), dim, tile)
        m, s, o = online.state(heads, 1, dim)
        for j in pypto.loop((kv + block - 1) // block, name="keys", idx_name="j", unroll_list=list(unroll),
                            submit_before_loop=True):
            pypto.set_cube_tile_shapes(*cube)
            pypto.set_vec_tile_shapes(*vec)
            valid = [heads, pypto.min(block, kv - j * block), dim]
            kt = pypto.view(wide_k, [heads, block, dim], [0, j * block, 0], valid_shape=valid)
            vt = pypto.view(wide_v, [heads, block, dim], [0, j * block, 0], valid_shape=valid)
            online.step(j, (m, s, o), q, kt, vt, None, scale, dtype, False, out, [0, 0, 0])
    return repeat_kv_decode


@functools.cache
def expand_prefill_kernel(kv_heads: int, group: int, dim: int, seq: int, rows: int, block: int, cube: tuple,
                          vec: tuple, scale: float, unroll: tuple[int, ...], dtype: pypto.DataType):
    """q [heads, seq, dim], k and v [kv_heads, seq, dim], band -> out; causal, on copies of k and v per query head."""
    heads = kv_heads * group

    @pypto.frontend.jit(runtime_options=NPU)
    def repeat_kv_prefill(q: pypto.Tensor([heads, seq, dim], dtype), k: pypto.Tensor([kv_heads, seq, dim], dtype),
                          v: pypto.Tensor([kv_heads, seq, dim], dtype),
                          band: pypto.Tensor([rows, 2 * block + rows], dtype),
                          out: pypto.Tensor([heads, seq, dim], dtype)):
        wide_k = pypto.tensor([heads, seq, dim], dtype, "k_repeated")
        wide_v = pypto.tensor([heads, seq, dim], dtype, "v_repeated")
        _repeated(k, wide_k, kv_heads, group, seq, block, dim, (1, 64, dim))
        _repeated(v, wide_v, kv_heads, group, seq, block, dim, (1, 64, dim))
        m, s, o = online.state(group, rows, dim)
        for h in pypto.loop(kv_heads, name="kv_heads", idx_name="h", submit_before_loop=True):
            for i in pypto.loop((seq + rows - 1) // rows, name="rows", idx_name="i"):
                last = pypto.min(seq, (i + 1) * rows)
                for j in pypto.loop((last + block - 1) // block, name="keys", idx_name="j",
                                    unroll_list=list(unroll)):
                    pypto.set_cube_tile_shapes(*cube)
                    pypto.set_vec_tile_shapes(*vec)
                    valid = [group, pypto.min(block, last - j * block), dim]
                    qt = pypto.view(q, [group, rows, dim], [h * group, i * rows, 0])
                    kt = pypto.view(wide_k, [group, block, dim], [h * group, j * block, 0], valid_shape=valid)
                    vt = pypto.view(wide_v, [group, block, dim], [h * group, j * block, 0], valid_shape=valid)
                    hidden = None
                    if pypto.is_loop_end(j):
                        hidden = online.window(band, rows, block, i * rows - j * block, vec)
                    online.step(j, (m, s, o), qt, kt, vt, hidden, scale, dtype, False, out,
                                [h * group, i * rows, 0])
    return repeat_kv_prefill


def _expand_launches(c):
    block, g = table.key_block(c), table.group(c)
    rest = (table._hashable(table._cube(c)), table.vec(c, block), table._scale(c), tuple(c["unroll"]), dtype_of(c))
    if c["phase"] == "decode":
        return (Launch(expand_decode_kernel(c["kv_heads"], g, c["dim"], c["kv"], block, *rest),
                       ("q_heads", "k", "v", "out_heads")),)
    return (Launch(expand_prefill_kernel(c["kv_heads"], g, c["dim"], c["seq"], table.row_tile(c), block, *rest),
                   ("q", "k", "v", "band", "out")),)


def _expand_tensors(c):
    from .base import Arg
    if c["phase"] == "prefill":
        return table.band_tensors(c)
    return {name: Arg(shape=(c["heads"], 1, c["dim"]), dtype=c["dtype"], alias=name.split("_")[0], role=role)
            for name, role in (("q_heads", "in"), ("out_heads", "out"))}


def golden(config, inputs=None, key="out", sample=None):
    """float64 attention; both strategies compute the same."""
    return sizes.golden(config, inputs, key, sample)


_PART = (Part(output="out", golden="out", tolerance=Tolerance(rtol=5e-3, atol=5e-3)),)
STRATEGIES = (
    Strategy(id="expand_clone", label="unsqueeze, expand_clone, reshape, then attention", launches=_expand_launches,
             tensors=_expand_tensors, parts=lambda c: _PART, maturity="reference"),
    Strategy(id="head_loop", label="query heads of a group share the KV head in the loop", tensors=table.band_tensors,
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
    c = ctx.config(largest=True)
    axis = "kv" if c["phase"] == "decode" else "seq"
    sizes_ = [s[axis] for s in ctx.sizes()]
    spaces = {s: ctx.estimate("head_loop", **{axis: s})["workspace_bytes"] for s in dict.fromkeys((sizes_[0],
                                                                                                 sizes_[-1]))}
    text = (f"workspace of the head loop: {', '.join(f'{axis} {s}: {b:,} B' for s, b in spaces.items())} (tiles in "
            f"flight and the online state); none of it is a copy of k or v, whose size would be {_copy_bytes(c):,} B")
    grows = max(spaces.values()) - min(spaces.values())
    return Observation(text, grows == 0)


CLAIMS = (
    Claim("repeat_kv.copies", "expand_clone really copies: negligible at S = 1, costly at long prefill", _copies),
    Claim("repeat_kv.head_loop", "the head loop needs no extra memory", _no_copy),
)
