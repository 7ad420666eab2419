"""Rules that keep a model in the runtime's blocked layout, and the choice that offers them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import NoEvidence, examine_exact, offer, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.channels.growing import growing
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace
from edgeopt.transforms.stages import transform_of
from tests.transforms.small_nets import EVERY_KIND

RULES = [
    "conv1x1_last_axis",
    "fold_add",
    "pad_channels",
    "se_resize",
    "share_dimensions",
    "softmax_last_axis",
]
QUICK = settings(max_examples=40, deadline=None, derandomize=True)


def gated(width: int = 6, squeezed: int = 3, size: int = 5) -> onnx.ModelProto:
    """Stem, depthwise, squeeze-and-excite, projection, a residual around all of it, logits."""
    b = Builder()
    b.conv("x", "stem", (3, width))
    b.node("HardSwish", ["stem"], "stem.h")
    b.conv("stem.h", "depthwise", (width, width), group=width)
    b.node("GlobalAveragePool", ["depthwise"], "pool")
    b.conv("pool", "squeeze", (width, squeezed), kernel=1)
    b.node("Relu", ["squeeze"], "squeeze.r")
    b.conv("squeeze.r", "excite", (squeezed, width), kernel=1)
    b.node("HardSigmoid", ["excite"], "gate")
    b.node("Mul", ["depthwise", "gate"], "scaled")
    b.conv("scaled", "project", (width, width), kernel=1)
    b.node("Add", ["project", "stem.h"], "sum")
    b.conv("sum", "y", (width, 4), kernel=1)
    shape = ("N", 3, size, size + 1)
    return b.model([("x", "float32", shape)], [("y", "float32", ("N", 4, size, size + 1))])


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("net", EVERY_KIND, ids=lambda net: net.__name__)
def test_exam(name: str, net: Callable[[], onnx.ModelProto]) -> None:
    """Every layout rule passes the exam of its shelf on every tiny net."""
    examine_exact(name, net())


def test_padding_leaves_no_channels_off_the_grid() -> None:
    """Residual, depthwise and gate widths all become multiples of the block; once is enough."""
    (applied,) = examine_exact("pad_channels", gated())
    assert {group.width for group in growing(applied.graph)} == {8}
    _, rule = transform_of("pad_channels")
    assert not rule.sites(applied.graph, offer())


def test_padding_keeps_a_shared_weight_for_its_other_user() -> None:
    """A weight that something else reads too is copied before it is padded."""
    b = Builder()
    b.weight("w", 6, 3, 1, 1)
    b.node("Conv", ["x", "w"], "c")
    b.conv("c", "z", (6, 2), kernel=1)
    b.node("Conv", ["x", "w"], "y")
    model = b.model(
        [("x", "float32", ("N", 3, 4, 4))],
        [("z", "float32", ("N", 2, 4, 4)), ("y", "float32", ("N", 6, 4, 4))],
    )
    (applied,) = examine_exact("pad_channels", model)
    kept = array_of(applied.graph.graph.initializers["w"])
    assert kept is not None
    assert kept.shape == (6, 3, 1, 1)


@pytest.mark.parametrize(("between", "offered"), [("Abs", 1), ("Log", 0), ("Sqrt", 0)])
def test_what_need_not_stay_finite_is_not_padded(between: str, offered: int) -> None:
    """A padded channel of zeros must not become infinite on its way to weights of zero."""
    b = Builder()
    b.node(between, [b.node("Exp", [b.conv("x", "a", (3, 6))], "e")], "p")
    b.conv("p", "y", (6, 2))
    assert len(_padding(b)) == offered


def test_codes_are_not_padded() -> None:
    """0 is not their zero point."""
    b = Builder()
    b.conv("x", "p", (3, 6))
    names = ["codes", "scale", "zero"]
    b.constant("codes", np.ones((2, 6, 1, 1), np.int8))
    b.constant("scale", np.array(0.1, np.float32))
    b.constant("zero", np.array(3, np.int8))
    b.node("Conv", ["p", b.node("DequantizeLinear", names, "w")], "y")
    assert not _padding(b)


def _padding(b: Builder) -> tuple[Action, ...]:
    model = b.model([("x", "float32", (1, 3, 8, 8))], [("y", "float32", (1, 2, 8, 8))])
    return transform_of("pad_channels")[1].sites(opened(model), offer())


@QUICK
@given(
    width=st.integers(2, 20),
    squeezed=st.integers(1, 9),
    size=st.integers(2, 5),
)
def test_layout_holds_at_any_width(width: int, squeezed: int, size: int) -> None:
    """Padding and spreading the gate keep the outputs, alone and after each other."""
    model = gated(width, squeezed, size)
    examine_exact("se_resize", model)
    padded = examine_exact("pad_channels", model)
    editor = Editor(padded[0].graph if padded else opened(model))
    _, rule = transform_of("se_resize")
    (action,) = rule.sites(editor.model, offer())
    assert not isinstance(rule.apply(editor, action, NoEvidence()), Rejection)
    assert not rule.sites(editor.model, offer())


def _space(folder: Path, model: onnx.ModelProto) -> GraphSpace:
    workshop = Workshop(
        read_model(graphs.write(model, folder)),
        evidence=NoEvidence(),
        opset_ceiling=17,
        feed=graphs.random_feeds(model)[0],
    )
    return GraphSpace(workshop, offer(data=False))


def test_a_macro_is_one_choice(tmp_path: Path) -> None:
    """Nothing, padding, or padding and spread gates; every alternative builds and is exact."""
    space = _space(tmp_path, gated())
    (choice,) = (choice for choice in space.choices if choice.name == "rewrite:layout")
    assert choice.labels == ("off", "pad_channels", "pad_channels+se_resize")
    assert [len(actions) for actions in choice.alternatives] == [0, 1, 2]
    for code in range(len(choice)):
        recipe = space.decode([code * (other is choice) for other in space.choices])
        assert [action.transform for action in recipe.actions] == [
            action.transform for action in choice.alternatives[code]
        ]
        space.workshop.verify(space.workshop.build(recipe))


def test_our_own_candidates_come_first(tmp_path: Path) -> None:
    """All exact actions with the macros are the second standard candidate."""
    space = _space(tmp_path, gated())
    named = space.standard()
    assert [name for name, _ in named][:2] == ["baseline", "exact_all"]
    done = {action.transform for action in named[1][1].recipe.actions}
    assert done == {"pad_channels", "se_resize"}
    space.workshop.verify(space.workshop.build(named[1][1].recipe))


def test_the_steps_of_a_macro_are_legal_one_by_one(tmp_path: Path) -> None:
    """What the choice does at once, an environment can do in steps."""
    space = _space(tmp_path, gated())
    (choice,) = (choice for choice in space.choices if choice.name == "rewrite:layout")
    recipe = space.empty()
    for action in choice.alternatives[-1]:
        grown = space.then(recipe, action)
        assert not isinstance(grown, str), grown
        recipe = grown
    assert recipe.actions == choice.alternatives[-1]


def test_a_constant_off_the_channel_axis_is_no_bias() -> None:
    """A vector of numbers added behind a convolution lies on the last axis."""
    b = Builder()
    b.conv("x", "c", (3, 4), kernel=1)
    b.constant("row", np.arange(4, dtype=np.float32))
    b.node("Add", ["c", "row"], "y")
    model = b.model([("x", "float32", (1, 3, 4, 4))], [("y", "float32", (1, 4, 4, 4))])
    assert not examine_exact("fold_add", model)


@QUICK
@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4), axis=st.integers(-4, 3))
def test_softmax_runs_over_the_last_axis(sizes: list[int], axis: int) -> None:
    """Any axis of any rank; it fires where something is behind the axis, and once."""
    if not -len(sizes) <= axis < len(sizes):
        return
    b = Builder()
    b.node("Softmax", ["x"], "y", axis=axis)
    model = b.model([("x", "float32", sizes)], [("y", "float32", sizes)])
    applied = examine_exact("softmax_last_axis", model)
    assert len(applied) == int(any(size > 1 for size in sizes[axis % len(sizes) + 1 :]))
    _, rule = transform_of("softmax_last_axis")
    assert not any(rule.sites(one.graph, offer()) for one in applied)


def test_a_stem_is_left_alone_in_float(tmp_path: Path) -> None:
    """Blocks of pixels into channels lose in float: a choice, and no first guess."""
    b = Builder()
    b.conv("x", "c", (3, 8), kernel=7, stride=2)
    b.node("Relu", ["c"], "y")
    model = b.model([("x", "float32", ("N", 3, 16, 16))], [("y", "float32", ("N", 8, 8, 8))])
    space = _space(tmp_path, model)
    (choice,) = space.choices
    assert (choice.name, choice.labels) == ("rewrite:stem", ("off", "space_to_depth_stem"))
    space.workshop.verify(space.workshop.build(space.decode([1])))
    done = [action for _, candidate in space.standard() for action in candidate.recipe.actions]
    assert not any(action.transform == "space_to_depth_stem" for action in done)


@QUICK
@given(
    kernel=st.integers(1, 4),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    size=st.tuples(st.integers(7, 11), st.integers(7, 11)),
)
def test_sizes_with_one_name_are_equal(
    kernel: int,
    pads: tuple[int, int, int, int],
    stride: int,
    dilation: int,
    size: tuple[int, int],
) -> None:
    """On every input, values whose sizes got the same name have the same sizes."""
    b = Builder(seed=kernel)
    attributes = {"pads": list(pads), "strides": [stride] * 2, "dilations": [dilation] * 2}
    for name, source in (("a", "x"), ("b", "x"), ("c", "a")):
        b.weight(f"{name}.w", 2, 2, kernel, kernel)
        b.node("Conv", [source, f"{name}.w"], name, **attributes)
    b.node("Add", ["a", "b"], "sum")
    names = ["a", "b", "c", "sum"]
    for name in names:
        b.node("Neg", [name], f"{name}.y")
    outputs = [(f"{name}.y", "float32", [None] * 4) for name in names]
    model = b.model([("x", "float32", ("N", 2, "H", "W"))], outputs)
    reach = dilation * (kernel - 1) + 1
    small = [size[i] + pads[i] + pads[i + 2] for i in range(2)]
    if any(
        (total - reach) // stride + 1 + pads[i] + pads[i + 2] < reach
        for i, total in enumerate(small)
    ):
        return
    feed = {"x": np.zeros((2, 2, *size), np.float32)}
    (applied,) = examine_exact("share_dimensions", model, [feed])
    found = {v.name: v.shape for node in applied.graph.graph for v in node.outputs}
    made = Session(model.SerializeToString()).run(feed)
    known = {"H": size[0], "W": size[1], "N": 2}
    for name in names:
        for dimension, real in zip(found[name] or (), made[f"{name}.y"].shape, strict=True):
            if isinstance(dimension, int):
                assert dimension == real
            elif dimension.value is not None:
                assert known.setdefault(dimension.value, real) == real
    assert found["a"] == found["b"] == found["sum"]


def test_expectation_over_bins_leaves_no_convolution(tmp_path: Path) -> None:
    """A detector's box distribution: Softmax on the last axis, then a product, one move behind."""
    b = Builder()
    for name, shape in (("split", [0, 4, 16, 9]), ("joined", [0, 4, 9])):
        b.constant(name, np.array(shape, np.int64))
    b.constant("bins", np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1))
    b.node("Reshape", ["x", "split"], "sides")
    b.node("Transpose", ["sides"], "laid", perm=[0, 2, 1, 3])
    b.node("Softmax", ["laid"], "share", axis=1)
    b.node("Conv", ["share", "bins"], "mean")
    b.node("Reshape", ["mean", "joined"], "y")
    model = b.model([("x", "float32", ("N", 64, 9))], [("y", "float32", ("N", 4, 9))])
    workshop = Workshop(
        read_model(graphs.write(model, tmp_path)),
        evidence=NoEvidence(),
        opset_ceiling=17,
        feed=graphs.random_feeds(model)[0],
    )
    space = GraphSpace(workshop, offer())
    recipe = space.decode([1] * len(space.choices))
    assert {"softmax_last_axis", "conv1x1_last_axis"} <= {a.transform for a in recipe.actions}
    built = workshop.build(recipe)
    workshop.verify(built)
    kinds = [node.op_type for node in built.graph.graph]
    assert "Conv" not in kinds
    assert "MatMul" in kinds


def test_what_is_proved_of_sizes_stays_in_the_file() -> None:
    """Shapes that a runtime infers are left out of files; these are the ones that it would not."""
    b = Builder()
    b.conv("x", "a", (2, 2), bias=False)
    b.node("Relu", ["a"], "r")
    b.node("Add", ["r", "x"], "y")
    shape = ("N", 2, "H", "W")
    graph = opened(b.model([("x", "float32", shape)], [("y", "float32", shape)]))
    assert not onnx.load_from_string(to_bytes(graph)).graph.value_info
    editor = Editor(graph)
    made = transform_of("share_dimensions")[1].apply(
        editor, Action.of("share_dimensions", "*"), NoEvidence()
    )
    assert not isinstance(made, Rejection)
    held = to_bytes(graph)
    told = {info.name for info in onnx.load_from_string(held).graph.value_info}
    assert told == {"a", "r"}
    assert to_bytes(ir.from_proto(onnx.load_from_string(held))) == held
