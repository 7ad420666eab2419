"""Weights stored in half precision, for size only."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.core.action import Action
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import Session, profile_nodes
from edgeopt.graph.write import to_bytes, write_model
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.quantize_exam import sqnr_db
from edgeopt.testing.transform_exam import NoEvidence, examine, offer, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.quantize.weight_float16 import PLUGIN


def test_half_the_file_and_the_same_arithmetic(tmp_path: Path) -> None:
    """A model of 1.3 MB of weights: half the bytes, above 60 dB, and no Cast left when it runs."""
    model = graphs.gemm_chain((256, 1024, 64, 4))
    (applied,) = examine("weight_float16", model)
    size = len(to_bytes(applied.graph)) / len(model.SerializeToString())
    assert 0.49 < size < 0.55
    feeds = random_feeds(model, 2)
    assert sqnr_db(model.SerializeToString(), to_bytes(applied.graph), feeds) > 60
    path = tmp_path / "model.onnx"
    write_model(applied.graph, path)
    ran = profile_nodes(path, RuntimeSettings(), feeds[0], runs=1)["nodes"]
    assert "Cast" not in {node["op"] for node in ran}
    assert not PLUGIN.sites(applied.graph, offer())


def test_small_models_are_not_worth_a_trial() -> None:
    """Nothing is offered where all weights together are small."""
    assert not PLUGIN.sites(opened(graphs.conv_chain()), offer())


@pytest.mark.parametrize("operator", ["DequantizeLinear", "QuantizeLinear", "MatMulNBits"])
def test_scales_of_codes_are_left(operator: str) -> None:
    """Small scales among a thousand keep their digits: the model computes the same bits."""
    width, generator = 2048, np.random.default_rng(0)
    b = Builder()
    spread = np.exp(generator.normal(size=width) * 3 - 12).astype(np.float32)
    b.constant("s", spread)
    b.node("MatMul", ["x", b.weight("f", 4, width if operator == "QuantizeLinear" else 16)], "p")
    if operator == "QuantizeLinear":
        b.node("QuantizeLinear", ["p", "s"], "q", axis=1)
        b.node("DequantizeLinear", ["q", "s"], "y", axis=1)
    elif operator == "DequantizeLinear":
        b.constant("c", generator.integers(-127, 128, (16, width)).astype(np.int8))
        b.node("MatMul", ["p", b.node("DequantizeLinear", ["c", "s"], "d", axis=1)], "y")
    else:
        b.constant("c", generator.integers(0, 256, (width, 1, 8)).astype(np.uint8))
        sizes = {"K": 16, "N": width, "bits": 4, "block_size": 16}
        b.node("MatMulNBits", ["p", "c", "s"], "y", domain="com.microsoft", **sizes)
    b.node("MatMul", ["y", b.weight("g", width, 64)], "z")
    outputs = [("y", "float32", (2, width)), ("z", "float32", (2, 64))]
    domains = [("com.microsoft", 1)] if operator == "MatMulNBits" else []
    model = b.model([("x", "float32", (2, 4))], outputs, domains=domains)
    editor = Editor(opened(model))
    made = PLUGIN.apply(editor, Action.of("weight_float16", "*"), NoEvidence())
    assert not isinstance(made, Rejection)
    kinds = {name: value.dtype for name, value in editor.graph.initializers.items()}
    assert kinds["s"] is ir.DataType.FLOAT
    assert kinds["g__float16"] is ir.DataType.FLOAT16
    if operator != "QuantizeLinear":
        (feed,) = random_feeds(model, 1)
        old = Session(model.SerializeToString()).run(feed)["y"]
        assert np.array_equal(old, Session(to_bytes(editor.model)).run(feed)["y"])


def test_weights_that_do_not_fit_are_left() -> None:
    """Beyond 65504, not finite, or subnormal throughout: such constants stay float32."""
    b = Builder()
    for name, value in (("a", 1e6), ("b", np.inf), ("c", 1e-6), ("d", 0.5)):
        b.constant(name, np.full((32, 32), value, np.float32))
        b.node("MatMul", ["x", name], f"y{name}")
    shape = (2, 32)
    model = b.model([("x", "float32", shape)], [(f"y{name}", "float32", shape) for name in "abcd"])
    editor = Editor(opened(model))
    assert PLUGIN.apply(editor, Action.of("weight_float16", "*"), NoEvidence()) == Action.of(
        "weight_float16", "*"
    )
    types = {name: value.dtype for name, value in editor.graph.initializers.items()}
    assert types == {
        **dict.fromkeys("abc", ir.DataType.FLOAT),
        "d__float16": ir.DataType.FLOAT16,
    }
    again = PLUGIN.apply(editor, Action.of("weight_float16", "*"), NoEvidence())
    assert isinstance(again, Rejection)
