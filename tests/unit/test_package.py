"""The package as a whole: what importing it pulls in, who imports whom, what is installed beside the modules."""
import importlib.metadata
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_import_pulls_in_no_optional_library():
    code = ("import sys, pypto_sim; loaded = {m.split('.')[0] for m in sys.modules}; "
            "print(sorted({'torch', 'rich', 'jinja2', 'matplotlib', 'scipy'} & loaded))")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_modules_import_upwards_only():
    """The contract of pyproject.toml, [tool.importlinter]."""
    pytest.importorskip("importlinter")
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    out = subprocess.run([sys.executable, "-c", code, "--no-cache"], cwd=ROOT, env=env, capture_output=True, text=True)
    assert out.returncode == 0 and "0 broken" in out.stdout, out.stdout + out.stderr


def test_typing_marker_and_stub_are_installed():
    files = {f.name for f in resources.files("pypto_sim").iterdir()}
    assert {"py.typed", "_core.pyi"} <= files


def test_requirements_at_run_time_are_three():
    needed = [r for r in importlib.metadata.requires("pypto_sim") if "extra ==" not in r]
    assert sorted(r.split(">")[0].strip() for r in needed) == ["ml_dtypes", "numpy", "rich"]
