"""Fixtures that every test folder shares."""
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"          # reference data beside the repository; absent on a user's machine


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Folder of reference data; tests that need it are skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("reference data folder is absent")
    return SHARED


@pytest.fixture
def quiet():
    """Without the warnings of rules."""
    import pypto_sim as pypto

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pypto.PyptoWarning)
        yield
