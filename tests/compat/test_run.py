"""`python -m pypto_sim run SCRIPT`: scripts written for the device, unmodified."""
from pathlib import Path

import pytest

pytest.importorskip("torch")
SCRIPTS = Path(__file__).parent / "scripts"


def test_script_with_arguments(python):
    out = python("-m", "pypto_sim", "run", SCRIPTS / "softmax_npu.py", "--run_mode", "npu").stdout
    assert "softmax on npu:0" in out and "softmax::test_softmax passed" in out
    assert "softmax on cpu" in python("-m", "pypto_sim", "run", SCRIPTS / "softmax_npu.py", "--run_mode=sim").stdout


def test_device_number_of_the_environment(python):
    out = python("-m", "pypto_sim", "run", SCRIPTS / "softmax_npu.py", env={"TILE_FWK_DEVICE_ID": "3"}).stdout
    assert "softmax on npu:3" in out


def test_script_that_reruns_itself(python):
    out = python("-m", "pypto_sim", "run", SCRIPTS / "reruns_itself.py").stdout
    assert out.splitlines() == [f"{case} on npu:0 in a process of its own" for case in ("add", "relu", "relu")]


def test_errors_and_exit_codes_are_the_scripts(python, tmp_path):
    script = tmp_path / "fails.py"
    script.write_text("import sys\nif len(sys.argv) > 1: sys.exit(int(sys.argv[1]))\n"
                      "def f():\n    raise KeyError('mine')\nf()\n")
    python("-m", "pypto_sim", "run", script, "7", code=7)
    shown = python("-m", "pypto_sim", "run", script, code=1).stderr
    assert shown.startswith("Traceback") and "fails.py\", line 5" in shown and shown.endswith("KeyError: 'mine'\n")
    assert "runpy" not in shown and "commands" not in shown
    python("-m", "pypto_sim", "run", tmp_path / "absent.py", code=2)
    python("-m", "pypto_sim", "run", "-m", "absent_module", code=2)


def test_error_of_a_kernel_shows_the_scripts_line(python, tmp_path):
    script = tmp_path / "wrong.py"
    script.write_text("""import pypto, torch
@pypto.frontend.jit
def kernel(x: pypto.Tensor([4, 64], pypto.DT_FP32), out: pypto.Tensor([4, 64], pypto.DT_FP32)):
    pypto.set_vec_tile_shapes(4, 64)
    out[:] = pypto.add(x, pypto.full([4, 32], 1.0, pypto.DT_FP32))
kernel(torch.zeros(4, 64).npu(), torch.zeros(4, 64).npu())
""")
    shown = python("-m", "pypto_sim", "run", script, code=1).stderr
    assert "wrong.py\", line 6" in shown and "wrong.py:5" in shown.splitlines()[-1]


def test_modules_and_neighbours(python, tmp_path):
    (tmp_path / "helper.py").write_text("import pypto\nNAME = pypto.__name__\n")
    (tmp_path / "main.py").write_text("import sys, helper\nprint(helper.NAME, sys.argv[1:], __name__)\n")
    shown = python("-m", "pypto_sim", "run", "main.py", "-x", "--json", cwd=tmp_path).stdout
    assert shown == "pypto_sim ['-x', '--json'] __main__\n"
    assert python("-m", "pypto_sim", "run", "-m", "main", "-q", cwd=tmp_path).stdout == "pypto_sim ['-q'] __main__\n"


def test_dump(python, tmp_path):
    import numpy as np
    options = "--dump", "shifted@idx=1", "--dump-dir", tmp_path / "d"
    python("-m", "pypto_sim", "run", *options, SCRIPTS / "softmax_npu.py")
    (found,) = (tmp_path / "d").glob("*.npz")
    assert found.name == "0000-softmax_kernel0-shifted-idx1.npz"
    assert np.load(found)["values"].shape == (4, 128)


def test_dump_of_processes_and_by_environment(python, tmp_path):
    script = tmp_path / "twice.py"
    script.write_text(f"import subprocess, sys\nsys.path.insert(0, {str(SCRIPTS)!r})\nimport softmax_npu\n"
                      "softmax_npu.test_softmax()\nif len(sys.argv) == 1:\n"
                      "    sys.exit(subprocess.run([sys.executable, __file__, 'again']).returncode)\n")
    python("-m", "pypto_sim", "run", "--dump", "shifted@2", "--dump-dir", "d", script, cwd=tmp_path)
    assert sorted(len(p.relative_to(tmp_path).parts) for p in tmp_path.rglob("*.npz")) == [2, 3]
    env = {"PYPTO_SIM_DUMP": "shifted", "PYPTO_SIM_DUMP_DIR": "e"}
    python("-m", "pypto_sim", "run", script, "only", cwd=tmp_path, env=env)
    assert len(list((tmp_path / "e").rglob("*.npz"))) == 3


def test_same_process_is_as_before():
    import sys

    from pypto_sim.cli import main
    before = list(sys.path), list(sys.meta_path)
    assert main(["run", str(SCRIPTS / "softmax_npu.py")]) == 0
    assert (sys.path, sys.meta_path) == before and "pypto" not in sys.modules


def test_model_code(python):
    out = python("-m", "pypto_sim", "run", SCRIPTS / "model_code.py").stdout
    assert out.count("passed") == 5


def test_a_test_file_that_calls_pytest(python, tmp_path):
    script = tmp_path / "test_self.py"
    script.write_text("import sys, pytest, pypto, torch\n"
                      "@pytest.mark.skipif(not torch.npu.is_available(), reason='no NPU')\n"
                      "def test_one():\n    assert torch.zeros(1, device='npu:0').is_npu and pypto.DT_FP32\n"
                      "if __name__ == '__main__':\n    sys.exit(pytest.main(['-q', __file__]))\n")
    assert "1 passed" in python("-m", "pypto_sim", "run", script, cwd=tmp_path).stdout
    assert "1 passed" in python("-m", "pypto_sim", "run", "-m", "pytest", "-q", script, cwd=tmp_path).stdout
