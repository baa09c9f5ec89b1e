"""Matrix product: operands, fused extras, cube tile and what it needs of L1, L0A, L0B, L0C and the bias table."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..capacity import round_up
from ..dtypes import DataType
from ..enums import ReLuType, TransMode
from ..registry import Cost, op, supported
from ..trace.session import CubeTile, Out
from ..trace.tensor import Tensor
from ._checks import Check
from ._shapes import Extent, or_full, shape_of, valid_list

FP32, FP16, BF16 = DataType.DT_FP32, DataType.DT_FP16, DataType.DT_BF16
INT8, INT32 = DataType.DT_INT8, DataType.DT_INT32
FP8E4M3, FP8E5M2, HF8 = DataType.DT_FP8E4M3, DataType.DT_FP8E5M2, DataType.DT_HF8
OPERANDS = supported("fp16 bf16 fp32 int8", only_950="fp8e4m3 fp8e5m2 hf8")
WIDE_RESULTS = (FP16, BF16, FP32)
RESULTS = {FP16: (FP16, FP32), BF16: (BF16, FP32), FP32: (FP32,), INT8: (INT32,), FP8E4M3: WIDE_RESULTS,
           FP8E5M2: WIDE_RESULTS, HF8: WIDE_RESULTS}
BIAS = {FP16: (FP16, FP32), BF16: (FP32,), FP32: (FP32,), INT8: (INT32,), FP8E4M3: (FP32,), FP8E5M2: (FP32,),
        HF8: (FP32,), DataType.DT_FP4_E2M1X2: (FP32,)}
MIXABLE = {FP8E4M3, FP8E5M2}
SCALED_RESULTS = {True: (FP16, INT8), False: (INT8,)}      # of INT8 operands, of others
SCALES = supported("uint64 int64", unlisted="fp32")
TF32_MODES = {"CAST_NONE": 0, "CAST_RINT": 1, "CAST_ROUND": 2}
EXTRAS = ("bias_tensor", "relu_type", "scale", "scale_tensor", "trans_mode")
SCALE_MASK = 0xFFFFE000            # the fix pipe keeps sign, exponent and 10 mantissa bits of a scale
MAX_INNER = 65535
ELEMENTS, BLOCK_BYTES = 16, 32     # L0 granules: elements, and bytes along the contracted axis


def _operand(check: Check, arg: str, value: Any) -> Tensor:
    return check.tensor(arg, value, OPERANDS, nz=True)


def _inner_axis(check: Check, arg: str, shape: Sequence[int]) -> None:
    if shape[-1] > MAX_INNER:
        check.rule("matmul.inner_axis", f"the last axis of `{arg}` {list(shape)} is {shape[-1]}; allowed: {MAX_INNER}. "
                                        "Store the operand transposed, or split the axis")


def _batches(check: Check, a: Sequence[int], b: Sequence[int]) -> list[int]:
    found = []
    for x, y in zip(a, b, strict=True):
        if x != y and 1 not in (x, y):
            check.rule("shape.mismatch", f"batch axes {list(a)} of `input` and {list(b)} of `mat2` must be equal or 1")
        found.append(max(x, y))
    return found


def _check_k(check: Check, a: list[int], b: list[int], a_trans: bool, b_trans: bool) -> int:
    """Contracted length, after checking that both operands have the same."""
    k_a, k_b = a[-2 if a_trans else -1], b[-1 if b_trans else -2]
    if k_a == k_b:
        return k_a
    hint = ""
    if k_a == b[-2 if b_trans else -1]:
        hint = f" Did you mean b_trans={not b_trans}?"
    elif k_b == a[-1 if a_trans else -2]:
        hint = f" Did you mean a_trans={not a_trans}?"
    axis_a, axis_b = ("second last" if a_trans else "last"), ("last" if b_trans else "second last")
    check.rule("shape.mismatch", f"`mat2` has shape {b}; its {axis_b} axis must equal {k_a} ({axis_a} axis of `input` "
                                 f"{a}).{hint}")
    return k_a


def _bias(check: Check, bias: Any, dtype: DataType, n: int) -> Tensor:
    """The bias as [1, N]."""
    bias = check.tensor("bias_tensor", bias, supported("fp16 bf16 fp32 int32"), ranks=(1, 4))
    shape = shape_of(bias)
    if shape[-1] != n or math.prod(shape) != n:
        check.rule("shape.mismatch", f"`bias_tensor` has shape {shape}; it must be [1, {n}], one value per column of "
                                     "the result")
    allowed = BIAS[dtype] + ((BF16,) if dtype is BF16 and check.session.device.chip == "950" else ())
    if bias.dtype not in allowed:
        names = ", ".join(d.name for d in allowed)
        text = f"`bias_tensor` is {bias.dtype.name}; allowed with {dtype.name} operands on " \
               f"{check.session.device.chip}: {names}"
        if bias.dtype is BF16 and dtype is BF16:
            check.rule("matmul.bias_dtype", text + ". It is used as FP32")
        else:
            check.rule("dtype.unsupported", text)
    if len(shape) == 2:
        return bias
    if len(shape) == 1:
        check.rule("matmul.bias_rank", f"`bias_tensor` has shape {shape}, one axis; PyPTO needs [1, {n}]: use "
                                       "pypto.unsqueeze(bias, 0) or pass it as a 2-D tensor")
    from .views import reshape
    return reshape(bias, [1, n])


def _relu(check: Check, value: Any) -> bool:
    if value is None:
        return False
    if isinstance(value, ReLuType):
        return value is ReLuType.RELU
    check.rule("arg.type", f"`relu_type` must be a pypto.ReLuType, got {value!r}")
    return False


def _extras(check: Check, extend_params: Any) -> dict[str, Any]:
    if extend_params is None:
        return {}
    if not isinstance(extend_params, dict):
        check.rule("arg.type", f"`extend_params` must be a dict, got {type(extend_params).__name__}")
    if unknown := [k for k in extend_params if k not in EXTRAS]:
        check.rule("arg.unknown", f"`extend_params` has the unknown key {unknown[0]!r}; known: {', '.join(EXTRAS)}")
    found = {k: v for k, v in extend_params.items() if v is not None}
    return found


def _trans_mode(check: Check, extras: dict[str, Any], dtype: DataType, out_dtype: DataType) -> int:
    """Rounding of fp32 operands to TF32: 0 none, 1 nearest even, 2 half away from zero."""
    mode = extras.get("trans_mode")
    if mode is None:
        return 0
    found = TF32_MODES[check.choice("trans_mode", mode, TransMode).name]
    if found and (dtype is not FP32 or out_dtype is not FP32):
        check.rule("arg.value", f"trans_mode shortens FP32 operands with an FP32 result, got {dtype.name} and "
                                f"{out_dtype.name}")
    if found and check.session.device.chip != "950":
        check.rule("api.chip", "trans_mode exists on the 950 only")
    return found


# --- cube tile ------------------------------------------------------------------------------------------------------
def chosen_cube_tile(m: int, k: int, n: int, size_bytes: int) -> CubeTile:
    """Tile for a call without one: 128 each way, k of 256 bytes in L0, twice that in L1, clamped to the operands."""
    def fit(n: int, most: int) -> int:
        return min(most, round_up(n, max(ELEMENTS, BLOCK_BYTES // size_bytes)))
    m0, n0 = fit(m, 128), fit(n, 128)
    k0 = fit(k, 256 // size_bytes)
    k1 = k0 * (2 if k > k0 else 1)
    return CubeTile((m0, m0), (k0, k1, k1), (n0, n0))


def _cube_tile(check: Check, m: int, k: int, n: int, dtype: DataType, a_trans: bool) -> CubeTile | None:
    """The tile in force after its checks, or a chosen one where none is set."""
    tile = check.session.cube_tile
    size = dtype.size_bytes
    if tile is None:
        tile = chosen_cube_tile(m, k, n, size)
        check.rule("tile.cube_unset", f"no cube tile is set; m {tile.m}, k {tile.k}, n {tile.n} is used. Call "
                                      "pypto.set_cube_tile_shapes before it")
        return tile
    if min(tile.flat) <= 0:
        check.rule("tile.cube", f"the cube tile m {tile.m}, k {tile.k}, n {tile.n} has an entry that is not positive")
    unit = max(ELEMENTS, BLOCK_BYTES // size)
    for name, value in (("kL0", tile.k[0]), ("nL0", tile.n[0])):
        if value % unit:
            check.rule("tile.cube", f"{name} = {value}; it must be a multiple of {unit} for {dtype.name} (16 elements "
                                    f"and 32 bytes). Use {round_up(value, unit)}")
    if a_trans and tile.m[0] * size % BLOCK_BYTES:
        check.rule("tile.cube", f"mL0 = {tile.m[0]}; with a_trans it must be a multiple of {BLOCK_BYTES // size} for "
                                f"{dtype.name} (32 bytes)")
    for name, l0, l1 in (("m", tile.m[0], tile.m[1]), ("k of input", tile.k[0], tile.k[1]),
                         ("k of mat2", tile.k[0], tile.k[2]), ("n", tile.n[0], tile.n[1])):
        if l1 < l0 or l1 % l0:
            check.rule("tile.cube", f"{name}: L1 tile {l1} must be a multiple of the L0 tile {l0}")
    return tile


def _capacity(check: Check, tile: CubeTile, m: int, k: int, n: int, size: int, bias: bool) -> None:
    """Every buffer of one product against its memory; tiles count as used, clamped to the operands."""
    unit = max(ELEMENTS, BLOCK_BYTES // size)
    ml, nl = round_up(min(tile.m[0], m), unit), round_up(min(tile.n[0], n), unit)
    kl = round_up(min(tile.k[0], k), unit)
    ka, kb = (round_up(min(x, k), unit) for x in tile.k[1:])
    needs = [("L1", "mat2 tile in L1", (kb, nl), kb * nl * size), ("L1", "input tile in L1", (ml, ka), ml * ka * size),
             ("L0A", "input tile in L0A", (ml, kl), ml * kl * size),
             ("L0B", "mat2 tile in L0B", (kl, nl), kl * nl * size),
             ("L0C", "result tile in L0C", (ml, nl), ml * nl * 4)]
    if bias:
        needs.append(("BT", "bias tile in the bias table", (1, nl), round_up(nl * 4, 64)))
    for memory, name, shape, needed in needs:
        limit = int(check.session.device[f"capacity.{memory.lower()}"])
        if needed <= limit:
            continue
        fits = _largest(memory, tile, limit, size, unit)
        check.session.rule(
            "capacity", f"{check.name}: cube tile m {tile.m}, k {tile.k}, n {tile.n} needs {needed} B of {memory}, "
                        f"which has {limit} B. Live: {name} {list(shape)} {needed} B. {fits}",
            op="matmul", tile=tile.flat, bytes=needed, limit=limit, memory=memory, live=((name, shape, needed),))
    total = tile.m[1] * tile.k[1] * size + tile.n[1] * tile.k[2] * size
    clamped = min(tile.m[1], round_up(m, unit)) * ka * size + min(tile.n[1], round_up(n, unit)) * kb * size
    limit = int(check.session.device["capacity.l1"])
    if clamped > limit:
        check.rule("tile.l1_total", f"mL1 * kL1 + nL1 * kL1 of {tile} take {total} B, L1 has {limit} B; the documented "
                                    "bound is their sum. Use smaller L1 tiles")


def _largest(memory: str, tile: CubeTile, limit: int, size: int, unit: int) -> str:
    """Advice: the largest L0 or L1 tile that fits, keeping the first of its two axes."""
    m0, n0 = tile.m[0], tile.n[0]
    if memory == "BT":
        return f"Largest nL0 that fits: {limit // 4}."
    kept, name, element = {"L0A": (m0, "kL0", size), "L0B": (n0, "kL0", size), "L0C": (m0, "nL0", 4),
                           "L1": (max(m0, n0), "kL1", size)}[memory]
    most = limit // (round_up(kept, unit) * element) // unit * unit
    if most:
        return f"Largest {name} that fits beside {kept}: {most}."
    return f"Use a tile smaller than {kept} first: at most {limit // (unit * element) // unit * unit}."


# --- the operation --------------------------------------------------------------------------------------------------
@op(kernel="matmul", cost=Cost.CUBE, instr="mad", dtypes=OPERANDS, ranks=(2, 4), methods=("matmul",),
    source="operation table: matmul; numerics table: matmul rows; README section 7",
    constraints=("Equal ranks, 2 to 4; batch axes equal or 1.", "The last stored axis has at most 65535 elements.",
                 "kL0 and nL0: multiples of 16 elements and 32 bytes; each L1 tile a multiple of its L0 tile.",
                 "L0A, L0B, L0C, L1 and the bias table hold one tile each.",
                 "enable_split_k: FP32 or INT32 results, nothing fused."),
    numerics="fp32 sums (int32 for INT8) over blocks of kL0 in order, bias first, one rounding to out_dtype.",
    torch="out_dtype is required; a bias goes into extend_params.")
def matmul(input: Tensor, mat2: Tensor, out_dtype: DataType, *, a_trans: bool = False, b_trans: bool = False,
           c_matrix_nz: bool = False, extend_params: dict[str, Any] | None = None) -> Tensor:
    """Matrix product, optionally with bias, relu and scale before the one rounding to `out_dtype`.

    Parameters
    ----------
    input: [.., M, K], or [.., K, M] with a_trans; rank 2 to 4.
    mat2: [.., K, N], or [.., N, K] with b_trans; same rank and type, batch axes equal or 1.
    out_dtype: FP16 or FP32 of FP16, BF16 or FP32 of BF16, FP32 of FP32, INT32 of INT8 (FP16 or INT8 with a scale);
        FP16, BF16 or FP32 of FP8E4M3, FP8E5M2 (mixable) and HF8 on the 950; INT8 of any operands with a scale.
    a_trans: `input` is stored transposed.
    b_trans: `mat2` is stored transposed.
    c_matrix_nz: must be False.
    extend_params: dict of bias_tensor [1, N], relu_type (pypto.ReLuType), scale (number) or scale_tensor (UINT64 or
        INT64 [1, N], the bits of an fp32 in the low half; lenient also FP32), trans_mode (pypto.TransMode, 950: fp32
        operands rounded to TF32).

    Returns
    -------
    Tensor [.., M, N], valid (valid M, valid N).

    Raises
    ------
    ShapeError: ranks, sizes or the bias do not fit. PyptoValueError: types differ.
    CapacityError: a cube tile is too large. TileError: a cube tile breaks an alignment rule.

    Notes
    -----
    Where the contracted axis is not valid, operands count as 0.

    Cost
    ----
    One cube task per output tile. A fused bias saves one write and one read of the result.

    Examples
    --------
    >>> show(lambda a: pypto.matmul(a, a, pypto.DT_FP32, b_trans=True), [[1.0, 2.0]])
    [[5.0]]
    """
    check = Check(matmul.spec)
    a, b = _operand(check, "input", input), _operand(check, "mat2", mat2)
    if a.dtype is not b.dtype and not {a.dtype, b.dtype} <= MIXABLE:
        check.rule("matmul.mixed", f"`input` is {a.dtype.name}, `mat2` is {b.dtype.name}; they must be equal. Cast one")
    extras = _extras(check, extend_params)
    scale, column_scales = _scale(check, extras)
    if not isinstance(out_dtype, DataType):
        check.rule("arg.type", f"`out_dtype` must be a DataType such as pypto.DT_FP32, got {out_dtype!r}")
    scaled = bool(scale) or column_scales is not None
    allowed = SCALED_RESULTS[a.dtype is INT8] if scaled else RESULTS[a.dtype]
    if out_dtype not in allowed:
        check.rule("matmul.out_dtype", f"`out_dtype` is {out_dtype.name} for {a.dtype.name} operands"
                                       f"{' with a scale' if scaled else ''}; allowed: "
                                       f"{', '.join(d.name for d in allowed)}")
    if c_matrix_nz:
        check.rule("arg.value", "`c_matrix_nz` must be False: an NZ result is not supported")
    a, b = _equal_ranks(check, a, b)
    sa, sb = shape_of(a), shape_of(b)
    _inner_axis(check, "input", sa)
    _inner_axis(check, "mat2", sb)
    if extras and len(sa) > 2:
        check.rule("matmul.batch_extend", "`extend_params` with a batched product; reshape to 2-D")
    batch = _batches(check, sa[:-2], sb[:-2])
    k = _check_k(check, sa, sb, a_trans, b_trans)
    m, n = sa[-1 if a_trans else -2], sb[-2 if b_trans else -1]
    shape = [*batch, m, n]
    check.size("result", shape)
    valid = _valid(check, a, b, shape, a_trans, b_trans)
    bias = _bias(check, extras["bias_tensor"], a.dtype, n) if "bias_tensor" in extras else None
    relu = _relu(check, extras.get("relu_type"))
    trans_mode = _trans_mode(check, extras, a.dtype, out_dtype)
    if column_scales is not None and (shape_of(column_scales)[-1] != n or math.prod(shape_of(column_scales)) != n):
        check.rule("shape.mismatch", f"`scale_tensor` has shape {shape_of(column_scales)}; it must be [1, {n}]")
    tile = _cube_tile(check, m, k, n, a.dtype, a_trans)
    _capacity(check, tile, m, k, n, a.dtype.size_bytes, bias is not None)
    if tile.split_k and (out_dtype not in (FP32, INT32) or extras):
        check.rule("matmul.split_k", "enable_split_k takes FP32 or INT32 results and no bias, relu or scale")
    with check.session.scoped():
        check.session.set_scope(cube_tile=tile)
        if tile.split_k and k > tile.k[1]:
            return _split_k(check, a, b, out_dtype, shape, k, tile, a_trans, b_trans)
        ins = [t for t in (a, b, bias, column_scales) if t is not None]
        ints = [bool(a_trans), bool(b_trans), bias is not None, relu]
        if trans_mode or column_scales is not None:
            ints += [trans_mode, column_scales is not None]
        (out,) = check.session.emit(matmul.spec, [Out(tuple(shape), out_dtype, valid)], ins, floats=scale,
                                    ints=tuple(ints))
        return out


def _equal_ranks(check: Check, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    ra, rb = len(shape_of(a)), len(shape_of(b))
    if ra == rb:
        return a, b
    check.rule("matmul.rank", f"`input` has rank {ra} (shape {shape_of(a)}), `mat2` has rank {rb} (shape "
                              f"{shape_of(b)}); PyPTO needs equal ranks. The smaller one counts as batch 1: use "
                              "pypto.unsqueeze")
    from .views import unsqueeze
    while len(shape_of(a)) < rb:
        a = unsqueeze(a, 0)
    while len(shape_of(b)) < ra:
        b = unsqueeze(b, 0)
    return a, b


def _valid(check: Check, a: Tensor, b: Tensor, shape: list[int], a_trans: bool, b_trans: bool) -> Any:
    va, vb, sa, sb = valid_list(a), valid_list(b), shape_of(a), shape_of(b)
    k_a, k_b = va[-2 if a_trans else -1], vb[-1 if b_trans else -2]
    if isinstance(k_a, int) and isinstance(k_b, int) and k_a != k_b:
        check.rule("matmul.valid_k", f"the contracted axis holds data up to {k_a} in `input` and up to {k_b} in "
                                     "`mat2`; they must be equal. What is missing counts as 0")
    batch: list[Extent] = [va[i] if sa[i] == shape[i] else vb[i] for i in range(len(shape) - 2)]
    for i, n in enumerate(batch):
        if sb[i] == shape[i] and sa[i] == shape[i] and n == shape[i]:
            batch[i] = vb[i]
    return or_full([*batch, va[-1 if a_trans else -2], vb[-2 if b_trans else -1]], shape)


def _split_k(check: Check, a: Tensor, b: Tensor, out_dtype: DataType, shape: list[int], k: int, tile: CubeTile,
             a_trans: bool, b_trans: bool) -> Tensor:
    """One product per kL1 chunk, the partial results added left to right."""
    from .elementwise import add
    from .views import view
    check.session.set_scope(cube_tile=CubeTile(tile.m, tile.k, tile.n))
    size = tile_for_add(tile, int(check.session.device["capacity.ub"]))
    check.session.set_scope(vec_tile=(1,) * (len(shape) - 2) + size)
    total = None
    with check.session.label("matmul.split_k"):
        for at in range(0, k, tile.k[1]):
            step = min(tile.k[1], k - at)
            part_a = _chunk(view, a, -2 if a_trans else -1, at, step)
            part_b = _chunk(view, b, -1 if b_trans else -2, at, step)
            part = matmul(part_a, part_b, out_dtype, a_trans=a_trans, b_trans=b_trans)
            total = part if total is None else add(total, part)
    return total


def tile_for_add(tile: CubeTile, ub_bytes: int) -> tuple[int, int]:
    """Vector tile of the additions of split K: the L0 tile where two fp32 tiles of it fit UB."""
    return (tile.m[0], tile.n[0]) if 2 * tile.m[0] * tile.n[0] * 4 <= ub_bytes else (128, 128)


def _chunk(view: Any, t: Tensor, axis: int, at: int, step: int) -> Tensor:
    shape, offsets = shape_of(t), [0] * len(shape_of(t))
    shape[axis], offsets[axis] = step, at
    return view(t, shape, offsets)


def _scale(check: Check, extras: dict[str, Any]) -> tuple[tuple[float, ...], Tensor | None]:
    """(scale, scale tensor). A number as the fix pipe takes it: sign, exponent and 10 mantissa bits; () without one."""
    if "scale" not in extras and "scale_tensor" not in extras:
        return (), None
    if "scale_tensor" in extras:
        if "scale" in extras:
            check.rule("arg.value", "`scale` and `scale_tensor` exclude each other")
        return (), check.tensor("scale_tensor", extras["scale_tensor"], SCALES)
    scale = extras["scale"]
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        check.rule("arg.type", f"`scale` must be a number, got {type(scale).__name__}")
    return (float((np.float32(scale).view(np.uint32) & np.uint32(SCALE_MASK)).view(np.float32)),), None
