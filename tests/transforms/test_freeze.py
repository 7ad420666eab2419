"""Free sizes of inputs, fixed where the user says so."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import RuntimeFailure, Session
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.testing.transform_exam import NoEvidence, examine_exact, offer, opened
from edgeopt.transforms.base import Offer, Rejection
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.rewrite.freeze_shapes import PLUGIN
from edgeopt.transforms.space import GraphSpace
from tests.transforms.small_nets import EVERY_KIND

SIZE = (1, 3, 5, 6)
FREEZE = {"x": SIZE}


def gated(width: int = 6) -> onnx.ModelProto:
    """A map whose gate is spread by a product: nothing but its channels has a fixed size."""
    b = Builder()
    b.conv("x", "stem", (3, width))
    b.node("GlobalAveragePool", ["stem"], "pool")
    b.conv("pool", "excite", (width, width), kernel=1)
    b.node("HardSigmoid", ["excite"], "gate")
    b.node("Mul", ["stem", "gate"], "scaled")
    b.conv("scaled", "y", (width, 4), kernel=1)
    return b.model([("x", "float32", ("N", 3, "H", "W"))], [("y", "float32", ("N", 4, "H", "W"))])


def _space(folder: Path, offered: Offer) -> GraphSpace:
    model = gated()
    generator = np.random.default_rng(0)
    feeds = [{"x": generator.normal(size=SIZE).astype(np.float32)} for _ in range(8)]
    workshop = Workshop(
        read_model(graphs.write(model, folder)),
        evidence=evidence_of(model, ArtifactStore(folder), feeds),
        opset_ceiling=17,
        feed=feeds[0],
        data_digest="sha256:data",
    )
    return GraphSpace(workshop, offered)


@pytest.mark.parametrize("net", EVERY_KIND, ids=lambda net: net.__name__)
def test_never_unasked(net: Callable[[], onnx.ModelProto]) -> None:
    """Without a shape from the user nothing is frozen, whatever the net."""
    assert not PLUGIN.sites(opened(net()), offer())


@pytest.mark.parametrize("net", EVERY_KIND, ids=lambda net: net.__name__)
def test_exam(net: Callable[[], onnx.ModelProto]) -> None:
    """Every free size as 2: the exam of its shelf on every tiny net."""
    model = net()
    freeze = {
        info.name: tuple(
            None if dim.HasField("dim_value") else 2 for dim in info.type.tensor_type.shape.dim
        )
        for info in model.graph.input
    }
    examine_exact("freeze_shapes", model, offered=offer(freeze=freeze))


@given(
    sizes=st.tuples(*[st.integers(1, 4)] * 3),
    take=st.lists(st.integers(-4, 3), min_size=1, max_size=4),
    stays=st.sets(st.integers(0, 2)),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_exam_on_random_sizes(
    sizes: tuple[int, int, int], take: list[int], stays: set[int]
) -> None:
    """Any part of a shape frozen, and what Gather and Slice take of it, gives equal outputs."""
    b = Builder()
    b.node("Shape", ["x"], "shape")
    b.node("Gather", ["shape", b.constant("take", np.array(take, np.int64))], "taken")
    ends = [b.constant(n, np.array([v], np.int64)) for n, v in (("from", -3), ("to", 9))]
    b.node("Slice", ["shape", *ends], "inner")
    b.node("ReduceProd", ["taken"], "product", keepdims=1)
    b.node("Concat", ["product", "inner"], "sizes", axis=0)
    b.node("Cast", ["sizes"], "wide", to=1)
    b.node("ReduceSum", ["wide"], "sum", keepdims=0)
    b.node("Mul", ["x", "sum"], "y")
    free = ("A", "B", 2, "C")
    model = b.model([("x", "float32", free)], [("y", "float32", free)])
    whole = (sizes[0], sizes[1], 2, sizes[2])
    kept = {(0, 1, 3)[index] for index in stays}
    freeze = tuple(None if axis in kept else size for axis, size in enumerate(whole))
    feed = {"x": np.random.default_rng(0).normal(size=whole).astype(np.float32)}
    applied = examine_exact("freeze_shapes", model, [feed], offered=offer(freeze={"x": freeze}))
    assert len(applied) == int(len(kept) < 3)
    if not kept:
        assert [node.op_type for node in applied[0].graph.graph] == ["Mul"]


def test_recorded_in_the_recipe(tmp_path: Path) -> None:
    """The recipe says the shape, and a replay without any offer gives the same bytes."""
    space = _space(tmp_path, offer(freeze=FREEZE))
    exact = space.decode([int(choice.family == "rewrite") for choice in space.choices])
    action = Action.of("freeze_shapes", "x", shape="1x3x5x6")
    assert action in exact.actions
    one = space.workshop.build(exact)
    again = space.workshop.build(exact.parse(exact.text))
    assert to_bytes(one.graph) == to_bytes(again.graph)
    assert tuple(one.graph.graph.inputs[0].shape or ()) == SIZE
    assert tuple(one.graph.graph.outputs[0].shape or ()) == (1, 4, 5, 6)


def test_rules_that_need_fixed_sizes_follow(tmp_path: Path) -> None:
    """Spreading a gate fits only where the map's size is known: with the shape frozen."""

    def layout(offered: Offer) -> list[str]:
        space = _space(tmp_path, offered)
        found = [c for c in space.choices if c.name == "rewrite:layout"]
        return [action.transform for c in found for action in c.alternatives[-1]]

    assert "se_resize" not in layout(offer())
    assert "se_resize" in layout(offer(freeze=FREEZE))


def test_frozen_model_refuses_other_shapes() -> None:
    """The built model takes the one shape, and the runtime says so for others."""
    editor = Editor(opened(gated()))
    made = PLUGIN.apply(editor, Action.of("freeze_shapes", "x", shape="1x3x5x6"), NoEvidence())
    assert not isinstance(made, Rejection)
    session = Session(to_bytes(editor.model))
    assert session.run({"x": np.zeros(SIZE, np.float32)})["y"].shape == (1, 4, 5, 6)
    with pytest.raises(RuntimeFailure, match="invalid dimensions"):
        session.run({"x": np.zeros((1, 3, 6, 6), np.float32)})


def test_refuses_a_shape_that_the_model_cannot_take() -> None:
    """Two operands that no longer broadcast are said, and nothing is changed."""
    b = Builder()
    b.node("Concat", ["x", b.constant("c", np.zeros((2, 4), np.float32))], "y", axis=0)
    model = b.model([("x", "float32", ("N", "M"))], [("y", "float32", ("K", "M"))])
    editor = Editor(opened(model))
    before = to_bytes(editor.model)
    made = PLUGIN.apply(editor, Action.of("freeze_shapes", "x", shape="1x3"), NoEvidence())
    assert isinstance(made, Rejection)
    assert "does not take this shape" in made.reason
    assert to_bytes(editor.model) == before
