"""Every operation with operands of which a part is valid: never dearer than with whole ones, in the same tasks."""
import importlib.util
import warnings
from pathlib import Path

import pytest

import pypto_sim as pypto
from pypto_sim.registry import REGISTRY

LIST = Path(__file__).resolve().parents[2] / "asv_bench" / "operation_workloads.py"
spec = importlib.util.spec_from_file_location("operation_workloads", LIST)
workloads = importlib.util.module_from_spec(spec)
spec.loader.exec_module(workloads)
# Not priced on views of arguments: they write rows of an argument itself.
ARGUMENT_ONLY = {"scatter", "scatter_"}
# The result is as large whatever is valid of the operands, or the valid part of an operand is not read by axis.
AS_LARGE = {"fillpad", "concat", "full", "zeros", "ones", "arange", "philox", "expand_clone", "reshape", "pack", "conv",
            "normal", "uniform", "uniform_impl", "experimental.online_softmax_update", "experimental.gather_in_ub",
            "experimental.gather_in_l1"}
OTHER_EXTENTS = {"prelu"}      # a load that is cut does not collapse with one that is not: more tiles in a task


def cost(name, case, shapes, part):
    """Estimate of the operation on views of which `part` of the first axis is valid; its result goes to an argument."""
    found = {}

    def body(tensors, out):
        pypto.set_vec_tile_shapes(*case.tile)
        views = [pypto.view(t, s, [0] * len(s), valid_shape=[max(1, int(s[0] * part)), *s[1:]])
                 for t, (s, _) in zip(tensors, shapes, strict=True)]
        y = case.ours(REGISTRY[name].function, *views)
        y = y[0] if isinstance(y, (tuple, list)) else y
        found["out"] = pypto.Spec(y.static_shape, y.dtype)
        if out.shape == list(y.static_shape):
            pypto.assemble(y, [0] * y.dim, out)

    names = ", ".join(f"x{k}" for k in range(len(shapes)))
    scope = {"body": body, "t": pypto.Tensor()}
    exec(f"def operation({', '.join(n + ': t' for n in (names + ', out').split(', '))}):\n"
         f"    body([{names}], out)\n", scope)
    args = [pypto.Spec(s, d) for s, d in shapes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pypto.frontend.jit(scope["operation"]).program(*args, pypto.Spec((1,), pypto.DT_FP32))
        except pypto.PyptoError:
            pass                                     # the shape of its result is known all the same
        return pypto.estimate(pypto.frontend.jit(scope["operation"]), *args, found["out"], device=case.device)


@pytest.mark.parametrize("name", sorted(set(workloads.CASES) - ARGUMENT_ONLY))
def test_a_ragged_operand_is_never_dearer(name):
    case = workloads.CASES[name]
    shapes = [(list(a.shape), a.dtype) for a in case.arrays()]
    whole, ragged = cost(name, case, shapes, 1.0), cost(name, case, shapes, 0.6)
    assert ragged.tasks == whole.tasks
    assert ragged.peak_bytes == whole.peak_bytes or name in OTHER_EXTENTS
    for field in ("time_us", "gm_read_bytes", "gm_write_bytes", "hbm_read_bytes"):
        assert getattr(ragged, field) <= getattr(whole, field), field
    assert not any("valid extents" in a for a in ragged.assumptions)
    if whole.gm_write_bytes and name not in AS_LARGE:
        assert ragged.gm_read_bytes + ragged.gm_write_bytes < whole.gm_read_bytes + whole.gm_write_bytes
