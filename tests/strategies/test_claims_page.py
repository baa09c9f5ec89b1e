"""docs/claims.md lists every claim of the strategy modules, with a verdict under both models."""
import re
import runpy
from pathlib import Path

from pypto_sim.strategies import OPERATORS
from pypto_sim.strategies.catalogue import module

ROOT = Path(__file__).resolve().parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "make_claims.py"))
PAGE = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")


def test_every_claim_is_on_the_page():
    known = {claim.id: claim.text for name in OPERATORS for claim in module(name).CLAIMS}
    rows = dict(re.findall(r"^\| (\w+\.\w+) \| (.*) \|$", PAGE, re.M))
    assert set(rows) == set(known)
    assert all(text in PAGE for text in known.values())
    assert all(word in ("agrees", "contradicts", "open") for row in rows.values() for word in re.split(r" [|/] ", row))


def test_disagreement_between_the_models_is_said():
    def entry(agrees):
        return {"claim": "c", "observed": "o", "agrees": agrees, "why_null": None}
    page = TOOL["text"]({"x.y": {"calibrated, decode": entry(True), "official, decode": entry(False)},
                         "x.z": {"calibrated, decode": entry(True), "official, decode": entry(True)}}, "910b1")
    assert "The models disagree on x.y." in page
    assert "| x.y | agrees | contradicts |" in page and "- official, decode: contradicts: o" in page
