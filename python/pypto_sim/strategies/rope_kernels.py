"""Kernels of the RoPE strategies."""
import functools

import pypto_sim as pypto

NPU = {"run_mode": pypto.RunMode.NPU}


def _rotated(x, rows: int, heads: int, dim: int, valid):
    """concat(-x2, x1) of x [rows, heads, dim]; concat forgets the valid extent, so it is set again."""
    half = dim // 2
    minus = pypto.neg(pypto.view(x, [rows, heads, half], [0, 0, half]))
    turned = pypto.concat([minus, pypto.view(x, [rows, heads, half], [0, 0, 0])], dim=-1)
    return pypto.view(turned, [rows, heads, dim], [0, 0, 0], valid_shape=[valid, heads, dim])


def _table(t, rows: int, dim: int, start, tile):
    """Rows of cos or sin as [rows, 1, dim]."""
    pypto.set_vec_tile_shapes(tile[0], dim)
    found = pypto.unsqueeze(pypto.view(t, [rows, dim], [start, 0]), 1)
    pypto.set_vec_tile_shapes(tile[0], tile[1], dim)
    return found


def _normed(x, weight, dim: int, epsilon: float):
    """RMSNorm of fp32 x [rows, heads, dim] with fp32 weight [1, 1, dim]."""
    square = pypto.mul(pypto.sum(pypto.mul(x, x), dim=-1, keepdim=True), 1.0 / dim)
    return pypto.mul(pypto.div(x, pypto.sqrt(pypto.add(square, epsilon))), weight)


@functools.cache
def halves_kernel(rows: int, heads: int, dim: int, tile: tuple[int, int], dtype: pypto.DataType, before: int = 0):
    """x [S, heads, dim], cos and sin [S, dim] -> out; in the input's type. before: elementwise operations in front."""
    @pypto.frontend.jit(runtime_options=NPU)
    def rope(x: pypto.Tensor([pypto.DYNAMIC, heads, dim], dtype), cos: pypto.Tensor([pypto.DYNAMIC, dim], dtype),
             sin: pypto.Tensor([pypto.DYNAMIC, dim], dtype), out: pypto.Tensor([pypto.DYNAMIC, heads, dim], dtype)):
        length = x.shape[0]
        for i in pypto.loop((length + rows - 1) // rows, name="rows", idx_name="i"):
            valid = pypto.min(rows, length - i * rows)
            c = _table(cos, rows, dim, i * rows, tile)
            s = _table(sin, rows, dim, i * rows, tile)
            t = pypto.view(x, [rows, heads, dim], [i * rows, 0, 0])
            for _ in range(before):
                t = pypto.mul(t, 1.0009765625)
            y = pypto.add(pypto.mul(t, c), pypto.mul(_rotated(t, rows, heads, dim, valid), s))
            pypto.assemble(y, [i * rows, 0, 0], out)
    return rope


@functools.cache
def rms_norm_kernel(rows: int, heads: int, dim: int, epsilon: float, tile: tuple[int, int], dtype: pypto.DataType):
    """x [S, heads, dim], weight [1, 1, dim] -> out; fp32 inside."""
    @pypto.frontend.jit(runtime_options=NPU)
    def rms_norm(x: pypto.Tensor([pypto.DYNAMIC, heads, dim], dtype), weight: pypto.Tensor([1, 1, dim], dtype),
                 out: pypto.Tensor([pypto.DYNAMIC, heads, dim], dtype)):
        for i in pypto.loop((x.shape[0] + rows - 1) // rows, name="rows", idx_name="i"):
            pypto.set_vec_tile_shapes(tile[0], tile[1], dim)
            t = pypto.cast(pypto.view(x, [rows, heads, dim], [i * rows, 0, 0]), pypto.DT_FP32)
            y = _normed(t, pypto.cast(weight, pypto.DT_FP32), dim, epsilon)
            pypto.assemble(pypto.cast(y, dtype), [i * rows, 0, 0], out)
    return rms_norm


@functools.cache
def fused_kernel(rows: int, heads: int, dim: int, epsilon: float, tile: tuple[int, int], dtype: pypto.DataType,
                 between: int = 0):
    """RMSNorm, then `between` elementwise operations, then RoPE, in one kernel and in fp32."""
    @pypto.frontend.jit(runtime_options=NPU)
    def rms_norm_rope(x: pypto.Tensor([pypto.DYNAMIC, heads, dim], dtype), weight: pypto.Tensor([1, 1, dim], dtype),
                      cos: pypto.Tensor([pypto.DYNAMIC, dim], dtype), sin: pypto.Tensor([pypto.DYNAMIC, dim], dtype),
                      out: pypto.Tensor([pypto.DYNAMIC, heads, dim], dtype)):
        length = x.shape[0]
        for i in pypto.loop((length + rows - 1) // rows, name="rows", idx_name="i"):
            valid = pypto.min(rows, length - i * rows)
            c = pypto.cast(_table(cos, rows, dim, i * rows, tile), pypto.DT_FP32)
            s = pypto.cast(_table(sin, rows, dim, i * rows, tile), pypto.DT_FP32)
            t = pypto.cast(pypto.view(x, [rows, heads, dim], [i * rows, 0, 0]), pypto.DT_FP32)
            h = _normed(t, pypto.cast(weight, pypto.DT_FP32), dim, epsilon)
            for _ in range(between):
                h = pypto.mul(h, 1.0009765625)
            y = pypto.add(pypto.mul(h, c), pypto.mul(_rotated(h, rows, heads, dim, valid), s))
            pypto.assemble(pypto.cast(y, dtype), [i * rows, 0, 0], out)
    return rms_norm_rope


def _combined(even, odd, c, s, heads: int, rows: int, dim: int, valid):
    """Rotation with the even elements as first half of the result."""
    half = dim // 2
    whole = pypto.view(pypto.concat([even, odd], dim=-1), [1, heads, rows, dim], [0, 0, 0, 0],
                       valid_shape=[1, heads, valid, dim])
    turned = pypto.view(pypto.concat([pypto.neg(odd), even], dim=-1), [1, heads, rows, dim], [0, 0, 0, 0],
                        valid_shape=[1, heads, valid, dim])
    assert half * 2 == dim
    return pypto.add(pypto.mul(whole, c), pypto.mul(turned, s))


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
                    valid = pypto.min(rows, length - i * rows)
                    t = pypto.view(x, [1, heads, rows, dim], [b, n * heads, i * rows, 0])
                    c = pypto.view(cos, [1, 1, rows, dim], [b, 0, i * rows, 0])
                    s = pypto.view(sin, [1, 1, rows, dim], [b, 0, i * rows, 0])
                    if take == "deinterleave":
                        even, odd = pypto.deinterleave(t)
                    else:
                        even, odd = pypto.gathermask(t, 1), pypto.gathermask(t, 2)
                    y = _combined(even, odd, c, s, heads, rows, dim, valid)
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
                    y = _combined(even, odd, c, s, heads, rows, dim, valid)
                    pypto.assemble(y, [b, n * heads, i * rows, 0], out)
    return rope_pairs_explicit
