"""Integers that are right on one processor and wrong on another: rows 5 and 6 of the issues."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeopt.core.data import Feed
from edgeopt.core.profile import QuantizationTypes
from edgeopt.testing.graphs import Builder
from edgeopt.transforms.emulate.saturation import saturated, saturating_product, sentences
from tests.field.as_user import built, integers, signal_db, space_of


def _product(columns: int) -> tuple[onnx.ModelProto, list[Feed]]:
    """K = 2, weights of one sign and size, activations at the top of their range."""
    b = Builder()
    b.constant("w", np.ones((2, columns), np.float32))
    b.node("MatMul", ["x", "w"], "y")
    model = b.model([("x", "float32", ("N", 2))], [("y", "float32", ("N", columns))])
    grid = np.linspace(0, 1, 16, dtype=np.float32)
    return model, [{"x": np.stack([grid, grid], 1)} for _ in range(4)]


@pytest.mark.parametrize(
    ("types", "saturates"),
    [
        (QuantizationTypes(), True),
        (QuantizationTypes(reduce_range=True), False),
        (QuantizationTypes(weight="uint8"), False),
    ],
    ids=["uint8 by int8", "7 bits", "uint8 by uint8"],
)
def test_two_large_products(types: QuantizationTypes, saturates: bool, tmp_path: Path) -> None:
    """ORT 5849: 255 * 127 twice is beyond 16 bits; 7 bits and unsigned weights are the cures."""
    model, feeds = _product(8)
    space = space_of(model, tmp_path, feeds=feeds, types=types)
    graph = built(space, integers(space))
    found = saturated(graph, feeds)
    assert bool(found) == saturates
    said = sentences(found, "a processor without VNNI")
    assert all("would saturate 16-bit sums" in line and "7 bits" in line for line in said)
    assert len(said) == len(found)
    assert signal_db(model, graph, feeds) > 30


def test_the_numbers_of_the_issue() -> None:
    """ORT 16105: [210, 198, 234] by [-81, -80, 127] gives -3132 in 32 bits and more in 16."""
    activation = np.array([[210, 198, 234]], np.uint8)
    weight = np.array([[-81], [-80], [127]], np.int8)
    exact = activation.astype(np.int64) @ weight.astype(np.int64)
    assert exact.item() == -3132
    # -17010 - 15840 = -32850 becomes -32768.
    assert saturating_product(activation, weight).item() == exact.item() + 82
