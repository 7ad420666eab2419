"""A layer's heads come apart however attention lays them out."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper

from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import examine_exact

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
PARTS, HEADS, WIDTH, TOKENS = 3, 2, 4, 5


def _ints(b: Builder, name: str, *numbers: int) -> str:
    return b.constant(name, np.array(numbers, np.int64))


def _layer(b: Builder, kind: str) -> str:
    columns = PARTS * HEADS * WIDTH
    made = b.node("MatMul", ["x", b.weight("w", 6, columns)], "p")
    return b.node("Add", [b.weight("b", columns), made], "s") if kind == "biased" else made


def _parts(b: Builder, value: str, axis: int, how: str) -> list[str]:
    """Three parts of one position each, their axis gone or not."""
    if how in {"split", "squeeze"}:
        made = [f"s{i}" for i in range(PARTS)]
        sizes = _ints(b, "ones", *(1,) * PARTS)
        b.nodes.append(helper.make_node("Split", [value, sizes], made, name="apart", axis=axis))
    elif how == "slice":
        ends = [(_ints(b, f"f{i}", i), _ints(b, f"t{i}", i + 1)) for i in range(PARTS)]
        along = _ints(b, "along", axis)
        made = [b.node("Slice", [value, *e, along], f"c{i}") for i, e in enumerate(ends)]
    else:
        places = [b.constant(f"i{i}", np.array(i, np.int64)) for i in range(PARTS)]
        return [b.node("Gather", [value, p], f"g{i}", axis=axis) for i, p in enumerate(places)]
    if how == "split":
        return made
    gone = _ints(b, "gone", axis)
    return [b.node("Squeeze", [one, gone], f"q{i}") for i, one in enumerate(made)]


@QUICK
@given(
    factors=st.permutations([PARTS, HEADS, WIDTH]),
    order=st.permutations(range(5)),
    how=st.sampled_from(["split", "squeeze", "slice", "gather"]),
    merged=st.sampled_from(["", "front", "back", "first"]),
    kind=st.sampled_from(["plain", "biased"]),
)
def test_parts_are_layers_of_their_own(
    factors: list[int], order: list[int], how: str, merged: str, kind: str
) -> None:
    """Any order of factors and axes; a second Reshape may merge all axes but that of the parts."""
    b, sizes = Builder(), [2, TOKENS, *factors]
    value = b.node("Reshape", [_layer(b, kind), _ints(b, "five", *sizes)], "view")
    value = b.node("Transpose", [value], "turned", perm=order)
    first, *rest = laid = [sizes[axis] for axis in order]
    if merged:
        laid = {
            "front": [first, rest[0] * rest[1], rest[2], rest[3]],
            "back": [first, rest[0], rest[1], rest[2] * rest[3]],
            "first": [first * rest[0], *rest[1:]],
        }[merged]
        value = b.node("Reshape", [value, _ints(b, "target", *laid[:-1], -1)], "laid")
    assume(PARTS in laid)
    axis = laid.index(PARTS)
    parts = _parts(b, value, axis, how)
    ends = [b.node("Relu", [part], f"y{i}") for i, part in enumerate(parts)]
    rank = len(laid) - (how in {"squeeze", "gather"})
    outputs = [(end, "float32", [f"{end}_{i}" for i in range(rank)]) for end in ends]
    model = b.model([("x", "float32", (2, TOKENS, 6))], outputs)
    fires = not merged or axis == 0
    assert len(examine_exact("heads_to_siblings", model)) == int(fires)
