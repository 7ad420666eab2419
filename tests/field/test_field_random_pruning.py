"""Random nets of Concat, Add, depthwise and plain layers, pruned wherever it is offered: row 55."""

import random

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.testing.graphs import Builder
from edgeopt.testing.prune_exam import examine_prune

KINDS = ("conv", "conv", "concat", "concat", "relu", "norm", "add", "depthwise", "scale")
Made = tuple[str, int]


def _grown(b: Builder, kind: str, name: str, values: list[Made], draw: random.Random) -> Made:
    """One more value and its number of channels."""
    source, width = draw.choice(values)
    if kind == "conv":
        made = draw.choice((4, 8, 12))
        return b.conv(source, name, (width, made), kernel=draw.choice((1, 3))), made
    if kind == "concat":
        parts = [draw.choice(values) for _ in range(draw.randint(2, 3))]
        axis = draw.choice((1, -3))
        return b.node("Concat", [part for part, _ in parts], name, axis=axis), sum(
            size for _, size in parts
        )
    if kind == "relu":
        return b.node("Relu", [source], name), width
    if kind == "norm":
        return b.batchnorm(source, name, width), width
    if kind == "depthwise":
        return b.conv(source, name, (width, width), group=width), width
    if kind == "scale":
        factors = b.constant(f"{name}.factors", np.linspace(-1, 1, width, dtype=np.float32))
        b.initializers[-1].dims[:] = [width, 1, 1]
        return b.node("Mul", [source, factors], name), width
    alike = [value for value, size in values if size == width]
    return b.node("Add", [source, draw.choice(alike)], name), width


def _random_net(seed: int) -> onnx.ModelProto:
    draw, b = random.Random(seed), Builder(seed)
    values = [(b.conv("x", "v0", (4, 8)), 8)]
    for index in range(1, draw.randint(4, 10)):
        values.append(_grown(b, draw.choice(KINDS), f"v{index}", values, draw))
    last, width = values[-1]
    b.conv(last, "y", (width, 3), kernel=1)
    outputs = [("y", "float32", ("N", 3, 6, 6))]
    if draw.random() < 0.3:
        also, size = draw.choice(values)
        outputs.append((also, "float32", ("N", size, 6, 6)))
    return b.model([("x", "float32", ("N", 4, 6, 6))], outputs)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31))
def test_random_nets(seed: int) -> None:
    """Torch-Pruning 146: whatever is offered equals a net where nobody reads what was removed."""
    examine_prune("channels_l1", _random_net(seed))
