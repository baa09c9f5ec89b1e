"""Kernels of MoE routing: scores, optional groups, top-k, weights; and the combine stage."""
import functools
from dataclasses import dataclass

import pypto_sim as pypto

NPU = {"run_mode": pypto.RunMode.NPU}
EXCLUDED = -1e30     # score of an expert outside the chosen groups


@dataclass(frozen=True, slots=True)
class Gate:
    """What a routing kernel does. hidden 0: it starts from logits. bias: added to the scores for the selection only.

    expand: sigmoid written as exp, add, div (the guide's form); otherwise pypto.sigmoid.
    """

    experts: int
    top: int
    hidden: int = 0
    groups: int = 1
    top_groups: int = 1
    bias: bool = True
    softmax: bool = False
    expand: bool = True
    renormalise: bool = True
    factor: float = 1.0


def _scores(logits, gate: Gate, rows: int, valid):
    """Gate values [rows, experts] of fp32 logits."""
    if gate.softmax:
        p = pypto.exp(pypto.sub(logits, pypto.amax(logits, dim=-1, keepdim=True)))
        return pypto.div(p, pypto.sum(p, dim=-1, keepdim=True))
    if not gate.expand:
        return pypto.sigmoid(logits)
    e = pypto.add(pypto.exp(pypto.mul(logits, -1.0)), 1.0)
    ones = pypto.full([rows, gate.experts], 1.0, pypto.DT_FP32, valid_shape=[valid, gate.experts])
    return pypto.div(ones, e)


def _masked(biased, gate: Gate, rows: int, valid, tile_rows: int):
    """Scores with the experts outside the best groups excluded. A group's score is its largest member."""
    size = gate.experts // gate.groups
    pypto.set_vec_tile_shapes(tile_rows, gate.groups, size)
    grouped = pypto.reshape(biased, [rows, gate.groups, size], valid_shape=[valid, gate.groups, size])
    best = pypto.amax(grouped, dim=-1)
    pypto.set_vec_tile_shapes(tile_rows, gate.groups)
    _, chosen = pypto.topk(best, gate.top_groups)
    chosen = pypto.cast(chosen, pypto.DT_FP32)
    number = pypto.unsqueeze(pypto.arange(0.0, float(gate.groups)), 0)
    mask = pypto.sub(best, best)
    for n in range(gate.top_groups):
        same = pypto.eq(pypto.view(chosen, [rows, 1], [0, n]), number)
        mask = pypto.where(same, pypto.full([rows, gate.groups], 1.0, pypto.DT_FP32), mask)
    pypto.set_vec_tile_shapes(tile_rows, gate.groups, size)
    inside = pypto.gt(pypto.unsqueeze(mask, 2), 0.5)
    outside = pypto.full([rows, gate.groups, size], EXCLUDED, pypto.DT_FP32)
    kept = pypto.where(inside, grouped, outside)
    found = pypto.reshape(kept, [rows, gate.experts], valid_shape=[valid, gate.experts])
    pypto.set_vec_tile_shapes(tile_rows, gate.experts)
    return found


def _route(logits, bias, gate: Gate, rows: int, valid, tile_rows: int):
    """(weights, ids) [rows, top] of fp32 logits [rows, experts]."""
    pypto.set_vec_tile_shapes(tile_rows, gate.experts)
    scores = _scores(logits, gate, rows, valid)
    biased = pypto.add(scores, bias) if bias is not None else scores
    if gate.groups > 1:
        biased = _masked(biased, gate, rows, valid, tile_rows)
    _, ids = pypto.topk(biased, gate.top)
    weights = pypto.gather(scores, 1, ids)
    if gate.renormalise:
        weights = pypto.div(weights, pypto.sum(weights, dim=-1, keepdim=True))
    if gate.factor != 1.0:
        weights = pypto.mul(weights, gate.factor)
    return weights, ids


@functools.cache
def logits_kernel(gate: Gate, rows: int, tile_rows: int):
    """logits [T, experts] fp32, bias [1, experts] -> weights [T, top] fp32, ids [T, top] int32."""
    @pypto.frontend.jit(runtime_options=NPU)
    def moe_routing(logits: pypto.Tensor([pypto.DYNAMIC, gate.experts], pypto.DT_FP32),
                    bias: pypto.Tensor([1, gate.experts], pypto.DT_FP32),
                    weights: pypto.Tensor([pypto.DYNAMIC, gate.top], pypto.DT_FP32),
                    ids: pypto.Tensor([pypto.DYNAMIC, gate.top], pypto.DT_INT32)):
        tokens = logits.shape[0]
        for i in pypto.loop((tokens + rows - 1) // rows, name="tokens", idx_name="i"):
            pypto.set_vec_tile_shapes(tile_rows, gate.experts)
            valid = pypto.min(rows, tokens - i * rows)
            t = pypto.view(logits, [rows, gate.experts], [i * rows, 0])
            w, e = _route(t, bias if gate.bias else None, gate, rows, valid, tile_rows)
            pypto.assemble(w, [i * rows, 0], weights)
            pypto.assemble(e, [i * rows, 0], ids)
    return moe_routing


@functools.cache
def hidden_kernel(gate: Gate, rows: int, tile_rows: int, cube: tuple, dtype: pypto.DataType):
    """x [T, hidden], gate weight [experts, hidden], bias [1, experts] -> weights, ids; logits in fp32."""
    @pypto.frontend.jit(runtime_options=NPU)
    def moe_gate(x: pypto.Tensor([pypto.DYNAMIC, gate.hidden], dtype),
                 gate_weight: pypto.Tensor([gate.experts, gate.hidden], dtype),
                 bias: pypto.Tensor([1, gate.experts], pypto.DT_FP32),
                 weights: pypto.Tensor([pypto.DYNAMIC, gate.top], pypto.DT_FP32),
                 ids: pypto.Tensor([pypto.DYNAMIC, gate.top], pypto.DT_INT32)):
        tokens = x.shape[0]
        for i in pypto.loop((tokens + rows - 1) // rows, name="tokens", idx_name="i"):
            pypto.set_cube_tile_shapes(list(cube[0]), list(cube[1]), list(cube[2]))
            valid = pypto.min(rows, tokens - i * rows)
            t = pypto.view(x, [rows, gate.hidden], [i * rows, 0])
            logits = pypto.matmul(t, gate_weight, pypto.DT_FP32, b_trans=True)
            w, e = _route(logits, bias if gate.bias else None, gate, rows, valid, tile_rows)
            pypto.assemble(w, [i * rows, 0], weights)
            pypto.assemble(e, [i * rows, 0], ids)
    return moe_gate


@functools.cache
def combine_kernel(top: int, width: int, rows: int, tile: tuple[int, int], dtype: pypto.DataType):
    """expert_out [slots, width], slot [T, top], weights [T, top, 1] -> combined [T, 1, width]: weighted sum."""
    @pypto.frontend.jit(runtime_options=NPU)
    def moe_combine(expert_out: pypto.Tensor([pypto.DYNAMIC, width], dtype),
                    slot: pypto.Tensor([pypto.DYNAMIC, top], pypto.DT_INT32),
                    weights: pypto.Tensor([pypto.DYNAMIC, top, 1], pypto.DT_FP32),
                    combined: pypto.Tensor([pypto.DYNAMIC, 1, width], dtype)):
        for i in pypto.loop((slot.shape[0] + rows - 1) // rows, name="tokens", idx_name="i"):
            pypto.set_vec_tile_shapes(tile[0], top, tile[1])
            picked = pypto.view(slot, [rows, top], [i * rows, 0])
            y = pypto.cast(pypto.index_select(expert_out, 0, picked), pypto.DT_FP32)
            w = pypto.view(weights, [rows, top, 1], [i * rows, 0, 0])
            total = pypto.sum(pypto.mul(y, w), dim=1, keepdim=True)
            pypto.assemble(pypto.cast(total, dtype), [i * rows, 0, 0], combined)
    return moe_combine
