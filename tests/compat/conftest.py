"""Fixtures of the tests of the alias."""
import os
import subprocess
import sys

import pytest

from pypto_sim import compat


@pytest.fixture
def alias():
    """The alias, for one test."""
    pytest.importorskip("torch")
    compat.install()
    yield compat
    compat.uninstall()


@pytest.fixture
def python():
    """Run Python with arguments in an environment without the alias; returns the finished process."""
    def run(*arguments, code=0, env=None, cwd=None):
        clean = {k: v for k, v in os.environ.items() if k not in ("TILE_FWK_DEVICE_ID", "PYTHONPATH")}
        done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, cwd=cwd,
                              env={**clean, **(env or {})}, timeout=300)
        assert done.returncode == code, done.stdout + done.stderr
        return done
    return run
