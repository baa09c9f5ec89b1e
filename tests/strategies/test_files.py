"""Files of a user that were written for the device can be explored and compared."""
import sys

import pytest

from pypto_sim import compat
from pypto_sim.cli import main
from pypto_sim.strategies.explore import load

KERNEL = """
import pypto


def make(cols):
    @pypto.frontend.jit
    def doubled(x: pypto.Tensor([64, cols], pypto.DT_FP32), y: pypto.Tensor([64, cols], pypto.DT_FP32)):
        pypto.set_vec_tile_shapes(8, cols)
        y[:] = x * 2.0
    return doubled


kernel = make(128)
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "written_for_the_device", raising=False)
    path = tmp_path / "written_for_the_device.py"
    path.write_text(KERNEL)
    return path


def test_file_that_imports_pypto_is_explored(script, capsys):
    assert main(["explore", f"{script}:kernel"]) == 0
    assert "doubled" in capsys.readouterr().out
    assert not compat.installed() and "pypto" not in sys.modules


def test_a_factory_is_told_from_a_kernel(script):
    with pytest.raises(KeyError, match=r"function, not a kernel. If it makes one, write `kernel = make\(...\)`"):
        load(f"{script}:make")


def test_other_missing_modules_stay_missing(tmp_path):
    path = tmp_path / "needs_more.py"
    path.write_text("import no_such_module_here\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_here"):
        load(f"{path}:kernel")
    assert "needs_more" not in sys.modules
