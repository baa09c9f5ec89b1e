"""What the guide says about RoPE, tested."""
from .base import Claim, Launch, Observation
from .check import dtype_of
from .cost import gm_bytes


def _needs_halves(ctx):
    return "the preset has the interleaved layout" if ctx.config()["layout"] == "interleaved" else None


def _bytes_of(config):
    return config["seq"] * config["heads"] * config["dim"] * dtype_of(config).size_bytes


def _no_extra_moves(ctx):
    from . import rope
    if why := _needs_halves(ctx):
        return Observation("not measured", None, why)
    c = ctx.config(largest=True)
    found = ctx.cost_of([rope._halves_call(c, "x")], rope.STRATEGIES[0], c)
    table = 2 * c["seq"] * c["dim"] * dtype_of(c).size_bytes
    least = _bytes_of(c) + table
    text = (f"the standard form reads {found['gm_read_bytes']:,} bytes; x and both tables once are {least:,} "
            f"(x {_bytes_of(c):,}, tables {table:,}): {found['gm_read_bytes'] - least:,} more, since x is read whole "
            f"and again in halves, or the halves make a round trip; written {found['gm_write_bytes']:,}")
    return Observation(text, found["gm_read_bytes"] <= least * 1.02)


def _fusion(ctx):
    if why := _needs_halves(ctx):
        return Observation("not measured", None, why)
    two, one = ctx.estimate("standard"), ctx.estimate("fused_rmsnorm")
    c = ctx.config(largest=True)
    saved = {k: two[k] - one[k] for k in ("gm_read_bytes", "gm_write_bytes")}
    text = (f"two launches minus one: {saved['gm_read_bytes']:,} bytes read and {saved['gm_write_bytes']:,} written "
            f"less (the hidden tensor is {_bytes_of(c):,} bytes); {two['time_us']:.1f} us against "
            f"{one['time_us']:.1f} us")
    return Observation(text, min(saved.values()) > 0 and gm_bytes(one) < gm_bytes(two))


def _distance(ctx):
    from . import rope, rope_kernels
    if why := _needs_halves(ctx):
        return Observation("not measured", None, why)
    c = ctx.config(largest=True)
    rows, tile = rope._rows(c)
    shape = (rows, c["heads"], c["dim"])
    gains = {}
    for distance in (0, 1, 3):
        fused = rope_kernels.fused_kernel(*shape, rope.EPSILON, tile, dtype_of(c), distance)
        norm = rope.STRATEGIES[0].launches(c)[0]
        late = rope_kernels.halves_kernel(*shape, tile, dtype_of(c), distance)
        apart = [norm, Launch(late, ("normed", "cos", "sin", "out"))]
        one = ctx.cost_of([Launch(fused, rope.FUSED_NAMES)], rope.STRATEGIES[1], c)
        two = ctx.cost_of(apart, rope.STRATEGIES[0], c)
        gains[distance] = (1 - one["time_us"] / two["time_us"], gm_bytes(two) - gm_bytes(one))
    text = "; ".join(f"{d} operations between: fusion saves {g:.0%} of the time and {b:,} GM bytes"
                     for d, (g, b) in gains.items())
    text += " (the operations between run in the one fused kernel, or in front of RoPE in its own kernel)"
    return Observation(text, gains[0][0] > gains[1][0] > gains[3][0])


CLAIMS = (
    Claim("rope.no_extra_moves", "cos and sin need no extra movement", _no_extra_moves),
    Claim("rope.fusion", "fusing with RMSNorm saves one global-memory write and read", _fusion),
    Claim("rope.distance", "the gain shrinks with the distance between the two", _distance),
)
