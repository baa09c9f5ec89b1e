"""Facts that many registry rows share: element types, sentences for the docs, sources."""
from __future__ import annotations

from ..registry import supported

API = "pypto_api: operations.csv, numerics.csv"

FLOATS = supported("fp32 fp16 bf16")
FLOATS_INTS = supported("fp32 fp16 bf16 int32 int16", unlisted="int8 uint8 int64 uint16 uint32 uint64")
FLOATS_INTS_950 = supported("fp32 fp16 bf16 int32 int16", only_950="int8 uint8",
                            unlisted="int64 uint16 uint32 uint64")
MINMAX = supported("fp32 fp16 bf16 int32 int16", only_950="int8 uint8 uint16 uint32", unlisted="int64 uint64")
COMPARABLE = supported("fp32 fp16", only_950="int16", only_0_2="bf16", unlisted="int32 int8 uint8")

NUMPY_BROADCAST = "Operands broadcast as in numpy over axes of size 1; the shorter shape is padded on the left."
ONE_DTYPE = "Tensor operands share one element type; nothing is promoted."
SCALAR_RULE = "A Python scalar takes the tensor's type; an int wraps modulo 2^n; a float needs a float tensor."
VECTOR_RULES = ("Not empty, at most INT32_MAX elements, ND format.",
                "The vector tile has at least as many entries as the result has axes.")

ONCE_PER_CHAIN = ("bf16 and fp16 operands are widened to fp32; a chain of such operations in one block is rounded "
                  "once, where another consumer reads it (fp16: under numerics \"current\").")
BF16_WIDENED = "bf16 is widened to fp32 and a chain is rounded once; fp16 is rounded after the operation."
EXACT = "Exact."
WRAPS = "Integers wrap around."
