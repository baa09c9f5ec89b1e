"""The scripts of examples/ run, are accurate, and their kernels can be explored."""
import importlib.util
import runpy
from pathlib import Path

import pytest

from pypto_sim.cli import main

FOLDER = Path(__file__).resolve().parents[2] / "examples"
LIMIT = {"linear_gelu": 2**-7, "decode_attention": 2**-8, "rms_norm_torch": 2**-7}     # bf16 rounds to 2^-9


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.stem)
def test_example(path, capsys):
    if "torch" in path.stem and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    assert runpy.run_path(str(path))["main"]() < LIMIT[path.stem]
    printed = capsys.readouterr().out
    assert "error against float64" in printed and " us" in printed
    assert path.name in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_command_of_the_page(capsys):
    assert main(["explore", f"{FOLDER / 'decode_attention.py'}:decode_attention", "--arg", "k=8192x128",
                 "v=8192x128"]) == 0
    assert "attention" in capsys.readouterr().out
