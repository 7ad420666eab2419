"""Whole branches held at their mean, and layers in two narrow ones."""

import numpy as np
import onnx
import pytest

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.prunable import NETS
from edgeopt.testing.prune_exam import narrow_offer
from edgeopt.testing.prune_groups import TOLERANCE, difference
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.testing.transform_exam import NoEvidence, examine, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.calibration.moments import Moments
from edgeopt.transforms.prune.drop_branch import PLUGIN as DROP
from edgeopt.transforms.prune.hold_branch import PLUGIN as HOLD
from edgeopt.transforms.prune.low_rank import PLUGIN as LOW_RANK
from edgeopt.transforms.prune.low_rank import truncated


@pytest.mark.parametrize(
    ("net", "sites"),
    [
        ("resnet", ["a2"]),
        ("mobilenet", ["project"]),
        ("shufflenet", ["g2"]),
        ("bert_block", ["o", "down"]),
        ("c2f", ["m2"]),
        ("densenet", []),
    ],
)
def test_a_branch_becomes_its_mean(net: str, sites: list[str], store: ArtifactStore) -> None:
    """Blocks of a residual are sites; held, the net is the one with the mean in their place."""
    model = NETS[net]()
    feeds = random_feeds(model, 4, seed=3)
    evidence = evidence_of(model, store, feeds)
    applied = examine("hold_branch", model, evidence=evidence)
    assert [one.action.site for one in applied] == sites
    for one in applied:
        graph = opened(model)
        value = next(v for n in graph.graph for v in n.outputs if v.name == one.action.site)
        axis = 1 if len(value.shape or ()) == 4 else -1
        seen = evidence.channels(graph, [one.action.site], axis=axis)[one.action.site]
        mean = (seen.total / seen.count).astype(np.float32)
        shape = (1, -1, 1, 1) if axis == 1 else (-1,)
        editor = Editor(graph)
        editor.replace_uses(value, editor.initializer("held", mean.reshape(shape)))
        assert difference(graph, one.graph, feeds) <= TOLERANCE
        assert len(list(one.graph.graph)) < len(list(graph.graph))


@pytest.mark.parametrize(
    ("net", "sites"),
    [
        ("resnet", ["a2"]),
        ("mobilenet", ["project"]),
        ("shufflenet", ["g2"]),
        ("bert_block", ["o"]),
        ("densenet", []),
    ],
)
def test_a_branch_is_left_out(net: str, sites: list[str]) -> None:
    """The net is the one in which the branch adds nothing; one that makes the output stays."""
    model = NETS[net]()
    applied = examine("drop_branch", model)
    assert [one.action.site for one in applied] == sites
    for one in applied:
        graph = opened(model)
        value = next(v for n in graph.graph for v in n.outputs if v.name == one.action.site)
        editor = Editor(graph)
        editor.replace_uses(value, editor.initializer("nothing", np.zeros((), np.float32)))
        assert difference(graph, one.graph, random_feeds(model, 2)) <= TOLERANCE
        assert len(list(one.graph.graph)) < len(list(graph.graph))


@pytest.mark.parametrize(
    ("net", "site", "reason"),
    [
        ("resnet", "b2", "no part of what it is computed from"),
        ("resnet", "stem", "something else than one sum reads it"),
        ("resnet", "nowhere", "no node of the main graph"),
    ],
)
def test_what_is_no_branch_is_not_left_out(net: str, site: str, reason: str) -> None:
    """And the graph is as it was."""
    editor = Editor(opened(NETS[net]()))
    before = to_bytes(editor.model)
    made = DROP.apply(editor, Action.of("drop_branch", site), NoEvidence())
    assert isinstance(made, Rejection)
    assert reason in made.reason
    assert to_bytes(editor.model) == before


def test_a_branch_of_a_sum_that_is_an_output_stays() -> None:
    """Nothing behind it could make up for it."""
    b = Builder(1)
    b.conv(b.node("Relu", [b.conv("x", "a", (8, 8))], "r"), "f", (8, 8))
    b.node("Add", ["x", "f"], "y")
    shape = ("float32", (1, 8, 4, 4))
    editor = Editor(opened(b.model([("x", *shape)], [("y", *shape)])))
    assert DROP.sites(editor.model, narrow_offer()) == ()
    made = DROP.apply(editor, Action.of("drop_branch", "f"), NoEvidence())
    assert isinstance(made, Rejection)
    assert "an output" in made.reason


@pytest.mark.parametrize(
    ("net", "site", "reason"),
    [
        ("resnet", "b2", "no part of what it is computed from"),
        ("resnet", "stem", "something else than one sum reads it"),
        ("resnet", "nowhere", "no node of the main graph"),
        ("resnet", "a2", "no calibration sample"),
    ],
)
def test_no_branch(net: str, site: str, reason: str) -> None:
    """A projection is not a branch; without samples nothing is held."""
    editor = Editor(opened(NETS[net]()))
    before = to_bytes(editor.model)
    made = HOLD.apply(editor, Action.of("hold_branch", site), NoEvidence())
    assert isinstance(made, Rejection)
    assert reason in made.reason
    assert to_bytes(editor.model) == before


def _wide(kind: str) -> onnx.ModelProto:
    """A layer of 64 by 96 that reads channels of unequal size and ends in a wide sum."""
    b = Builder(3)
    scales = np.linspace(0.01, 2, 96, dtype=np.float32)
    if kind == "Conv":
        b.node("Mul", ["x", b.constant("s", scales.reshape(1, 96, 1, 1))], "m")
        names = ["m", b.weight("w", 64, 96, 1, 1), b.weight("b", 64)]
        b.node("Conv", names, "a", kernel_shape=[1, 1], strides=[2, 2])
        io = [("x", "float32", ("N", 96, 4, 4))], [("a", "float32", ("N", 64, 2, 2))]
        return b.model(*io)
    b.node("Mul", ["x", b.constant("s", scales)], "m")
    if kind == "Gemm":
        b.node("Gemm", ["m", b.weight("w", 64, 96), b.weight("b", 64)], "a", transB=1)
        return b.model([("x", "float32", ("N", 96))], [("a", "float32", ("N", 64))])
    b.node("MatMul", ["m", b.weight("w", 96, 64)], "a")
    return b.model([("x", "float32", ("N", 5, 96))], [("a", "float32", ("N", 5, 64))])


@pytest.mark.parametrize("kind", ["Conv", "Gemm", "MatMul"])
def test_two_layers_are_the_product_of_their_factors(kind: str, store: ArtifactStore) -> None:
    """One layer with the product as its weight makes the same; ranks are multiples of the block."""
    model = _wide(kind)
    feeds = random_feeds(model, 8, seed=1)
    evidence = evidence_of(model, store, feeds)
    applied = examine("low_rank", model, evidence=evidence, offered=narrow_offer(8))
    assert [one.action.get("rank") for one in applied] == [16, 8]
    for one in applied:
        held = evidence.recall(one.action.artifact("factors") or "")
        assert held is not None
        graph = opened(model)
        editor = Editor(graph)
        maker = next(node for node in graph.graph if node.outputs[0].name == "a")
        weight = array_of(maker.inputs[1])
        assert weight is not None
        whole = (held["out"] @ held["in"]).astype(np.float32)
        whole = whole.T if kind == "MatMul" else whole
        editor.set_input(maker, 1, editor.initializer("whole", whole.reshape(weight.shape)))
        assert difference(graph, one.graph, feeds) <= TOLERANCE
        assert len(to_bytes(one.graph)) < len(to_bytes(opened(model)))


def test_factors_are_chosen_by_what_is_read(store: ArtifactStore) -> None:
    """Beside the truncated weight alone, the error on such inputs is smaller."""
    model = _wide("MatMul")
    evidence = evidence_of(model, store, random_feeds(model, 60, seed=1))
    applied = examine("low_rank", model, evidence=evidence, offered=narrow_offer(8))
    held = evidence.recall(applied[0].action.artifact("factors") or "")
    weight = array_of(opened(model).graph.initializers["w"])
    assert held is not None
    assert weight is not None
    left, values, right = np.linalg.svd(weight.T)
    plain = (left[:, :16] * values[:16]) @ right[:16]
    x = np.random.default_rng(9).normal(size=(500, 96)) * np.linspace(0.01, 2, 96)
    errors = [float(((weight.T - w) @ x.T).var()) for w in (held["out"] @ held["in"], plain)]
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.parametrize(
    ("rank", "reason"), [(60, "not fewer"), (0, "not fewer"), (8, "no calibr")]
)
def test_no_factors(rank: int, reason: str) -> None:
    """Ranks that save nothing, and no samples."""
    editor = Editor(opened(_wide("Gemm")))
    made = LOW_RANK.apply(editor, Action.of("low_rank", "a", rank=rank), NoEvidence())
    assert isinstance(made, Rejection)
    assert reason in made.reason


def test_moments_that_rounding_made_indefinite() -> None:
    """One channel carries a million times the power of the others, and their own sums came out
    below zero: the factors are still those of the matrix on what was seen."""
    generator = np.random.default_rng(4)
    size = 24
    products = np.full((size, size), 1e-3)
    products[0, 0] = 1e6
    products[np.arange(1, size), np.arange(1, size)] = -1.0
    seen = Moments(count=1, total=np.zeros(size), square=np.diag(products), products=products)
    matrix = generator.normal(size=(16, size))
    outward, inward = truncated(matrix, seen, 4)
    assert np.isfinite(outward).all()
    assert np.allclose((outward @ inward)[:, 0], matrix[:, 0], rtol=1e-3)
