"""Few bits a weight: row 50 of the public issues."""

from pathlib import Path

import numpy as np
import pytest

from edgeopt.core.action import Action
from edgeopt.graph.write import to_bytes
from edgeopt.testing.graphs import Builder
from edgeopt.transforms.choices import for_speed, scheme_of
from tests.field.as_user import alone, offered, placement, signal_db, space_of


@pytest.mark.parametrize("rows", [1, 128])
def test_blocks_with_their_accuracy_level(rows: int, tmp_path: Path) -> None:
    """ORT 23004: the level that codes activations is part of the action, and its error is seen.

    Without a level the activation stays float, with 4 it is coded: both are near the float model.
    """
    b = Builder()
    b.node("MatMul", ["x", b.weight("w", 256, 128)], "y")
    model = b.model([("x", "float32", (rows, 256))], [("y", "float32", (rows, 128))])
    space = space_of(model, tmp_path)
    found = offered(space, "weight_only_blocks")
    assert {(int(a.get("bits")), int(a.get("accuracy_level"))) for a in found} == {(8, 4), (4, 4)}
    for action in found:
        bits = int(action.get("bits"))
        plain = Action.of(
            action.transform,
            action.site,
            version=action.version,
            **{**dict(action.parameters), "accuracy_level": 0},
        )
        least = 35 if bits == 8 else 15
        for asked in (action, plain):
            graph = alone(space, asked)
            assert signal_db(model, graph) > least
            assert len(to_bytes(graph)) < len(model.SerializeToString()) * (bits / 32 + 0.06)
            feed = {"x": np.ones((rows, 256), np.float32)}
            assert placement(graph, feed).ran == 1


def test_size_only_schemes_are_not_taken_for_speed(tmp_path: Path) -> None:
    """ORT 27251: codes of few bits are an alternative for size, never what speed begins with."""
    b = Builder()
    b.node("MatMul", ["x", b.weight("w", 256, 128)], "y")
    model = b.model([("x", "float32", ("N", 256))], [("y", "float32", ("N", 128))])
    space = space_of(model, tmp_path)
    choice = next(each for each in space.choices if each.name == "quantize:y")
    first = choice.alternatives[for_speed(choice)]
    assert scheme_of(first[0]) == "static_int8"
    assert "weight_only" in {scheme_of(one[0]) for one in choice.alternatives[1:]}
