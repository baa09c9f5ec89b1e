"""The README's examples print what the README says."""
import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
EXAMPLE = re.compile(r"<!-- example: (\w+) -->\n```python\n(.*?)```", re.S)
OUTPUT = re.compile(r"<!-- output: (\w+) -->\n```\n(.*?)```", re.S)


def _blocks(pattern: re.Pattern) -> dict[str, str]:
    return dict(pattern.findall(README.read_text()))


@pytest.mark.parametrize("name", sorted(_blocks(EXAMPLE)))
def test_example_prints_what_the_readme_says(name, tmp_path):
    source = tmp_path / f"{name}.py"
    source.write_text(_blocks(EXAMPLE)[name])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source.read_text(), str(source), "exec"), {"__name__": "__main__"})
    assert printed.getvalue().replace(str(tmp_path) + "/", "") == _blocks(OUTPUT)[name]


def test_every_example_has_its_output():
    assert _blocks(EXAMPLE).keys() == _blocks(OUTPUT).keys()
