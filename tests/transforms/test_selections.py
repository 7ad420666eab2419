"""A value whose readers select the same positions in different operators."""

import itertools

import numpy as np
import pytest

from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import examine_exact

KINDS = ("number", "negative", "list", "slice")
NUMBERS = {"number": 1, "negative": -5, "list": 1}


def _reader(b: Builder, kind: str, name: str) -> int:
    """Position 1 of 6; returns how many axes are left."""
    if kind == "slice":
        bounds = zip(("s", "e", "a"), (1, 2, 1), strict=True)
        inputs = [b.constant(f"{name}{n}", np.array([v], np.int64)) for n, v in bounds]
        b.node("Slice", ["t", *inputs], name)
        return 3
    index = np.array(NUMBERS[kind], np.int64)
    index = index.reshape(1) if kind == "list" else index
    b.node("Gather", ["t", b.constant(f"{name}i", index)], name, axis=1)
    return 2 if kind != "list" else 3


@pytest.mark.parametrize("kinds", itertools.product(KINDS, repeat=2), ids="-".join)
@pytest.mark.parametrize("inside", [True, False])
def test_each_reader_keeps_its_shape(kinds: tuple[str, str], inside: bool) -> None:
    """Whichever of them is asked first, the other still gets what it read."""
    b = Builder()
    b.node("Tanh", ["x"], "t")
    outputs: list[tuple[str, str, list[str]]] = []
    for number, kind in enumerate(kinds):
        rank = _reader(b, kind, f"p{number}" if inside else f"y{number}")
        if inside:
            b.node("Relu", [f"p{number}"], f"y{number}")
        outputs.append((f"y{number}", "float32", [f"d{number}_{i}" for i in range(rank)]))
    model = b.model([("x", "float32", ("N", 6, 3))], outputs)
    assert len(examine_exact("select_first", model)) == 2
