"""docs/rules.md says what the rules say."""

import importlib
import json
from pathlib import Path

import pytest

from edgeopt import plugins

ROOT = Path(__file__).parents[2]


def test_the_page_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made again from docstrings and recorded figures it is the committed text."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    rules = importlib.import_module("rules")
    text = rules.page(json.loads((ROOT / "docs" / "rules.json").read_text(encoding="utf-8")))
    assert (ROOT / "docs" / "rules.md").read_text(encoding="utf-8") == text
    for shelf in ("rewrite", "fuse"):
        for name in plugins.SHELVES[shelf].names():
            assert f"### {name} (" in text


def test_figures_are_of_rules_that_exist() -> None:
    """Every measured figure belongs to a rule and lies inside its interval."""
    held = json.loads((ROOT / "docs" / "rules.json").read_text(encoding="utf-8"))
    known = {name for shelf in ("rewrite", "fuse") for name in plugins.SHELVES[shelf].names()}
    assert held
    for rules in held.values():
        assert set(rules) <= known
        for ratio, low, high in (gain for graphs in rules.values() for gain in graphs.values()):
            assert 0 < low <= ratio <= high
