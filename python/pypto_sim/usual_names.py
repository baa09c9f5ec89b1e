"""Hints for public names that do not exist: the usual names of torch, numpy and tensorflow, and near spellings."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .registry import REGISTRY

# usual name -> what PyPTO has for it: a name of the public interface, or an expression in such names
USUAL: dict[str, str] = {
    # arithmetic
    "multiply": "mul", "subtract": "sub", "divide": "div", "true_divide": "div", "truediv": "div", "negative": "neg",
    "power": "pow", "absolute": "abs", "fabs": "abs", "floordiv": "floor_div", "floor_divide": "floor_div",
    "mod": "remainder", "floormod": "remainder", "square": "mul(x, x)", "rsqrt_": "rsqrt", "inverse": "reciprocal",
    "addcmul": "add(x, mul(a, b))", "lerp": "add(a, mul(sub(b, a), w))", "clamp": "clip", "clip_by_value": "clip",
    "arctan": "atan", "arcsin": "asin", "arccos": "acos", "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "leaky_relu": "lrelu", "logical_or": "logical_not(logical_and(logical_not(a), logical_not(b)))",
    "logical_xor": "ne", "invert": "bitwise_not", "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift", "isinf": "logical_not(isfinite(x))",
    # comparisons
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater_equal": "ge", "select": "where",
    "masked_fill": "where(mask, value, x)", "masked_fill_": "where(mask, value, x)", "cond_select": "where",
    # reductions
    "reduce_sum": "sum", "reduce_max": "amax", "reduce_min": "amin", "reduce_prod": "prod",
    "reduce_mean": "div(sum(x, dim, True), n)", "mean": "div(sum(x, dim, True), n)", "std": "sqrt(var(x, dim))",
    "logsumexp": "add(m, log(sum(exp(sub(x, m)), dim, True))) with m = amax(x, dim, True)",
    "log_softmax": "log(softmax(x, dim))", "norm": "sqrt(sum(mul(x, x), dim, True))", "top_k": "topk",
    "nanmax": "amax", "reduce": "sum", "cumulative_sum": "cumsum", "sort": "topk(x, n)",
    # products
    "mm": "matmul", "bmm": "matmul", "dot": "matmul", "batch_matmul": "matmul", "einsum": "matmul",
    "addmm": "matmul(a, b, dtype, extend_params={'bias_tensor': bias})", "linear": "matmul(x, w, dtype, b_trans=True)",
    "conv2d": "conv", "convolution": "conv", "scaled_dot_product_attention": "matmul, softmax and matmul",
    # shapes and moves
    "concatenate": "concat", "cat": "concat", "stack": "concat of unsqueeze(t, dim)", "expand": "expand_clone",
    "broadcast_to": "expand_clone", "broadcast": "expand_clone", "repeat": "expand_clone and reshape",
    "tile": "concat([x, x], dim)", "swapaxes": "transpose", "movedim": "permute", "expand_dims": "unsqueeze",
    "flatten": "reshape", "ravel": "reshape", "view_as": "view(x, shape, offsets)", "narrow": "view(x, shape, offsets)",
    "slice": "view(x, shape, offsets)", "strided_slice": "view(x, shape, offsets)", "split": "view(x, shape, offsets)",
    "chunk": "view(x, shape, offsets)", "copy_": "assemble(x, offsets, out), or out[:] = x", "copyto": "assemble",
    "store": "assemble(x, offsets, out)", "load": "view(x, shape, offsets)", "assign": "assemble(x, offsets, out)",
    # look-ups
    "embedding": "index_select(weight, 0, ids)", "take": "index_select", "index_fill": "scatter",
    "take_along_axis": "gather", "take_along_dim": "gather", "gather_nd": "index_select", "scatter_add": "index_add",
    "index_copy": "scatter_update", "index_put": "index_put_",
    # creation and types
    "astype": "cast", "to": "cast(t, dtype)", "type": "cast(t, dtype)", "type_as": "cast(t, other.dtype)",
    "float": "cast(t, DT_FP32)", "half": "cast(t, DT_FP16)", "bfloat16": "cast(t, DT_BF16)", "int": "cast(t, DT_INT32)",
    "zeros_like": "zeros(t.shape, t.dtype)", "ones_like": "ones(t.shape, t.dtype)",
    "full_like": "full(t.shape, value, t.dtype)", "empty": "tensor(shape, dtype)", "new_zeros": "zeros(shape, dtype)",
    "empty_like": "tensor(t.shape, t.dtype)", "fill": "full", "constant": "full", "range": "loop, or arange for values",
    "rand": "uniform", "randn": "normal", "float32": "DT_FP32", "float16": "DT_FP16", "bool": "DT_BOOL",
    **{f"{u}int{n}": f"DT_{u.upper()}INT{n}" for u in ("", "u") for n in (8, 16, 32, 64)},
    # control and options
    "for_range": "loop", "fori_loop": "loop", "while_loop": "loop", "for_loop": "loop", "kernel": "frontend.jit",
    "compile": "frontend.jit", "set_tile_shapes": "set_vec_tile_shapes or set_cube_tile_shapes",
    "set_matmul_tile_shapes": "set_cube_tile_shapes", "cdiv": "ceildiv", "program_id": "loop",
}
# operations without an equivalent name that `pypto-sim ops --torch` writes out
WRITTEN_OUT = frozenset({"gelu", "silu", "swish", "glu", "layer_norm", "linear", "mean", "masked_fill", "stack",
                         "chunk", "split", "roll", "repeat", "tile", "repeat_interleave", "sort", "embedding",
                         "scaled_dot_product_attention"})
# of a tensor only; {} is the tensor
OF_TENSOR: dict[str, str] = {
    "T": "{}.transpose(-1, -2), or a_trans / b_trans of matmul", "mT": "{}.transpose(-1, -2)",
    "t": "{}.transpose(0, 1)",
    "size": "{}.shape", "numel": "the product of {}.shape", "item": "{}[0] reads an element of an integer tensor",
    "tolist": "{}[i] reads an element of an integer tensor", "contiguous": "nothing to call: values have no strides",
    "numpy": "the array that the kernel writes, after the call",
    "cpu": "the array that the kernel writes, after the call",
    "detach": "nothing to call: there are no gradients", "device": "nothing to ask: a kernel runs on one device",
    "ravel": "{}.reshape", "max": "{}.amax(dim, True)", "min": "{}.amin(dim, True)", "data_ptr": "{} itself",
}


class MissingNameError(AttributeError):
    """A public name that does not exist. The hint is looked for when the text is read."""

    def __init__(self, where: str, name: str, known: Callable[[], Iterable[str]], of_tensor: bool = False) -> None:
        super().__init__(f"{where} has no attribute {name!r}", name=name)
        self.missing, self.known, self.of_tensor = name, known, of_tensor

    def __str__(self) -> str:
        hint = hint_for(self.missing, self.known(), self.of_tensor) if self.missing[:1] != "_" else ""
        return str(self.args[0]) + (f"; {hint}" if hint else "")

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


def hint_for(name: str, known: Iterable[str], of_tensor: bool = False) -> str:
    """What to use instead of a name: its equivalent, a function of that name, the near spellings; "" for nothing."""
    names = frozenset(known)
    if of_tensor and name in OF_TENSOR:
        return f"use {OF_TENSOR[name].format('t')}"
    if of_tensor and name in REGISTRY:
        return f"it is a function: pypto.{name}(t, ...)"
    word = name.lower()
    found = USUAL.get(word) or USUAL.get(word.rstrip("_"))
    form = f"pypto-sim ops --torch {word} writes it out" if word in WRITTEN_OUT else ""
    if found:
        plain = found.isidentifier() or found == "frontend.jit"
        text = f"t.{found}" if of_tensor and found in names else f"pypto.{found}" if plain else found
        return f"use {text}" + ("" if plain or not form else f"; {form}")
    if form:
        return form
    import difflib
    near = difflib.get_close_matches(name, names, n=3) or difflib.get_close_matches(word, names, n=3)
    return f"did you mean {', '.join(near)}?" if near else ""
