"""Weights stored in half precision, behind a Cast."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeopt.graph.read import read_model
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.quantize_exam import evidence_of, lowered_counts
from edgeopt.testing.transform_exam import offer
from edgeopt.transforms.base import EXACT
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace

WIDTH = 64


def stored_in_half(*, turned: bool = False) -> onnx.ModelProto:
    """Two products with weights in float16, as exporters of compressed models write them."""
    b, value = Builder(), "x"
    generator = np.random.default_rng(0)
    for index in range(2):
        name = f"fc{index}"
        array = generator.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float16)
        wide = b.node("Cast", [b.constant(f"{name}.w", array)], f"{name}.wide", to=1)
        wide = b.node("Transpose", [wide], f"{name}.t", perm=[1, 0]) if turned else wide
        value = b.node("Relu", [b.node("MatMul", [value, wide], name)], f"{name}.relu")
    b.node("Identity", [value], "y")
    shape = ("N", WIDTH)
    return b.model([("x", "float32", shape)], [("y", "float32", shape)])


@pytest.mark.parametrize("turned", [False, True])
def test_what_was_stored_in_half_can_be_quantized(tmp_path: Path, turned: bool) -> None:
    """Widened exactly, then coded in 8 bits: smaller than it came, and it runs in integers."""
    model = stored_in_half(turned=turned)
    path = graphs.write(model, tmp_path)
    feed = graphs.random_feeds(model)[0]
    workshop = Workshop(
        read_model(path),
        evidence=evidence_of(model, ArtifactStore(tmp_path)),
        opset_ceiling=17,
        feed=feed,
        data_digest="sha256:data",
    )
    space = GraphSpace(workshop, offer())
    exact = [c for c in space.choices if c.family in EXACT]
    assert [c.name for c in exact if "widen" in c.name] == ["rewrite:widen_weights"]
    sites = [c for c in space.choices if any("dynamic_matmul" in label for label in c.labels)]
    assert len(sites) == 2
    codes = [
        int(c.family in EXACT) or next((i for i, n in enumerate(c.labels) if "dynamic" in n), 0)
        for c in space.choices
    ]
    built = workshop.build(space.decode(codes))
    workshop.verify(built)
    assert lowered_counts(built.graph, feed).get("MatMul", 0) == 0
    recipe = space.decode(codes)
    assert space.static_cost(recipe)["size_bytes"] < path.stat().st_size
