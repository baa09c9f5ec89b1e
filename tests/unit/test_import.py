"""What importing the package loads and offers."""
import subprocess
import sys

import pytest

import pypto_sim as pypto


def test_optional_packages_are_not_imported():
    code = ("import sys, numpy, ml_dtypes, time; start = time.process_time(); import pypto_sim; "
            "took = time.process_time() - start; "
            "print([m for m in ('torch', 'rich', 'jinja2', 'matplotlib', 'scipy') if m in sys.modules], took)")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.startswith("[] ")
    assert float(out.split()[-1]) < 0.6            # 0.1 s on an idle core; generous for a busy one


def test_public_names():
    for name in ("add", "matmul", "loop", "view", "DT_BF16", "RunMode", "DYNAMIC", "Spec", "SymbolicScalar", "tensor",
                 "frontend", "experimental", "set_vec_tile_shapes", "function", "from_torch", "CubeTile",
                 "ConfigScope"):
        assert hasattr(pypto, name) and name in pypto.__all__
    assert pypto.jit is pypto.frontend.jit and pypto.frontend.dynamic("n").is_symbol()
    with pytest.raises(AttributeError, match="did you mean .*matmul"):
        pypto.matmull  # noqa: B018 - the access is the test


def test_unknown_environment_variables_are_refused():
    run = subprocess.run([sys.executable, "-c", "from pypto_sim.config import active; active()"], capture_output=True,
                         text=True, env={"PYPTO_SIM_PROFIL": "master", "PATH": ""}, check=False)
    assert run.returncode and "PYPTO_SIM_PROFIL" in run.stderr
