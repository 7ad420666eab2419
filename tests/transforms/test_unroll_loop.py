"""Loops that become copies of their body: random ones, and what the goldens cannot show."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.graph.normalize import normalize
from edgeopt.graph.read import read_model
from edgeopt.graph.write import weight_bytes
from edgeopt.testing.graphs import Builder, as_graph, write
from edgeopt.testing.transform_exam import NoEvidence, examine_exact, offer
from edgeopt.transforms.bodies import sites_of
from edgeopt.transforms.replay import Workshop, attempt
from edgeopt.transforms.space import GraphSpace
from edgeopt.transforms.stages import transform_of
from tests.transforms.nested_nets import (
    BOOL,
    FLOAT,
    INT,
    ROWS,
    WIDTH,
    Pick,
    body,
    branched,
    finished,
    info,
    looped,
    positive,
    product,
)

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SHAPE = (ROWS, WIDTH)


def _work(b: Builder, pick: Pick, seen: list[str], number: str, name: str) -> list[str]:
    """A few steps on matrices; `number` is that of the round, where there is one."""
    seen = list(seen)
    for step in range(1 + pick(4)):
        made, source = f"{name}.{step}", seen[-1 - pick(len(seen))]
        kind = pick(6 if number else 4)
        if kind == 0:
            product(b, source, made)
        elif kind == 1:
            b.node("Add", [source, seen[pick(len(seen))]], made)
        elif kind == 2:
            sides = [
                helper.make_graph(
                    [helper.make_node(op, [source], [f"{made}.{op}"])],
                    op,
                    [],
                    [info(f"{made}.{op}")],
                )
                for op in ("Sin", "Neg")
            ]
            branched(b, positive(b, source, made), made, *sides)
        elif kind == 3:
            b.node("Tanh", [source], made)
        elif kind == 4:
            b.node("Mul", [source, b.node("Cast", [number], f"{made}.n", to=FLOAT)], made)
        else:
            first = b.constant(f"{made}.first", np.zeros((), np.int64))
            sides = [
                helper.make_graph(
                    [helper.make_node(op, [source], [f"{made}.{op}"])],
                    op,
                    [],
                    [info(f"{made}.{op}")],
                )
                for op in ("Sin", "Neg")
            ]
            branched(b, b.node("Equal", [number, first], f"{made}.is"), made, *sides)
        seen.append(made)
    return seen


def _handed_on(b: Builder, pick: Pick, seen: list[str], count: int, name: str) -> list[str]:
    """Values that a body makes for what it hands on, each of its own."""
    return [
        b.node("Identity", [seen[-1 - pick(min(3, len(seen)))]], f"{name}{index}")
        for index in range(count)
    ]


def random_loop(b: Builder, pick: Pick) -> list[str]:
    """A Loop of one to four rounds; returns the names of its outputs."""
    states, puts, inner = 1 + pick(2), pick(3), Builder(pick(9))
    given = [info("i", INT, ()), info("on", BOOL, ()), *(info(f"s{k}") for k in range(states))]
    seen = _work(inner, pick, ["x", *(f"s{k}" for k in range(states))], "i", "loop")
    on = inner.constant("yes", np.asarray(True)) if pick(2) else "on"
    inner.node("Identity", [on], "still")
    made = _handed_on(inner, pick, seen, states + puts, "t")
    graph = helper.make_graph(
        inner.nodes, "round", given, [info("still", BOOL, ()), *map(info, made)], inner.initializers
    )
    rounds = np.asarray(1 + pick(4), np.int64).reshape((1,) * pick(2))
    start = b.constant("start", np.asarray(True)) if pick(2) else ""
    outputs = [f"out{k}" for k in range(states + puts)]
    node = helper.make_node(
        "Loop", [b.constant("rounds", rounds), start, *["x"] * states], outputs, body=graph
    )
    b.nodes.append(node)
    for k in range(puts):
        axes = b.constant(f"all{k}", np.array([0]))
        b.node("ReduceSum", [outputs[states + k], axes], f"sum{k}", keepdims=0)
    return [*outputs[:states], *(f"sum{k}" for k in range(puts))]


def random_scan(b: Builder, pick: Pick) -> list[str]:
    """A Scan over an axis of one or two values, forwards or backwards."""
    states, rows, puts, inner = 1 + pick(2), 1 + pick(2), pick(3), Builder(pick(9))
    count = 1 + pick(4)
    given = [*(info(f"s{k}") for k in range(states)), *(info(f"r{k}") for k in range(rows))]
    seen = _work(
        inner, pick, [f"s{k}" for k in range(states)] + [f"r{k}" for k in range(rows)], "", "scan"
    )
    made = _handed_on(inner, pick, seen, states + puts, "t")
    graph = helper.make_graph(
        inner.nodes, "round", given, list(map(info, made)), inner.initializers
    )
    axes = [pick(3) for _ in range(rows)]
    places = [pick(3) - 3 * pick(2) for _ in range(puts)]
    for k, axis in enumerate(axes):
        parts = [
            b.node("Unsqueeze", [source, b.constant(f"u{k}.{n}", np.array([axis]))], f"p{k}.{n}")
            for n, source in enumerate([b.node("Sin", ["x"], f"q{k}")] * count)
        ]
        b.node(
            "Mul",
            [b.node("Concat", parts, f"c{k}", axis=axis), b.weight(f"f{k}", *_rows(axis, count))],
            f"in{k}",
        )
    outputs = [f"out{k}" for k in range(states + puts)]
    node = helper.make_node(
        "Scan",
        [*["x"] * states, *(f"in{k}" for k in range(rows))],
        outputs,
        body=graph,
        num_scan_inputs=rows,
    )
    places_of = {"scan_input_axes": axes, "scan_input_directions": [pick(2) for _ in axes]}
    if puts:
        places_of |= {
            "scan_output_axes": places,
            "scan_output_directions": [pick(2) for _ in places],
        }
    node.attribute.extend(helper.make_attribute(key, list(v)) for key, v in places_of.items())
    b.nodes.append(node)
    for k, axis in enumerate(places):
        # Weighed by the round, so that the order of rounds counts.
        scale = b.weight(f"g{k}", *_rows(axis % 3, count))
        weighed = b.node("Mul", [outputs[states + k], scale], f"w{k}")
        b.node(
            "ReduceSum", [weighed, b.constant(f"all{k}", np.array([axis]))], f"sum{k}", keepdims=0
        )
    return [*outputs[:states], *(f"sum{k}" for k in range(puts))]


def _rows(axis: int, count: int) -> list[int]:
    return [count if index == axis else 1 for index in range(3)]


def random_model(pick: Pick) -> onnx.ModelProto:
    """A random loop in the main graph or in a branch, all that it hands on in use."""
    b = Builder(pick(9))
    make = random_loop if pick(2) else random_scan
    if pick(3):
        made = make(b, pick)
    else:
        then, other = Builder(1), Builder(2)
        held = make(then, pick)
        sides = (
            body(then, then.node("Sum", held, "then"), []),
            body(other, other.node("Neg", ["x"], "neg"), []),
        )
        made = [branched(b, positive(b, "x", "sign"), "chosen", *sides)]
    return finished(b, b.node("Sum", made, "total"))


@QUICK
@given(st.data())
def test_random_loops_are_unrolled(data: st.DataObject) -> None:
    """Rounds, states, rows, axes, directions, bodies in bodies: equal outputs, and undone."""
    model = random_model(lambda below: data.draw(st.integers(0, below - 1)))
    feeds = [
        {"x": np.asarray(np.random.default_rng(3).normal(size=SHAPE) + shift, np.float32)}
        for shift in (1, -1)
    ]
    (applied,) = examine_exact("unroll_loop", model, feeds)
    assert not {"Loop", "Scan"} & {node.op_type for node in applied.graph.graph.all_nodes()}


def _nested(products: int) -> onnx.ModelProto:
    """A Loop in a Loop, with products by weights of the inner one."""
    b = Builder()

    def work(deep: Builder, value: str) -> str:
        for number in range(products):
            value = product(deep, value, f"mm{number}")
        return value

    def twice(inner: Builder, given: str) -> str:
        return looped(inner, given, "deep", work)

    return finished(b, looped(b, "x", "top", twice))


def _sites(graph: ir.Model) -> list[Action]:
    return list(sites_of("rewrite", transform_of("unroll_loop")[1], graph, offer()))


def test_loops_in_loops_are_unrolled_one_by_one(tmp_path: Path) -> None:
    """The outer one leaves copies of the inner one, which are sites; then nothing repeats."""
    model = _nested(1)
    applied = examine_exact("unroll_loop", model)
    assert [one.action.site for one in applied] == ["top", "deep"]
    workshop = Workshop(
        read_model(write(model, tmp_path)), evidence=NoEvidence(), opset_ceiling=21, feed=None
    )
    space = GraphSpace(workshop, offer(data=False))
    (choice,) = (one for one in space.choices if "unroll_loop" in one.name)
    built = workshop.build(workshop.recipe(space.fixpoint))
    workshop.verify(built)
    assert not {"Loop", "If"} & {node.op_type for node in built.graph.graph.all_nodes()}
    assert len(choice.alternatives[1]) == 3


def test_copies_share_the_weights() -> None:
    """Weights of the body are stored once; a loop whose inner bodies hold many stays."""
    graph = normalize(as_graph(_nested(3)))
    # The inner one makes what the outer one hands on.
    (action,) = _sites(graph)
    assert action.site == "top.next"
    editor, before = Editor(graph), weight_bytes(graph)
    assert attempt(editor, action, NoEvidence()) == action
    assert weight_bytes(editor.model) < before + 64
