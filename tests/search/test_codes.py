"""Integer codes: encoding recipes, seeds and random draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.action import Action
from edgeopt.search import codes
from edgeopt.testing.toy_space import ToySpace

SPACE = ToySpace(sites=4, rewrites=3)
SIZES = [len(choice) for choice in SPACE.choices]
rows = st.tuples(*(st.integers(0, size - 1) for size in SIZES))


@settings(max_examples=100, deadline=None)
@given(rows)
def test_encode_finds_codes_that_decode_to_the_recipe(row):
    """Codes of a recipe decode to it again, also where some of the first codes did not apply."""
    recipe = SPACE.decode(row)
    found = codes.encode(SPACE.choices, recipe)
    assert found is not None
    assert SPACE.decode(found) == recipe


def test_encode_refuses_what_no_choice_offers():
    """A whole tool is no combination of choices."""
    assert codes.encode(SPACE.choices, SPACE.empty().then(Action.of("tool", "*"))) is None


def test_encode_ignores_artifacts():
    """Digests of computed data are no part of the decision."""
    first = SPACE.choices[0].alternatives[1][0]
    recipe = SPACE.empty().then(first.with_artifacts(ranges="sha256:1"))
    assert codes.encode(SPACE.choices, recipe) == (1, *[0] * (len(SIZES) - 1))


def test_heuristic_begins_with_nothing_and_everything_exact():
    """Seeds are valid, different, and in a fixed order."""
    found = codes.heuristic(SPACE.choices)
    assert found[0] == (0,) * len(SIZES)
    assert found[1] == tuple(int(c.family == "rewrite") for c in SPACE.choices)
    assert len(set(found)) == len(found)
    assert all(code < size for row in found for code, size in zip(row, SIZES, strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_draw_is_valid_and_repeatable(seed: int):
    """Draws stay in range and depend on the generator only."""
    first, second = (codes.draw(SPACE.choices, np.random.default_rng(seed)) for _ in range(2))
    assert first == second
    assert all(0 <= code < size for code, size in zip(first, SIZES, strict=True))
