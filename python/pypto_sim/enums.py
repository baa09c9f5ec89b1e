"""Enumerations of the public interface. Values are the documented ones where there are any."""
import enum


class CastMode(enum.Enum):
    """Rounding of a cast; the values are the codes of the core's `cast` row."""

    CAST_NONE = 0    # the framework picks: float to integer truncates, everything else rounds to nearest even
    CAST_RINT = 1    # nearest, ties to even
    CAST_ROUND = 2   # nearest, ties away from zero
    CAST_FLOOR = 3   # toward minus infinity
    CAST_CEIL = 4    # toward plus infinity
    CAST_TRUNC = 5   # toward zero
    CAST_ODD = 6     # to odd, fp32 to fp16 only


class SaturationMode(enum.Enum):
    """What a cast does on overflow: OFF wraps integers, ON clamps."""

    OFF = 0
    ON = 1


class PrecisionType(enum.Enum):
    """Hardware instruction, or a more accurate sequence that only the 950 has."""

    INTRINSIC = 0
    HIGH_PRECISION = 1


class RunMode(enum.IntEnum):
    """Where a kernel runs; both simulate here."""

    NPU = 0
    SIM = 1


class TileOpFormat(enum.Enum):
    """Memory layout: row major (ND) or fractal (NZ)."""

    TILEOP_ND = 0
    TILEOP_NZ = 1


class TopKAlgo(enum.Enum):
    """Algorithm of topk; RADIX_SELECT is for the 950."""

    MERGE_SORT = 0
    RADIX_SELECT = 1


class StatusType(enum.Enum):
    """Axis markers of annotations."""

    DYNAMIC = "dynamic"
    DYN = "dynamic"      # the same marker, shorter
    STATIC = "static"

    def __repr__(self) -> str:
        return f"pypto.{self.name}"


DYNAMIC = StatusType.DYNAMIC
DYN = StatusType.DYN
STATIC = StatusType.STATIC


class ReLuType(enum.Enum):
    """Activation fused into a matrix product."""

    NO_RELU = 0
    RELU = 1


class TransMode(enum.Enum):
    """Rounding of fp32 matrix operands to the short form of the 950."""

    CAST_NONE = 0
    CAST_RINT = 1
    CAST_ROUND = 2


class ScatterMode(enum.Enum):
    """How scatter combines with what is there; the values are the codes of the core's `scatter` row."""

    NONE = 0
    ADD = 1
    MULTIPLY = 2


class AtomicType(enum.Enum):
    """How an assemble combines with memory."""

    SET = 0
    ADD = 1


class AtomicRMWMode(enum.Enum):
    """Read-modify-write operations on global memory."""

    ADD = 0
    MIN = 1
    MAX = 2


class OpType(enum.Enum):
    """Comparison operations."""

    EQ = 0
    NE = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5


class OutType(enum.Enum):
    """Form of a comparison result."""

    BOOL = 0
    BIT = 1


class CachePolicy(enum.Enum):
    """Use of the L2 cache for a tensor."""

    NONE_CACHEABLE = 0
    PREFETCH = 1


class ReduceMode(enum.Enum):
    """How partial results meet in global memory."""

    ATOMIC_ADD = 0


class DequantScaleRoundingMode(enum.Enum):
    """Rounding of the shared exponent of a block format."""

    ROUND_UP = 0
    ROUND_DOWN = 1


ROUND_UP = DequantScaleRoundingMode.ROUND_UP
ROUND_DOWN = DequantScaleRoundingMode.ROUND_DOWN


class CompStage(enum.Enum):
    """Stage at which the real compiler stops; accepted and ignored here."""

    ALL_COMPLETE = 0
    TENSOR_GRAPH = 1
    TILE_GRAPH = 2
    EXECUTE_GRAPH = 3
    CODEGEN_INSTRUCTION = 4
    CODEGEN_BINARY = 5


class SatStatus(enum.Enum):
    """Outcome of a symbolic check."""

    SAT = 0
    UNSAT = 1
    UNKNOWN = 2


class PassConfigKey(enum.Enum):
    """Keys of the pass configuration."""

    KEY_DUMP_GRAPH = 0


class LogBaseType(enum.Enum):
    """Base of a logarithm."""

    LOG_E = 0
    LOG_2 = 1
    LOG_10 = 2


class LogLevel(enum.Enum):
    """Levels of the log functions."""

    DEBUG = 0
    INFO = 1
    WARN = 2
    ERROR = 3
    FATAL = 4
    EVENT = 5
