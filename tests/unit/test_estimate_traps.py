"""A cost-only run raises what the kernel raises on the path its sizes take, and only then."""
import pytest

import pypto_sim as pypto


@pypto.frontend.jit
def conditional(x: pypto.Tensor([pypto.DYNAMIC, 64], pypto.DT_FP16), w: pypto.Tensor([64, 64], pypto.DT_FP16),
                out: pypto.Tensor([pypto.DYNAMIC, 64], pypto.DT_FP16)):
    for i in pypto.loop(x.shape[0] // 32, name="rows", idx_name="i"):
        pypto.set_cube_tile_shapes([32, 32], [64, 64], [64, 64])
        pypto.set_vec_tile_shapes(32, 64)
        t = pypto.view(x, [32, 64], [i * 32, 0])
        if i >= 2:
            t = pypto.matmul(t, pypto.view(w, [32, 64], [0, 0]), pypto.DT_FP16)     # inner sizes do not fit
        pypto.assemble(t, [i * 32, 0], out)


def specs(rows):
    return (pypto.Spec([rows, 64], pypto.DT_FP16), pypto.Spec([64, 64], pypto.DT_FP16),
            pypto.Spec([rows, 64], pypto.DT_FP16))


def test_the_path_that_is_taken_decides():
    assert pypto.estimate(conditional, *specs(64)).gm_write_bytes == 64 * 64 * 2
    with pytest.raises(pypto.PyptoError, match="matmul"):
        pypto.estimate(conditional, *specs(96))


def test_products_put_together_plan_on_the_950():
    """Tiles of L0C that make up one tensor need not stay in L0C where the chip has a path to UB."""
    @pypto.frontend.jit
    def stacked(a: pypto.Tensor([512, 128], pypto.DT_FP16), b: pypto.Tensor([128, 512], pypto.DT_FP16),
                out: pypto.Tensor([512, 512], pypto.DT_FP32)):
        pypto.set_cube_tile_shapes([128, 128], [128, 128], [128, 128])
        pypto.set_vec_tile_shapes(16, 512)
        out[:] = pypto.mul(pypto.matmul(a, b, pypto.DT_FP32), 0.5)
    given = (pypto.Spec([512, 128], "fp16"), pypto.Spec([128, 512], "fp16"), pypto.Spec([512, 512], "fp32"))
    found = pypto.estimate(stacked, *given, device="950pr")
    assert found.peak_bytes["L0C"] <= 262144 and found.gm_write_bytes >= 512 * 512 * 4
