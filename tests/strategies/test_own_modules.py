"""Strategies in a file or module of a user's own."""
import re
import types
from pathlib import Path

import pytest

from pypto_sim.cli import main
from pypto_sim.report.text import command_of
from pypto_sim.strategies import compare

PAGE = Path(__file__).resolve().parents[2] / "docs" / "write_a_strategy.md"


@pytest.fixture
def file(tmp_path):
    target = tmp_path / "softmax_op.py"
    target.write_text(re.search(r"<!-- file: softmax_op.py -->\n```python\n(.*?)```", PAGE.read_text(), re.S)[1])
    return target


def test_the_result_says_how_to_make_it_again(file):
    found = compare(str(file), set={"tokens": 2}, claims=False).to_dict()
    assert found["operator"] == "softmax" and found["file"] == str(file)
    assert command_of(found).startswith(f"pypto-sim compare {file} --phase decode")
    assert "file" not in compare("mean", claims=False, quick=True).to_dict()


def test_wrong_words_and_modules(file, tmp_path, capsys):
    module = types.ModuleType("half")
    module.OPERATOR, module.golden = None, None
    with pytest.raises(TypeError, match="strategy module half lacks STRATEGIES, PRESETS, CLAIMS; it needs OPERATOR"):
        compare(module)
    with pytest.raises(KeyError, match="unknown key of softmax 'tokns'.*Did you mean 'tokens'"):
        compare(file, set={"tokns": 1})
    file.write_text(file.read_text().replace('"decode": Phase', '"other": Phase'))
    with pytest.raises(KeyError, match="unknown phase of softmax 'decode'"):
        compare(file)
    assert main(["compare", str(tmp_path / "absent.py")]) == 2 and "no such strategy module" in capsys.readouterr().err
