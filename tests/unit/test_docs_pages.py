"""Pages whose files and commands are run: `<!-- file: NAME -->` writes the block below, `<!-- run: EXIT -->` runs its
`$` lines and looks for the lines after them, in order; `...` stands for anything."""
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("bring_your_kernel", "compat", "write_a_strategy")
BLOCK = re.compile(r"<!-- (file|run)(?:: *([\w./-]+))? -->\n```\w*\n(.*?)```", re.S)
FENCE = re.compile(r"^```", re.M)


def steps(page: str) -> list[tuple[str, str, str]]:
    """(kind, argument, text) of each marked block of a page."""
    return BLOCK.findall((DOCS / f"{page}.md").read_text())


def matches(line: str, expected: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("..."))
    return re.fullmatch(pattern, line.strip()) is not None


def commands(text: str) -> list[tuple[str, list[str]]]:
    """[(command, lines that its output must have)]."""
    found = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


@pytest.fixture
def shell(tmp_path):
    """Run a command line in an empty folder with this Python's `python`, `pytest` and `pypto-sim`."""
    folder, tools = tmp_path / "work", tmp_path / "bin"
    folder.mkdir()
    tools.mkdir()
    for name, module in (("python", ""), ("pytest", "-m pytest"), ("pypto-sim", "-m pypto_sim")):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n')
        tool.chmod(0o755)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "TILE_FWK", "COLUMNS"))}
    env |= {"PATH": f"{tools}{os.pathsep}{env.get('PATH', '')}", "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1"}

    def run(line: str) -> tuple[int, str]:
        done = subprocess.run(line, shell=True, cwd=folder, env=env, text=True, timeout=600, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        return done.returncode, done.stdout
    run.folder = folder
    return run


@pytest.mark.parametrize("page", PAGES)
def test_page(page, shell):
    for kind, argument, text in steps(page):
        if kind == "file":
            target = shell.folder / argument
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            continue
        for line, expected in commands(text):
            code, output = shell(line)
            assert code == int(argument or 0), f"{line}\n{output}"
            rest = iter(output.splitlines())
            for wanted in (e for e in expected if e.strip() not in ("", "...")):
                assert any(matches(got, wanted) for got in rest), f"{line}: no line {wanted!r} (in order) in\n{output}"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run(page):
    fences = FENCE.findall((DOCS / f"{page}.md").read_text())
    assert len(fences) == 2 * len(steps(page)), "a code block without <!-- file --> or <!-- run --> above it"
