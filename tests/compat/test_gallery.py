"""Every kernel of examples/gallery: accurate, silent, the same bits replayed and stepped, with an estimate."""
import importlib
import json
import math
import runpy
import sys
from pathlib import Path

import pytest
from support.both import both

import pypto_sim as pypto
from pypto_sim import compat
from pypto_sim.cli import main

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "gallery"
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem != "gallery_tools")


@pytest.fixture(params=NAMES)
def script(request, monkeypatch):
    """The module of one gallery script."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module(request.param)
    for name in (request.param, "gallery_tools"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("profile", ["lenient", "0.2", "master"])
def test_accurate_silent_and_replayed(script, profile):
    with pypto.config(profile=profile):
        for case in script.cases():
            got = both(case.kernel, *case.args, traced=True)    # fails on any warning, and unless the bits are equal
            assert case.compare(got) <= 1, case.errors


@pytest.mark.parametrize("model", ["calibrated", "official"])
def test_estimate(script, model):
    estimate = script.estimate(model=model)
    assert estimate.time_us > 0 and math.isfinite(estimate.time_us)
    assert estimate.gm_read_bytes > 0 and estimate.gm_write_bytes > 0 and sum(estimate.tasks.values()) > 0


@pytest.mark.parametrize("name", NAMES)
def test_profile_command(name, tmp_path, capsys):
    assert main(["profile", str(FOLDER / f"{name}.py"), "-o", str(tmp_path), "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)["launches"]
    assert found and all(one["estimate"]["time_us"] > 0 for one in found)
    assert "error against float64" in printed.err and "(ok)" in printed.err and "TOO LARGE" not in printed.err
    sys.modules.pop("gallery_tools", None)


def test_the_page_lists_every_script():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}.py`" not in page] == []


@pytest.mark.parametrize("name", NAMES)
def test_as_code_that_imports_pypto(name, tmp_path, monkeypatch):
    """The same script with `import pypto`, under the alias."""
    for path in (FOLDER / f"{name}.py", FOLDER / "gallery_tools.py"):
        text = path.read_text(encoding="utf-8")
        (tmp_path / path.name).write_text(text.replace("import pypto_sim as pypto", "import pypto"), encoding="utf-8")
    assert "import pypto\n" in (tmp_path / f"{name}.py").read_text(encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with compat.install():
        script = runpy.run_path(str(tmp_path / f"{name}.py"))
        assert script["cases"]()[0].run() <= 1
    sys.modules.pop("gallery_tools", None)
