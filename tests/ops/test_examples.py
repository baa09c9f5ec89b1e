"""The examples of the docstrings run as they are written."""
import doctest

import pytest

import pypto_sim as pypto
from pypto_sim.registry import REGISTRY
from pypto_sim.testing import show


@pytest.mark.filterwarnings("ignore::pypto_sim.errors.PyptoWarning")
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_example_runs(name):
    function = REGISTRY[name].function
    test = doctest.DocTestParser().get_doctest(function.__doc__, {"show": show, "pypto": pypto}, name, None, 0)
    assert test.examples
    text: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=text.append)
    assert not text, "".join(text)
