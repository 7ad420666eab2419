"""The pre-pass: it ends, in any order in the same graph, and its recipe replays."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.transform_exam import NoEvidence, graph_text, offer, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.canonicalize import ALWAYS, PHASES, canonicalize
from edgeopt.transforms.macros import JOINT
from edgeopt.transforms.replay import Workshop, attempt
from edgeopt.transforms.stages import transform_of

GOLDEN = Path(__file__).parents[1] / "golden"
ORDERS = 3


def _branches() -> onnx.ModelProto:
    """Three normalized branches, a number and a mean behind them, and a dead head."""
    b = Builder()
    x = b.node("Relu", [b.conv("x", "stem", (3, 8))], "stem.relu")
    b.batchnorm(b.conv(x, "big", (8, 8)), "big.n", 8)
    b.batchnorm(b.conv(x, "small", (8, 8), kernel=1), "small.n", 8)
    b.batchnorm(x, "same.n", 8)
    b.node("Add", ["big.n", "small.n"], "two")
    b.node("Relu", [b.node("Add", ["two", "same.n"], "three")], "out")
    for name, number in (("half", 0.5), ("four", 4.0)):
        b.constant(name, np.full((), number, np.float32))
    b.node("Mul", ["out", "half"], "halved")
    b.node("Div", ["halved", "four"], "scaled")
    b.conv("out", "dead", (8, 4))
    b.node("AveragePool", [b.conv("scaled", "p", (8, 6), kernel=1)], "pool", **_TWO)
    b.node("GlobalAveragePool", [b.conv("pool", "q", (6, 4), kernel=1)], "y")
    return b.model([("x", "float32", (1, 3, 8, 8))], [("y", "float32", (1, 4, 1, 1))])


_TWO = {"kernel_shape": [2, 2], "strides": [2, 2]}


def _encoder() -> onnx.ModelProto:
    """A spelled GELU between products, residual, and a head that reads the first position."""
    b = Builder()
    for name, number in (("root", np.sqrt(2)), ("one", 1.0), ("half", 0.5)):
        b.constant(name, np.full((), number, np.float32))
    b.node("MatMul", ["x", b.weight("w1", 4, 8)], "a")
    b.node("Erf", [b.node("Div", ["a", "root"], "d")], "e")
    b.node("Mul", ["a", b.node("Add", ["e", "one"], "f")], "g")
    b.node("MatMul", [b.node("Mul", ["g", "half"], "h"), b.weight("w2", 8, 4)], "i")
    b.node("Add", ["i", "x"], "j")
    b.node("Gather", ["j", b.constant("zero", np.array(0, np.int64))], "k", axis=1)
    b.node(
        "MatMul", [b.node("MatMul", ["k", b.weight("w3", 4, 4)], "m"), b.weight("w4", 4, 2)], "y"
    )
    return b.model([("x", "float32", (1, 6, 4))], [("y", "float32", (1, 2))], opset=20)


def _goldens() -> list[onnx.ModelProto]:
    paths = [p for name in sorted(ALWAYS) for p in sorted(GOLDEN.glob(f"*/{name}/before*.txt"))]
    return [parser.parse_model(path.read_text(encoding="utf-8")) for path in paths]


def _crop() -> onnx.ModelProto:
    """The middle of what a padded convolution makes: a rule acts twice around one node."""
    b = Builder()
    last = b.node("Relu", [b.conv("x", "c", (3, 4))], "r")
    b.constant("from", np.array([4], np.int64))
    b.constant("to", np.array([-4], np.int64))
    for axis in (2, 3):
        b.constant(f"on{axis}", np.array([axis], np.int64))
        last = b.node("Slice", [last, "from", "to", f"on{axis}"], "h" if axis == 2 else "y")
    return b.model([("x", "float32", (1, 3, 16, 16))], [("y", "float32", (1, 4, 8, 8))])


NETS = {"branches": _branches, "encoder": _encoder, "crop": _crop}


def _structure(graph: ir.Model) -> tuple[str, ...]:
    """Outputs by what computes them; constants by shape and value, not by name."""
    known: dict[ir.Value, str] = {}

    def said(value: ir.Value | None) -> str:
        if value is None:
            return "-"
        if value not in known:
            array, node = array_of(value), value.producer()
            if array is not None:
                wide = np.asarray(array, np.float64).reshape(-1)[:6]
                known[value] = f"{array.shape}{np.round(wide, 3) + 0.0}"
            elif node is None:
                known[value] = str(value.name)
            else:
                parts = sorted(f"{a.name}={held(a)}" for a in node.attributes.values())
                inner = ",".join(said(one) for one in node.inputs)
                known[value] = str(hash(f"{node.op_type}{parts}({inner}){value.index()}"))
        return known[value]

    def held(attribute: ir.Attr) -> object:
        bodies = attribute.type is ir.AttributeType.GRAPH
        return [said(v) for v in attribute.as_graph().outputs] if bodies else attribute.value

    return tuple(said(value) for value in graph.graph.outputs)


def _shuffled(seed: int) -> "random.Random":
    return random.Random(seed)


def _in_order(seed: int | None, model: onnx.ModelProto) -> tuple[ir.Model, tuple[Action, ...]]:
    editor = Editor(opened(model))
    if seed is None:
        done = canonicalize(editor, offer(), NoEvidence())
    else:
        generator = _shuffled(seed)

        def order(actions: Sequence[Action]) -> Sequence[Action]:
            return generator.sample(actions, len(actions))

        done = canonicalize(editor, offer(), NoEvidence(), order=order)
    return editor.model, done


@pytest.mark.parametrize("name", NETS)
def test_any_order_gives_the_same_graph(name: str) -> None:
    """Sites are tried in random order; structure and constants are the same, and so outputs."""
    model = NETS[name]()
    graph, done = _in_order(None, model)
    assert done
    feed = random_feeds(model, 1)[0]
    expected = Session(model.SerializeToString()).run(feed)
    for seed in range(ORDERS):
        other, _ = _in_order(seed, model)
        assert [n.op_type for n in other.graph] == [n.op_type for n in graph.graph]
        assert _structure(other) == _structure(graph)
        for key, array in Session(to_bytes(other)).run(feed).items():
            np.testing.assert_allclose(array, expected[key], rtol=1e-4, atol=1e-5)


def test_goldens_in_any_order() -> None:
    """The same of the models that the rules are shown on, which hold one pattern or two."""
    for model in _goldens():
        graph, _ = _in_order(None, model)
        assert _structure(_in_order(0, model)[0]) == _structure(graph), model.graph.name


@pytest.mark.parametrize("name", NETS)
def test_it_ends(name: str) -> None:
    """A second pass has nothing to do."""
    graph, _ = _in_order(None, NETS[name]())
    assert canonicalize(Editor(graph), offer(), NoEvidence()) == ()


@pytest.mark.parametrize("name", NETS)
def test_its_actions_replay(name: str) -> None:
    """What it says was done, done one by one, gives the same text."""
    model = NETS[name]()
    graph, done = _in_order(None, model)
    editor = Editor(opened(model))
    for action in done:
        assert not isinstance(attempt(editor, action, NoEvidence()), Rejection)
    assert graph_text(editor.model) == graph_text(graph)


def test_what_it_makes_of_branches() -> None:
    """Three branches are one convolution, numbers are in weights, pools come first."""
    graph, _ = _in_order(None, _branches())
    made = [node.op_type for node in graph.graph]
    assert made == ["Conv", "Relu", "Conv", "Relu", "AveragePool", "GlobalAveragePool", "Conv"]


def test_phases_name_exact_rules_once() -> None:
    """Every name is an exact transform that is no macro's and no whole tool."""
    names = [name for phase in PHASES for name in phase]
    assert len(names) == len(set(names))
    for name in names:
        family, transform = transform_of(name)
        assert family in {"rewrite", "fuse"}
        assert not transform.whole_model
    assert not ALWAYS & JOINT


def test_contract_and_metadata_are_kept(tmp_path: Path) -> None:
    """Names and order of inputs and outputs, their types, and metadata, through the whole way."""
    model = _branches()
    made = onnx.helper.make_tensor_value_info("three", 1, (1, 8, 8, 8))
    model.graph.output.insert(0, made)
    model.metadata_props.add(key="labels", value="a,b")
    model.doc_string = "said by its author"
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    feed = random_feeds(model, 1)[0]
    workshop = Workshop(read_model(path), evidence=NoEvidence(), opset_ceiling=21, feed=feed)
    done = canonicalize(Editor(workshop.normalized.clone()), offer(), NoEvidence())
    built = workshop.build(workshop.recipe(done))
    workshop.verify(built)
    found = onnx.load_from_string(to_bytes(built.graph))
    assert list(found.graph.input) == list(model.graph.input)
    assert list(found.graph.output) == list(model.graph.output)
    assert [(one.key, one.value) for one in found.metadata_props] == [("labels", "a,b")]
    assert found.doc_string == model.doc_string


def test_a_big_graph_and_nested_bodies_pass_unharmed() -> None:
    """750 nodes of the patterns, and more in both branches of an If, compute the same."""
    model = _repeated(count=150)
    editor = Editor(opened(model))
    assert canonicalize(editor, offer(), NoEvidence())
    feed = random_feeds(model, 1)[0]
    expected = Session(model.SerializeToString()).run(feed)
    for key, array in Session(to_bytes(editor.model)).run(feed).items():
        np.testing.assert_allclose(array, expected[key], rtol=1e-3, atol=1e-4)


def _repeated(count: int) -> onnx.ModelProto:
    """Blocks of five nodes one behind the other, and an If whose branches hold such blocks."""
    b = Builder()
    last = _blocks(b, "x", count, "m")
    parts: list[onnx.GraphProto] = []
    for branch in ("then", "else"):
        inner = Builder(1)
        made = _blocks(inner, last, count // 10, branch)
        out = [onnx.helper.make_tensor_value_info(made, 1, (2, 4))]
        parts.append(onnx.helper.make_graph(inner.nodes, branch, [], out, inner.initializers))
    b.node("If", ["flag"], "y", then_branch=parts[0], else_branch=parts[1])
    inputs = [("x", "float32", (2, 4)), ("flag", "bool", ())]
    return b.model(inputs, [("y", "float32", (2, 4))])


def _blocks(b: Builder, last: str, count: int, head: str) -> str:
    """Two numbers, a division, a product with a constant, a sum and a Max that is a Relu."""
    for index in range(count):
        name = f"{head}{index}"
        for role, number in (("a", 0.5), ("b", 4.0), ("z", 0.0)):
            b.constant(f"{name}.{role}", np.full((), number, np.float32))
        b.node("Mul", [last, f"{name}.a"], f"{name}.1")
        b.node("Div", [f"{name}.1", f"{name}.b"], f"{name}.2")
        b.node("MatMul", [f"{name}.2", b.weight(f"{name}.w", 4, 4)], f"{name}.3")
        b.node("Add", [f"{name}.3", last], f"{name}.4")
        last = b.node("Max", [f"{name}.4", f"{name}.z"], f"{name}.5")
    return last
