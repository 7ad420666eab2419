"""Constants that tools trip over: rows 16, 17, 31, 43 and 51 of the list of public issues."""

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from edgeopt.core.action import Action
from edgeopt.errors import ModelError
from edgeopt.graph.normalize import notes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.transforms.replay import ActionRejected
from tests.field.as_user import (
    SMALL_IMAGE,
    alone,
    built,
    images,
    integers,
    offered,
    placement,
    signal_db,
    space_of,
)

PADDED = {"kernel_shape": [3, 3], "pads": [1] * 4}


def _twice(between: str) -> onnx.ModelProto:
    """Two convolutions that share their bias; the name of the first one's result is given."""
    b = Builder()
    for name in ("w0", "w1"):
        b.weight(name, 3, 3, 3, 3)
    b.constant("b", np.array([0.1, -0.2, 0.3], np.float32))
    b.node("Conv", ["x", "w0", "b"], between, **PADDED)
    b.node("Conv", [between, "w1", "b"], "y", **PADDED)
    return b.model(*images(3, 3))


def test_a_shared_bias_beside_names_like_its_copies(tmp_path: Path) -> None:
    """ORT 24705: a bias of two layers is coded twice, whatever the graph's values are called."""
    for number, name in enumerate(("b0", "b__bias", "y__bias_quantized", "b0__scale")):
        model = _twice(name)
        space = space_of(model, tmp_path / str(number))
        graph = built(space, integers(space))
        assert signal_db(model, graph) > 25
        assert placement(graph, SMALL_IMAGE).ran == 2


def test_a_tool_that_trips_over_a_shared_bias(tmp_path: Path) -> None:
    """ORT 24705: the runtime's own tool fails there, and that candidate alone, with the reason."""
    model = _twice("b0")
    space = space_of(model, tmp_path)
    tool = Action.of("ort_static", "*", activation="int8", weight="int8", per_channel=False)
    try:
        graph = alone(space, tool)
    except (ModelError, ActionRejected) as error:
        said = str(error)
    else:
        said = ""
        assert signal_db(model, graph) > 25
    assert not said or "Conv" in said or "tool" in said


def test_shared_weights_between_different_scales(tmp_path: Path) -> None:
    """sparseml 390: one weight and bias behind inputs that differ a hundredfold, both right."""
    b = Builder()
    b.weight("w", 3, 3, 3, 3)
    b.constant("b", np.array([0.1, -0.2, 0.3], np.float32))
    b.node("Conv", ["x", "w", "b"], "first", **PADDED)
    b.node("Mul", ["first", b.constant("s", np.float32(0.01))], "small")
    b.node("Conv", ["small", "w", "b"], "y", **PADDED)
    model = b.model(*images(3, 3))
    space = space_of(model, tmp_path)
    graph = built(space, integers(space))
    assert signal_db(model, graph) > 40
    assert placement(graph, SMALL_IMAGE).ran == 2


def test_weights_stored_as_float16(tmp_path: Path) -> None:
    """ORT 13358: weights and biases behind a Cast from float16 are weights like any other."""
    generator = np.random.default_rng(0)
    b = Builder()
    for name, shape in (("w", (8, 3, 3, 3)), ("b", (8,))):
        half = generator.normal(0, 0.2, shape).astype(np.float16)
        b.node("Cast", [b.constant(f"{name}16", half)], name, to=onnx.TensorProto.FLOAT)
    b.node("Conv", ["x", "w", "b"], "conv", **PADDED)
    b.node("Relu", ["conv"], "relu")
    b.conv("relu", "y", (8, 4))
    model = b.model(*images(3, 4))
    space = space_of(model, tmp_path)
    graph = built(space, integers(space))
    assert signal_db(model, graph) > 30
    assert placement(graph, SMALL_IMAGE).ran == 2
    assert not any(node.op_type == "Cast" for node in graph.graph)


def test_products_of_weights_stored_as_float16(tmp_path: Path) -> None:
    """ORT 13358: dynamic quantization of a matrix behind a Cast, where the tools give up."""
    half = np.random.default_rng(0).normal(0, 0.2, (16, 8)).astype(np.float16)
    b = Builder()
    b.node("Cast", [b.constant("w16", half)], "w", to=onnx.TensorProto.FLOAT)
    b.node("MatMul", ["x", "w"], "y")
    model = b.model([("x", "float32", ("N", 16))], [("y", "float32", ("N", 8))])
    space = space_of(model, tmp_path)
    graph = alone(space, *offered(space, "dynamic_matmul"))
    assert signal_db(model, graph) > 30
    assert placement(graph, {"x": np.ones((2, 16), np.float32)}).ran == 1


def _in_training_mode() -> onnx.ModelProto:
    b = Builder()
    b.conv("x", "conv", (3, 8))
    fixed = [
        b.constant(name, np.full(8, value, np.float32))
        for name, value in (("scale", 1), ("bias", 0), ("mean", 0), ("var", 1))
    ]
    made = ["bn", "running_mean", "running_var"]
    b.nodes.append(
        helper.make_node("BatchNormalization", ["conv", *fixed], made, "norm", training_mode=1)
    )
    b.node("Relu", ["bn"], "y")
    return b.model(*images(3, 8))


def test_normalization_in_training_mode_is_flagged(tmp_path: Path) -> None:
    """ORT 14185: a BatchNormalization that depends on its batch is named, and never folded."""
    space = space_of(_in_training_mode(), tmp_path)
    said = " ".join(notes(space.workshop.normalized))
    assert "'norm'" in said
    assert "training mode" in said
    assert not offered(space, "fold_batchnorm")
    assert not offered(space, "channels_greedy")


def test_inspect_says_training_mode(edgeopt, tmp_path: Path) -> None:
    """ORT 26584: who looks at such a model is told what to do, before any search."""
    done = edgeopt("inspect", graphs.write(_in_training_mode(), tmp_path))
    assert done.code == 0, done.err
    assert "note: BatchNormalization 'norm' is in training mode" in done.out
    assert "export the model in evaluation mode" in done.out


def test_the_callers_model_is_untouched(tmp_path: Path) -> None:
    """aimet 4041: two builds of one file are equal, and the file stays as it was."""
    model = graphs.mobilenet_block()
    space = space_of(model, tmp_path)
    path = space.workshop.model.path
    before, normalized = path.read_bytes(), space.workshop.normalized
    shape = [node.op_type for node in normalized.graph]
    recipe = integers(space)
    first = built(space, recipe)
    second = built(space_of(model, tmp_path / "again"), recipe)
    assert [n.op_type for n in first.graph] == [n.op_type for n in second.graph]
    assert signal_db(model, first) == signal_db(model, second)
    assert path.read_bytes() == before
    assert [node.op_type for node in normalized.graph] == shape
