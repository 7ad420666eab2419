"""Ranges and scales that ruin a model: rows 1, 2, 7, 25, 48, 49 of the list of public issues."""

from pathlib import Path

import numpy as np
import pytest

from edgeopt.core.profile import QuantizationTypes
from edgeopt.graph.editor import array_of
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from tests.field.as_user import (
    SMALL_IMAGE,
    built,
    images,
    integers,
    placement,
    ratio_db,
    signal_db,
    space_of,
)

TYPES = {
    "per channel": QuantizationTypes(),
    "per tensor": QuantizationTypes(per_channel=False),
    "signed": QuantizationTypes(activation="int8"),
    "7 bits": QuantizationTypes(reduce_range=True),
    "unsigned": QuantizationTypes(weight="uint8"),
}


def _noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(0, 0.3, shape).astype(np.float32)


def _depthwise(weight: np.ndarray, bias: np.ndarray | None, pointwise: np.ndarray):
    """Stem, Relu, depthwise with the given weight and bias, Relu, 1x1 with the given weight."""
    b = Builder()
    b.conv("x", "stem", (3, len(weight)))
    b.node("Relu", ["stem"], "relu0")
    names = ["relu0", b.constant("dw.w", weight)]
    names += [] if bias is None else [b.constant("dw.b", bias)]
    b.node("Conv", names, "dw", kernel_shape=[3, 3], pads=[1] * 4, group=len(weight))
    b.node("Relu", ["dw"], "relu1")
    b.node("Conv", ["relu1", b.constant("pw.w", pointwise)], "y", kernel_shape=[1, 1])
    return b.model(*images(3, 4))


@pytest.mark.parametrize("types", TYPES.values(), ids=TYPES)
def test_near_zero_channels(types: QuantizationTypes, tmp_path: Path) -> None:
    """ORT 11415: channels that a normalization left near zero cost nothing, per channel or not."""
    weight = _noise(8, 1, 3, 3)
    weight[2] *= 1e-7
    weight[5] *= 1e-5
    bias = np.random.default_rng(4).normal(size=8).astype(np.float32)
    model = _depthwise(weight, bias, _noise(4, 8, 1, 1))
    space = space_of(model, tmp_path, types=types)
    graph = built(space, integers(space))
    assert signal_db(model, graph) > 25
    assert placement(graph, SMALL_IMAGE).asked == 3


@pytest.mark.parametrize("types", TYPES.values(), ids=TYPES)
def test_bias_beyond_int32(types: QuantizationTypes, tmp_path: Path) -> None:
    """ORT 21000: a bias of 3 on channels with scales from 1e-6 to 1 never wraps around."""
    b = Builder()
    spread = np.geomspace(1e-6, 1, 8).astype(np.float32).reshape(-1, 1, 1, 1)
    b.constant("w", _noise(8, 3, 3, 3) * spread)
    b.constant("b", np.full(8, 3, np.float32))
    b.node("Conv", ["x", "w", "b"], "first", kernel_shape=[3, 3], pads=[1] * 4)
    b.node("Relu", ["first"], "relu")
    b.conv("relu", "y", (8, 4))
    model = b.model(*images(3, 4))
    space = space_of(model, tmp_path, types=types)
    graph = built(space, integers(space))
    assert signal_db(model, graph) > 30
    for node in graph.graph:
        codes = array_of(node.inputs[0])
        if node.op_type == "DequantizeLinear" and codes is not None and codes.dtype == np.int32:
            # Room for the sum of products that is added to it.
            assert np.abs(codes.astype(np.int64)).max() <= 2**30


def test_strided_stem_equals_its_integers(tmp_path: Path) -> None:
    """ORT 26324: QLinearConv 3 to 24 channels with stride 2, whatever kernel this machine has."""
    b = Builder()
    b.conv("x", "y", (3, 24), stride=2)
    model = b.model([("x", "float32", ("N", 3, 16, 16))], [("y", "float32", ("N", 24, 8, 8))])
    space = space_of(model, tmp_path)
    graph = built(space, integers(space))
    feed = graphs.random_feeds(model, 1, seed=9)[0]
    assert placement(graph, feed).ran == 1
    assert signal_db(model, graph) > 30


def test_boxes_and_scores_share_no_scale(tmp_path: Path) -> None:
    """ORT 14233: behind the Concat of scores and boxes in pixels each half keeps its own signal."""
    b = Builder()
    b.conv("x", "trunk", (3, 8))
    b.node("Relu", ["trunk"], "relu")
    b.conv("relu", "logits", (8, 4), kernel=1)
    b.conv("relu", "offsets", (8, 4), kernel=1)
    b.node("Sigmoid", ["logits"], "scores")
    b.node("Mul", ["offsets", b.constant("pixels", np.float32(640))], "boxes")
    b.node("Concat", ["scores", "boxes"], "y", axis=1)
    model = b.model(*images(3, 8))
    space = space_of(model, tmp_path)
    graph = built(space, integers(space))
    feeds = graphs.random_feeds(model, 8, seed=5)
    float_y = [Session(model.SerializeToString()).run(feed)["y"] for feed in feeds]
    integer_y = [Session(to_bytes(graph)).run(feed)["y"] for feed in feeds]
    for half in (slice(0, 4), slice(4, 8)):
        assert ratio_db([y[:, half] for y in float_y], [y[:, half] for y in integer_y]) > 30
    assert placement(graph, feeds[0]).ran == 3


def test_only_equalization_cures_depthwise_nets(tmp_path: Path) -> None:
    """ability-draft-plus 80: channel scales over four decades are lost, then found again."""
    spread = np.geomspace(1e-3, 10, 8).astype(np.float32)
    weight = _noise(8, 1, 3, 3) * spread.reshape(-1, 1, 1, 1)
    pointwise = _noise(4, 8, 1, 1) / spread.reshape(1, -1, 1, 1)
    model = _depthwise(weight, None, pointwise)
    space = space_of(model, tmp_path)
    plain = signal_db(model, built(space, integers(space)))
    cured = built(space, integers(space, repairs="cross_layer_equalization"))
    assert plain < 5
    assert signal_db(model, cured) > 15
    assert placement(cured, SMALL_IMAGE).ran == 3


def test_symmetric_range_has_its_zero_in_the_middle(tmp_path: Path) -> None:
    """ORT 25823: -1 .. 1 as uint8 has a zero of its own, and no end loses more than a code."""
    b = Builder()
    b.node("Tanh", ["x"], "t")
    b.conv("t", "c", (3, 4))
    b.node("Relu", ["c"], "y")
    model = b.model(*images(3, 4))
    feeds = [{"x": np.full((1, 3, 8, 8), value, np.float32)} for value in (-9.0, 0.0, 9.0)]
    space = space_of(model, tmp_path, feeds=feeds)
    graph = built(space, integers(space))
    node = next(n for n in graph.graph if n.inputs[0] is not None and n.inputs[0].name == "t")
    assert node.op_type == "QuantizeLinear"
    scale, zero = array_of(node.inputs[1]), array_of(node.inputs[2])
    assert scale is not None
    assert zero is not None
    assert int(zero) in (127, 128)
    low, high = float(scale) * (0 - int(zero)), float(scale) * (255 - int(zero))
    assert low <= -1 + float(scale)
    assert high >= 1 - float(scale)
