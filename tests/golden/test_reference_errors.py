"""Kernels that the public 0.2.0 package refuses, and neighbours that it takes: same verdict, same memory, same bytes.

The records are those named cap_*, rule_* and whole_*; their `error_log` holds the package's own words.
"""
import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest

import pypto_sim as pypto

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "official_sim"
RECORDS = json.loads((FOLDER / "reference.json").read_text())["kernels"] if FOLDER.is_dir() else {}
NAMES = sorted(n for n in RECORDS if n.startswith(("cap_", "rule_", "whole_")))
RULES = {                    # errors that are no capacity
    "rule_k_mismatch": "tile.cube", "rule_no_tile_shape": "tile.vec_unset", "rule_uninitialised_read": "read.unwritten",
}


@pytest.fixture(scope="module")
def kernels():
    spec = importlib.util.spec_from_file_location("reference_kernels", FOLDER / "kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.KERNELS


def launch(kernels, name):
    kernel, args = kernels[name].build(pypto)
    with pypto.config(profile="0.2", numerics="0.2.0"):
        kernel(*[np.zeros(a.shape, a.dtype) for a in args])


@pytest.mark.parametrize("name", [n for n in NAMES if "error" not in RECORDS[n]])
def test_taken_there_and_here(name, kernels):
    launch(kernels, name)


@pytest.mark.parametrize("name", [n for n in NAMES if "error" in RECORDS[n]])
def test_refused_there_and_here(name, kernels):
    log = "\n".join(RECORDS[name]["error_log"])
    said = re.search(r"size \[(\d+)\] exceeds MEM_(\w+) size \[(\d+)\]", log)
    with pytest.raises(RuntimeError) as caught:
        launch(kernels, name)
    error = caught.value
    if said:
        assert isinstance(error, pypto.CapacityError)
        assert (error.bytes, error.memory, error.limit) == (int(said[1]), said[2], int(said[3]))
        assert str(error.bytes) in str(error) and error.memory in str(error)
    else:
        assert error.rule == RULES[name]


@pytest.mark.skipif(not RECORDS, reason="reference data folder is absent")
def test_every_reference_kernel_that_runs_there_runs_here(kernels):
    """No kernel that the package compiles is refused, but for one whose output has another rank than the result: the
    package stores it unchecked, here profile 0.2 names the right function. Absent operations are no refusal."""
    refused = {}
    for name, record in RECORDS.items():
        if "error" in record or name in NAMES:
            continue
        try:
            launch_traced(kernels, name)
        except pypto.PyptoError as e:
            if e.rule != "api.not_implemented":
                refused[name] = e.rule or str(e)
        except AttributeError as e:
            assert "pypto_sim" in str(e), name
    assert refused == {"gather_multi_dim": "gather.embedding"}


def launch_traced(kernels, name):
    """Trace only: every check of the operations runs, no data is computed."""
    kernel, args = kernels[name].build(pypto)
    with pypto.config(profile="0.2", numerics="0.2.0"):
        kernel.program(*[pypto.Spec(a.shape, np.dtype(a.dtype) if a.dtype != "bfloat16" else pypto.DT_BF16)
                         for a in args])
