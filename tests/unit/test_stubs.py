"""The generated type stubs are current, complete, and what a type checker reads."""
import ast
import inspect
import runpy
from importlib import resources
from pathlib import Path

import pypto_sim as pypto
from pypto_sim.registry import REGISTRY
from pypto_sim.trace.tensor import Tensor

ROOT = Path(__file__).resolve().parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "make_stubs.py"))


def test_stubs_are_current():
    for name, make in TOOL["FILES"].items():
        assert (TOOL["PACKAGE"] / name).read_text() == make(), "run python tools/make_stubs.py"


def test_stubs_are_installed():
    files = {f.name for f in resources.files("pypto_sim").iterdir()}
    assert {*TOOL["FILES"], "py.typed"} <= files


def definitions(name):
    """Names that a stub defines or imports, and the functions of its classes."""
    tree = ast.parse((TOOL["PACKAGE"] / name).read_text())
    found = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            found |= {a.asname or a.name for a in node.names}
        elif isinstance(node, ast.Assign):
            found |= {t.id for t in node.targets}
        elif hasattr(node, "name"):
            found.add(node.name)
    return tree, found


def test_every_public_name_is_there():
    _, found = definitions("__init__.pyi")
    modules = {n for n in pypto.__all__ if inspect.ismodule(getattr(pypto, n)) and n not in TOOL["MODULES"]}
    assert set(pypto.__all__) - found - modules == {"annotations"} & set(pypto.__all__)
    assert {n for n in REGISTRY if "." not in n} <= found and {"estimate", "profile", "Estimate"} <= found
    experimental = {n.partition(".")[2] for n in REGISTRY if n.startswith("experimental.")}
    assert experimental <= definitions("experimental.pyi")[1]
    assert set(pypto.distributed.NAMES) <= definitions("distributed.pyi")[1]


def test_methods_and_operators_of_tensors_are_there():
    tree, _ = definitions("__init__.pyi")
    (tensor,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Tensor"]
    methods = {n.name for n in tensor.body if isinstance(n, ast.FunctionDef)}
    assert {m for s in REGISTRY.values() for m in s.methods} <= methods
    attached = {n for n, v in vars(Tensor).items() if callable(v) and getattr(v, "__module__", "") ==
                "pypto_sim.ops.operators" and not n.startswith("__")}
    assert attached <= methods and {"fill_", "tril_", "where"} <= attached


def test_parameters_are_those_of_the_functions():
    tree, _ = definitions("__init__.pyi")
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            a = node.args
            stub = [p.arg for p in (*a.posonlyargs, *a.args, *filter(None, [a.vararg]), *a.kwonlyargs,
                                    *filter(None, [a.kwarg]))]
            assert stub == list(inspect.signature(getattr(pypto, node.name)).parameters), node.name
