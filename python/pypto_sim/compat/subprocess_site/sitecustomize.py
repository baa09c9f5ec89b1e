"""Put on PYTHONPATH by pypto_sim.compat.install(): Python processes started by a script get the alias too.

Nothing of the package is imported until the process imports pypto, torch or a module that is stood in for.
"""
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
WAKES = ("pypto", "torch", "torch_npu", "torchair")


class _Waker:
    """First on sys.meta_path: installs the alias when it is needed for the first time, then steps aside."""

    def find_spec(self, name, path=None, target=None):
        if name not in WAKES:
            return None
        sys.meta_path.remove(self)
        if importlib.util.find_spec("pypto_sim") is None:
            return None                            # an interpreter without the package
        from pypto_sim import compat
        compat.install()
        sys.modules.pop("pypto", None)             # else importlib would load what it finds there a second time
        return compat.finder().find_spec(name, path)


def _run_shadowed():
    """Run the sitecustomize that this one hides, if there is one."""
    from importlib.machinery import PathFinder
    spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p) != HERE])
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.meta_path.insert(0, _Waker())
_run_shadowed()
