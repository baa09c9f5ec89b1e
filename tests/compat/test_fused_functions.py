"""Fused functions of torch_npu against plain torch."""
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
B, N, NKV, S, KV, D = 2, 4, 2, 6, 10, 8
SCALE = D ** -0.5


@pytest.fixture
def npu(alias):
    import torch_npu
    return torch_npu


@pytest.fixture
def qkv():
    torch.manual_seed(0)
    return torch.randn(B, N, S, D), torch.randn(B, NKV, KV, D), torch.randn(B, NKV, KV, D)


def wanted(q, k, v, hidden=None):
    mask = None if hidden is None else ~hidden
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=SCALE, enable_gqa=True)


def in_layout(t, layout):
    rows = t.transpose(1, 2)
    return {"BNSD": t, "BSND": rows, "BSH": rows.flatten(2), "SBH": rows.flatten(2).transpose(0, 1)}[layout]


def close(got, want):
    torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
def test_fusion_attention_in_every_layout(npu, qkv, layout):
    args = [in_layout(t, layout).npu() for t in qkv]
    out, largest, total, rest, *numbers = npu.npu_fusion_attention(*args, N, layout, scale=SCALE)
    close(out, in_layout(wanted(*qkv), layout))
    scores = qkv[0] @ qkv[1].repeat_interleave(N // NKV, 1).transpose(-1, -2) * SCALE
    assert out.is_npu and largest.shape == total.shape == (B, N, S, 8) and rest.numel() == 0 and numbers == [0, 0, 0]
    close(largest[..., 0] + total[..., 7].log(), torch.logsumexp(scores, -1))


@pytest.mark.parametrize(("mode", "options", "diagonal"), [
    (2, {}, 1), (3, {}, KV - S + 1), (4, {"pre_tockens": 100, "next_tockens": 1}, KV - S + 2),
    (0, {"next_tockens": 0}, 1)])
def test_sparse_modes(npu, qkv, mode, options, diagonal):
    hidden = torch.ones(S, KV, dtype=torch.bool).triu(diagonal)
    given = torch.zeros(S, KV, dtype=torch.bool) if mode == 0 else torch.ones(2048, 2048, dtype=torch.bool).triu(1)
    out = npu.npu_fusion_attention(*qkv, N, "BNSD", atten_mask=given, scale=SCALE, sparse_mode=mode, **options)[0]
    close(out, wanted(*qkv, hidden))


def test_masks_and_rows_that_see_nothing(npu, qkv):
    hidden = torch.rand(B, 1, S, KV) < 0.5
    hidden[0, 0, 2] = True
    want = torch.nan_to_num(wanted(*qkv, hidden))
    for mode in (0, 1):
        out = npu.npu_fusion_attention(*qkv, N, "BNSD", atten_mask=hidden, scale=SCALE, sparse_mode=mode)[0]
        close(out, want)
        assert (out[0, :, 2] == 0).all()


def test_packed_sequences(npu):
    ends, key_ends = [3, 4, 9], [5, 6, 12]
    q, k, v = torch.randn(9, N, D), torch.randn(12, NKV, D), torch.randn(12, NKV, D)
    out, largest, *_ = npu.npu_fusion_attention(q, k, v, N, "TND", scale=SCALE, actual_seq_qlen=ends,
                                                actual_seq_kvlen=torch.tensor(key_ends), sparse_mode=3)
    for a, b, c, d in zip([0, *ends], ends, [0, *key_ends], key_ends, strict=False):
        hidden = torch.ones(b - a, d - c, dtype=torch.bool).triu(d - c - (b - a) + 1)
        one = wanted(*(t.transpose(0, 1)[None] for t in (q[a:b], k[c:d], v[c:d])), hidden)
        close(out[a:b], one[0].transpose(0, 1))
    assert largest.shape == (9, N, 8)
    with pytest.raises(RuntimeError, match="TND needs actual_seq_kvlen"):
        npu.npu_fusion_attention(q, k, v, N, "TND", actual_seq_qlen=ends)


@pytest.mark.parametrize("options", [{"keep_prob": 0.9}, {"pse": torch.ones(1)}, {"input_layout": "NTD"},
                                     {"sparse_mode": 7}, {"softmax_layout": "x"}])
def test_what_is_not_computed_is_refused(npu, qkv, options):
    with pytest.raises(RuntimeError, match="not stood in for"):
        npu.npu_fusion_attention(*qkv, N, **{"input_layout": "BNSD", **options})


def test_low_precision_is_computed_in_fp32(npu, qkv):
    low = [t.bfloat16() for t in qkv]
    out = npu.npu_fusion_attention(*low, N, "BNSD", scale=SCALE)[0]
    torch.testing.assert_close(out, wanted(*(t.float() for t in low)).bfloat16())
    assert out.dtype == torch.bfloat16


def test_inference_attention_takes_lengths_and_pages(npu, qkv):
    q, k, v = qkv
    lens, rows = [7, 10], [4, 6]
    out, lse = npu.npu_fused_infer_attention_score(
        *(in_layout(t, "BSH").npu() for t in qkv), num_heads=N, num_key_value_heads=NKV, scale=SCALE,
        actual_seq_lengths=rows, actual_seq_lengths_kv=lens, sparse_mode=3, softmax_lse_flag=True)
    for b, (n, m) in enumerate(zip(rows, lens, strict=True)):
        hidden = torch.ones(n, m, dtype=torch.bool).triu(m - n + 1)
        one = wanted(q[b:b + 1, :, :n], k[b:b + 1, :, :m], v[b:b + 1, :, :m], hidden)
        close(out[b, :n], in_layout(one, "BSH")[0])
        assert (out[b, n:] == 0).all()
    assert lse.shape == (B, N, S, 1)
    pages = torch.randn(5, NKV, 4, D), torch.randn(5, NKV, 4, D)
    table = torch.tensor([[3, 1, -1], [0, 2, 4]])
    paged = npu.npu_incre_flash_attention(q[:, :, :1], *(p.transpose(1, 2).flatten(2) for p in pages), num_heads=N,
                                          num_key_value_heads=NKV, scale_value=SCALE, input_layout="BNSD", block_size=4,
                                          actual_seq_lengths=[6, 11], block_table=table)
    for b, n in ((0, 6), (1, 11)):
        k_b, v_b = (torch.cat([p[i] for i in table[b].tolist() if i >= 0], 1)[None, :, :n] for p in pages)
        close(paged[b:b + 1], wanted(q[b:b + 1, :, :1], k_b, v_b))
    same = npu.npu_fused_infer_attention_score(q[:, :, :1], *pages, num_heads=N, num_key_value_heads=NKV, scale=SCALE,
                                               input_layout="BNSD", actual_seq_lengths_kv=[6, 11], block_table=table)[0]
    close(same, paged)
    with pytest.raises(RuntimeError, match="dequant_scale1"):
        npu.npu_fused_infer_attention_score(q, k, v, input_layout="BNSD", dequant_scale1=torch.ones(1))


def test_prompt_attention(npu, qkv):
    out = npu.npu_prompt_flash_attention(*qkv, num_heads=N, num_key_value_heads=NKV, scale_value=SCALE,
                                         input_layout="BNSD")
    close(out, wanted(*qkv))
    mask = torch.zeros(S, KV, dtype=torch.bool)
    out = npu.npu_prompt_flash_attention(*qkv, num_heads=N, num_key_value_heads=NKV, scale_value=SCALE, atten_mask=mask,
                                         input_layout="BNSD")
    close(out, wanted(*qkv, torch.ones(S, KV, dtype=torch.bool).triu(1)))


def test_norms_and_activations(npu):
    a, b, g = torch.randn(4, 8).bfloat16(), torch.randn(4, 8).bfloat16(), torch.rand(8).bfloat16()
    y, rstd, total = npu.npu_add_rms_norm(a.npu(), b, g, 1e-5)
    assert torch.equal(total.cpu(), a + b) and rstd.shape == (4, 1) and y.dtype == torch.bfloat16 and y.is_npu
    want = F.rms_norm(a.float() + b.float(), (8,), g.float(), 1e-5).bfloat16()
    torch.testing.assert_close(y.cpu(), want, rtol=8e-3, atol=1e-6)
    x = torch.randn(3, 5)
    close(npu.npu_gelu(x, approximate="tanh"), F.gelu(x, approximate="tanh"))
    close(npu.npu_linear(x, torch.eye(5)[:2], torch.ones(2)), x[:, :2] + 1)
    scores, mask = torch.randn(2, 3, 5, 5), torch.rand(2, 1, 5, 5) < 0.5
    close(npu.npu_scaled_masked_softmax(scores, mask, 0.5), torch.softmax((scores * 0.5).masked_fill(mask, -1e4), -1))
    close(npu.npu_scaled_masked_softmax(scores, mask, 1.0, True),
          torch.softmax(scores.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), float("-inf")), -1))


def test_expert_gating_and_grouped_products(npu):
    x = torch.randn(6, 16)
    y, experts, rows = npu.npu_moe_gating_top_k_softmax(x, k=3)
    want = torch.topk(torch.softmax(x, -1), 3)
    close(y, want.values)
    assert experts.tolist() == want.indices.tolist() and experts.dtype == rows.dtype == torch.int32
    assert rows[:, 0].tolist() == list(range(6)) and rows[0].tolist() == [0, 6, 12]
    done = npu.npu_moe_gating_top_k_softmax(x, torch.tensor([True] + [False] * 5), 2)[1]
    assert done[0].tolist() == [16, 16] and done[1:].tolist() == want.indices[1:, :2].tolist()
    tokens, weight = torch.randn(7, 4), torch.randn(3, 4, 5)
    parts = torch.cat([tokens[:2] @ weight[0], tokens[2:2] @ weight[1], tokens[2:] @ weight[2]])
    for kind, sizes in ((0, [2, 2, 7]), (1, [2, 0, 5])):
        (out,) = npu.npu_grouped_matmul([tokens.npu()], [weight], group_list=torch.tensor(sizes), split_item=2,
                                        group_type=0, group_list_type=kind)
        close(out, parts)
    two = npu.npu_grouped_matmul([tokens, tokens[:1]], [weight[0], weight[1]], bias=[torch.ones(5), torch.zeros(5)])
    close(two[0], tokens @ weight[0] + 1)
    close(two[1], tokens[:1] @ weight[1])
    with pytest.raises(RuntimeError, match="antiquant_scale"):
        npu.npu_grouped_matmul([tokens], [weight[0]], antiquant_scale=torch.ones(1))
