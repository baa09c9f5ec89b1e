"""Every operation has a cost: positive, never less work for more rows, and what has no rule is named."""
import sys

import numpy as np
import pytest
from support.samples import SAMPLES, D

import pypto_sim as pypto
from pypto_sim.testing import evaluate

pytestmark = pytest.mark.filterwarnings("ignore::pypto_sim.errors.PyptoWarning")
FIRST = {s.name: s for s in reversed(SAMPLES) if not s.fixed}.values()
kernel_of = sys.modules["pypto_sim.testing.evaluate"]._kernel


def estimate(sample, rows):
    """Estimate of one call with `rows` times the rows of the sample."""
    types = sample.spec.dtypes.union() | sample.spec.dtypes.unlisted
    dtype = next(D[t] for t in ("fp32", "int32", "int16") if D[t] in types)
    arrays = [np.tile(a, (rows, *[1] * (a.ndim - 1))) if a.ndim > 1 and a.shape[0] > 1 else a
              for a in sample.arrays(dtype)]
    tile = (1, 1, 1, 8, 64)[-max(map(len, sample.shapes)):]
    device = "950pr" if sample.spec.socs == ("950",) else "910b1"
    call = lambda *t: sample.call(sample.spec.function, *t)
    results = evaluate(call, *arrays, tile=tile, device=device)

    def body(*tensors):
        pypto.set_vec_tile_shapes(*tile)
        made = call(*tensors[:len(arrays)])
        for out, result in zip(tensors[len(arrays):], made if isinstance(made, tuple) else (made,), strict=True):
            out.move(result)

    kernel = kernel_of(body, len(arrays) + len(results))
    return pypto.estimate(kernel, *arrays, *results, device=device)


@pytest.mark.parametrize("sample", FIRST, ids=lambda s: s.name)
def test_cost_is_positive_and_work_grows_with_rows(sample):
    small, large = estimate(sample, 1), estimate(sample, 4)
    assert 0 < small.cycles and 0 < large.cycles
    assert sum(small.pipe_busy_cycles.values()) <= sum(large.pipe_busy_cycles.values())
    assert 0 < small.gm_write_bytes <= large.gm_write_bytes
    kernels = [sample.spec.kernel, *(f.kernel for f in sample.spec.forms.values())]
    assert all(u.split()[0] in kernels for u in small.unmodelled), "only the operation itself may lack a rule"
