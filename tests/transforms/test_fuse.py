"""The fused patterns, in every spelling."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import examine_exact

QUICK = settings(max_examples=80, deadline=None, derandomize=True)
NETS = [graphs.conv_bn, graphs.mobilenet_block, graphs.hardswish_spelled, graphs.if_model]
SHAPES = st.sampled_from([(), (1,)])
FLAGS = st.booleans()
HALF = 2e-3
"""Of the largest output: float16 sums in another order."""


@pytest.mark.parametrize("name", ["gelu", "hardswish", "hardsigmoid", "sigmoid"])
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.__name__)
def test_exam(name: str, net: Callable[[], onnx.ModelProto]) -> None:
    """Every pattern passes the exam of its shelf on every tiny net."""
    examine_exact(name, net())


def test_hardswish_replaces_four_nodes() -> None:
    """The spelled form of the exporters goes as a whole; the site is its last value."""
    (applied,) = examine_exact("hardswish", graphs.hardswish_spelled())
    assert applied.action.site == "hswish"
    assert [node.op_type for node in applied.graph.graph] == ["Conv", "HardSwish", "Conv"]


class Spelling:
    """Draws one of the ways to write x * clip(x + 3, 0, 6) / 6."""

    def __init__(self, data: st.DataObject) -> None:
        self.builder = Builder()
        self._data = data
        self._count = 0

    def number(self, value: float) -> str:
        """A constant of one element."""
        self._count += 1
        shape = self._data.draw(SHAPES)
        return self.builder.constant(f"n{self._count}", np.full(shape, value, np.float32))

    def bound(self, value: float) -> str:
        """A bound of a Clip: no axes."""
        self._count += 1
        return self.builder.constant(f"n{self._count}", np.full((), value, np.float32))

    def node(self, operator: str, inputs: list[str]) -> str:
        """A node; operands of commuting ones in either order."""
        self._count += 1
        commutes = operator in {"Add", "Mul"} and self._data.draw(FLAGS)
        return self.builder.node(operator, inputs[::-1] if commutes else inputs, f"v{self._count}")

    def sixth(self, value: str) -> str:
        """A sixth of a value, by division or product."""
        if self._data.draw(FLAGS):
            return self.node("Div", [value, self.number(6)])
        return self.node("Mul", [value, self.number(1 / 6)])

    def plus(self, value: str, number: float) -> str:
        """A value plus a number, maybe as the difference to the negative one."""
        if self._data.draw(FLAGS):
            return self.node("Sub", [value, self.number(-number)])
        return self.node("Add", [value, self.number(number)])

    def gate(self, x: str) -> tuple[str, bool]:
        """A hard sigmoid of x, and whether it is still six times too large."""
        kind = self._data.draw(st.sampled_from(["six", "one", "operator"]))
        if kind == "operator":
            self._count += 1
            name = f"v{self._count}"
            return self.builder.node("HardSigmoid", [x], name, alpha=1 / 6, beta=0.5), False
        if kind == "one":
            inside = self.plus(self.sixth(x), 0.5)
            return self.node("Clip", [inside, self.bound(0), self.bound(1)]), False
        return self.node("Clip", [self.plus(x, 3), self.bound(0), self.bound(6)]), True

    def swish(self, x: str) -> None:
        """The product; a missing sixth goes before, between or behind."""
        gate, large = self.gate(x)
        where = self._data.draw(st.sampled_from(["x", "gate", "product"])) if large else ""
        left = self.sixth(x) if where == "x" else x
        right = self.sixth(gate) if where == "gate" else gate
        product = self.node("Mul", [left, right])
        self.builder.node("Relu", [self.sixth(product) if where == "product" else product], "y")


@QUICK
@given(data=st.data(), size=st.integers(1, 5))
def test_hardswish_in_every_spelling(data: st.DataObject, size: int) -> None:
    """Commuted, associated, divided or multiplied: one HardSwish, with equal outputs."""
    spelling = Spelling(data)
    spelling.builder.node("Mul", ["x", spelling.number(4)], "wide")
    spelling.swish("wide")
    shape = ("N", size)
    model = spelling.builder.model([("x", "float32", shape)], [("y", "float32", shape)])
    (applied,) = examine_exact("hardswish", model)
    assert [node.op_type for node in applied.graph.graph] == ["Mul", "HardSwish", "Relu"]


@QUICK
@given(
    slope=st.sampled_from([1.0, 0.5, 2.0, -1.0]),
    offset=st.sampled_from([0.0, 3.0, -1.0]),
    top=st.sampled_from([1.0, 6.0]),
    divide=FLAGS,
    size=st.integers(1, 5),
)
def test_hardsigmoid_of_any_rising_line(
    slope: float, offset: float, top: float, divide: bool, size: int
) -> None:
    """Clip(a x + b, 0, c) / c becomes HardSigmoid: of x where a > 0, else of the falling line."""
    b = Builder()
    for name, number in (("a", slope), ("b", offset), ("zero", 0), ("top", top), ("inv", 1 / top)):
        b.constant(name, np.full((), number, np.float32))
    b.node("Mul", ["x", "a"], "line")
    b.node("Add", ["line", "b"], "moved")
    b.node("Clip", ["moved", "zero", "top"], "clipped")
    b.node("Div" if divide else "Mul", ["clipped", "top" if divide else "inv"], "gate")
    b.node("Neg", ["gate"], "y")
    shape = ("N", size)
    model = b.model([("x", "float32", shape)], [("y", "float32", shape)])
    sites = {one.action.site for one in examine_exact("hardsigmoid", model)}
    plain = (slope if slope > 0 else 1) / top == 1 and offset == 0
    assert bool(sites) == (not plain)


def test_a_constant_of_higher_rank_is_no_scalar() -> None:
    """A [1, 1, 1] constant beside a matrix changes the rank of the result: no fusion."""
    model = graphs.hardswish_spelled()
    (six,) = [held for held in model.graph.initializer if held.name == "six"]
    b = Builder()
    b.constant("six.wide", np.full((1, 1, 1, 1, 1), 6, np.float32))
    model.graph.initializer.append(b.initializers[0])
    assert six.name == "six"
    model.graph.node[4].input[1] = "six.wide"
    model.graph.node[5].CopyFrom(onnx.helper.make_node("Relu", ["hswish"], ["y"], name="r"))
    dims = model.graph.output[0].type.tensor_type.shape
    del dims.dim[:]
    for size in (1, 2, 8, 8, 8):
        dims.dim.add().dim_value = size
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    assert not examine_exact("hardswish", model)


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("form", ["half_first", "half_last", "halved"])
@pytest.mark.parametrize("swapped", [False, True])
def test_gelu_in_every_spelling(approximate: bool, form: str, swapped: bool) -> None:
    """Erf and Tanh form, the half before, behind or as a division, operands either way round."""
    b = Builder()

    def product(one: str, other: str, output: str) -> str:
        return b.node("Mul", [other, one] if swapped else [one, other], output)

    numbers = {"half": 0.5, "two": 2, "one": 1, "c": 0.044715, "k": np.sqrt(2 / np.pi)}
    for name, number in {**numbers, "r": np.sqrt(0.5)}.items():
        b.constant(name, np.full((), number, np.float32))
    if approximate:
        cube = product(product("x", "x", "square"), "x", "cube")
        total = b.node("Add", ["x", product(cube, "c", "scaled")], "total")
        inner = b.node("Tanh", [product(total, "k", "inner")], "curve")
    else:
        inner = b.node("Erf", [product("x", "r", "inner")], "curve")
    gate = b.node("Add", ["one", inner] if swapped else [inner, "one"], "gate")
    if form == "half_first":
        product(product("x", "half", "h"), gate, "y")
    elif form == "half_last":
        product(product("x", gate, "p"), "half", "y")
    else:
        b.node("Div", [product("x", gate, "p"), "two"], "y")
    shape = ("N", 3)
    model = b.model([("x", "float32", shape)], [("y", "float32", shape)], opset=20)
    (applied,) = examine_exact("gelu", model)
    (node,) = applied.graph.graph
    assert node.op_type == "Gelu"
    assert node.attributes["approximate"].as_string() == ("tanh" if approximate else "none")


def test_constants_of_half_precision() -> None:
    """Literals rounded to float16 still say which function it is."""
    for form in ("hardswish", "gelu", "hardsigmoid"):
        b = Builder()
        numbers = {"three": 3, "sixth": 1 / 6, "zero": 0, "six": 6, "one": 1, "half": 0.5}
        for name, number in {**numbers, "r": np.sqrt(0.5)}.items():
            b.constant(name, np.full((), number, np.float16))
        if form == "gelu":
            b.node("Erf", [b.node("Mul", ["x", "r"], "inner")], "curve")
            product = b.node("Mul", ["x", b.node("Add", ["curve", "one"], "gate")], "p")
            b.node("Mul", [product, "half"], "y")
        else:
            clip = b.node("Clip", [b.node("Add", ["x", "three"], "plus"), "zero", "six"], "clip")
            gate = b.node("Mul", [clip, "sixth"], "y" if form == "hardsigmoid" else "gate")
            if form == "hardswish":
                b.node("Mul", ["x", gate], "y")
        shape = ("N", 8)
        opset = 20 if form == "gelu" else 17
        model = b.model([("x", "float16", shape)], [("y", "float16", shape)], opset=opset)
        (applied,) = examine_exact(form, model, relative=HALF)
        assert [node.op_type.lower() for node in applied.graph.graph] == [form]


def test_other_constants_in_half_precision() -> None:
    """Two thousandths away from a sixth is another function, in float16 too."""
    b = Builder()
    for name, number in {"three": 3, "six": 6, "zero": 0, "near": 1 / 6 + 5e-4}.items():
        b.constant(name, np.full((), number, np.float16))
    b.node("Clip", [b.node("Add", ["x", "three"], "plus"), "zero", "six"], "clip")
    b.node("Mul", ["x", b.node("Mul", ["clip", "near"], "gate")], "y")
    model = b.model([("x", "float16", ("N", 8))], [("y", "float16", ("N", 8))])
    assert not examine_exact("hardswish", model)


@given(st.data())
@QUICK
def test_sigmoid_in_every_spelling(data: st.DataObject) -> None:
    """Any sign, order and division, in single and half precision: one Sigmoid is left of it."""
    half = data.draw(FLAGS)
    dtype: type[np.floating] = np.float16 if half else np.float32
    b = Builder()

    def number(name: str, value: float) -> str:
        return b.constant(name, np.full(data.draw(SHAPES), value, dtype))

    def either(operator: str, inputs: list[str], output: str) -> str:
        return b.node(operator, inputs[::-1] if data.draw(FLAGS) else inputs, output)

    if data.draw(FLAGS):
        b.node("Neg", ["x"], "minus")
    else:
        either("Mul", ["x", number("-1", -1)], "minus")
    total = either("Add", [b.node("Exp", ["minus"], "e"), number("1", 1)], "total")
    kind = data.draw(st.sampled_from(["alone", "reciprocal", "silu", "gate"]))
    if kind == "reciprocal":
        b.node("Reciprocal", [total], "y")
    else:
        above = {"alone": "numerator", "silu": "x", "gate": "z"}[kind]
        b.node("Div", [number("numerator", 1) if kind == "alone" else above, total], "y")
    name = "float16" if half else "float32"
    inputs = [("x", name, ("N", 8)), *([("z", name, ("N", 8))] if kind == "gate" else [])]
    model = b.model(inputs, [("y", name, ("N", 8))])
    (applied,) = examine_exact("sigmoid", model, relative=HALF if half else 2e-5)
    found = [node.op_type for node in applied.graph.graph]
    assert found == ["Sigmoid", "Mul"] if kind in {"silu", "gate"} else found == ["Sigmoid"]
