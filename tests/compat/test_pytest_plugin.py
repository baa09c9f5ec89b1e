"""The pytest plugin: options, fixture, mark, report, alias, and what it costs projects that do not use it."""
import json

import pytest

pytest.importorskip("torch")
pytest_plugins = ("pytester",)

KERNEL = """
import pypto

def make(cols, run_mode=pypto.RunMode.NPU):
    @pypto.frontend.jit(runtime_options={"run_mode": run_mode})
    def softmax(x: pypto.Tensor([pypto.DYNAMIC, cols], pypto.DT_FP32),
                out: pypto.Tensor([pypto.DYNAMIC, cols], pypto.DT_FP32)):
        pypto.set_vec_tile_shapes(1, cols)
        for i in pypto.loop(x.shape[0], name="ROW", idx_name="i"):
            row = pypto.view(x, [1, cols], [i, 0])
            e = pypto.exp(row - pypto.amax(row, -1, True))
            pypto.assemble(e / pypto.sum(e, -1, True), [i, 0], out)
    return softmax
"""
TESTS = """
import os
import pytest
import torch
import torch_npu
import pypto
from softmax_impl import make

DEVICE_ID = int(os.environ.get("TILE_FWK_DEVICE_ID", 0))

@pytest.fixture(scope="module", autouse=True)
def device():
    torch.npu.set_device(DEVICE_ID)

@pytest.mark.parametrize("rows", [1, 5])
def test_rows(rows):
    x = torch.randn(rows, 64, device=f"npu:{DEVICE_ID}")
    out = torch.empty_like(x)
    make(64)(x, out)
    torch.npu.synchronize()
    torch.testing.assert_close(out.cpu(), torch.softmax(x.cpu(), -1))
"""
BROKEN = """
import torch
from softmax_impl import make

def test_nan():
    x = torch.randn(3, 64).npu()
    x[1] = float("-inf")
    out = torch.zeros_like(x)
    make(64)(x, out)
    torch.testing.assert_close(out.cpu(), torch.zeros(3, 64))
"""
OWN = """
import numpy as np
import pytest
import pypto_sim as pypto

@pypto.frontend.jit
def double(x: pypto.Tensor([8, 64], pypto.DT_FP32), out: pypto.Tensor([8, 64], pypto.DT_FP32)):
    pypto.set_vec_tile_shapes(8, 64)
    out[:] = x * 2.0

def run():
    x, out = np.ones((8, 64), np.float32), np.zeros((8, 64), np.float32)
    double(x, out)
    return x, out
"""


@pytest.fixture
def project(pytester):
    """A folder with a kernel and its tests; `run(*options)` runs pytest there in a process of its own."""
    def run(*options, **files):
        pytester.makepyfile(**files)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)
    return run


def test_npu_tests_run_unmodified(project):
    files = {"softmax_impl": KERNEL, "test_softmax": TESTS}
    project("--pypto-alias", **files).assert_outcomes(passed=2)
    project(**files).assert_outcomes(errors=1)                     # no module pypto


def test_alias_by_ini_and_in_child_processes(project, pytester):
    pytester.makeini("[pytest]\npypto_alias = true\n")
    project(softmax_impl=KERNEL, test_child="""
import subprocess, sys

def test_child():
    code = "import pypto, torch_npu, torch; print(torch.zeros(1, device='npu').device, pypto.__name__)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "npu:0 pypto_sim\\n"
""", conftest="import pypto\n").assert_outcomes(passed=1)


def test_alias_is_refused_beside_a_real_pypto(project, pytester):
    pytester.mkpydir("pypto")
    found = project("--pypto-alias", "-p", "pypto", test_x="def test(): pass")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines(["*--pypto-alias: cannot stand in for `pypto`: a real one is imported*"])


def test_a_failed_test_tells_the_first_nan(project):
    found = project("--pypto-alias", softmax_impl=KERNEL, test_nan=BROKEN)
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*pypto_sim*", "first NaN in `softmax`: sub at softmax_impl.py:10, iteration i=1, "
                                "element [[]0, 0]; operands there: `row` = -inf*"])


def test_fixture_and_mark(project):
    project(test_own=OWN + """
@pytest.mark.npu_device("950pr")
def test_mark():
    assert pypto.config().__repr__().count("device='950pr'")
    assert active().device == "950pr"

from pypto_sim.config import active

def test_default_again():
    assert active().device == "910b1" and active().profile == "lenient"

@pytest.mark.npu_device("910b4", profile="master")
def test_fixture(npu):
    assert (npu.device, npu.profile, npu.launches, npu.time_us) == ("910b4", "master", [], 0)
    x, out = run()
    assert [launch.kernel for launch in npu.launches] == ["double"]
    assert npu.time_us == npu.estimates[0].time_us == npu.estimate(double, x, out).time_us > 0
    assert npu.estimates[0].device == "910b4" and "910b4" in repr(npu)
    npu.assert_ulp(out, 2 * x, 0)
    npu.assert_relative(out, 2 * x, 0)
    with npu.dump("out") as found:
        run()
    assert (found["out"][0].values == 2).all()
    with npu.config(device="950pr"):
        assert npu.device == "950pr"

@pytest.mark.npu_device("950pr", "guide")
def test_profile_of_the_mark(npu):
    assert npu.profile == "guide"
""").assert_outcomes(passed=4)


def test_options_hold_for_every_test_and_the_mark_wins(project):
    project("--npu-device", "910b3", "--npu-profile", "0.2", test_own=OWN + """
from pypto_sim.config import active

def test_options():
    assert (active().device, active().profile) == ("910b3", "0.2")

@pytest.mark.npu_device("910c")
def test_mark(npu):
    assert (npu.device, npu.profile) == ("910c", "0.2")
""").assert_outcomes(passed=2)


@pytest.mark.parametrize("options, text", [(("--npu-device", "910x"), "unknown device '910x'. Known:*"),
                                           (("--npu-profile", "strict"), "profile must be one of lenient*"),
                                           (("--npu-dump", "a b"), "dump: 'a b' is no variable name*")])
def test_wrong_options(project, options, text):
    found = project(*options, test_x="def test(): pass")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines([f"*{text}"])


def test_wrong_mark(project):
    found = project(test_own=OWN + '@pytest.mark.npu_device("910x")\ndef test_mark(): pass\ndef test_other(): run()\n')
    found.assert_outcomes(passed=1, errors=1)
    found.stdout.fnmatch_lines(["*mark npu_device: unknown device '910x'*"])


def test_mark_is_registered(project):
    found = project("--strict-markers", "--markers", test_x="def test(): pass")
    found.stdout.fnmatch_lines(["@pytest.mark.npu_device(name, profile=None): *"])
    found = project("--help", test_x="")
    found.stdout.fnmatch_lines(["*--pypto-alias*", "*--npu-device=NAME*", "*--npu-profile=NAME*", "*--npu-report=DIR*"])


def test_report(project, pytester):
    found = project("--pypto-alias", "--npu-report", "cost", "--npu-device", "910b4", softmax_impl=KERNEL,
                    test_softmax=TESTS, test_none="def test_none(): pass")
    found.assert_outcomes(passed=3)
    found.stdout.fnmatch_lines(["pypto_sim: 2 launches of 2 tests: cost/estimate.json, cost/report.md"])
    written = json.loads((pytester.path / "cost" / "estimate.json").read_text())
    assert [(e["test"], e["kernel"], e["estimate"]["device"]) for e in written["launches"]] == [
        (f"test_softmax.py::test_rows[{n}]", "softmax", "910b4") for n in (1, 5)]
    report = (pytester.path / "cost" / "report.md").read_text()
    assert "## test_softmax.py::test_rows[5]" in report and "| softmax | 910b4 |" in report
    from pypto_sim.commands.diff import entries
    assert list(entries(written)) == [f"test_softmax.py::test_rows[{n}]/0/softmax" for n in (1, 5)]


def test_dump_option(project, pytester):
    project("--pypto-alias", "--npu-dump", "e@i=3", softmax_impl=KERNEL, test_softmax=TESTS).assert_outcomes(passed=2)
    assert [str(p.relative_to(pytester.path)) for p in pytester.path.rglob("*.npz")] == [
        "npu-dump/test_softmax.py_test_rows_5/0000-softmax0-e-i3.npz"]


def test_other_projects_pay_nothing(project):
    project(test_x="""
import sys

def test_light():
    assert not {"pypto_sim", "numpy", "torch", "ml_dtypes", "rich"} & set(sys.modules)
""").assert_outcomes(passed=1)


def test_by_module_name(project, monkeypatch):
    """Named on the command line, with and without the automatic loading of plugins."""
    files = {"softmax_impl": KERNEL, "test_softmax": TESTS}
    project("-p", "pypto_sim.pytest_plugin", "--pypto-alias", **files).assert_outcomes(passed=2)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project("-p", "pypto_sim.pytest_plugin", "--pypto-alias", **files).assert_outcomes(passed=2)
    project("-p", "pypto_sim_pytest", "--pypto-alias", **files).assert_outcomes(passed=2)


def test_unittest_classes(project):
    project("--pypto-alias", softmax_impl=KERNEL, test_case="""
import torch
from torch_npu.testing.testcase import TestCase, run_tests
from softmax_impl import make

class TestSoftmax(TestCase):
    def test_one(self):
        x = torch.randn(2, 64).npu()
        out = torch.empty_like(x)
        make(64)(x, out)
        self.assertRtolEqual(out, torch.softmax(x, -1))

if __name__ == "__main__":
    run_tests()
""").assert_outcomes(passed=1)
