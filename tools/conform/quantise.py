"""Quantisation, block formats and random numbers of the cases."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import pypto_sim as pypto

from .blocks import WHOLE, Layout, Scaled, block_of, launch, looped, outputs, set_tiles
from .cases import Case, rounded
from .compare import Expected
from .draw import draw, generator
from .elementwise import codes4, joined
from .row import TABLE, Arrays, Row, f64


def _scale_layout(case: Case) -> Layout:
    """Scale and zero point per row (axis -1) or per column (axis -2)."""
    grid = case.ins[0].shape
    rank = len(grid)
    axes = tuple(range(rank))
    if rank == 1:
        other: tuple[Any, ...] = (WHOLE,)
    else:
        other = axes[:-1] if case.attrs["axis"] % rank == rank - 1 else (*axes[:-2], axes[-1])
    return Layout(grid, block_of(grid, case.view), (axes, *(other for _ in case.ins[1:])), (axes,))


def _spread(case: Case, scale: np.ndarray) -> np.ndarray:
    rank = len(case.ins[0].shape)
    if rank == 1:
        return scale
    return np.expand_dims(scale, -1 if case.attrs["axis"] % rank == rank - 1 else -2)


def _quantised(case: Case, arrays: Arrays) -> list[Expected]:
    x, s = f64(arrays[0]), f64(_spread(case, arrays[1]))
    if len(arrays) == 2:
        product = f64(np.float32(x) * np.float32(s))
        return [Expected(np.clip(np.rint(product), -128, 127).astype(np.int8))]
    z = f64(_spread(case, arrays[2]))
    return [Expected(np.clip(np.rint(x * s + z), 0, 255).astype(np.uint8), share=0.001)]


def _quantize_call(case: Case) -> Callable[..., Any]:
    return lambda x, s, z=None: pypto.quantize(x, s, case.outs[0].type, case.attrs["axis"], z)


TABLE["Quantize"] = Row(_quantize_call, _quantised, "INT8 exact; UINT8 one step on at most 0.1 % of the elements",
                        layout=_scale_layout)


def _dequantised(case: Case, arrays: Arrays) -> list[Expected]:
    x, s = f64(arrays[0]), f64(_spread(case, arrays[1]))
    z = f64(_spread(case, arrays[2])) if len(arrays) == 3 else np.zeros(1)
    return [Expected((x - z) * s, 1, lambda: 2.0**-23 * (np.abs(x) + np.abs(z)) * np.abs(s))]


def _dequantize_call(case: Case) -> Callable[..., Any]:
    return lambda x, s, z=None: pypto.dequantize(x, s, pypto.DT_FP32, case.attrs["axis"], z)


TABLE["Dequantize"] = Row(_dequantize_call, _dequantised, "2^-23 (|x| + |zero|) |scale| + 1 ulp", layout=_scale_layout)


# --- MX: groups of 32 share a power of two ---------------------------------------------------------------------------
SMALLEST = {"fp16": 2.0**-24, "bf16": 2.0**-133, "fp32": 2.0**-149}


def _mx_inputs(case: Case) -> list[np.ndarray]:
    """Numbers of the case's exponent range, with some subnormal numbers, infinities and NaN mixed in."""
    rng, t, a = generator(case), case.ins[0], case.attrs
    if a["use_exp_range"]:
        low, high = a["exp_range"]
        size = t.shape
        value = (1 + rng.random(size)) * 2.0 ** rng.integers(low, high, size, endpoint=True)
        with np.errstate(over="ignore"):
            x = (value * rng.choice([-1.0, 1.0], size)).astype(np.float32).astype(t.np_dtype)
    else:
        x = draw(rng, t)
    flat = x.reshape(-1)
    for key, value in (("subnormal", SMALLEST[t.dtype]), ("inf", math.inf), ("nan", math.nan)):
        if a[f"enable_{key}"]:
            n = math.ceil(flat.size / 10000)
            at = rng.choice(flat.size, n, replace=False)
            flat[at] = (value * np.where(np.arange(n) % 2, -1.0, 1.0)).astype(np.float32).astype(t.np_dtype)
    return [x]


def _mx_codes(case: Case, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(element codes, exponent bytes) of groups of 32 along the last axis; x in float64, whole groups."""
    fp4 = case.outs[0].dtype == "fp4_e2m1x2"
    top, largest_exponent = (6.0, 2) if fp4 else (448.0, 8)
    up = case.attrs["mode"] == "ROUND_UP"
    groups = x.reshape(*x.shape[:-1], -1, 32)
    size = np.abs(groups).max(-1)
    with np.errstate(all="ignore"):
        _, power = np.frexp(size)
        field = np.where(size == 0, 0, np.maximum(power - 1 + 127, 0))
        if case.ins[0].dtype == "fp16":
            field = np.where(size == 0, 0, power - 1 + 127)          # exact in fp32
        field = np.where(np.isinf(size), 255, field)
        if up:
            ratio = size / top
            mantissa, e = np.frexp(ratio)
            shared = np.where(mantissa == 0.5, e - 1, e) + 127
            shared = np.where(ratio <= 2.0**-127, 0, np.where(np.isinf(size), 254, np.minimum(shared, 254)))
        else:
            shared = np.clip(field - largest_exponent, 0, 254)
        shared = np.where(np.isnan(size), 255, shared).astype(np.int64)
        product = groups * np.ldexp(1.0, 127 - shared)[..., None]
        if case.ins[0].dtype == "bf16" and (fp4 or up):
            product = rounded(product, np.dtype(ml_dtypes.bfloat16))
        product = product.reshape(x.shape)
        if fp4:
            return codes4(product, "fp4_e2m1x2"), shared.astype(np.uint8)
        clipped = np.where(np.isnan(product), product, np.clip(product, -448, 448))
        return _e4m3(clipped), shared.astype(np.uint8)


def _e4m3(x: np.ndarray) -> np.ndarray:
    """Bytes of E4M3 nearest to |x| <= 448, ties to even, from float64 in one rounding."""
    size = np.abs(np.nan_to_num(x))
    _, power = np.frexp(size)
    step = np.maximum(power - 1, -6) - 3
    near = np.ldexp(np.rint(np.ldexp(size, -step)), step)
    _, power = np.frexp(near)
    exponent = np.maximum(power - 1, -6)
    normal = near >= 2.0**-6
    code = np.where(normal, (exponent + 7) * 8 + np.ldexp(near, 3 - exponent) - 8, np.ldexp(near, 9)).astype(np.int64)
    return (np.where(np.isnan(x), 0x7F, code) | np.where(np.signbit(x), 0x80, 0)).astype(np.uint8)


def _mx(case: Case, arrays: Arrays) -> list[Expected]:
    x = f64(arrays[0])
    d = x.shape[-1]
    across = case.attrs["axis"] == -2
    if across:
        x = np.swapaxes(x, -1, -2)
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % 32)])
    codes, shared = _mx_codes(case, padded)
    fp4 = case.outs[0].dtype == "fp4_e2m1x2"
    if across:
        pairs = shared.reshape(*shared.shape[:-1], -1, 2)            # [..., n, m/64, 2]
        codes = np.swapaxes(codes, -1, -2)
        return [Expected(joined(codes) if fp4 else codes, nan_free=not fp4), Expected(np.swapaxes(pairs, -2, -3))]
    codes = joined(codes[..., :d]) if fp4 else codes[..., :d]
    both = np.zeros((*shared.shape[:-1], -(-d // 64) * 2), np.uint8)
    both[..., :shared.shape[-1]] = shared
    return [Expected(codes, nan_free=not fp4), Expected(both.reshape(*shared.shape[:-1], -1, 2))]


def _mx_layout(case: Case) -> Layout:
    """Blocks of whole pairs of groups; else the axis is whole."""
    grid, rank = case.ins[0].shape, len(case.ins[0].shape)
    axes = tuple(range(rank))
    axis = rank + case.attrs["axis"]
    size = case.view[axis] if len(case.view) == rank else -1
    cut = size > 0 and size % 64 == 0 and grid[axis] % 64 == 0
    block = block_of(grid, case.view, () if cut else (axis,))
    fp4 = case.outs[0].dtype == "fp4_e2m1x2"
    last: Any = axes[-1] if not fp4 else Scaled(axes[-1], 1, 2)
    if fp4 and not (cut or axis != rank - 1):
        last = WHOLE
    group: Any = Scaled(axis, 1, 64) if cut else WHOLE
    scale = (*axes[:-1], group, WHOLE) if axis == rank - 1 else (*axes[:-2], group, axes[-1], WHOLE)
    return Layout(grid, block, (axes,), ((*axes[:-1], last), scale))


def _mx_call(case: Case) -> Callable[..., Any]:
    a = case.attrs
    mode = getattr(pypto, a["mode"])
    return lambda x: pypto.quant_mx(x, case.outs[0].type, mode, a["axis"], a["performance_mode"])


TABLE["QuantMX"] = Row(_mx_call, _mx, "bytes exact, NaN of either sign", layout=_mx_layout, inputs=_mx_inputs,
                       chip950=True)


# --- Philox ----------------------------------------------------------------------------------------------------------
def philox(key: int, counter: np.ndarray, high: int, rounds: int) -> np.ndarray:
    """Words [n, 4] of Philox 4x32 for the 64-bit counters (low words), with the upper 64 bits `high`."""
    mask = np.uint64(0xFFFFFFFF)
    c = [counter & mask, counter >> np.uint64(32), np.full_like(counter, high & 0xFFFFFFFF),
         np.full_like(counter, high >> 32)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF
    for _ in range(rounds):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        high_a, high_b = a >> np.uint64(32), b >> np.uint64(32)
        c = [high_b ^ c[1] ^ np.uint64(k0), b & mask, high_a ^ c[3] ^ np.uint64(k1), a & mask]
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return np.stack(c, -1)


def _uniform(case: Case, arrays: Arrays) -> list[Expected]:
    n, a = math.prod(case.outs[0].shape), case.attrs
    words = philox(a["key"], np.arange(-(-n // 4), dtype=np.uint64), a["counter_1"], a["rounds"]).reshape(-1)[:n]
    bits = {"fp32": 23, "fp16": 10, "bf16": 7}[case.outs[0].dtype]
    return [Expected(((words & np.uint64((1 << bits) - 1)).astype(np.float64) / 2.0**bits).reshape(case.outs[0].shape))]


def _uniform_run(case: Case, layout: Layout, arrays: Sequence[np.ndarray], call: Any) -> list[np.ndarray]:
    results = outputs(case)
    a, (n,) = case.attrs, layout.block

    def body(out: Any) -> None:
        def step(at: list[Any]) -> None:
            set_tiles(case, 1)
            pypto.assemble(pypto.uniform([n], [a["key"]], [a["counter_0"], a["counter_1"]], [1], case.outs[0].type),
                           at, out)
        looped(layout, step)

    launch(body, case.outs, results)
    return results


def _uniform_layout(case: Case) -> Layout:
    grid = case.outs[0].shape
    return Layout(grid, grid, ((WHOLE,),), ((0,),))


TABLE["Uniform"] = Row(lambda case: pypto.uniform, _uniform, "exact", layout=_uniform_layout, run=_uniform_run,
                       chip950=True)
