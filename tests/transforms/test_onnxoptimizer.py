"""Passes of onnxoptimizer are actions, and what they get wrong is found before it counts."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeopt.core.action import Action
from edgeopt.errors import WrongOutputError
from edgeopt.graph.editor import Editor
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import RuntimeFailure
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.transform_exam import NoEvidence
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.replay import ActionRejected, Workshop, attempt
from edgeopt.transforms.rewrite.onnxoptimizer import passes

BLAMED = "fuse_pad_into_pool"


def _padded_pool(*, behind_relu: bool) -> onnx.ModelProto:
    """Planes below zero, padded with zeros, and the largest of each window."""
    b = Builder()
    b.constant("low", np.full((), -5, np.float32))
    b.node("Add", ["x", "low"], "shifted")
    last = b.node("Relu", ["shifted"], "positive") if behind_relu else "shifted"
    b.node("Pad", [last, b.constant("pads", np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))], "p")
    b.node("MaxPool", ["p"], "y", kernel_shape=[3, 3], strides=[2, 2])
    shape = (1, 2, 7, 7)
    return b.model([("x", "float32", shape)], [("y", "float32", (1, 2, 4, 4))], opset=13)


def _workshop(folder: Path, model: onnx.ModelProto) -> Workshop:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    feed = random_feeds(model, 1)[0]
    return Workshop(read_model(path), evidence=NoEvidence(), opset_ceiling=13, feed=feed)


@pytest.mark.parametrize("parameters", [{"pass": BLAMED}, {}], ids=["alone", "default"])
def test_a_wrong_pass_is_caught(tmp_path: Path, parameters: dict[str, str]) -> None:
    """It folds padding of zeros into a pooling of negative numbers; the verifier names it."""
    workshop = _workshop(tmp_path, _padded_pool(behind_relu=False))
    built = workshop.build(workshop.recipe([Action.of("onnxoptimizer", "*", **parameters)]))
    with pytest.raises(WrongOutputError, match="onnxoptimizer") as caught:
        workshop.verify(built)
    assert "the outputs change" in str(caught.value)


def test_our_rule_refuses_what_that_pass_gets_wrong(tmp_path: Path) -> None:
    """`pad_into_pool` asks whether anything may be negative; behind a Relu both are right."""
    workshop = _workshop(tmp_path, _padded_pool(behind_relu=False))
    ours = Action.of("pad_into_pool", "y")
    with pytest.raises(ActionRejected, match="larger than what is there"):
        workshop.build(workshop.recipe([ours]))
    other = _workshop(tmp_path, _padded_pool(behind_relu=True))
    for action in (ours, Action.of("onnxoptimizer", "*", **{"pass": BLAMED})):
        built = other.build(other.recipe([action]))
        other.verify(built)
        assert "Pad" not in [node.op_type for node in built.graph.graph]


def test_every_pass_is_an_action(tmp_path: Path) -> None:
    """Each gives a graph that is verified, or refuses, or is caught: some rename outputs."""
    workshop = _workshop(tmp_path, graphs.conv_bn())
    assert BLAMED in passes()
    verified, caught = 0, set[str]()
    for name in passes():
        action = Action.of("onnxoptimizer", "*", **{"pass": name})
        built = workshop.build(workshop.recipe([action]), lenient=True)
        if built.rejected:
            continue
        try:
            workshop.verify(built)
            verified += 1
        except (WrongOutputError, RuntimeFailure):
            caught.add(name)
    assert verified > len(passes()) // 2
    assert "rename_input_output" in caught


def test_an_unknown_pass_is_refused(tmp_path: Path) -> None:
    """With its name, and no trace."""
    workshop = _workshop(tmp_path, graphs.conv_bn())
    editor = Editor(workshop.normalized.clone())
    action = Action.of("onnxoptimizer", "*", **{"pass": "fuse_everything"})
    made = attempt(editor, action, NoEvidence())
    assert isinstance(made, Rejection)
    assert "fuse_everything" in made.reason
