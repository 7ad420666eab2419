"""Every exact transform on mutants of its goldens."""

from collections import Counter
from pathlib import Path

import pytest

from edgeopt.testing.rule_mutants import draw_mutant, drawable, golden_models, prove_mutant

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("name", drawable())
def test_mutants(name: str) -> None:
    """Wherever it fires in a few mutants the outputs stay; `benchmarks/rule_draws.py` has more."""
    models = golden_models(GOLDEN, name)
    for seed in range(6):
        prove_mutant(draw_mutant(models, seed), [name])


def test_mutants_reach_what_no_pattern_describes() -> None:
    """Sites of imperative rules are found, and the same seed means the same model."""
    counts = Counter[str]()
    for name in ("drop_dead", "reassociate", "shared_expressions", "gelu"):
        models = golden_models(GOLDEN, name)
        assert draw_mutant(models, 3) == draw_mutant(models, 3)
        for seed in range(25):
            counts.update(prove_mutant(draw_mutant(models, seed), [name]) or {})
    assert min(counts.values()) > 1
    assert len(counts) == 4
