"""What the guide says about attention, tested."""
import numpy as np

from ..base import Arg, Claim, Launch, Observation, powers
from ..check import as_float64, dtype_of
from ..cost import gm_bytes
from . import flash, table
from .sizes import golden

_NO_DENSE = "the preset attends to selected rows; the claim is about dense attention"


def _axis(c):
    return "kv" if c["phase"] == "decode" else "seq"


def _dense(observe):
    """Skip a claim about dense attention in the sparse preset."""
    def wrapped(ctx):
        return Observation("not measured", None, _NO_DENSE) if ctx.config()["topk"] else observe(ctx)
    return wrapped


@_dense
def _whole_row_fails(ctx):
    axis, planned, failure = _axis(ctx.config()), {}, None
    sizes = [size for n in powers(1024, 131072) for size in (n, n * 3 // 2)]
    for size in sizes:
        estimate, reason = ctx.try_estimate("whole_row", **{axis: size})
        if estimate is None:
            failure = (size, reason)
            break
        planned[size] = estimate["peak_bytes"]["UB"]
    peaks = ", ".join(f"{s}: {b:,} B" for s, b in planned.items())
    if failure is None:
        return Observation(f"plans up to {axis} {sizes[-1]}; peak UB {peaks}", False)
    size, reason = failure
    last = max(planned, default=0)
    grows = len(planned) > 1 and list(planned.values())[-1] > list(planned.values())[0]
    text = f"largest {axis} that plans: {last}; at {size}: {reason.text.splitlines()[0]}; peak UB {peaks}"
    if reason.kind != "capacity":
        return Observation(text, None, f"it stops for another reason than memory: {reason.kind}")
    return Observation(text, grows)


@_dense
def _online_o1(ctx):
    c = ctx.config()
    axis = _axis(c)
    small, large = ctx.sizes()[0][axis], ctx.sizes()[-1][axis]
    small = max(small, 2 * c["block"])
    large = max(large, 4 * small)
    peaks = {s: ctx.estimate("online", **{axis: s})["peak_bytes"]["UB"] for s in (small, large)}
    tested = {**c, "kv": 700, "seq": 200}
    args = {**table_tensors(tested), **table.online_tensors(tested)}
    rng = np.random.default_rng(0)
    sign = {name: np.sign(rng.standard_normal(args[name].shape)) for name in ("q", "k")}
    sign["k"] = np.broadcast_to(sign["k"][..., :1], args["k"].shape) * np.sign(sign["q"].flat[0])
    sign["q"] = np.broadcast_to(sign["q"][..., :1], args["q"].shape)
    size = np.sqrt(1e4 * c["dim"] ** -0.5)     # q k sum over dim, times dim^-1/2, is +-1e4
    fed = {n: Arg(shape=args[n].shape, dtype=c["dtype"], make=lambda r, n=n: sign[n] * size) for n in ("q", "k")}
    result = ctx.run_kernel(table.online_kernel(tested), table.online_names(tested), {**args, **fed})
    if result is None:
        return Observation("the run with large logits failed", None, "no result to compare")
    error = float(np.abs(as_float64(result["out"]) - golden(tested, result)).max())
    text = (f"peak UB {peaks[small]:,} B at {axis} {small} and {peaks[large]:,} B at {large}; error with logits of "
            f"+-1e4: {error:.1e}")
    return Observation(text, peaks[small] == peaks[large] and error <= 5e-3)


def table_tensors(c):
    """Tensors of the dense operator at a config."""
    from .sizes import tensors
    return tensors(c)


@_dense
def _short_axis(ctx):
    axis, found = _axis(ctx.config()), []
    for size in (512, 2048, 8192, 32768):
        both = {s: ctx.try_estimate(s, **{axis: size})[0] for s in ("whole_row", "online")}
        found.append((size, both["whole_row"], both["online"]))

    def shown(e):
        return "does not plan" if e is None else f"{e['time_us']:.1f} us, {gm_bytes(e):,} B"
    text = "; ".join(f"{axis} {s}: whole row {shown(w)}, online {shown(o)}" for s, w, o in found)
    _, first, other = found[0]
    last = found[-1]
    short = first is not None and other is not None and first["time_us"] <= other["time_us"]
    long = last[1] is None or last[2] is not None and last[1]["time_us"] >= last[2]["time_us"]
    return Observation(text, short and long)


@_dense
def _unroll(ctx):
    times = {}
    for factors in ((1,), (2, 1), (4, 2, 1)):
        estimate = ctx.estimate("online", unroll=factors)
        times[factors] = estimate["time_us"]
    text = "; ".join(f"{list(f)}: {t:.1f} us" for f, t in times.items())
    values = list(times.values())
    return Observation(text, values[2] < values[0] * 0.98)


@_dense
def _pv_split(ctx):
    error = {split: ctx.check("online", split_p=split).max_abs for split in (False, True)}
    cost = {split: ctx.estimate("online", split_p=split)["time_us"] for split in (False, True)}
    text = (f"largest error {error[False]:.2e} without, {error[True]:.2e} with the split (bf16 output rounds both); "
            f"time {cost[False]:.1f} us without, {cost[True]:.1f} us with")
    exact = {split: _fp32_error(ctx, split) for split in (False, True)}
    text += f"; before the output is rounded: {exact[False]:.2e} and {exact[True]:.2e}"
    return Observation(text, exact[True] < exact[False])


def _fp32_error(ctx, split):
    """Error of one block's P V product in fp32, with and without the split."""
    import functools

    import pypto_sim as pypto

    from .parts import local_softmax, weighted
    keys, dim, rows = 256, 64, 16
    dtype = pypto.DT_BF16

    @functools.cache
    def kernel():
        @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
        def one_block(scores: pypto.Tensor([rows, keys], pypto.DT_FP32), v: pypto.Tensor([keys, dim], dtype),
                      out: pypto.Tensor([rows, dim], pypto.DT_FP32)):
            pypto.set_cube_tile_shapes([16, 16], [128, 128], [64, 64])
            pypto.set_vec_tile_shapes(8, keys)
            _, p, _ = local_softmax(scores)
            out[:] = weighted(p, [v], rows, rows, dtype, split)
        return one_block
    args = {"scores": Arg(shape=(rows, keys), dtype="fp32"), "v": Arg(shape=(keys, dim), dtype="bf16"),
            "out": Arg(shape=(rows, dim), dtype="fp32", role="out")}
    result = ctx.run_kernel(kernel(), ("scores", "v", "out"), args)
    scores = as_float64(result["scores"])
    exact = np.exp(scores - scores.max(-1, keepdims=True)) @ as_float64(result["v"])
    return float(np.abs(as_float64(result["out"]) - exact).max())


@_dense
def _online_op(ctx):
    c = {**ctx.config(), "phase": "prefill", "seq": 512, "m_tile": (128, 128)}
    block = table.key_block(c)
    names, results, costs, ops = (*table.FLAT[:3], "band_t", "out_rows"), {}, {}, {}
    args = {**table_tensors(c), **table.flat_tensors(c), "band_t": table.transposed_band(c)}
    for form in ("operation", "hand"):
        kernel = flash.online_op_kernel(c["heads"], c["kv_heads"], c["dim"], table.row_tile(c), block,
                                        table._cube(c), c["dim"] ** -0.5, dtype_of(c),
                                        form == "operation")
        results[form] = ctx.run_kernel(kernel, names, args, device="950pr")
        costs[form] = ctx.cost_of([Launch(kernel, names)], None, c, args=args, device="950pr")
        ops[form] = ctx.complexity(Launch(kernel, names), args)["ops"]
    if any(r is None for r in results.values()):
        return Observation("one of the two forms does not run on 950pr", None, "no values to compare")
    a, b = (as_float64(results[f]["out"]) for f in ("operation", "hand"))
    gap = float(np.abs(a - b).max())

    def shown(form):
        e = costs[form]
        return f"{sum(e['tasks'].values())} tasks, {gm_bytes(e):,} B, {e['time_us']:.1f} us, {ops[form]} operations"
    text = (f"950pr, S {c['seq']}: the pair: {shown('operation')}; hand-written state: {shown('hand')}; largest "
            f"difference of the results {gap:.1e}; the pair exists on the 950 only")
    return Observation(text, gap <= 2.0 ** -7 * float(np.abs(b).max()))


@_dense
def _flash_traffic(ctx):
    c = ctx.config(largest=True)
    axis = _axis(c)
    size = {axis: min(c[axis], 8192)}
    found, cuts = [], {}
    for device in dict.fromkeys((ctx.device, "950pr")):
        moved = {}
        for s in ("whole_row", "online", "flash"):
            estimate, _ = ctx.try_estimate(s, device=device, **size)
            moved[s] = gm_bytes(estimate) if estimate else None
        found.append(f"{device}: " + ", ".join(f"{s} {'-' if b is None else f'{b:,} B'}" for s, b in moved.items()))
        known = [b for s, b in moved.items() if s != "flash" and b is not None]
        cuts[device] = moved["flash"] is not None and known and moved["flash"] < min(known)
    text = (f"GM bytes at {axis} {size[axis]}: {'; '.join(found)}; on A2/A3 cube and vector tasks exchange scores, "
            f"probabilities and products through GM also inside one kernel")
    return Observation(text, bool(cuts[ctx.device]))


CLAIMS = (
    Claim("attention.whole_row_fails", "the whole row needs O(S) memory and fails at long S", _whole_row_fails),
    Claim("attention.online_o1", "online softmax needs O(1) memory and is stable", _online_o1),
    Claim("attention.softmax_short_axis", "the plain softmax suits short axes held in a tile", _short_axis),
    Claim("attention.unroll", "unroll_list pays", _unroll),
    Claim("attention.pv_split", "a bf16 high/low split of P improves the PV product", _pv_split),
    Claim("attention.online_op", "the experimental online_softmax pair replaces the hand-written state", _online_op),
    Claim("attention.flash_traffic", "a fused flash kernel cuts global-memory round trips", _flash_traffic),
)
