"""Kernels of the RoPE strategies."""
import functools

import pypto_sim as pypto

NPU = {"run_mode": pypto.RunMode.NPU}


def _turned(first, second):
    """concat(-second, first): what sin is multiplied with."""
    return pypto.concat([pypto.neg(second), first], dim=-1)


def _spread(x, dim: int, epsilon: float):
    """Root mean square of the last axis of fp32 x, [.., 1]."""
    square = pypto.mul(pypto.sum(pypto.mul(x, x), dim=-1, keepdim=True), 1.0 / dim)
    return pypto.sqrt(pypto.add(square, epsilon))


@functools.cache
def halves_kernel(rows: int, heads: int, dim: int, tile: tuple[int, int], dtype: pypto.DataType, before: int = 0):
    """x [S, heads, dim], cos and sin [S, 1, dim] -> out; in the input's type. before: elementwise operations in front.

    The product with sin has sin first: concat forgets the valid rows, the first operand decides them.
    """
    half = dim // 2

    @pypto.frontend.jit(runtime_options=NPU)
    def rope(x: pypto.Tensor([pypto.DYNAMIC, heads, dim], dtype), cos: pypto.Tensor([pypto.DYNAMIC, 1, dim], dtype),
             sin: pypto.Tensor([pypto.DYNAMIC, 1, dim], dtype), out: pypto.Tensor([pypto.DYNAMIC, heads, dim], dtype)):
        for i in pypto.loop((x.shape[0] + rows - 1) // rows, name="rows", idx_name="i"):
            pypto.set_vec_tile_shapes(tile[0], tile[1], dim)
            c = pypto.view(cos, [rows, 1, dim], [i * rows, 0, 0])
            s = pypto.view(sin, [rows, 1, dim], [i * rows, 0, 0])
            t = pypto.view(x, [rows, heads, dim], [i * rows, 0, 0])
            for _ in range(before):
                t = pypto.mul(t, 1.0009765625)
            turned = _turned(pypto.view(t, [rows, heads, half], [0, 0, 0]),
                             pypto.view(t, [rows, heads, half], [0, 0, half]))
            pypto.assemble(pypto.add(pypto.mul(t, c), pypto.mul(s, turned)), [i * rows, 0, 0], out)
    return rope


@functools.cache
def rms_norm_kernel(rows: int, dim: int, epsilon: float, tile_rows: int, dtype: pypto.DataType):
    """x [rows of all heads, dim], weight [1, dim] fp32 -> out; fp32 inside."""
    @pypto.frontend.jit(runtime_options=NPU)
    def rms_norm(x: pypto.Tensor([pypto.DYNAMIC, dim], dtype), weight: pypto.Tensor([1, dim], pypto.DT_FP32),
                 out: pypto.Tensor([pypto.DYNAMIC, dim], dtype)):
        for i in pypto.loop((x.shape[0] + rows - 1) // rows, name="rows", idx_name="i"):
            pypto.set_vec_tile_shapes(tile_rows, dim)
            t = pypto.cast(pypto.view(x, [rows, dim], [i * rows, 0]), pypto.DT_FP32)
            y = pypto.mul(pypto.div(t, _spread(t, dim, epsilon)), weight)
            pypto.assemble(pypto.cast(y, dtype), [i * rows, 0], out)
    return rms_norm


@functools.cache
def fused_kernel(rows: int, heads: int, dim: int, epsilon: float, tile: tuple[int, int], dtype: pypto.DataType,
                 between: int = 0):
    """RMSNorm, then `between` elementwise operations, then RoPE, in one kernel and in fp32.

    x [S, heads, dim], weight and its halves exchanged [1, 1, dim] fp32, cos and sin [S, 1, dim] -> out.

    The weight goes into the tables and the division by the root mean square comes last; the halves are read from x
    again. A view at an offset of a tensor on the chip, and a weight spread over two axes, would make round trips
    through global memory.
    """
    half = dim // 2

    @pypto.frontend.jit(runtime_options=NPU)
    def rms_norm_rope(x: pypto.Tensor([pypto.DYNAMIC, heads, dim], dtype),
                      weight: pypto.Tensor([1, 1, dim], pypto.DT_FP32),
                      weight_turned: pypto.Tensor([1, 1, dim], pypto.DT_FP32),
                      cos: pypto.Tensor([pypto.DYNAMIC, 1, dim], dtype),
                      sin: pypto.Tensor([pypto.DYNAMIC, 1, dim], dtype),
                      out: pypto.Tensor([pypto.DYNAMIC, heads, dim], dtype)):
        for i in pypto.loop((x.shape[0] + rows - 1) // rows, name="rows", idx_name="i"):
            pypto.set_vec_tile_shapes(tile[0], tile[1], dim)
            c = pypto.cast(pypto.view(cos, [rows, 1, dim], [i * rows, 0, 0]), pypto.DT_FP32)
            s = pypto.cast(pypto.view(sin, [rows, 1, dim], [i * rows, 0, 0]), pypto.DT_FP32)
            t = pypto.cast(pypto.view(x, [rows, heads, dim], [i * rows, 0, 0]), pypto.DT_FP32)
            turned = pypto.cast(_turned(pypto.view(x, [rows, heads, half], [i * rows, 0, 0]),
                                        pypto.view(x, [rows, heads, half], [i * rows, 0, half])), pypto.DT_FP32)
            spread = _spread(t, dim, epsilon)
            for _ in range(between):
                t, turned = pypto.mul(t, 1.0009765625), pypto.mul(turned, 1.0009765625)
            y = pypto.add(pypto.mul(t, pypto.mul(c, weight)), pypto.mul(pypto.mul(s, weight_turned), turned))
            pypto.assemble(pypto.cast(pypto.div(y, spread), dtype), [i * rows, 0, 0], out)
    return rms_norm_rope


def _combined(even, odd, c, s):
    """Rotation with the even elements as first half of the result; the tables first, for their valid rows."""
    return pypto.add(pypto.mul(c, pypto.concat([even, odd], dim=-1)), pypto.mul(s, _turned(even, odd)))


@functools.cache
def pairs_kernel(heads: int, rows: int, dim: int, tile: tuple[int, int], dtype: pypto.DataType, take: str):
    """x [B, N, S, dim] with pairs in neighbouring elements, cos and sin [B, 1, S, dim] -> out, evens first.

    take: "gathermask" (all chips) or "deinterleave" (950).
    """
    @pypto.frontend.jit(runtime_options=NPU)
    def rope_pairs(x: pypto.Tensor([pypto.DYNAMIC, pypto.DYNAMIC, pypto.DYNAMIC, dim], dtype),
                   cos: pypto.Tensor([pypto.DYNAMIC, 1, pypto.DYNAMIC, dim], dtype),
                   sin: pypto.Tensor([pypto.DYNAMIC, 1, pypto.DYNAMIC, dim], dtype),
                   out: pypto.Tensor([pypto.DYNAMIC, pypto.DYNAMIC, pypto.DYNAMIC, dim], dtype)):
        length = x.shape[2]
        for b in pypto.loop(x.shape[0], name="batch", idx_name="b"):
            for n in pypto.loop(x.shape[1] // heads, name="heads", idx_name="n"):
                for i in pypto.loop((length + rows - 1) // rows, name="rows", idx_name="i"):
                    pypto.set_vec_tile_shapes(1, tile[0], tile[1], dim)
                    t = pypto.view(x, [1, heads, rows, dim], [b, n * heads, i * rows, 0])
                    c = pypto.view(cos, [1, 1, rows, dim], [b, 0, i * rows, 0])
                    s = pypto.view(sin, [1, 1, rows, dim], [b, 0, i * rows, 0])
                    if take == "deinterleave":
                        even, odd = pypto.deinterleave(t)
                    else:
                        even, odd = pypto.gathermask(t, 1), pypto.gathermask(t, 2)
                    y = _combined(even, odd, c, s)
                    pypto.assemble(y, [b, n * heads, i * rows, 0], out)
    return rope_pairs


@functools.cache
def pairs_explicit_kernel(heads: int, rows: int, dim: int, tile: tuple[int, int], dtype: pypto.DataType):
    """The same with reshape and views instead of a mask: [heads rows, dim/2, 2] and its two columns."""
    half = dim // 2

    @pypto.frontend.jit(runtime_options=NPU)
    def rope_pairs_explicit(x: pypto.Tensor([pypto.DYNAMIC, pypto.DYNAMIC, pypto.DYNAMIC, dim], dtype),
                            cos: pypto.Tensor([pypto.DYNAMIC, 1, pypto.DYNAMIC, dim], dtype),
                            sin: pypto.Tensor([pypto.DYNAMIC, 1, pypto.DYNAMIC, dim], dtype),
                            out: pypto.Tensor([pypto.DYNAMIC, pypto.DYNAMIC, pypto.DYNAMIC, dim], dtype)):
        length = x.shape[2]
        for b in pypto.loop(x.shape[0], name="batch", idx_name="b"):
            for n in pypto.loop(x.shape[1] // heads, name="heads", idx_name="n"):
                for i in pypto.loop((length + rows - 1) // rows, name="rows", idx_name="i"):
                    pypto.set_vec_tile_shapes(1, tile[0], tile[1], dim)
                    valid = pypto.min(rows, length - i * rows)
                    t = pypto.view(x, [1, heads, rows, dim], [b, n * heads, i * rows, 0])
                    c = pypto.view(cos, [1, 1, rows, dim], [b, 0, i * rows, 0])
                    s = pypto.view(sin, [1, 1, rows, dim], [b, 0, i * rows, 0])
                    pairs = pypto.reshape(t, [heads, rows * half, 2], valid_shape=[heads, valid * half, 2])
                    even = pypto.reshape(pypto.view(pairs, [heads, rows * half, 1], [0, 0, 0]),
                                         [1, heads, rows, half], valid_shape=[1, heads, valid, half])
                    odd = pypto.reshape(pypto.view(pairs, [heads, rows * half, 1], [0, 0, 1]),
                                        [1, heads, rows, half], valid_shape=[1, heads, valid, half])
                    y = _combined(even, odd, c, s)
                    pypto.assemble(y, [b, n * heads, i * rows, 0], out)
    return rope_pairs_explicit
