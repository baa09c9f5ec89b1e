"""The generated pages are current."""
import runpy
from pathlib import Path

TOOL = runpy.run_path(str(Path(__file__).resolve().parents[2] / "tools" / "make_ops_docs.py"))


def test_operation_and_rule_pages_are_current():
    for name, page in (("operations.md", "operations"), ("options.md", "options"), ("rules.md", "rules")):
        text = TOOL[page]()
        assert (TOOL["DOCS"] / name).read_text() == text, "run python tools/make_ops_docs.py"
