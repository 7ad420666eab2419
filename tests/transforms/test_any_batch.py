"""Graphs that were made for one sample take several at once in a training."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.helper import make_node as node

from edgeopt.graph.editor import array_of
from edgeopt.graph.runtime import observe
from edgeopt.graph.shapes import infer_shapes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.repair._any_batch import any_batch


def _one_sample() -> onnx.ModelProto:
    """Resize by sizes, Reshape to and from [1, ...], a layer that reads all pixels."""
    b = Builder()
    sizes = b.constant("sizes", np.array([1, 4, 9, 6], np.int64))
    flat = b.constant("flat", np.array([1, -1], np.int64))
    square = b.constant("square", np.array([1, 3, 2, 2], np.int64))
    b.nodes += [
        node("Conv", ["x", b.weight("w", 4, 2, 3, 3)], ["c"], pads=[1] * 4),
        node("Resize", ["c", "", "", sizes], ["r"], mode="nearest"),
        node("Reshape", ["r", flat], ["f"]),
        node("Gemm", ["f", b.weight("v", 12, 216), b.weight("u", 12)], ["g"], transB=1),
        node("Reshape", ["g", square], ["y"]),
    ]
    return b.model([("x", "float32", (1, 2, 6, 4))], [("y", "float32", (1, 3, 2, 2))])


def _windows() -> onnx.ModelProto:
    """A Reshape that puts something else on the first axis."""
    b = Builder()
    windows = b.constant("windows", np.array([4, 12], np.int64))
    layer = node("Conv", ["x", b.weight("w", 2, 2, 3, 3)], ["c"], pads=[1] * 4)
    b.nodes += [layer, node("Reshape", ["c", windows], ["y"])]
    return b.model([("x", "float32", (1, 2, 6, 4))], [("y", "float32", (4, 12))])


def _sized(model: onnx.ModelProto) -> ir.Model:
    graph = opened(model)
    infer_shapes(graph)
    return graph


def test_the_copy_says_the_same_of_one_sample_and_names_no_one() -> None:
    """And the graph that it was made of stays as it was."""
    model = _one_sample()
    graph, feeds = _sized(model), graphs.random_feeds(model, 2)
    copy = any_batch(graph)
    for one, other in zip(observe(graph, ["y"], feeds), observe(copy, ["y"], feeds), strict=True):
        np.testing.assert_allclose(one["y"], other["y"], rtol=1e-6)
    targets = {
        kind: [array_of(n.inputs[1]) for n in each.graph if n.op_type == "Reshape"]
        for kind, each in (("given", graph), ("copy", copy))
    }
    assert [int(array[0]) for array in targets["given"] if array is not None] == [1, 1]
    assert [int(array[0]) for array in targets["copy"] if array is not None] == [0, 0]


def _resized(sizes: tuple[int, int], **how: str) -> onnx.ModelProto:
    """A map of 7 x 3 at another size, and what comes of it."""
    b = Builder()
    asked = b.constant("sizes", np.array([1, 2, *sizes], np.int64))
    b.nodes += [
        node("Resize", ["x", "", "", asked], ["r"], **how),
        node("Relu", ["r"], ["y"]),
    ]
    return b.model([("x", "float32", (1, 2, 7, 3))], [("y", "float32", None)], opset=18)


@pytest.mark.parametrize("sizes", [(14, 6), (9, 7), (5, 2), (49, 41), (3, 1)])
@pytest.mark.parametrize("form", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_resize_by_scales_says_what_it_said_by_sizes(
    sizes: tuple[int, int], form: str, mode: str
) -> None:
    """Whatever the sizes; where scales would round to others it is left."""
    model = _resized(sizes, mode=mode, coordinate_transformation_mode=form)
    graph, feeds = _sized(model), graphs.random_feeds(model, 2)
    found = observe(any_batch(graph), ["y"], feeds)
    for one, other in zip(observe(graph, ["y"], feeds), found, strict=True):
        np.testing.assert_allclose(one["y"], other["y"], rtol=1e-6)


def test_a_resize_whose_sizes_are_only_limits_is_left() -> None:
    """It keeps the aspect ratio."""
    graph = _sized(_resized((14, 14), mode="nearest", keep_aspect_ratio_policy="not_larger"))
    (resize, _) = any_batch(graph).graph
    assert array_of(resize.inputs[3]) is not None


@pytest.mark.parametrize(("model", "takes"), [(_one_sample(), True), (_windows(), False)])
def test_a_training_takes_batches_where_samples_are_told_apart(
    model: onnx.ModelProto, takes: bool
) -> None:
    """Otherwise it goes on with one sample at a time."""
    pytest.importorskip("torch", reason="needs torch: pip install 'edgeopt[rl]'")
    from edgeopt.transforms.repair._teacher import Teacher
    from edgeopt.transforms.repair._torch_graph import TorchGraph
    from edgeopt.transforms.repair._training import BATCH, Training

    graph = _sized(model)
    training = Training(
        student=TorchGraph(any_batch(graph)),
        teacher=Teacher(any_batch(graph), ["y"]),
        ends=(),
        between=("y",),
        feeds=graphs.random_feeds(model, 4),
        seconds=1.0,
        tell=lambda _: None,
    )
    assert training._batch == (BATCH if takes else 1)
