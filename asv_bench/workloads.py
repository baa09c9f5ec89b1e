"""Workloads of the speed benchmarks: ours, and the same work by torch or numpy. Each `setup` prepares all data.

A workload is a pair of callables on data of the same values. Set one thread for both sides before numpy is imported
(`OPENBLAS_NUM_THREADS=1`), as `ratios.py` does.
"""
from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import pypto_sim as pypto
from pypto_sim.strategies import catalogue, inputs
from pypto_sim.strategies.comparison import find_preset, resolve

BF16 = np.dtype(ml_dtypes.bfloat16)
Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """name; limit: what ours / other must not exceed; other: which library; setup() -> (ours, other)."""

    name: str
    other: str
    limit: float
    setup: Callable[[], tuple[Call, Call]]


def one_thread() -> None:
    """One thread in the simulator and in torch; rule warnings are not what is measured."""
    import torch
    warnings.simplefilter("ignore", pypto.PyptoWarning)
    pypto.config(threads=1)
    torch.set_num_threads(1)


def case(operator: str, strategy: str, phase: str, preset: str, **changes: Any) -> tuple[Call, dict[str, np.ndarray]]:
    """A strategy's kernels on their seeded inputs: a callable, and the tensors by name."""
    module = catalogue.module(operator)
    found = find_preset(module, preset, phase)
    config = resolve(module, found, phase, found.phases[phase].check[-1], changes)
    chosen = next(s for s in module.STRATEGIES if s.id == strategy)
    args = inputs.tensors(module.OPERATOR, chosen, config)
    drawn = {n: inputs.draw(found.name, n, a) for n, a in args.items() if a.role == "in" and not a.alias}
    tensors = inputs.aliased(drawn | inputs.outputs(args), args)
    launches = chosen.launches(config)

    def ours() -> None:
        for one in launches:
            one.kernel(*(tensors[n] for n in one.args), *one.scalars)
    return ours, tensors


def to_torch(array: np.ndarray) -> Any:
    """torch tensor of a numpy array; bf16 by its bits."""
    import torch
    if array.dtype == BF16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def gelu_tanh() -> tuple[Call, Call]:
    """GELU, tanh form, [4096, 4096] bf16, against torch eager, operation by operation."""
    import torch
    ours, t = case("gelu", "tanh", "prefill", "gemma4-31b", tokens=4096, width=4096)
    x = to_torch(t["x"])

    def other() -> Any:
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
    return ours, other


def decode_torch(kv: int) -> tuple[Call, Call]:
    """Online GQA decode, 32 / 8 heads, D 128, blocks of 512, bf16, against the same algorithm in torch eager bf16."""
    import torch
    ours, t = case("attention", "online", "decode", "llama3-8b", kv=kv)
    q, k, v = (to_torch(t[n]) for n in "qkv")

    def other() -> Any:
        m = s = o = None
        for start in range(0, kv, 512):
            kt, vt = k[:, start:start + 512], v[:, start:start + 512]
            scores = torch.matmul(q, kt.transpose(1, 2)).float() * 128 ** -0.5
            top = scores.amax(-1, keepdim=True)
            p = torch.exp(scores - top)
            total, product = p.sum(-1, keepdim=True), torch.matmul(p.bfloat16(), vt).float()
            if m is None:
                m, s, o = top, total, product
                continue
            new = torch.maximum(m, top)
            old, now = torch.exp(m - new), torch.exp(top - new)
            m, s, o = new, s * old + total * now, o * old + product * now
        return (o / s).bfloat16()
    return ours, other


def numpy_online(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, block: int) -> np.ndarray:
    """Online softmax attention of q [H, G, D] with k, v [H, S, D], float32."""
    m = s = o = None
    for start in range(0, k.shape[1], block):
        kt, vt = k[:, start:start + block], v[:, start:start + block]
        scores = np.matmul(q, kt.transpose(0, 2, 1))
        scores *= scale
        top = scores.max(-1, keepdims=True)
        scores -= top
        p = np.exp(scores, out=scores)
        total, product = p.sum(-1, keepdims=True), np.matmul(p, vt)
        if m is None:
            m, s, o = top, total, product
            continue
        new = np.maximum(m, top)
        old, now = np.exp(m - new), np.exp(top - new)
        m, s, o = new, s * old + total * now, o * old + product * now
    return o / s


def decode_numpy(kv: int) -> tuple[Call, Call]:
    """The same decode against blocked float32 numpy on converted inputs."""
    ours, t = case("attention", "online", "decode", "llama3-8b", kv=kv)
    q, k, v = (t[n].astype(np.float32) for n in "qkv")
    return ours, lambda: numpy_online(q, k, v, 128 ** -0.5, 512)


def numpy_causal(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, rows: int, block: int) -> np.ndarray:
    """Causal online softmax, q [H, S, D], k and v [Hkv, S, D], float32, tiles of rows x block."""
    heads, seq, dim = q.shape
    group = heads // k.shape[0]
    out = np.empty_like(q)
    for h in range(k.shape[0]):
        for start in range(0, seq, rows):
            stop = min(seq, start + rows)
            qt = q[h * group:(h + 1) * group, start:stop]
            m = s = o = None
            for at in range(0, stop, block):
                end = min(at + block, stop)
                scores = np.matmul(qt, k[h, at:end].T)
                scores *= scale
                if end > start + 1:
                    scores[:, np.arange(at, end) > np.arange(start, stop)[:, None]] = -1e30
                top = scores.max(-1, keepdims=True)
                scores -= top
                p = np.exp(scores, out=scores)
                total, product = p.sum(-1, keepdims=True), np.matmul(p, v[h, at:end])
                if m is None:
                    m, s, o = top, total, product
                    continue
                new = np.maximum(m, top)
                old, now = np.exp(m - new), np.exp(top - new)
                m, s, o = new, s * old + total * now, o * old + product * now
            out[h * group:(h + 1) * group, start:stop] = o / s
    assert dim == v.shape[-1]
    return out


def prefill_numpy(seq: int) -> tuple[Call, Call]:
    """Causal prefill of 8 query and 2 KV heads, D 128, against blocked float32 numpy."""
    ours, t = case("attention", "online", "prefill", "llama3-8b", seq=seq, heads=8, kv_heads=2)
    q, k, v = (t[n].astype(np.float32) for n in "qkv")
    return ours, lambda: numpy_causal(q, k, v, 128 ** -0.5, 128, 512)


def matmul_bias() -> tuple[Call, Call]:
    """4096^3 bf16 matmul with bias against float32 np.matmul on converted inputs."""
    ours, t = case("linear", "fused_bias", "prefill", "llama3-8b", tokens=4096, hidden=4096, ffn=4096)
    x, w, bias = (t[n].astype(np.float32) for n in ("x", "w", "bias"))
    return ours, lambda: np.matmul(x, w.T) + bias


def routing() -> tuple[Call, Call]:
    """Sigmoid routing of 4,096 tokens over 256 experts, top 8, against torch."""
    import torch
    ours, t = case("moe_routing", "sigmoid", "prefill", "glm-4.5", tokens=4096, experts=256)
    logits, bias = to_torch(t["logits"]), to_torch(t["bias"])

    def other() -> Any:
        scores = torch.sigmoid(logits)
        _, ids = torch.topk(scores + bias, 8, dim=-1)
        weights = torch.gather(scores, 1, ids)
        return weights / weights.sum(-1, keepdim=True), ids
    return ours, other


def norm_rope() -> tuple[Call, Call]:
    """RMSNorm and RoPE of [4096, 16, 128] bf16 against torch eager."""
    import torch
    ours, t = case("rope", "fused_rmsnorm", "prefill", "qwen3-1.7b", seq=4096, heads=16)
    x, weight, cos, sin = (to_torch(t[n]) for n in ("x", "weight", "cos", "sin"))

    def other() -> Any:
        wide = x.float()
        h = (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).bfloat16() * weight
        return h * cos + torch.cat([-h[..., 64:], h[..., :64]], dim=-1) * sin
    return ours, other


WORKLOADS = (
    Workload("gelu_tanh_4096x4096_bf16", "torch", 1 / 3, gelu_tanh),
    Workload("gqa_decode_kv32768_bf16", "torch", 1 / 3, lambda: decode_torch(32768)),
    Workload("gqa_decode_kv131072_bf16", "numpy", 1.5, lambda: decode_numpy(131072)),
    Workload("causal_prefill_s8192_8heads", "numpy", 1.5, lambda: prefill_numpy(8192)),
    Workload("matmul_bias_4096_bf16", "numpy", 1.8, matmul_bias),
    Workload("routing_4096x256", "torch", 3.0, routing),
    Workload("rmsnorm_rope_4096x16x128_bf16", "torch", 0.5, norm_rope),
)


def long_loop(trips: int = 65536):
    """A loop of many iterations: (kernel, arguments). Its body must be traced a few times only."""
    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def long_loop_kernel(x: pypto.Tensor([pypto.DYNAMIC, 16], pypto.DT_FP32),
                         out: pypto.Tensor([pypto.DYNAMIC, 16], pypto.DT_FP32)):
        for i in pypto.loop(x.shape[0], name="rows", idx_name="i"):
            pypto.set_vec_tile_shapes(1, 16)
            t = pypto.view(x, [1, 16], [i, 0])
            pypto.assemble(pypto.add(t, 1.0), [i, 0], out)
    x = np.arange(trips * 16, dtype=np.float32).reshape(trips, 16)
    return long_loop_kernel, (x, np.zeros_like(x))


def traces(kernel: Any) -> int:
    """Times the loop bodies of a kernel's last launch were traced."""
    return max((entry["traces"] for entry in kernel.last_run.loops), default=0)


def decode_estimate(kv: int) -> Call:
    """Estimate of the online decode at a KV length."""
    return _estimate("attention", "online", "decode", "llama3-8b", kv=kv)


def matmul_estimate(size: int) -> Call:
    """Estimate of a size^3 matmul with bias."""
    return _estimate("linear", "fused_bias", "prefill", "llama3-8b", tokens=size, hidden=size, ffn=size)


def _estimate(operator: str, strategy: str, phase: str, preset: str, **changes: Any) -> Call:
    module = catalogue.module(operator)
    found = find_preset(module, preset, phase)
    config = resolve(module, found, phase, found.phases[phase].check[-1], changes)
    chosen = next(s for s in module.STRATEGIES if s.id == strategy)
    specs = inputs.specs(found.name, inputs.tensors(module.OPERATOR, chosen, config))
    one = chosen.launches(config)[0]
    return lambda: pypto.estimate(one.kernel, *(specs[n] for n in one.args), device="910b1")
