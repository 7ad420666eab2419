"""Transforms in the bodies of If, Loop and Scan, each verified by the runtime."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

from edgeopt import plugins
from edgeopt.core.action import Action
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.graph.bodies import maker, out_of_sight, parents
from edgeopt.graph.check import check
from edgeopt.graph.editor import Editor
from edgeopt.graph.lowered import lowered
from edgeopt.graph.normalize import normalize
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import Session, profile_nodes
from edgeopt.graph.write import to_bytes, weight_bytes, write_model
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing.graphs import Builder, as_graph, random_feeds, write
from edgeopt.testing.quantize_exam import evidence_of, lowered_counts
from edgeopt.testing.transform_exam import NoEvidence, offer, opened
from edgeopt.transforms.base import EXACT, STAGES, Evidence, Offer, Rejection
from edgeopt.transforms.bodies import apply_at, enters, sites_of
from edgeopt.transforms.local_rule import producer_of
from edgeopt.transforms.replay import Built, Workshop, attempt
from edgeopt.transforms.space import GraphSpace
from edgeopt.transforms.stages import transform_of
from tests.transforms import nested_nets
from tests.transforms.nested_nets import (
    ROWS,
    WIDTH,
    body,
    branched,
    chosen,
    finished,
    info,
    looped,
    nested,
    positive,
    product,
    random_nest,
    scanned,
    shared,
)

LEVELS = ("off", "basic", "extended", "all")


def _space(folder: Path, model: onnx.ModelProto) -> GraphSpace:
    workshop = Workshop(
        read_model(write(model, folder)),
        evidence=evidence_of(model, ArtifactStore(folder)),
        opset_ceiling=21,
        feed=random_feeds(model)[0],
        data_digest="sha256:data",
    )
    return GraphSpace(workshop, offer())


def _dynamic(space: GraphSpace) -> ir.Model:
    """Every product dynamic, in whatever graph it lies."""
    graph = space.workshop.normalized
    listed = sites_of("quantize", transform_of("dynamic_matmul")[1], graph, space.offer)
    return space.workshop.build(space.workshop.recipe(listed)).graph


def _exact(space: GraphSpace) -> Built:
    """All exact transforms on, proven by the runtime on real inputs."""
    codes = [int(choice.family in EXACT) for choice in space.choices]
    built = space.workshop.build(space.decode(codes))
    space.workshop.verify(built)
    return built


def _feeds(*signs: float) -> list[Feed]:
    values = np.random.default_rng(3).normal(size=(ROWS, WIDTH)).astype(np.float32)
    return [{"x": np.asarray(np.abs(values) * sign, np.float32)} for sign in signs]


def _outputs(model: bytes, feeds: list[Feed], level: str = "all") -> list[Mapping[str, np.ndarray]]:
    session = Session(model, RuntimeSettings(optimization=level))
    return [session.run(feed) for feed in feeds]


def _near(one: bytes, other: bytes, feeds: list[Feed], relative: float, level: str = "all") -> None:
    for a, b in zip(_outputs(one, feeds, "off"), _outputs(other, feeds, level), strict=True):
        for name, array in a.items():
            scale = max(float(np.abs(array).max()), 1.0)
            assert np.abs(array - b[name]).max() <= relative * scale


def _operators(graph: ir.Model) -> list[str]:
    return [node.op_type for node in graph.graph.all_nodes()]


def _looping(kind: str) -> onnx.ModelProto:
    b = Builder()
    repeat = looped if kind == "Loop" else scanned
    return finished(b, repeat(b, "x", "again", lambda inner, given: product(inner, given, "mm")))


def test_both_branches_of_an_if_are_quantized_and_run_in_integers(tmp_path: Path) -> None:
    """Each branch has its site in the space's choices, and executes an integer product."""
    space = _space(tmp_path, chosen())
    names = [choice.name for choice in space.choices if choice.family == "quantize"]
    assert set(names) == {"quantize:then_mm", "quantize:else_mm"}
    graph = _dynamic(space)
    assert "MatMul" not in _operators(graph)
    for feed in _feeds(1, -1):
        counts = lowered_counts(graph, feed)
        assert counts.get("MatMul", 0) == 0
        assert counts.get("DynamicQuantizeMatMul", 0) + counts.get("MatMulInteger", 0) == 1
    _near(chosen().SerializeToString(), to_bytes(graph), _feeds(1, -1), 0.03)


def test_one_branch_alone_can_be_quantized(tmp_path: Path) -> None:
    """A site in a body is a decision of its own."""
    space = _space(tmp_path, chosen())
    action = next(c for c in space.choices if c.name == "quantize:else_mm").alternatives[1]
    graph = space.workshop.build(space.workshop.recipe(action)).graph
    assert sorted(set(_operators(graph)) & {"MatMul", "MatMulInteger"}) == [
        "MatMul",
        "MatMulInteger",
    ]


@pytest.mark.parametrize("kind", ["Loop", "Scan"])
def test_a_product_in_a_loop_runs_in_integers(tmp_path: Path, kind: str) -> None:
    """The body of Loop or Scan is quantized, and runs at every level."""
    model = _looping(kind)
    graph = _dynamic(_space(tmp_path, model))
    check(graph)
    counts = lowered_counts(graph, _feeds(1)[0])
    assert counts.get("MatMul", 0) == 0
    assert counts.get("DynamicQuantizeMatMul", 0) + counts.get("MatMulInteger", 0) > 0
    for level in LEVELS:
        _near(model.SerializeToString(), to_bytes(graph), _feeds(1, -1), 0.05, level)


def test_products_of_nested_bodies_are_quantized(tmp_path: Path) -> None:
    """An If in a Loop in an If: every product at every depth."""
    graph = _dynamic(_space(tmp_path, nested()))
    check(graph)
    assert "MatMul" not in _operators(graph)
    assert _operators(graph).count("MatMulInteger") == 4
    _near(nested().SerializeToString(), to_bytes(graph), _feeds(1, -1), 0.1)


def test_a_weight_that_several_graphs_share_is_coded_once(tmp_path: Path) -> None:
    """Codes of one weight lie once in the file, where every reader sees them."""
    graph = _dynamic(_space(tmp_path, shared()))
    check(graph)
    assert out_of_sight(graph) is None
    held = [
        tuple(value.shape or ())
        for part in (graph.graph, *parents(graph))
        for value in part.initializers.values()
        if value.dtype is ir.DataType.INT8
    ]
    assert held.count((WIDTH, WIDTH)) == 1
    _near(shared().SerializeToString(), to_bytes(graph), _feeds(1, -1), 0.1)


def test_a_weight_that_two_branches_share_moves_to_where_both_see_it() -> None:
    """The second body asks for the constant of the first: it goes to the main graph, and back."""
    graph = normalize(as_graph(chosen()))
    start = to_bytes(graph)
    editor = Editor(graph)
    then, other = (maker(graph, name) for name in ("then_mm", "else_mm"))
    assert then is not None
    assert other is not None
    array = np.arange(4, dtype=np.float32)
    first = editor.inside(then).initializer("both", array)
    assert then.initializers["both"] is first
    assert editor.inside(other).initializer("both", array) is first
    assert graph.graph.initializers["both"] is first
    apart = editor.inside(other).initializer("both", array + 1)
    assert apart.name == "both+"
    editor.undo()
    assert to_bytes(graph) == start


def test_an_outer_value_that_a_body_reads_may_be_rewritten(tmp_path: Path) -> None:
    """A convolution folds its normalization although the result is read in a body alone."""
    b = Builder()
    b.batchnorm(b.conv("x", "conv", (3, 4), bias=False), "bn", 4)
    b.node("ReduceSum", ["x"], "sum", keepdims=0)
    b.node("Greater", ["sum", b.constant("zero", np.zeros((), np.float32))], "positive")
    shape = (1, 4, 8, 8)
    sides = [
        helper.make_graph([helper.make_node(op, ["bn"], [op])], op, [], [info(op, shape=shape)])
        for op in ("Relu", "Neg")
    ]
    b.node("If", ["positive"], "y", then_branch=sides[0], else_branch=sides[1])
    model = b.model([("x", "float32", (1, 3, 8, 8))], [("y", "float32", shape)])
    built = _exact(_space(tmp_path, model))
    assert "BatchNormalization" not in _operators(built.graph)


class _Carry:
    """A careless rule: a node's output becomes its input, wherever that is made."""

    version = 1
    needs_data = False
    whole_model = False

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """None by itself."""
        del model, offer
        return ()

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Replace the value of the site."""
        del evidence
        node = producer_of(editor.model, action.site)
        assert node is not None
        assert node.inputs[0] is not None
        editor.replace_value(node.outputs[0], node.inputs[0])
        return action


def test_rules_do_not_carry_values_out_of_a_body(tmp_path: Path) -> None:
    """An Identity of an outer value is what makes it a body's output: it stays."""
    b, then, other = Builder(), Builder(1), Builder(2)
    product(b, "x", "first")
    then.node("Identity", ["first"], "same")
    other.node("Neg", ["first"], "negative")
    sides = body(then, "same", []), body(other, "negative", [])
    space = _space(tmp_path, finished(b, branched(b, positive(b, "x", "sign"), "if_y", *sides)))
    editor = Editor(space.workshop.normalized.clone())
    made = attempt(editor, Action.of("drop_dead", "same"), NoEvidence())
    assert isinstance(made, Rejection)
    assert "producer" in made.reason
    dead = sites_of("rewrite", transform_of("drop_dead")[1], space.workshop.normalized, offer())
    assert [action.site for action in dead if action.site != "y"] == []
    assert "Identity" in _operators(_exact(space).graph)
    carried = apply_at("rewrite", _Carry(), editor, Action.of("carry", "same"), NoEvidence())
    assert isinstance(carried, Rejection)
    assert "border of a body" in carried.reason


@pytest.mark.parametrize("outer", ["first", "x", "w"])
def test_no_useless_sites_in_bodies(tmp_path: Path, outer: str) -> None:
    """Whatever drop_dead lists in a body it can do: of outer values only where the body goes on."""
    b, then, other = Builder(), Builder(1), Builder(2)
    product(b, "x", "first")
    b.weight("w", 2, 16)
    then.node("Relu", [then.node("Identity", [outer], "inside")], "r")
    then.node("Identity", [then.node("Identity", ["r"], "again")], "end")
    other.node("Identity", [outer], "same")
    sides = body(then, "end", []), body(other, "same", [])
    model = finished(b, branched(b, positive(b, "first", "sign"), "if_y", *sides))
    graph = opened(model)
    listed = list(sites_of("rewrite", transform_of("drop_dead")[1], graph, offer()))
    sites = {action.site for action in listed}
    assert sites >= {"inside", "again"}
    assert "same" not in sites
    for action in listed:
        assert attempt(Editor(graph.clone()), action, NoEvidence()) == action
    _near(
        model.SerializeToString(),
        to_bytes(_exact(_space(tmp_path, model)).graph),
        _feeds(1, -1),
        1e-6,
    )


@pytest.mark.parametrize(
    ("transform", "layer", "made"),
    [
        ("dynamic_lstm", nested_nets.lstm, "DynamicQuantizeLSTM"),
        ("weight_only_int8", nested_nets.gru, "DequantizeLinear"),
        ("embedding_int8", nested_nets.table, "DequantizeLinear"),
        ("weight_only_blocks", nested_nets.long, "MatMulNBits"),
        ("dynamic_matmul", nested_nets.long, "MatMulInteger"),
    ],
)
def test_quantization_without_data_in_both_branches(
    tmp_path: Path, transform: str, layer: Callable[[Builder, str], str], made: str
) -> None:
    """Each data-free scheme in two bodies: smaller, valid at every level, and near the given."""
    sides = [Builder(1), Builder(2)]
    bodies = [body(side, layer(side, f"b{i}"), []) for i, side in enumerate(sides)]
    b = Builder()
    model = finished(b, branched(b, positive(b, "x", "sign"), "if_y", *bodies))
    space = _space(tmp_path, model)
    graph = space.workshop.normalized
    listed = tuple(sites_of("quantize", transform_of(transform)[1], graph, space.offer))
    first = {action.site: action for action in reversed(listed)}
    assert len(first) == 2 + 2 * (transform == "dynamic_matmul")
    built = space.workshop.build(space.workshop.recipe(first.values())).graph
    assert _operators(built).count(made) >= 2
    check(built)
    assert weight_bytes(built) < 0.7 * weight_bytes(graph)
    for level in LEVELS:
        _near(model.SerializeToString(), to_bytes(built), _feeds(1, -1), 0.1, level)


def test_what_follows_from_data_stays_out_of_bodies(tmp_path: Path) -> None:
    """No static quantization in a body, where no value can be observed."""
    space = _space(tmp_path, chosen())
    static = transform_of("static_qdq")[1]
    assert not enters("quantize", static)
    assert not list(sites_of("quantize", static, space.workshop.normalized, space.offer))
    assert not enters("prune", transform_of("channels_l1")[1])


def test_products_in_local_functions_are_quantized(tmp_path: Path) -> None:
    """A function of the model is inlined, and its product is a site like any other."""
    inner = [
        helper.make_node("MatMul", ["a", "w"], ["mm"]),
        helper.make_node("Relu", ["mm"], ["out"]),
    ]
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("local", "Layer", ["a", "w"], ["out"], inner, opsets)
    b = Builder()
    b.weight("w", WIDTH, WIDTH, scale=0.2)
    b.node("Layer", ["x", "w"], "layer", domain="local")
    shape = (ROWS, WIDTH)
    model = b.model(
        [("x", "float32", shape)], [("layer", "float32", shape)], domains=[("local", 1)]
    )
    model.functions.append(function)
    graph = _dynamic(_space(tmp_path, model))
    assert "MatMulInteger" in _operators(graph)
    assert "MatMul" not in _operators(graph)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_random_nests_keep_their_promises(data: st.DataObject) -> None:
    """All that applies: valid, loads at every level, same contract, exact rules exact."""
    model = random_nest(lambda below: data.draw(st.integers(0, below - 1)))
    given = model.SerializeToString()
    source = as_graph(model)
    start = to_bytes(source)
    graph = normalize(source, feed=_feeds(1)[0])
    assert to_bytes(source) == start
    before = to_bytes(graph)
    editor = Editor(graph.clone())
    for family in STAGES[:2]:
        _do_all(editor, family)
    check(editor.model)
    for level in LEVELS:
        _near(given, to_bytes(editor.model), _feeds(1, -1), 2e-4, level)
    _do_all(editor, "quantize")
    check(editor.model)
    for level in LEVELS:
        for made in _outputs(to_bytes(editor.model), _feeds(1, -1), level):
            assert np.isfinite(made["y"]).all()
    for kind in ("inputs", "outputs"):
        old, new = (getattr(g.graph, kind) for g in (graph, editor.model))
        assert [(v.name, v.dtype, v.shape) for v in old] == [
            (v.name, v.dtype, v.shape) for v in new
        ]
    editor.undo()
    assert to_bytes(editor.model) == before


def _do_all(editor: Editor, family: str) -> None:
    """Every action of a shelf that may enter bodies, where it applies; undone where rejected."""
    shelf = plugins.SHELVES[family]
    for name in shelf.names():
        transform = transform_of(name)[1]
        if not enters(family, transform):  # type: ignore[arg-type]
            continue
        for action in tuple(sites_of(family, transform, editor.model, offer())):  # type: ignore[arg-type]
            mark = editor.mark()
            if isinstance(attempt(editor, action, NoEvidence()), Rejection):
                editor.undo(mark)


def test_what_stays_float_in_a_body_says_why(tmp_path: Path) -> None:
    """One branch in integers: the other's product is named, with the reason."""
    space = _space(tmp_path, chosen())
    action = next(c for c in space.choices if c.name == "quantize:else_mm").alternatives[1]
    graph = space.workshop.build(space.workshop.recipe(action)).graph
    path = tmp_path / "built.onnx"
    write_model(graph, path)
    profile = profile_nodes(path, RuntimeSettings(), _feeds(1)[0], runs=1)
    (said,) = lowered(profile, graph).stayed
    assert said.startswith("MatMul 'then_mm' stayed float because it lies in a body")


GOLDEN = Path(__file__).parents[1] / "golden"
ENTERING = [
    (shelf, name)
    for shelf in ("rewrite", "fuse", "quantize")
    for name in plugins.SHELVES[shelf].names()
    if enters(shelf, transform_of(name)[1])  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("shelf", "name"), ENTERING)
def test_a_rule_that_enters_bodies_says_where_it_acts(shelf: str, name: str) -> None:
    """The site `*` lies in no graph, so that a rule which has it must stay outside of bodies."""
    texts = [path.read_text(encoding="utf-8") for path in (GOLDEN / shelf / name).glob("before*")]
    models = [chosen(), *(onnx.parser.parse_model(text) for text in texts)]
    graphs = [normalize(as_graph(model)) for model in models]
    rule = transform_of(name)[1]
    assert "*" not in {action.site for graph in graphs for action in rule.sites(graph, offer())}


def _convolved_in_a_branch(free: bool) -> onnx.ModelProto:
    """If(given) then relu(conv(x)) else -x, with sizes or channels that could be made better."""
    then, other, b = Builder(1), Builder(2), Builder()
    then.conv("x", "conv", (4, 6))
    then.node("Relu", ["conv"], "relu")
    then.conv("relu", "then", (6, 4))
    other.node("Neg", ["x"], "other")
    sides = [
        helper.make_graph(
            side.nodes,
            name,
            [],
            [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)],
            side.initializers,
        )
        for side, name in ((then, "then"), (other, "other"))
    ]
    b.node("If", ["given"], "y", then_branch=sides[0], else_branch=sides[1])
    shape = ("N", 4, "H", "W") if free else (1, 4, 8, 8)
    return b.model([("x", "float32", shape), ("given", "bool", ())], [("y", "float32", shape)])


@pytest.mark.parametrize("free", [True, False])
def test_what_is_offered_for_a_convolution_in_a_body_applies(tmp_path: Path, free: bool) -> None:
    """Every step that the search may take can be taken."""
    model = _convolved_in_a_branch(free)
    workshop = Workshop(
        read_model(write(model, tmp_path)),
        evidence=NoEvidence(),
        opset_ceiling=21,
        feed={"x": np.ones((1, 4, 8, 8), np.float32), "given": np.asarray(True)},
    )
    space = GraphSpace(workshop, offer(data=False))
    empty = space.empty()
    for action in space.legal(empty):
        workshop.build(workshop.recipe([action]))
