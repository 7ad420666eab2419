"""Nets whose weights lie in bodies of If, Loop and Scan, and random nests of them."""

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import helper

from edgeopt.testing.graphs import Builder

ROWS, WIDTH = 2, 16
FLOAT, INT, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
Pick = Callable[[int], int]
"""A number from 0 up to, but not including, the given one."""


def info(
    name: str, kind: int = FLOAT, shape: tuple[int, ...] = (ROWS, WIDTH)
) -> onnx.ValueInfoProto:
    """A typed name; by default of the matrix that all values of these nets are."""
    return helper.make_tensor_value_info(name, kind, list(shape))


def finished(b: Builder, result: str, *, opset: int = 17) -> onnx.ModelProto:
    """The model of a builder, `x` to `y`, both [2, 16]."""
    b.node("Identity", [result], "y")
    shape = (ROWS, WIDTH)
    model = b.model([("x", "float32", shape)], [("y", "float32", shape)], opset=opset)
    onnx.checker.check_model(model, full_check=True)
    return model


def body(
    b: Builder, result: str, inputs: list[onnx.ValueInfoProto], *more: onnx.ValueInfoProto
) -> onnx.GraphProto:
    """A body of a builder's nodes; `more` are outputs before the result."""
    return helper.make_graph(
        b.nodes, f"{result}.body", inputs, [*more, info(result)], b.initializers
    )


def product(b: Builder, source: str, name: str) -> str:
    """A matrix product with a weight of the builder's graph."""
    return b.node("MatMul", [source, b.weight(f"{name}.w", WIDTH, WIDTH, scale=0.2)], name)


def positive(b: Builder, source: str, name: str) -> str:
    """A condition that depends on a value."""
    b.node("ReduceSum", [source], f"{name}.sum", keepdims=0)
    b.constant(f"{name}.zero", np.zeros((), np.float32))
    return b.node("Greater", [f"{name}.sum", f"{name}.zero"], f"{name}.positive")


def branched(
    b: Builder, condition: str, name: str, then: onnx.GraphProto, other: onnx.GraphProto
) -> str:
    """An If with two bodies."""
    return b.node("If", [condition], name, then_branch=then, else_branch=other)


def looped(b: Builder, start: str, name: str, work: Callable[[Builder, str], str]) -> str:
    """A Loop that does some work on a matrix twice."""
    inner = Builder(7)
    state, again = f"{name}.state", f"{name}.again"
    inner.node("Identity", [f"{name}.go"], again)
    result = inner.node("Identity", [work(inner, state)], f"{name}.next")
    given = [info(f"{name}.step", INT, ()), info(f"{name}.go", BOOL, ()), info(state)]
    graph = body(inner, result, given, info(again, BOOL, ()))
    b.constant(f"{name}.times", np.asarray(2, np.int64))
    return b.node("Loop", [f"{name}.times", "", start], name, body=graph)


def scanned(b: Builder, start: str, name: str, work: Callable[[Builder, str], str]) -> str:
    """A Scan over the rows of a matrix, which adds each to a matrix that it works on."""
    inner = Builder(8)
    state, row = f"{name}.state", f"{name}.row"
    inner.node("Add", [work(inner, state), row], f"{name}.next")
    graph = body(inner, f"{name}.next", [info(state), info(row, shape=(WIDTH,))])
    return b.node("Scan", [start, start], name, body=graph, num_scan_inputs=1)


def chosen() -> onnx.ModelProto:
    """If(x > 0) then x @ W else -(x @ V)."""
    b, then, other = Builder(), Builder(1), Builder(2)
    result = other.node("Neg", [product(other, "x", "else_mm")], "else_neg")
    made = body(then, product(then, "x", "then_mm"), [])
    return finished(b, branched(b, positive(b, "x", "sign"), "if_y", made, body(other, result, [])))


def shared() -> onnx.ModelProto:
    """Both branches and the main graph multiply with one weight of the main graph."""
    b, then, other = Builder(), Builder(1), Builder(2)
    first = product(b, "x", "mm")
    then.node("MatMul", [first, "mm.w"], "then_mm")
    other.node("MatMul", [first, "mm.w"], "else_mm")
    sides = body(then, "then_mm", []), body(other, "else_mm", [])
    return finished(b, branched(b, positive(b, "x", "sign"), "if_y", *sides))


def nested() -> onnx.ModelProto:
    """An If in a Loop in an If, with products at every depth."""

    def choice(b: Builder, source: str) -> str:
        then, other = Builder(1), Builder(2)
        made = body(then, product(then, source, "deep_then"), [])
        left = body(other, product(other, source, "deep_else"), [])
        return branched(b, positive(b, source, "deep"), "deep_if", made, left)

    b, then, other = Builder(), Builder(3), Builder(4)
    made = body(then, looped(then, "first", "rounds", choice), [])
    left = body(other, scanned(other, "first", "rows", lambda i, s: product(i, s, "scan_mm")), [])
    product(b, "x", "first")
    return finished(b, branched(b, positive(b, "x", "sign"), "if_y", made, left))


def lstm(b: Builder, name: str) -> str:
    """An LSTM of one step over `x`, back as a matrix."""
    b.node("Unsqueeze", ["x", b.constant(f"{name}.axis", np.array([1]))], f"{name}.steps")
    weights = [b.weight(f"{name}.{n}", 1, 4 * WIDTH, WIDTH, scale=0.2) for n in "wr"]
    made = helper.make_node(
        "LSTM", [f"{name}.steps", *weights], [f"{name}.y"], name=name, hidden_size=WIDTH
    )
    b.nodes.append(made)
    return b.node("Reshape", [f"{name}.y", _sizes(b, name)], f"{name}.out")


def gru(b: Builder, name: str) -> str:
    """A GRU of one step over `x`, back as a matrix."""
    b.node("Unsqueeze", ["x", b.constant(f"{name}.axis", np.array([1]))], f"{name}.steps")
    weights = [b.weight(f"{name}.{n}", 1, 3 * WIDTH, WIDTH, scale=0.2) for n in "wr"]
    made = helper.make_node(
        "GRU", [f"{name}.steps", *weights], [f"{name}.y"], name=name, hidden_size=WIDTH
    )
    b.nodes.append(made)
    return b.node("Reshape", [f"{name}.y", _sizes(b, name)], f"{name}.out")


def table(b: Builder, name: str) -> str:
    """Rows of a table, chosen by `x`."""
    b.node("ArgMax", ["x"], f"{name}.index", axis=1, keepdims=0)
    return b.node("Gather", [b.weight(f"{name}.t", 512, WIDTH), f"{name}.index"], f"{name}.out")


def long(b: Builder, name: str) -> str:
    """Two products, the second over 128 elements."""
    b.node("MatMul", ["x", b.weight(f"{name}.a", WIDTH, 128, scale=0.2)], f"{name}.wide")
    return b.node("MatMul", [f"{name}.wide", b.weight(f"{name}.b", 128, WIDTH)], f"{name}.out")


def _sizes(b: Builder, name: str) -> str:
    return b.constant(f"{name}.sizes", np.array([ROWS, WIDTH]))


def random_nest(pick: Pick) -> onnx.ModelProto:
    """A random net: a few steps, some of which hold bodies that are random nets too."""
    count = iter(range(1000))
    b = Builder(pick(5))
    b.weight("outer.w", WIDTH, WIDTH, scale=0.2)
    return finished(b, _steps(b, pick, ["x"], ["outer.w"], 3, count))


def _steps(
    b: Builder, pick: Pick, seen: list[str], weights: list[str], depth: int, count: Iterator[int]
) -> str:
    seen, weights = list(seen), list(weights)
    for _ in range(1 + pick(3)):
        seen.append(_step(b, pick, seen, weights, depth, count))
    # A body's output is its own.
    return b.node("Add", [seen[-1], seen[pick(len(seen))]], f"end{next(count)}")


def _step(
    b: Builder, pick: Pick, seen: list[str], weights: list[str], depth: int, count: Iterator[int]
) -> str:
    name, source = f"v{next(count)}", seen[-1 - pick(min(2, len(seen)))]
    kind = pick(9 if depth else 6)

    def work(inner: Builder, given: str) -> str:
        return _steps(inner, pick, [*seen, given], weights, depth - 1, count)

    if kind == 0:
        weights.append(f"{name}.w")
        return product(b, source, name)
    if kind == 1:
        return b.node("MatMul", [source, weights[pick(len(weights))]], name)
    if kind == 2:
        return b.node("Cast", [b.node("Identity", [source], f"{name}.same")], name, to=FLOAT)
    if kind == 3:
        b.constant(f"{name}.two", np.full((), 2, np.float32))
        return b.node("Tanh", [b.node("Pow", [source, f"{name}.two"], f"{name}.pow")], name)
    if kind == 4:
        return b.node("Tanh", [source], name)
    if kind == 5:
        return b.node("Add", [source, b.weight(f"{name}.b", WIDTH)], name)
    if kind == 6:
        return looped(b, source, name, work)
    if kind == 7:
        return scanned(b, source, name, work)
    sides = [Builder(pick(5)) for _ in range(2)]
    made = [body(side, work(side, source), []) for side in sides]
    if pick(3):
        return branched(b, positive(b, source, name), name, *made)
    return branched(b, b.constant(f"{name}.yes", np.asarray(bool(pick(2)))), name, *made)
