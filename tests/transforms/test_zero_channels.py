"""Channels of zero weights are taken out of nets of every structure, and nothing changes."""

import random
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.graph.editor import array_of
from edgeopt.graph.normalize import normalize
from edgeopt.graph.read import open_graph, read_model
from edgeopt.graph.runtime import Session
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.prunable import NETS
from edgeopt.testing.random_prunable import network
from edgeopt.testing.transform_exam import NoEvidence, examine_exact, offer, opened
from edgeopt.testing.withered import withered
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.rewrite._fixed_channels import fixed_channels
from edgeopt.transforms.space import GraphSpace

NAME = "drop_zero_channels"
FIRES = (
    "resnet",
    "mobilenet",
    "densenet",
    "inception",
    "unet",
    "c2f",
    "shufflenet_split",
    "shared",
)


@pytest.mark.parametrize("name", NETS)
def test_structures(name: str) -> None:
    """Residuals, gates, joins, splits, shuffles, attention: exact wherever something goes."""
    applied = examine_exact(NAME, withered(NETS[name](), random.Random(1)))
    assert applied or name not in FIRES
    for one in applied if name != "shared" else ():  # a weight of two layers becomes two
        assert _weights(one.graph) < _weights(opened(withered(NETS[name](), random.Random(1))))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**16))
def test_random_nets(seed: int) -> None:
    """Whatever stands between a layer of zeros and what reads it."""
    draw = random.Random(seed)
    examine_exact(NAME, withered(network(draw), draw))


def test_nets_without_zeros_have_no_site() -> None:
    """Nothing is fixed where every channel has a weight."""
    for make in NETS.values():
        assert not fixed_channels(opened(make()).graph)


@pytest.mark.parametrize(
    ("op_type", "attributes", "number"),
    [
        ("Relu", {}, -0.5),
        ("LeakyRelu", {"alpha": 0.2}, -0.5),
        ("Elu", {}, -0.5),
        ("HardSwish", {}, 1.5),
        ("HardSigmoid", {"alpha": 0.3}, 0.5),
        ("Sigmoid", {}, 0.5),
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}, -3.0),
        ("AveragePool", {"kernel_shape": [2, 2]}, 2.0),
        ("GlobalMaxPool", {}, 2.0),
        ("Transpose", {"perm": [0, 2, 1, 3]}, 2.0),
    ],
)
def test_a_number_goes_through(op_type: str, attributes: dict[str, object], number: float) -> None:
    """What is said of a fixed channel is what the runtime computes there."""
    b = Builder()
    b.constant("w", np.array([[[[1.0]]], [[[0.0]]]], np.float32))
    b.constant("b", np.array([0.0, number], np.float32))
    b.node("Conv", ["x", "w", "b"], "c")
    b.node(op_type, ["c"], "y", **attributes)
    model = b.model([("x", "float32", (1, 1, 4, 4))], [("y", "float32", ("n", "c", "h", "w"))])
    graph = opened(model)
    (made,) = graph.graph.outputs
    held = fixed_channels(graph.graph)[made]
    plain = RuntimeSettings(optimization="off")
    outputs = Session(model.SerializeToString(), plain).run(
        {"x": np.ones((1, 1, 4, 4), np.float32)}
    )
    here = np.moveaxis(outputs["y"], held.axis, 0)
    assert np.isnan(held.numbers[0])
    np.testing.assert_allclose(here[1], held.numbers[1], rtol=1e-6)


def test_offered_as_a_choice(tmp_path: Path) -> None:
    """A search finds the layers that a pruning tool has cleared."""
    path = graphs.write(withered(NETS["plain"](), random.Random(1)), tmp_path)
    workshop = Workshop(read_model(path), evidence=NoEvidence(), opset_ceiling=21, feed=None)
    space = GraphSpace(workshop, offer(data=False), families=("rewrite", "fuse"))
    assert f"rewrite:{NAME}" in {choice.name for choice in space.choices}
    built = workshop.build(dict(space.standard())["exact"].recipe)
    workshop.verify(built)
    assert _weights(built.graph) < _weights(normalize(open_graph(read_model(path))))


def _weights(graph: ir.Model) -> int:
    held = [array_of(value) for value in graph.graph.initializers.values()]
    return sum(array.size for array in held if array is not None and array.dtype.kind == "f")


def test_a_whole_layer_of_zeros_keeps_one_channel() -> None:
    """No value is left without channels, and the same again finds nothing."""
    b = Builder()
    b.constant("w", np.zeros((4, 3, 1, 1), np.float32))
    b.node("Conv", ["x", "w", b.weight("b", 4)], "c")
    b.conv("c", "y", (4, 2), kernel=1)
    model: onnx.ModelProto = b.model(
        [("x", "float32", (1, 3, 4, 4))], [("y", "float32", (1, 2, 4, 4))]
    )
    (applied,) = examine_exact(NAME, model)
    assert [
        v.shape[0] for n, v in applied.graph.graph.initializers.items() if "operand1_axis0" in n
    ] == [1]
    assert not examine_exact(NAME, ir.to_proto(applied.graph))
