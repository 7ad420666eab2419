"""Random nets in which channels are split, joined, shuffled, grouped, gated and flattened."""

import random
from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import helper

from edgeopt.testing.graphs import Builder

Made = tuple[str, int]
"""A value [1, channels, 6, 6] and its number of channels."""
_SIDE = 6
_WIDTHS = (4, 8, 12)


class _Net:
    """A net under work.

    Args:
        draw: Decides everything.
    """

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.b = Builder(draw.randrange(2**16))
        self.values: list[Made] = [(self.b.conv("x", "v0", (3, 8)), 8)]
        self.count = 0

    def grow(self) -> None:
        """One more operator on one of the latest values."""
        self.count += 1
        kind = self.draw.choice(list(_KINDS))
        source, width = self.draw.choice(self.values[-5:])
        self.values += _KINDS[kind](self, source, width, f"v{self.count}")

    def ints(self, name: str, *numbers: int) -> str:
        """A constant list."""
        return self.b.constant(name, np.array(numbers, np.int64))


def network(draw: random.Random) -> onnx.ModelProto:
    """A random net from `x` [1, 3, 6, 6] to `y`, with an intermediate output now and then."""
    net = _Net(draw)
    for _ in range(draw.randint(2, 10)):
        net.grow()
    last, width = net.values[-1]
    head = draw.choice(("conv", "flatten", "pool", "rows"))
    b = net.b
    if head == "conv":
        b.conv(last, "y", (width, 3), kernel=1)
    elif head == "rows":
        b.node("Reshape", [last, net.ints("rows", 1, width, _SIDE**2)], "flat")
        b.node("Transpose", ["flat"], "turned", perm=[2, 0, 1])
        b.node("MatMul", ["turned", b.weight("w", width, 3)], "y")
    else:
        columns = width * (_SIDE**2 if head == "flatten" else 1)
        pooled = last if head == "flatten" else b.node("GlobalAveragePool", [last], "pool")
        b.node("Flatten", [pooled], "flat", axis=1)
        b.node("Gemm", ["flat", b.weight("w", 3, columns), b.weight("wb", 3)], "y", transB=1)
    outputs = ["y"]
    if draw.random() < 0.2:
        outputs.append(draw.choice(net.values)[0])
    infos = [(name, "float32", ()) for name in dict.fromkeys(outputs)]
    model = b.model([("x", "float32", (1, 3, _SIDE, _SIDE))], infos, opset=18)
    for info in model.graph.output:
        info.type.tensor_type.ClearField("shape")
    return model


def _conv(net: _Net, source: str, width: int, name: str) -> list[Made]:
    made = net.draw.choice(_WIDTHS)
    net.b.conv(source, name, (width, made), kernel=net.draw.choice((1, 3)))
    return [(name, made)]


def _grouped(net: _Net, source: str, width: int, name: str) -> list[Made]:
    made = net.draw.choice(_WIDTHS)
    groups = net.draw.choice([g for g in (1, 2, 4) if width % g == 0])
    net.b.conv(source, name, (width, made), group=groups)
    return [(name, made)]


def _depthwise(net: _Net, source: str, width: int, name: str) -> list[Made]:
    times = net.draw.choice((1, 1, 2)) if width <= 12 else 1
    net.b.conv(source, name, (width, times * width), group=width)
    return [(name, times * width)]


def _unary(net: _Net, source: str, width: int, name: str) -> list[Made]:
    operator = net.draw.choice(("Relu", "Sigmoid", "HardSwish", "Neg", "Tanh"))
    return [(net.b.node(operator, [source], name), width)]


def _norm(net: _Net, source: str, width: int, name: str) -> list[Made]:
    return [(net.b.batchnorm(source, name, width), width)]


def _scale(net: _Net, source: str, width: int, name: str) -> list[Made]:
    factor = net.b.weight(f"{name}.f", width, 1, 1)
    return [(net.b.node("Mul", [source, factor], name), width)]


def _binary(net: _Net, source: str, width: int, name: str) -> list[Made]:
    alike = [value for value, size in net.values if size == width]
    operator = net.draw.choice(("Add", "Mul", "Sub", "Max"))
    return [(net.b.node(operator, [source, net.draw.choice(alike)], name), width)]


def _concat(net: _Net, source: str, width: int, name: str) -> list[Made]:
    other, more = net.draw.choice(net.values)
    if width + more > 32:
        return _unary(net, source, width, name)
    parts = [source, other] if net.draw.random() < 0.5 else [other, source]
    return [(net.b.node("Concat", parts, name, axis=net.draw.choice((1, -3))), width + more)]


def _split(net: _Net, source: str, width: int, name: str) -> list[Made]:
    if width < 2:
        return _unary(net, source, width, name)
    left = net.draw.randint(1, width // 2)
    sizes = net.ints(f"{name}.n", left, width - left)
    made = [f"{name}.l", f"{name}.r"]
    net.b.nodes.append(helper.make_node("Split", [source, sizes], made, f"{name}/node", axis=1))
    net.values.append((made[0], left))
    return [(made[1], width - left)]


def _slice(net: _Net, source: str, width: int, name: str) -> list[Made]:
    start = net.draw.randint(0, width // 2)
    bounds = [net.ints(f"{name}.{k}", v) for k, v in (("s", start), ("e", width), ("a", 1))]
    return [(net.b.node("Slice", [source, *bounds], name), width - start)]


def _gather(net: _Net, source: str, width: int, name: str) -> list[Made]:
    places = net.draw.sample(range(width), net.draw.randint(2, width)) if width > 2 else [0, 1]
    places = [place % width for place in places]
    indices = net.ints(f"{name}.i", *places)
    return [(net.b.node("Gather", [source, indices], name, axis=1), len(places))]


def _shuffle(net: _Net, source: str, width: int, name: str) -> list[Made]:
    if width % 2:
        return _unary(net, source, width, name)
    apart = net.ints(f"{name}.a", 1, 2, width // 2, _SIDE, _SIDE)
    back = net.ints(f"{name}.b", 1, width, _SIDE, _SIDE)
    net.b.node("Reshape", [source, apart], f"{name}.5")
    net.b.node("Transpose", [f"{name}.5"], f"{name}.t", perm=[0, 2, 1, 3, 4])
    return [(net.b.node("Reshape", [f"{name}.t", back], name), width)]


def _gate(net: _Net, source: str, width: int, name: str) -> list[Made]:
    b = net.b
    b.node("ReduceMean", [source, net.ints(f"{name}.axes", 2, 3)], f"{name}.p")
    b.conv(f"{name}.p", f"{name}.q", (width, 4), kernel=1)
    b.conv(f"{name}.q", f"{name}.x", (4, width), kernel=1)
    b.node("Sigmoid", [f"{name}.x"], f"{name}.g")
    return [(b.node("Mul", [source, f"{name}.g"], name), width)]


def _pool(net: _Net, source: str, width: int, name: str) -> list[Made]:
    operator = net.draw.choice(("MaxPool", "AveragePool"))
    b = net.b
    return [(b.node(operator, [source], name, kernel_shape=[3, 3], pads=[1] * 4), width)]


def _pad(net: _Net, source: str, width: int, name: str) -> list[Made]:
    more = net.draw.choice((0, 2))
    pads = net.ints(f"{name}.p", 0, 0, 0, 0, 0, more, 0, 0)
    return [(net.b.node("Pad", [source, pads], name), width + more)]


def _heads(net: _Net, source: str, width: int, name: str) -> list[Made]:
    """Channels as heads times sizes, and back."""
    if width % 4:
        return _unary(net, source, width, name)
    apart = net.ints(f"{name}.a", 1, 4, width // 4, _SIDE, _SIDE)
    back = net.ints(f"{name}.b", 0, -1, _SIDE, _SIDE)
    net.b.node(
        "Softmax", [net.b.node("Reshape", [source, apart], f"{name}.5")], f"{name}.s", axis=2
    )
    return [(net.b.node("Reshape", [f"{name}.s", back], name), width)]


_KINDS: Mapping[str, Callable[[_Net, str, int, str], list[Made]]] = {
    "conv": _conv,
    "another": _conv,
    "grouped": _grouped,
    "depthwise": _depthwise,
    "unary": _unary,
    "norm": _norm,
    "scale": _scale,
    "binary": _binary,
    "concat": _concat,
    "split": _split,
    "slice": _slice,
    "gather": _gather,
    "shuffle": _shuffle,
    "gate": _gate,
    "pool": _pool,
    "pad": _pad,
    "heads": _heads,
}
