"""tools/official.py as a module."""
import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "official.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("official_tool", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
