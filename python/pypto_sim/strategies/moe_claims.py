"""What the guide says about MoE routing, tested."""
import numpy as np

from .base import Claim, Observation
from .cost import gm_bytes


def _sigmoid_expand(ctx):
    from . import moe_routing as moe
    c = {**ctx.config(), "combine": False}
    args = moe.OPERATOR.tensors(c)
    found, listed = {}, {}
    for expand in (True, False):
        call = moe.routing_call(c, moe.gate_of(c, False, expand=expand))
        found[expand] = ctx.run_kernel(call.kernel, call.args, args)
        listed[expand] = ctx.operations(call, args)
    if found[True] is None or found[False] is None:
        return Observation("one of the two forms does not run", None, "no values to compare")
    equal = all(np.array_equal(found[True][n], found[False][n]) for n in ("weights", "ids"))
    wanted = {"exp", "add", "div"}
    seen = {base for name in listed[False] for base in wanted if name.startswith(base)}
    text = (f"written out: {', '.join(listed[True])}; pypto.sigmoid: {', '.join(listed[False])}; results "
            f"{'equal bit for bit' if equal else 'differ'}")
    return Observation(text, equal and seen == wanted)


def _softmax(ctx):
    from . import moe_routing as moe
    c = ctx.config()
    same = {}
    for bias in (c["use_bias"], False):
        results = [ctx.outputs(s.id, use_bias=bias) for s in moe.STRATEGIES]
        if any(r is None for r in results):
            return Observation("one of the two gatings does not run", None, "no ids to compare")
        ids = [np.sort(r["ids"], -1) for r in results]
        same[bias] = float((ids[0] == ids[1]).all(-1).mean())
    cost = {s.id: ctx.estimate(s.id)["time_us"] for s in moe.STRATEGIES}
    shown = ", ".join(f"{v:.0%} {'with' if b else 'without'} the bias" for b, v in same.items())
    text = (f"tokens that get the same experts, of {c['tokens']}: {shown}; weights differ in any case; "
            f"sigmoid {cost['sigmoid']:.1f} us, softmax {cost['softmax']:.1f} us")
    return Observation(text, None, "which gating a model requires is a fact of the model, not of the kernel")


def _combine(ctx):
    from . import moe_routing as moe
    c = ctx.config(largest=True)
    args = {**moe.OPERATOR.tensors(c), **moe.combine_tensors(c)}
    stage = ctx.cost_of([moe.combine_call(c)], None, c, args=args)
    routing = ctx.estimate("sigmoid")
    text = (f"combining {c['tokens']} tokens x {c['top']} rows of {c['width']}: {gm_bytes(stage):,} GM bytes, "
            f"{stage['time_us']:.1f} us (routing alone {routing['time_us']:.1f} us); index_select, mul, sum")
    checked = ctx.check("sigmoid", combine=True)
    return Observation(text + f"; result {'within' if checked.passed else 'outside'} 2^-7 of sum |w y|",
                       checked.passed)


CLAIMS = (
    Claim("moe.sigmoid_expand", "sigmoid expands to exp, add, div", _sigmoid_expand),
    Claim("moe.softmax", "softmax gating only when the model requires it", _softmax),
    Claim("moe.combine", "gather the experts' outputs and sum them by weight", _combine),
)
