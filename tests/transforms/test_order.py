"""A permutation of channels goes into whatever reads them, through what treats them apart."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import examine_exact

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
CHANNELS = 4
STEPS = ("Relu", "LeakyRelu", "PRelu", "Sub", "Mul", "scalar", "Transpose", "MaxPool", "depthwise")


def _ints(b: Builder, name: str, *numbers: int) -> str:
    return b.constant(name, np.array(numbers, np.int64))


def _permuted(b: Builder, kind: str, axis: int, order: list[int]) -> str:
    if kind == "Gather":
        return b.node("Gather", ["x", _ints(b, "order", *order)], "moved", axis=axis)
    if kind == "Slice":
        far = np.iinfo(np.int64).min
        bounds = [_ints(b, n, i) for n, i in zip("seat", (-1, far, axis, -1), strict=True)]
        return b.node("Slice", ["x", *bounds], "moved")
    b.node("Split", ["x", _ints(b, "sizes", 1, 3)], "p", axis=axis)
    b.nodes[-1].output.append("q")
    return b.node("Concat", ["q", "p"], "moved", axis=axis)


def _step(b: Builder, kind: str, source: str, number: int, last: bool) -> tuple[str, bool]:
    """One node that treats channels apart; whether they lie last behind it."""
    made, shape = f"v{number}", (CHANNELS,) if last else (CHANNELS, 1, 1)
    if kind == "Transpose":
        order = [0, 3, 1, 2] if last else [0, 2, 3, 1]
        return b.node("Transpose", [source], made, perm=order), not last
    if kind in {"PRelu", "Sub", "Mul"}:
        constant = b.weight(f"c{number}", *shape)
        inputs = [constant, source] if kind == "Sub" else [source, constant]
        return b.node(kind, inputs, made), last
    if kind == "scalar":
        return b.node("Add", [source, b.weight(f"c{number}", 1)], made), last
    if kind == "MaxPool" and not last:
        return b.node(kind, [source], made, kernel_shape=[2, 2], pads=[1, 0, 0, 1]), last
    if kind == "depthwise" and not last:
        inputs = [
            source,
            b.weight(f"w{number}", CHANNELS, 1, 1, 1),
            b.weight(f"b{number}", CHANNELS),
        ]
        return b.node("Conv", inputs, made, group=CHANNELS), last
    return b.node("Relu", [source], made), last


@QUICK
@given(
    kind=st.sampled_from(["Gather", "Slice", "Split"]),
    order=st.permutations(range(CHANNELS)),
    steps=st.lists(st.sampled_from(STEPS), max_size=4),
    last=st.booleans(),
    readers=st.integers(1, 2),
    free=st.booleans(),
    other=st.sampled_from(["", "", "output", "groups"]),
)
def test_layers_take_a_permutation_in(
    kind: str, order: list[int], steps: list[str], last: bool, readers: int, free: bool, other: str
) -> None:
    """Channels second or last; every reader takes it in, or it stays."""
    b = Builder()
    shape = ("N" if free else 2, *((3, 5, CHANNELS) if last else (CHANNELS, 3, 5)))
    value = _permuted(b, kind, 3 if last else 1, list(order))
    for number, step in enumerate(steps):
        value, last = _step(b, step, value, number, last)
    ends: list[str] = []
    for number in range(readers):
        rows = 2 if other == "groups" else 1
        weight = (CHANNELS, 3) if last else (2, CHANNELS // rows, 1, 1)
        inputs = [value, b.weight(f"k{number}", *weight)]
        groups = {} if last else {"group": rows}
        ends.append(b.node("MatMul" if last else "Conv", inputs, f"y{number}", **groups))
    if other == "output":
        ends.append(b.node("Softmax", [value], "z", axis=-1))
    outputs = [(end, "float32", [f"{end}_{i}" for i in range(4)]) for end in ends]
    model = b.model([("x", "float32", shape)], outputs)
    fires = not other or (other == "groups" and last)
    assert len(examine_exact("shuffle_to_columns", model)) == int(fires)
