"""Pieces that several attention kernels share. Scores and state are fp32; operands of the matrix products bf16."""
import pypto_sim as pypto

NPU = {"run_mode": pypto.RunMode.NPU}
MASKED = -1e30    # added to a score that causality hides; finite, so that no row can turn into NaN


def local_softmax(scores):
    """Statistics of one block: (row maximum, exp(scores - maximum), row sum)."""
    top = pypto.amax(scores, dim=-1, keepdim=True)
    p = pypto.exp(pypto.sub(scores, top))
    return top, p, pypto.sum(p, dim=-1, keepdim=True)


def weighted(p, v, dtype, split: bool):
    """p v in fp32 with p rounded to `dtype`; split: the rounding error of p is a second product."""
    high = pypto.cast(p, dtype)
    product = pypto.matmul(high, v, pypto.DT_FP32)
    if not split:
        return product
    low = pypto.cast(pypto.sub(p, pypto.cast(high, pypto.DT_FP32)), dtype)
    return pypto.add(product, pypto.matmul(low, v, pypto.DT_FP32))


def merged(m, s, o, top, total, product):
    """Running maximum, sum and output (m, s, o) with one more block."""
    new = pypto.maximum(m, top)
    old, now = pypto.exp(pypto.sub(m, new)), pypto.exp(pypto.sub(top, new))
    return (new, pypto.add(pypto.mul(s, old), pypto.mul(total, now)),
            pypto.add(pypto.mul(o, old), pypto.mul(product, now)))
