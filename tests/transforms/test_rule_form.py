"""The rule language: what a pattern can say, and what the rewriter makes of it."""

from collections.abc import Sequence

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from edgeopt.core.action import Action
from edgeopt.core.data import Feed
from edgeopt.graph.editor import Editor
from edgeopt.graph.write import to_bytes
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.rule_exam import compare, outputs_of, prove_on
from edgeopt.testing.transform_exam import NoEvidence, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.rules.engine import Engine
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Computed, Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

hard_swish = Rule("hard_swish", opset=14)


@hard_swish.pattern
def _(op: Ops, x: Tensor) -> Term:
    return x * op.Clip(x + 3, 0, 6) / 6


@hard_swish.replace_with
def _(op: Ops, x: Tensor) -> Term:
    return op.HardSwish(x)


siblings = Rule("siblings")


@siblings.pattern
def _(op: Ops, x: Tensor, one: Const, other: Const) -> tuple[Term, ...]:
    return x @ one, x @ other


@siblings.sound
def _(one: Const, other: Const) -> None:
    require(one.rank == 2 and other.rank == 2, "they are no matrices")


@siblings.replace_with
def _(op: Ops, x: Tensor, one: Const, other: Const) -> tuple[Term, ...]:
    sizes = op.i64(one.shape[1], other.shape[1])
    return op.Split(x @ op.Concat(one, other, axis=1), sizes, axis=-1).outs(2)


turned = Rule("turned", parameters={"times": (1, 2)})


@turned.pattern
def _(op: Ops, x: Tensor) -> Term:
    return op.Neg(x)


@turned.replace_with
def _(x: Tensor, times: int) -> Term:
    return x * -1.0 if times == 1 else (x * -0.5) * 2.0


doubled = Rule("doubled", shared="somebody reads the root")


@doubled.pattern
def _(op: Ops, x: Tensor) -> Term:
    return op.Sqrt(op.Abs(x, _shared=True))


@doubled.worth
def _(readers: frozenset[str]) -> None:
    require("Exp" not in readers, "an exponential reads it")


@doubled.replace_with
def _(op: Ops, x: Tensor) -> Term:
    return op.Abs(op.Sqrt(op.Abs(x)))


twice = Rule("twice")


@twice.pattern
def _(op: Ops, x: Tensor) -> Term:
    return op.Relu(op.Relu(x, _shared=True, _value="inner"))


@twice.replace_with
def _(inner: Tensor) -> Term:
    return inner


def model(text: str) -> onnx.ModelProto:
    """A model in text form."""
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')


def rewritten(rule: Rule, proto: onnx.ModelProto, index: int = 0) -> ir.Model:
    """The graph after one rewrite, proved to compute the same."""
    feeds: Sequence[Feed] = random_feeds(proto, 2)
    expected = outputs_of(proto.SerializeToString(), feeds)
    prove_on(rule, proto, feeds, expected)
    engine = Engine(opened(proto), [rule])
    site = engine.sites()[index]
    assert engine.apply(site) is None
    compare(expected, outputs_of(to_bytes(engine.model), feeds), "here")
    return engine.model


def operators(graph: ir.Model) -> list[str]:
    """Operator types, sorted."""
    return sorted(node.op_type for node in graph.graph)


def sites(rule: Rule, proto: onnx.ModelProto) -> list[str]:
    """Sites as text."""
    return [site.action.text for site in Engine(opened(proto), [rule]).sites()]


SPELLINGS = [
    "a = Add(x, three)  b = Clip(a, zero, six)  c = Mul(x, b)  y = Div(c, six)",
    "a = Add(three, x)  b = Clip(a, zero, six)  c = Mul(b, x)  y = Div(c, six)",
]
NUMBERS = "<float three = {3.0}, float[1] six = {6.0}, float zero = {0.0}>"


@pytest.mark.parametrize("body", SPELLINGS)
def test_both_orders_of_what_commutes(body: str) -> None:
    """A formula is found in every order of its operands, with numbers of rank 0 and 1."""
    text = f"g (float[N,4] x) => (float[N,4] y) {NUMBERS} {{ {body} }}"
    assert operators(rewritten(hard_swish, model(text))) == ["HardSwish"]


def test_a_variable_means_one_value() -> None:
    """The gate of another value is none."""
    body = "a = Add(z, three)  b = Clip(a, zero, six)  c = Mul(x, b)  y = Div(c, six)"
    text = f"g (float[N,4] x, float[N,4] z) => (float[N,4] y) {NUMBERS} {{ {body} }}"
    assert not sites(hard_swish, model(text))


def test_a_number_of_higher_rank_is_another_shape() -> None:
    """A constant that would add an axis does not stand for its number."""
    body = "a = Add(x, wide)  b = Clip(a, zero, six)  c = Mul(x, b)  y = Div(c, six)"
    numbers = NUMBERS[:-1] + ", float[1,1] wide = {3.0}>"
    assert not sites(hard_swish, model(f"g (float[4] x) => (float[1,4] y) {numbers} {{ {body} }}"))


@pytest.mark.parametrize("output", ["a", "b", "c"])
def test_what_somebody_else_reads_stays(output: str) -> None:
    """An inner value that is an output, or read elsewhere, leaves no site."""
    body = f"{SPELLINGS[0]} z = Neg({output})"
    text = f"g (float[N,4] x) => (float[N,4] y, float[N,4] z) {NUMBERS} {{ {body} }}"
    assert not sites(hard_swish, model(text))
    text = f"g (float[N,4] x) => (float[N,4] y, float[N,4] {output}) {NUMBERS}"
    assert not sites(hard_swish, model(f"{text} {{ {SPELLINGS[0]} }}"))


def branches(weights: Sequence[Sequence[int]]) -> onnx.ModelProto:
    """Products of one value with several matrices."""
    b = Builder()
    for index, shape in enumerate(weights):
        b.node("MatMul", ["x", b.weight(f"w{index}", *shape)], f"y{index}")
    outputs = [(f"y{i}", "float32", ("N", s[1])) for i, s in enumerate(weights)]
    return b.model([("x", "float32", ("N", weights[0][0]))], outputs)


def test_siblings_are_found_once_and_split_again() -> None:
    """Two roots that share a value: one site a pair, and each keeps its name."""
    proto = branches([(3, 2), (3, 4), (3, 1)])
    found = sites(siblings, proto)
    assert found == [
        'siblings@1 "y0" beside="y1"',
        'siblings@1 "y0" beside="y2"',
        'siblings@1 "y1" beside="y2"',
    ]
    assert operators(rewritten(siblings, proto, 1)) == ["MatMul", "MatMul", "Split"]


def test_siblings_must_not_follow_each_other() -> None:
    """Of two that read the same, none may be computed from the other."""
    b = Builder()
    b.node("MatMul", ["x", b.weight("w", 3, 3)], "a")
    b.node("Mul", ["a", "x"], "m")
    b.node("MatMul", ["m", b.weight("v", 3, 3)], "y")
    proto = b.model([("x", "float32", ("N", 3))], [("y", "float32", ("N", 3))])
    assert not sites(siblings, proto)


def test_each_value_of_a_parameter_is_an_action() -> None:
    """Alternatives of one site differ in the action's parameter, and both are right."""
    proto = model("g (float[N,4] x) => (float[N,4] y) { y = Neg(x) }")
    assert sites(turned, proto) == ['turned@1 "y" times=1', 'turned@1 "y" times=2']
    graph = rewritten(turned, proto, 0)
    assert operators(graph) == ["Mul"]
    # A number stays one: of rank 1 it would give a scalar an axis.
    numbers = [v.const_value for v in graph.graph.initializers.values()]
    assert [n.numpy().shape for n in numbers if n is not None] == [()]
    assert operators(rewritten(turned, proto, 1)) == ["Mul", "Mul"]


def test_shared_values_and_readers() -> None:
    """A value marked as shared may have other readers; worth can ask who reads the result."""
    text = (
        "g (float[N] x) => (float[N] y, float[N] z) { a = Abs(x) s = Sqrt(a) y = %s(s) z = Neg(a) }"
    )
    assert sites(doubled, model(text % "Neg")) == ['doubled@1 "s"']
    assert not sites(doubled, model(text % "Exp"))
    assert operators(rewritten(doubled, model(text % "Neg"))) == [
        *("Abs", "Abs", "Abs", "Neg", "Neg", "Sqrt")
    ]


def test_a_result_that_was_there_before() -> None:
    """A root that becomes a value of the graph: its readers read that, an output is copied."""
    inner = model("g (float[N] x) => (float[N] y) { a = Relu(x) b = Relu(a) y = Neg(b) }")
    assert operators(rewritten(twice, inner)) == ["Neg", "Relu"]
    end = model("g (float[N] x) => (float[N] y) { a = Relu(x) y = Relu(a) }")
    assert operators(rewritten(twice, end)) == ["Identity", "Relu"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y = Neg(x)", "Neg is no root of twice"),
        ("a = Exp(x)  y = Relu(a)", "'a' is made by Exp, not by Relu"),
        ("y = Relu(x)", "'x' is made by an input, not by Relu"),
    ],
)
def test_reasons_say_what_stands_there(body: str, reason: str) -> None:
    """A refused action says what stands where the pattern wants something else."""
    graph = opened(model(f"g (float[N] x) => (float[N] y) {{ {body} }}"))
    made = RuleTransform(twice).apply(Editor(graph), Action.of("twice", "y"), NoEvidence())
    assert isinstance(made, Rejection)
    assert made.reason == reason


halved = Rule("halved")


@halved.pattern
def _(op: Ops, x: Tensor, w: Const, b: Const | None = None) -> Term:
    return op.Conv(x, w, b, _as="conv") * 0.5


@halved.replace_with
def _(op: Ops, x: Tensor, w: Const, b: Const | None, conv: Node) -> Term:
    return op.like(conv)(x, w * 0.5, b * 0.5 if b else None)


@pytest.mark.parametrize("bias", [True, False])
def test_weights_are_computed_when_they_are_asked_for(bias: bool) -> None:
    """A large weight stays an expression until the model is written; a missing bias stays so."""
    b = Builder()
    b.conv("x", "c", (8, 16), bias=bias)
    b.node("Mul", ["c", b.constant("half", np.array(0.5, np.float32))], "y")
    shape = ("N", 8, 5, 5)
    proto = b.model([("x", "float32", shape)], [("y", "float32", ("N", 16, 5, 5))])
    graph = rewritten(halved, proto)
    (conv,) = graph.graph
    assert len(conv.inputs) == 2 + bias
    engine = Engine(opened(proto), [halved])
    engine.apply(engine.sites()[0])
    weight = next(iter(engine.model.graph)).inputs[1]
    assert weight is not None
    assert isinstance(weight.const_value, ir.LazyTensor)
    before = engine.digest()
    assert weight.const_value.numpy().shape == (16, 8, 3, 3)
    assert engine.digest() == before


negated = Rule("negated")


@negated.pattern
def _(op: Ops, x: Tensor, y: Tensor) -> Term:
    return op.one_of("Add", "Sub", "Div")(op.Neg(x), y, _as="operator", _either_way=True)


@negated.replace_with
def _(op: Ops, x: Tensor, y: Tensor, operator: Node) -> Term:
    return op.like(operator)(op.Mul(x, -1.0, _name="product"), y)


@pytest.mark.parametrize("operator", ["Add", "Sub", "Div"])
@pytest.mark.parametrize("order", ["x, n", "n, x"])
def test_operands_that_may_stand_either_way_stay_as_they_stood(operator: str, order: str) -> None:
    """One pattern takes both orders, and what is like the node has the one that was found."""
    text = f"g (float[N,4] x) => (float[N,4] y) {{ n = Neg(x)  y = {operator}({order}) }}"
    graph = rewritten(negated, model(text))
    assert operators(graph) == sorted(["Mul", operator])
    root = graph.graph[-1]
    made = [value.producer() is not None for value in root.inputs if value is not None]
    assert made == [each == "n" for each in order.split(", ")]


def test_both_operands_may_fit() -> None:
    """Where each of the two is what is looked for, there is one site, and it is right."""
    text = (
        "g (float[N,4] x, float[N,4] z) => (float[N,4] y) { n = Neg(x) m = Neg(z) y = Sub(n, m) }"
    )
    assert sites(negated, model(text)) == ['negated@1 "y"']
    assert operators(rewritten(negated, model(text))) == ["Mul", "Neg", "Sub"]


scaled = Rule("scaled")


@scaled.pattern
def _(op: Ops, x: Tensor, g: Tensor) -> Term:
    return op.Neg(x) * g


@scaled.replace_with
def _(op: Ops, x: Tensor, g: Tensor) -> Term:
    return op.Neg(x * g)


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (scaled, {"y", "z"}),
        (scaled.narrowed("by_constant", g=Const), {"y"}),
        (scaled.narrowed("by_gate", g=Computed), {"z"}),
    ],
    ids=lambda each: each.name if isinstance(each, Rule) else "",
)
def test_a_rule_is_narrowed_to_constants_or_to_what_is_computed(rule: Rule, fits: set[str]) -> None:
    """Each narrowed rule has a part of the sites, under its own name; together they have all."""
    text = """g (float[N,4] x, float[N,1] g) => (float[N,4] y, float[N,4] z)
    <float[4] c = {1,2,3,4}> { n = Neg(x)  y = Mul(c, n)  m = Neg(x)  z = Mul(m, g) }"""
    assert sites(rule, model(text)) == [f'{rule.name}@1 "{site}"' for site in sorted(fits)]
    rewritten(rule, model(text))


def test_conditions_of_a_narrowed_rule_are_its_own() -> None:
    """What is asked of it is not asked of the rule that it was made from."""
    strict = scaled.narrowed("strict", g=Computed)

    @strict.sound
    def _(g: Tensor) -> None:
        require(g.rank == 1, "it is no vector")

    text = "g (float[N,4] x, float[N,1] g) => (float[N,4] y) { n = Neg(x)  y = Mul(n, g) }"
    assert sites(strict, model(text)) == []
    assert sites(scaled, model(text)) == ['scaled@1 "y"']


def test_a_constant_is_told_where_something_computed_is_asked_for() -> None:
    """The reason names the value."""
    text = (
        "g (float[N,4] x) => (float[N,4] y) <float[4] c = {1,2,3,4}> { n = Neg(x) y = Mul(n, c) }"
    )
    rule = scaled.narrowed("by_gate", g=Computed)
    graph = opened(model(text))
    made = RuleTransform(rule).apply(Editor(graph), Action.of("by_gate", "y"), NoEvidence())
    assert isinstance(made, Rejection)
    assert made.reason == "'c' is a constant"


largest = Rule("largest")


@largest.pattern
def _(op: Ops, x: Tensor) -> tuple[Term, ...]:
    made, places = op.MaxPool(x, _as="pool").outs(2, least=1)
    return made, places


@largest.replace_with
def _(op: Ops, x: Tensor, pool: Node) -> tuple[Term, ...]:
    made, places = op.like(pool)(op.Mul(x, 1.0)).outs(2)
    return made, places


@pytest.mark.parametrize("outputs", ["y", "y, i"])
def test_a_root_that_the_node_does_not_have_is_not_replaced(outputs: str) -> None:
    """One pattern takes a node with all of its outputs, and one with the first alone."""
    typed = ", int64[1,1,2,2] i" if "i" in outputs else ""
    text = f"""g (float[1,1,4,4] x) => (float[1,1,2,2] y{typed})
    {{ {outputs} = MaxPool<kernel_shape = [2,2], strides = [2,2]>(x) }}"""
    graph = rewritten(largest, model(text))
    assert operators(graph) == ["MaxPool", "Mul"]
