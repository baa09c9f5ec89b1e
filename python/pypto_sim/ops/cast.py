"""Change of element type."""
from __future__ import annotations

from ..dtypes import DataType, from_short
from ..enums import CastMode, SaturationMode
from ..registry import Cost, internal_row, op, supported
from ..trace.tensor import Tensor, static_shape
from . import _facts as facts
from ._checks import Check, valid_of
from ._shapes import or_full, shape_of, valid_list

# Conversions one instruction does, from the operation table; "fp32": "fp16" reads fp32 -> fp16.
_A2A3 = {"fp32": "fp16 bf16 int64 int32 int16", "fp16": "fp32 int32 int16 int8 uint8 int4", "bf16": "fp32 int32",
         "int32": "fp32 int64 int16 fp16", "int16": "fp32 fp16", "int64": "fp32 int32", "uint8": "fp16",
         "int8": "fp16", "int4": "fp16"}
_ONLY_950 = {"fp32": "fp8e4m3 fp8e5m2 hf8", "fp16": "hf8", "bf16": "fp16 fp4_e2m1x2 fp4_e1m2x2", "uint8": "uint16",
             "int8": "int16 int32", "int16": "uint8 uint32 int32", "int32": "uint16 uint8",
             "uint32": "uint8 uint16 int16", "fp8e4m3": "fp32", "fp8e5m2": "fp32", "hf8": "fp32",
             "fp4_e2m1x2": "bf16", "fp4_e1m2x2": "bf16"}


def _pairs(table: dict[str, str]) -> frozenset[tuple[DataType, DataType]]:
    return frozenset((from_short(a), from_short(b)) for a, targets in table.items() for b in targets.split())


PAIRS = {"A2A3": _pairs(_A2A3), "950": _pairs(_A2A3) | _pairs(_ONLY_950)}
ANY_TYPE = supported(" ".join(d.short for d in DataType if d.in_core))    # pairs are checked instead
PACKED = tuple(map(from_short, ("int4", "fp4_e2m1x2", "fp4_e1m2x2")))      # two elements a byte
PACK4, UNPACK4 = (internal_row(name, cost=Cost.VEC_CAST, instr="vconv") for name in ("pack4", "unpack4"))
SAME_ONLY = (from_short("fp8e8m0"),)                                        # no instruction converts it
INTEGRAL_MODES = (CastMode.CAST_FLOOR, CastMode.CAST_CEIL, CastMode.CAST_ROUND, CastMode.CAST_TRUNC)


def targets_of(dtype: DataType, chip: str) -> list[DataType]:
    """Types that one instruction of `chip` converts `dtype` to."""
    return sorted((b for a, b in PAIRS[chip] if a is dtype), key=lambda d: d.value)


@op(kernel="cast", instr="vconv", cost=Cost.VEC_CAST, source=facts.API,
    dtypes=supported("fp32 fp16 bf16 int32 int16 int64 uint8 int8 int4",
                     only_950="uint32 fp8e4m3 fp8e5m2 hf8 fp4_e2m1x2 fp4_e1m2x2", only_0_2="bool",
                     unlisted="uint16 uint64"),
    numerics="Default mode: float to integer truncates, everything else rounds to nearest even. Overflow: floats go to "
             "inf, integers wrap; SaturationMode.ON clamps.",
    constraints=("One instruction per pair: A2/A3 convert 8-bit integers only through FP16, BF16 and FP16 only through "
                 "FP32, BOOL not at all.",
                 "INT4 and the FP4 types hold two elements a byte: the last axis halves or doubles.",
                 "CAST_ODD is for FP32 to FP16 only.", *facts.VECTOR_RULES),
    torch="Modes and saturation are explicit; integer overflow wraps.")
def cast(input: Tensor, dtype: DataType, mode: CastMode = CastMode.CAST_NONE,
         satmode: SaturationMode = SaturationMode.OFF) -> Tensor:
    """Convert every element to another type with the chosen rounding.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    dtype: target type.
    mode: rounding; CAST_NONE truncates from float to integer and rounds to nearest even otherwise.
    satmode: ON clamps on overflow, OFF wraps integers.

    Returns
    -------
    Tensor of the shape of `input` with type `dtype`; `input` itself for the same type and the default mode.

    Raises
    ------
    DTypeError: the chip has no such conversion (strict profiles), or the type is not simulated.
    PyptoTypeError: `dtype`, `mode` or `satmode` is not of its enumeration.

    Notes
    -----
    The same type with FLOOR, CEIL, ROUND or TRUNC rounds to whole numbers in place. Modes a pair does not have fall
    back to the default.

    Cost
    ----
    One vconv per tile.

    Examples
    --------
    >>> show(lambda a: pypto.cast(a, pypto.DT_INT32), [1.5, -1.5])
    [1, -1]
    """
    c = Check(cast.spec)
    c.choice("dtype", dtype, DataType)
    c.choice("mode", mode, CastMode)
    c.choice("satmode", satmode, SaturationMode)
    x = c.tensor("input", input, ANY_TYPE)
    same = x.dtype is dtype
    if same and (mode not in INTEGRAL_MODES or not dtype.is_float):
        return x
    chip = c.session.device.chip
    if not dtype.in_core or dtype in SAME_ONLY or x.dtype in SAME_ONLY:
        c.rule("api.not_implemented", f"no instruction converts {x.dtype.name} to {dtype.name}")
    if not same and (x.dtype, dtype) not in PAIRS[chip]:
        allowed = ", ".join(d.name for d in targets_of(x.dtype, chip)) or "nothing"
        c.rule("cast.pair", f"no instruction of {chip} converts {x.dtype.name} to {dtype.name}; from {x.dtype.name} "
                            f"there is {allowed}. Cast in two steps")
    acting = _mode(c, x.dtype, dtype, mode)
    if x.dtype in PACKED or dtype in PACKED:
        return _packed(c, x, dtype, acting, satmode)
    return c.emit(static_shape(x), dtype, valid_of(x), (x,), ints=(acting.value, satmode.value))


def _packed(c: Check, x: Tensor, dtype: DataType, mode: CastMode, satmode: SaturationMode) -> Tensor:
    """A cast from or to a type of two elements a byte."""
    shape, valid = shape_of(x), valid_list(x)
    if dtype in PACKED and (shape[-1] % 2 or x.dtype in PACKED):
        c.rule("shape.mismatch", f"`input` {shape} {x.dtype.name} to {dtype.name}: the last axis must be even, and "
                                 f"{dtype.name} is made of whole types only")
    if dtype in PACKED:
        shape[-1] //= 2
        valid[-1] = (valid[-1] + 1) // 2
        return c.emit(shape, dtype, or_full(valid, shape), (x,), spec=PACK4, ints=(mode.value, satmode.value))
    shape[-1] *= 2
    valid[-1] = valid[-1] * 2
    return c.emit(shape, dtype, or_full(valid, shape), (x,), spec=UNPACK4)


def _mode(c: Check, source: DataType, target: DataType, mode: CastMode) -> CastMode:
    """The rounding that acts: the default for CAST_NONE and for modes the pair does not have."""
    if target.short == "hf8":
        return CastMode.CAST_ROUND
    whole = source.is_float and (target.is_int or target.short == "int4")
    default = CastMode.CAST_TRUNC if whole else CastMode.CAST_RINT
    if mode is CastMode.CAST_NONE:
        return default
    if mode is CastMode.CAST_ODD and (source, target) != (DataType.DT_FP32, DataType.DT_FP16):
        c.rule("cast.mode", f"`mode` CAST_ODD exists for FP32 to FP16 only; {default.name} is used")
        return default
    return mode
