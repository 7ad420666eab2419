"""Rules about where the windows of a convolution lie: dead taps and positions that nobody reads."""

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

RULES = ["dead_taps", "pow2_to_mul", "space_to_depth_stem", "unused_slice"]
NETS = [
    graphs.conv_bn,
    graphs.conv_chain,
    graphs.mobilenet_block,
    graphs.gemm_chain,
    graphs.if_model,
    graphs.lstm,
    graphs.segmentation_argmax,
]
QUICK = settings(max_examples=60, deadline=None, derandomize=True)
PADS = st.tuples(st.integers(0, 3), st.integers(0, 3))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.__name__)
def test_exam(name: str, net: object) -> None:
    """Every one passes the exam of its shelf on every tiny net."""
    assert callable(net)
    examine_exact(name, net())


def _conv(b: Builder, kernel: int, pads: tuple[int, int], stride: int, dilation: int) -> None:
    b.weight("w", 3, 2, kernel)
    attributes = {"pads": list(pads), "strides": [stride], "dilations": [dilation]}
    b.node("Conv", ["x", "w"], "c", kernel_shape=[kernel], **attributes)


def _made(size: int, kernel: int, pads: tuple[int, int], stride: int, dilation: int) -> int:
    return (size + sum(pads) - dilation * (kernel - 1) - 1) // stride + 1


@QUICK
@given(
    size=st.integers(1, 5),
    kernel=st.integers(1, 5),
    pads=PADS,
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
)
def test_taps_are_cut_only_where_they_read_nothing(
    size: int, kernel: int, pads: tuple[int, int], stride: int, dilation: int
) -> None:
    """Whatever is cut, the outputs keep values and shape; and it is cut once."""
    made = _made(size, kernel, pads, stride, dilation)
    if size + sum(pads) < dilation * (kernel - 1) + 1:
        return
    b = Builder(seed=kernel)
    _conv(b, kernel, pads, stride, dilation)
    b.node("Relu", ["c"], "y")
    model = b.model([("x", "float32", ("N", 2, size))], [("y", "float32", ("N", 3, made))])
    for applied in examine_exact("dead_taps", model):
        _, rule = transform_of("dead_taps")
        assert not rule.sites(applied.graph, offer())


def test_a_signal_of_length_one_sees_the_middle_tap() -> None:
    """Kernel 3 with one padded element on both sides becomes kernel 1."""
    b = Builder()
    _conv(b, 3, (1, 1), 1, 1)
    b.node("Relu", ["c"], "y")
    model = b.model([("x", "float32", ("N", 2, 1))], [("y", "float32", ("N", 3, 1))])
    (applied,) = examine_exact("dead_taps", model)
    assert applied.graph.graph.initializers["c/dead_taps/weight"].shape == (3, 2, 1)


def _sliced(b: Builder, name: str, start: int, end: int, *, channels: bool) -> None:
    numbers = {"start": start, "end": end, "axis": -1}
    names = [b.constant(f"{name}.{k}", np.array([v], np.int64)) for k, v in numbers.items()]
    source = "c"
    if channels:
        low, high, axis = (b.constant(f"{name}.c{i}", np.array([i])) for i in (0, 2, 1))
        source = b.node("Slice", ["c", low, high, axis], f"{name}.half")
    b.node("Slice", [source, *names], f"{name}.part")
    b.node("Relu", [f"{name}.part"], name)


@QUICK
@given(
    size=st.integers(3, 8),
    kernel=st.integers(1, 3),
    pads=PADS,
    stride=st.integers(1, 2),
    dilation=st.integers(1, 2),
    ranges=st.lists(st.tuples(st.integers(-4, 4), st.integers(-3, 9)), min_size=1, max_size=2),
    channels=st.booleans(),
)
def test_what_nobody_reads_is_not_computed(
    size: int,
    kernel: int,
    pads: tuple[int, int],
    stride: int,
    dilation: int,
    ranges: list[tuple[int, int]],
    channels: bool,
) -> None:
    """Any slices of the output: what is left of them keeps values and shape."""
    reach = dilation * (kernel - 1) + 1
    made = _made(size, kernel, pads, stride, dilation)
    if size + sum(pads) < reach or any(not range(made)[slice(*one)] for one in ranges):
        return
    b = Builder(seed=size)
    _conv(b, kernel, pads, stride, dilation)
    for index, one in enumerate(ranges):
        _sliced(b, f"y{index}", *one, channels=channels)
    outputs = [(f"y{i}", "float32", [None] * 3) for i in range(len(ranges))]
    model = b.model([("x", "float32", ("N", 2, size))], outputs)
    read = [i for one in ranges for i in range(made)[slice(*one)]]
    for applied in examine_exact("unused_slice", model):
        _, rule = transform_of("unused_slice")
        assert (min(read), max(read) + 1) != (0, made)
        assert not rule.sites(applied.graph, offer())


def spectrogram() -> onnx.ModelProto:
    """As a voice activity detector has it: two halves, the first frame thrown away, squares."""
    b = Builder()
    _conv(b, 4, (0, 0), 2, 1)
    _sliced(b, "re", 1, 2**63 - 1, channels=True)
    b.constant("two", np.full((), 2, np.float32))
    b.node("Pow", ["re", "two"], "y")
    return b.model([("x", "float32", ("N", 2, 12))], [("y", "float32", ("N", 2, 4))])


def test_the_rules_end_after_each_other() -> None:
    """One unused frame and one square: a site each, none left afterwards."""
    editor = Editor(opened(spectrogram()))
    for name in ("unused_slice", "drop_dead", "pow2_to_mul"):
        _, rule = transform_of(name)
        (action,) = rule.sites(editor.model, offer())
        assert not isinstance(rule.apply(editor, action, NoEvidence()), Rejection)
        assert not rule.sites(editor.model, offer())


@QUICK
@given(
    channels=st.integers(1, 4),
    kernel=st.tuples(st.integers(1, 7), st.integers(1, 4)),
    pads=st.tuples(*[st.integers(0, 3)] * 4),
    size=st.tuples(st.integers(1, 4), st.integers(1, 3)),
    bias=st.booleans(),
)
def test_a_stem_on_blocks_of_pixels_is_the_same_stem(
    channels: int,
    kernel: tuple[int, int],
    pads: tuple[int, int, int, int],
    size: tuple[int, int],
    bias: bool,
) -> None:
    """Any kernel and padding; where it fires, the outputs stay, and it fires once."""
    sizes = [2 * one for one in size]
    if any(sizes[i] + pads[i] + pads[i + 2] < kernel[i] for i in range(2)):
        return
    b = Builder(seed=channels)
    names = ["x", b.weight("w", 3, channels, *kernel)]
    names += [b.weight("b", 3)] if bias else []
    b.node("Conv", names, "c", pads=list(pads), strides=[2, 2])
    b.node("Relu", ["c"], "y")
    shape = ("N", channels, *sizes)
    model = b.model([("x", "float32", shape)], [("y", "float32", ("N", 3, None, None))])
    for applied in examine_exact("space_to_depth_stem", model):
        _, rule = transform_of("space_to_depth_stem")
        assert not rule.sites(applied.graph, offer())


def test_a_stem_of_seven_taps_becomes_four() -> None:
    """The usual first convolution of a ResNet: 7x7 on 3 channels is 4x4 on 12."""
    b = Builder()
    b.conv("x", "c", (3, 8), kernel=7, stride=2)
    b.node("Relu", ["c"], "y")
    model = b.model([("x", "float32", ("N", 3, 16, 16))], [("y", "float32", ("N", 8, 8, 8))])
    (applied,) = examine_exact("space_to_depth_stem", model)
    weight = applied.graph.graph.initializers["c/space_to_depth_stem/weight"]
    assert weight.shape == (8, 12, 4, 4)


@QUICK
@given(
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    steps=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    ends=st.tuples(st.sampled_from([-2, 5, 9]), st.sampled_from([-2, 5, 9])),
    kernel=st.sampled_from([1, 1, 2]),
    group=st.sampled_from([1, 2]),
    kind=st.sampled_from(["slice", "slices", "before", "behind"]),
)
def test_what_is_left_out_becomes_a_stride(
    strides: tuple[int, int],
    steps: tuple[int, int],
    ends: tuple[int, int],
    kernel: int,
    group: int,
    kind: str,
) -> None:
    """Slices in one or two steps and poolings over one pixel, beside strides and groups."""
    b, size, last = Builder(), (7, 8), "x"
    parts = {"slice": [(0, 1)], "slices": [(0,), (1,)]}.get(kind, [])
    for number, axes in enumerate(parts):
        rows = [(0, ends[axis], axis - 2, steps[axis]) for axis in axes]
        operands = [
            b.constant(f"{name}{number}", np.array(column, np.int64))
            for name, column in zip("seat", zip(*rows, strict=True), strict=True)
        ]
        last = b.node("Slice", [last, *operands], f"cut{number}")
    pool = {"kernel_shape": [1, 1], "strides": list(steps)}
    last = b.node("MaxPool", [last], "m", **pool) if kind == "before" else last
    b.weight("w", 4, 4 // group, kernel, 1)
    made = "c" if kind == "behind" else "y"
    b.node("Conv", [last, "w"], made, group=group, strides=list(strides))
    if kind == "behind":
        b.node("MaxPool", ["c"], "y", **pool)
    last_axes = parts[-1] if parts else (0, 1)
    whole = all(
        not parts
        or range(size[axis])[: ends[axis] : steps[axis]] == range(size[axis])[:: steps[axis]]
        for axis in last_axes
    )
    fires = kernel == 1 and whole and any(steps[axis] > 1 for axis in last_axes)
    model = b.model([("x", "float32", ("N", 4, *size))], [("y", "float32", ("N", 4, "H", "W"))])
    assert len(examine_exact("subsample_to_stride", model)) == int(fires)
