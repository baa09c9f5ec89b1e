"""Model code around a kernel as teams write it: modules, losses, caches, block tables, streams, files, threads."""
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pypto
import torch
import torch.nn.functional as F
import torch_npu
from pypto.frontend import dynamic, jit
from torch import nn
from torch.npu import Stream

B = dynamic("B")


@jit(runtime_options={"run_mode": pypto.RunMode.NPU, "stitch_function_max_num": 128})
def softmax(x: pypto.Tensor([B, ...], pypto.DT_FP32), y: pypto.Tensor([B, ...], pypto.DT_FP32)):
    pypto.set_vec_tile_shapes(1, 64)
    for b in pypto.loop(x.shape[0]):
        y[b:b + 1, :] = pypto.softmax(x[b:b + 1, :], -1)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), heads
        self.register_buffer("mask", torch.triu(torch.ones(16, 16, dtype=torch.bool), 1))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(0, 1) for t in self.qkv(x).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(self.mask, float("-inf"))
        assert scores.device.type == "npu"
        wide = torch.zeros(self.heads * 16, 64, device=x.device)
        wide[:, :16] = scores.reshape(-1, 16)
        wide[:, 16:] = float("-inf")
        p = torch.empty_like(wide)
        softmax(wide, p)
        return self.out((p[:, :16].view(self.heads, 16, 16) @ v).transpose(0, 1).flatten(1))


def check_model(device):
    torch.manual_seed(0)
    model = Attention(32, 2).to(device)
    x = torch.randn(16, 32, device=device)
    with torch.no_grad():
        y = model(x)
    q, k, v = (t.unflatten(-1, (2, -1)).transpose(0, 1) for t in model.qkv(x).chunk(3, -1))
    golden = model.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).flatten(1))
    torch.testing.assert_close(y, golden, rtol=1e-4, atol=1e-5)
    assert next(model.parameters()).device == device and y.device == device
    others = (nn.LSTM(4, 8), nn.MultiheadAttention(4, 2), nn.TransformerEncoderLayer(4, 2), nn.LayerNorm(4))
    for layer in others:
        t = torch.randn(3, 2, 4, device=device)
        out = layer.to(device).eval()(*([t] * 3 if isinstance(layer, nn.MultiheadAttention) else [t]))
        assert (out[0] if isinstance(out, tuple) else out).is_npu


def check_caches(device):
    cache = torch.zeros(4, 8, 64, device=device)
    before = cache.cpu()
    table = torch.tensor([[2, 0], [3, 1]], dtype=torch.int32, device=device)
    cache[table[:, 0].long()] = torch.ones(8, 64, device=device)
    cache.index_copy_(0, torch.tensor([1], device=device), torch.full((1, 8, 64), 2.0, device=device))
    assert before.sum() == 0 and [int(c[0, 0]) for c in cache] == [0, 2, 1, 1]
    host = torch.zeros(4, 8, 64)
    host.copy_(cache)
    assert not host.is_npu and torch.equal(host, cache.cpu())


def check_threads(device):
    def one(rows):
        torch.npu.set_device(device)
        x = torch.randn(rows, 64, device=device)
        y = torch.zeros_like(x)
        softmax(x, y)
        return torch.allclose(y, torch.softmax(x, -1), atol=1e-6)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(3, 9)))


def check_streams(device):
    stream, start, end = Stream(), torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    start.record()
    with torch.npu.stream(stream):
        x = torch.ones(2, 64, device=device).to(torch.float16, non_blocking=True)
    stream.synchronize()
    end.record()
    torch_npu.npu.synchronize()
    assert x.dtype == torch.float16 and start.elapsed_time(end) >= 0


def check_files(device):
    x = torch.randn(2, 3, device=device)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(x, f"{folder}/x.pt")
        np.save(f"{folder}/x.npy", x.cpu().numpy())
        assert torch.equal(torch.load(f"{folder}/x.pt", map_location=device), x)
        assert torch.equal(torch.from_numpy(np.load(f"{folder}/x.npy")).to(device), x)


if __name__ == "__main__":
    torch.npu.set_device(int(os.environ["TILE_FWK_DEVICE_ID"]))
    npu = torch.device(f"npu:{torch.npu.current_device()}" if torch.npu.is_available() else "cpu")
    for check in (check_model, check_caches, check_threads, check_streams, check_files):
        check(npu)
        print(check.__name__, "passed")
