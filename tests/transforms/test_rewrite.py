"""The rewrite rules on tiny nets and on random shapes."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.graph.editor import Editor
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import NoEvidence, examine_exact, offer, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.stages import transform_of
from tests.transforms.small_nets import EVERY_KIND

RULES = ["compose_conv1x1", "drop_dead", "fold_batchnorm", "pool_before_conv1x1"]
TOOLS = ["normalize", "onnxoptimizer", "ort_optimize"]
FLAGS = st.booleans()
SMALL = st.integers(1, 3)
QUICK = settings(max_examples=60, deadline=None, derandomize=True)


@pytest.mark.parametrize("name", RULES + TOOLS)
@pytest.mark.parametrize("net", EVERY_KIND, ids=lambda net: net.__name__)
def test_exam(name: str, net: object) -> None:
    """Every rule and tool passes the exam of its shelf on every tiny net."""
    assert callable(net)
    examine_exact(name, net())


def test_folds_every_batchnorm() -> None:
    """A net with two normalizations has two sites, with a bias and without."""
    for bias in (True, False):
        applied = examine_exact("fold_batchnorm", graphs.conv_bn(bias=bias))
        assert [one.action.site for one in applied] == ["bn1", "bn2"]


def test_fold_leaves_a_shared_weight_to_its_other_user() -> None:
    """A weight with two readers is copied before it is changed."""
    b = Builder()
    b.weight("w", 4, 4, 1, 1)
    b.batchnorm(b.node("Conv", ["x", "w"], "c"), "n", 4)
    b.node("Conv", ["n", "w"], "y")
    shape = ("N", 4, 5, 5)
    model = b.model([("x", "float32", shape)], [("y", "float32", shape)])
    (applied,) = examine_exact("fold_batchnorm", model)
    assert {"w", "n/fold_batchnorm/weight"} <= set(applied.graph.graph.initializers)


def test_composes_a_chain_of_three() -> None:
    """The same site can be composed again: the new weights get a name of their own."""
    b = Builder()
    b.conv("x", "a", (2, 4), kernel=1)
    b.conv("a", "b", (4, 4), kernel=1)
    b.conv("b", "y", (4, 2), kernel=1)
    model = b.model([("x", "float32", ("N", 2, 4, 4))], [("y", "float32", ("N", 2, 4, 4))])
    _, rule = transform_of("compose_conv1x1")
    editor = Editor(opened(model))
    for _ in range(2):
        action = rule.sites(editor.model, offer())[-1]
        assert not isinstance(rule.apply(editor, action, NoEvidence()), Rejection)
    assert [node.op_type for node in editor.graph] == ["Conv"]


def test_an_unknown_site_is_refused() -> None:
    """A site that no node of the main graph computes is a rejection, not an exception."""
    _, rule = transform_of("fold_batchnorm")
    action = rule.sites(opened(graphs.conv_bn()), offer())[0]
    made = rule.apply(Editor(opened(graphs.conv_chain())), action, NoEvidence())
    assert isinstance(made, Rejection)
    assert "bn1" in made.reason


def test_bodies_of_if_are_left_alone() -> None:
    """Nodes inside a branch are no sites, and what a branch captures keeps its value."""
    model = graphs.if_model()
    branch = model.graph.node[2].attribute[0].g
    branch.node.append(
        onnx.helper.make_node("Identity", [branch.output[0].name], ["copy"], name="copy/node")
    )
    branch.output[0].name = "copy"
    assert not examine_exact("drop_dead", model)


def test_a_captured_value_survives_the_node_that_copied_it() -> None:
    """A branch that reads a dropped Identity reads its source afterwards."""
    model = graphs.if_model()
    for attribute in model.graph.node[2].attribute:
        for node in attribute.g.node:
            node.input[:] = ["copy" if name == "x" else name for name in node.input]
    model.graph.node.insert(0, onnx.helper.make_node("Identity", ["x"], ["copy"], name="c"))
    assert [one.action.site for one in examine_exact("drop_dead", model)] == ["copy"]


def test_tools_keep_to_portable_operators() -> None:
    """Where vendor operators are forbidden, the runtime's extended level is not offered."""
    _, tool = transform_of("ort_optimize")
    graph = opened(graphs.conv_bn())
    levels = [action.get("level") for action in tool.sites(graph, offer(contrib=False))]
    assert levels == ["basic"]


@QUICK
@given(
    kind=st.sampled_from(["Conv", "ConvTranspose"]),
    group=SMALL,
    per_group=st.tuples(SMALL, SMALL),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    pad=st.integers(0, 1),
    size=st.integers(3, 6),
    bias=FLAGS,
)
def test_fold_holds_on_any_convolution(
    kind: str,
    group: int,
    per_group: tuple[int, int],
    kernel: int,
    stride: int,
    pad: int,
    size: int,
    bias: bool,
) -> None:
    """Groups, strides, pads and a missing bias do not matter to a fold."""
    given_, made = per_group[0] * group, per_group[1] * group
    pad = min(pad, kernel - 1)
    b = Builder(seed=kernel)
    shape = (made, per_group[0]) if kind == "Conv" else (given_, per_group[1])
    names = ["x", b.weight("w", *shape, kernel, kernel)]
    names += [b.weight("b", made)] if bias else []
    attributes = {"group": group, "strides": [stride] * 2, "pads": [pad] * 4}
    b.batchnorm(b.node(kind, names, "c", **attributes), "y", made)
    model = b.model(
        [("x", "float32", ("N", given_, size, size + 1))],
        [("y", "float32", ("N", made, "H", "W"))],
    )
    assert len(examine_exact("fold_batchnorm", model)) == 1


@QUICK
@given(
    trans_a=FLAGS,
    trans_b=FLAGS,
    sizes=st.tuples(SMALL, SMALL, SMALL),
    bias=st.sampled_from(["none", "scalar", "row", "flat"]),
    alpha=st.sampled_from([1.0, 0.5]),
    beta=st.sampled_from([1.0, 2.0]),
)
def test_fold_holds_on_any_gemm(
    trans_a: bool,
    trans_b: bool,
    sizes: tuple[int, int, int],
    bias: str,
    alpha: float,
    beta: float,
) -> None:
    """Transposed operands, alpha, beta and every shape of C that is the same in each row."""
    rows, inner, columns = sizes
    b = Builder(seed=inner)
    weight = (columns, inner) if trans_b else (inner, columns)
    names = ["x", b.weight("w", *weight)]
    shapes = {"scalar": (), "row": (1, columns), "flat": (columns,)}
    if bias in shapes:
        names.append(b.weight("c", *shapes[bias]))
    attributes = {"transA": int(trans_a), "transB": int(trans_b), "alpha": alpha, "beta": beta}
    b.batchnorm(b.node("Gemm", names, "g", **attributes), "y", columns)
    given_ = (inner, rows) if trans_a else (rows, inner)
    model = b.model([("x", "float32", given_)], [("y", "float32", (rows, columns))])
    assert len(examine_exact("fold_batchnorm", model)) == 1


@QUICK
@given(
    channels=st.tuples(SMALL, SMALL),
    kernel=st.integers(1, 2),
    stride=st.integers(1, 2),
    pad=st.integers(0, 1),
    group=st.integers(1, 2),
    size=st.integers(2, 5),
    bias=FLAGS,
    mean=FLAGS,
)
def test_pooling_moves_exactly_where_it_may(
    channels: tuple[int, int],
    kernel: int,
    stride: int,
    pad: int,
    group: int,
    size: int,
    bias: bool,
    mean: bool,
) -> None:
    """It fires on pointwise convolutions alone, and there the outputs stay."""
    given_, made = channels[0] * group, channels[1] * group
    b = Builder(seed=size)
    names = ["x", b.weight("w", made, channels[0], kernel, kernel)]
    names += [b.weight("b", made)] if bias else []
    b.node("Conv", names, "c", strides=[stride] * 2, pads=[pad] * 4, group=group)
    if mean:
        b.node("ReduceMean", ["c"], "y", axes=[3, 2])
    else:
        b.node("GlobalAveragePool", ["c"], "y")
    model = b.model(
        [("x", "float32", ("N", given_, size, size + 1))], [("y", "float32", ("N", made, 1, 1))]
    )
    applied = examine_exact("pool_before_conv1x1", model)
    assert len(applied) == int((kernel, stride, pad, group) == (1, 1, 0, 1))


@QUICK
@given(
    channels=st.tuples(SMALL, SMALL, SMALL),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    pad=st.integers(0, 1),
    outer_pad=st.integers(0, 1),
    groups=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    biases=st.tuples(FLAGS, FLAGS),
)
def test_composition_fires_exactly_where_it_holds_and_pays(
    channels: tuple[int, int, int],
    kernel: int,
    stride: int,
    pad: int,
    outer_pad: int,
    groups: tuple[int, int],
    biases: tuple[bool, bool],
) -> None:
    """Any padding and stride of the first; none of the second, no groups, no more products."""
    one, two = groups
    given_, middle, made = channels[0] * one, channels[1] * one * two, channels[2] * two
    b = Builder(seed=kernel)
    names = ["x", b.weight("w1", middle, channels[0], kernel, kernel)]
    names += [b.weight("b1", middle)] if biases[0] else []
    b.node("Conv", names, "c", strides=[stride] * 2, pads=[pad] * 4, group=one)
    names = ["c", b.weight("w2", made, middle // two, 1, 1)]
    names += [b.weight("b2", made)] if biases[1] else []
    b.node("Conv", names, "y", pads=[outer_pad] * 4, group=two)
    model = b.model(
        [("x", "float32", ("N", given_, 5, 4))], [("y", "float32", ("N", made, "H", "W"))]
    )
    taps = given_ * kernel * kernel
    pays = taps * made <= taps * middle + middle * made
    applied = examine_exact("compose_conv1x1", model)
    assert len(applied) == int(groups == (1, 1) and not outer_pad and pays)


@QUICK
@given(
    sizes=st.tuples(SMALL, SMALL, SMALL),
    target=st.lists(st.sampled_from([0, -1, 1, 2, 3]), min_size=2, max_size=4),
    begin=st.integers(0, 1),
    end=st.sampled_from([1, 2, 3, 2**31 - 1, 2**63 - 1]),
    pads=st.lists(st.sampled_from([0, 0, 0, 1]), min_size=6, max_size=6),
    order=st.permutations([0, 1, 2]),
)
def test_what_is_dropped_changed_nothing(
    sizes: tuple[int, int, int],
    target: list[int],
    begin: int,
    end: int,
    pads: list[int],
    order: list[int],
) -> None:
    """Random Reshape, Slice, Pad and Transpose: whatever is dropped, the outputs stay equal."""
    total = int(np.prod(sizes))
    kept = [sizes[i] if size == 0 and i < 3 else size for i, size in enumerate(target)]
    known = int(np.prod([size for size in kept if size > 0]))
    fits = kept.count(-1) <= 1 and (target.count(0) == 0 or len(target) <= 3)
    fits = fits and (total % known == 0 if -1 in kept else total == known)
    b = Builder()
    b.node("Relu", ["x"], "a")
    b.node("Slice", ["a", *(_ints(b, n, [v]) for n, v in (("s", begin), ("e", end)))], "sliced")
    b.node("Pad", ["a", _ints(b, "pads", pads)], "padded")
    b.node("Transpose", ["a"], "turned", perm=order)
    outputs = [("sliced", 3), ("padded", 3), ("turned", 3)]
    if fits:
        b.node("Reshape", ["a", _ints(b, "target", target)], "shaped")
        outputs.append(("shaped", len(target)))
    for name, _ in outputs:
        b.node("Tanh", [name], f"{name}.y")
    model = b.model(
        [("x", "float32", sizes)],
        [(f"{name}.y", "float32", [None] * rank) for name, rank in outputs],
    )
    dropped = {one.action.site for one in examine_exact("drop_dead", model)}
    assert ("turned" in dropped) == (order == [0, 1, 2])
    assert ("padded" in dropped) == (not any(pads))
    assert ("sliced" in dropped) == (begin == 0 and end >= sizes[0])


def _ints(b: Builder, name: str, numbers: list[int]) -> str:
    return b.constant(name, np.array(numbers, np.int64))


def test_an_output_keeps_its_declared_shape() -> None:
    """A graph output that changes its producer is declared as before."""
    b = Builder()
    b.batchnorm(b.conv("x", "c", (3, 4)), "y", 4)
    model = b.model([("x", "float32", ("N", 3, 8, 8))], [("y", "float32", ("batch", 4, 8, 8))])
    (applied,) = examine_exact("fold_batchnorm", model)
    assert str(applied.graph.graph.outputs[0].shape) == "[batch,4,8,8]"
