"""Pieces that several attention kernels share. Scores and state are fp32; operands of the matrix products bf16.

Matrix products are 2-D, one per head: a 3-D product would copy every head's result through UB once more. The heads of a
step are stacked as rows of one tensor, so that the vector operations are written once for all of them.
"""
import pypto_sim as pypto

NPU = {"run_mode": pypto.RunMode.NPU}
MASKED = -1e30    # added to a score that causality hides; finite, so that no row can turn into NaN


def local_softmax(scores):
    """Statistics of one block: (row maximum, exp(scores - maximum), row sum)."""
    top = pypto.amax(scores, dim=-1, keepdim=True)
    p = pypto.exp(pypto.sub(scores, top))
    return top, p, pypto.sum(p, dim=-1, keepdim=True)


def stacked(products, rows: int, name: str, there, width):
    """The products, `rows` rows each, one below the other, of which `there` rows and `width` columns are valid.

    A tensor put together by assemble knows nothing of the valid parts of its pieces.
    """
    if len(products) == 1:
        return products[0]
    shape = [len(products) * rows, products[0].shape[1]]
    whole = pypto.tensor(shape, pypto.DT_FP32, name)
    for n, product in enumerate(products):
        pypto.assemble(product, [n * rows, 0], whole)
    return pypto.view(whole, shape, [0, 0], valid_shape=[there, width])


def piece(t, n: int, of: int, rows: int, valid=None):
    """Rows of head n of a stacked tensor; `valid` of them where that is fewer."""
    if of == 1 and valid is None:
        return t
    width = t.shape[1]
    if valid is None:
        return pypto.view(t, [rows, width], [n * rows, 0])
    return pypto.view(t, [rows, width], [n * rows, 0], valid_shape=[valid, width])


def scores_of(queries, keys, rows: int, there, seen, scale: float, hidden):
    """Scaled scores of every head's queries [rows, D] with its keys [block, D], stacked; `hidden` is added.

    there: valid rows of the stack; seen: valid keys.
    """
    products = [pypto.matmul(q, k, pypto.DT_FP32, b_trans=True) for q, k in zip(queries, keys, strict=True)]
    scores = pypto.mul(stacked(products, rows, "scores", there, seen), scale)
    return scores if hidden is None else pypto.add(scores, hidden)


def weighted(p, values, rows: int, there, dtype, split: bool):
    """p v of every head in fp32, stacked, with p rounded to `dtype`.

    split: the rounding error of p is a second product.
    """
    def product(part):
        return stacked([pypto.matmul(piece(part, n, len(values), rows), v, pypto.DT_FP32)
                        for n, v in enumerate(values)], rows, "product", there, values[0].shape[1])
    high = pypto.cast(p, dtype)
    if not split:
        return product(high)
    low = pypto.cast(pypto.sub(p, pypto.cast(high, pypto.DT_FP32)), dtype)
    return pypto.add(product(high), product(low))


def merged(m, s, o, top, total, product):
    """Running maximum, sum and output (m, s, o) with one more block."""
    new = pypto.maximum(m, top)
    old, now = pypto.exp(pypto.sub(m, new)), pypto.exp(pypto.sub(top, new))
    return (new, pypto.add(pypto.mul(s, old), pypto.mul(total, now)),
            pypto.add(pypto.mul(o, old), pypto.mul(product, now)))
