"""Layers that are left out, and widths that fill a block together with what they are joined to."""

import numpy as np
import onnx
import pytest

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.prune_exam import narrow_offer
from edgeopt.testing.prune_groups import TOLERANCE, difference
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.testing.transform_exam import NoEvidence, examine, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.channels.groups import Dependencies
from edgeopt.transforms.choices import in_order
from edgeopt.transforms.prune._channels import widths
from edgeopt.transforms.prune.channels_l1 import PLUGIN as BY_SIZE
from edgeopt.transforms.prune.drop_layer import PLUGIN as DROP
from edgeopt.transforms.repair._repair import output_error
from edgeopt.transforms.repair.least_squares import PLUGIN as SOLVE


def _chain() -> onnx.ModelProto:
    """Layers that keep the shape, one behind a gate of its own, one that something passes by."""
    b = Builder(5)
    b.node("Relu", [b.conv("x", "a", (3, 8))], "a.r")
    b.node("Relu", [b.batchnorm(b.conv("a.r", "b", (8, 8)), "b.n", 8)], "b.r")
    b.conv("b.r", "c", (8, 8), kernel=1)
    b.node("Mul", [b.node("Sigmoid", ["c"], "c.s"), "c"], "c.g")
    b.node("Relu", [b.conv("c.g", "d", (8, 8))], "d.r")
    b.node("Relu", [b.conv("d.r", "e", (8, 8))], "e.r")
    b.node("Add", ["e.r", "d.r"], "s")
    b.node("Relu", [b.conv("s", "f", (8, 8), stride=2)], "f.r")
    b.conv("f.r", "y", (8, 4))
    return b.model([("x", "float32", (2, 3, 8, 8))], [("y", "float32", (2, 4, 4, 4))])


def test_readers_of_a_dropped_layer_read_what_it_read() -> None:
    """Of every site, activation and normalization go with the layer, and nothing else changes."""
    model = _chain()
    applied = examine("drop_layer", model)
    assert [one.action.site for one in applied] == ["b.r", "c.g", "d.r"]
    read = {"b.r": "a.r", "c.g": "b.r", "d.r": "c.g"}
    for one in applied:
        graph = opened(model)
        editor = Editor(graph)
        values = {value.name: value for node in graph.graph for value in node.outputs}
        editor.replace_uses(values[one.action.site], values[read[one.action.site]])
        assert difference(graph, one.graph, random_feeds(model, 2)) <= TOLERANCE
        assert len(list(one.graph.graph)) < len(list(graph.graph))


@pytest.mark.parametrize(
    ("site", "reason"),
    [
        ("a.r", "the first layer"),
        ("e.r", "something else reads what it reads"),
        ("f.r", "another shape"),
        ("s", "no activation"),
        ("c.s", "nothing else reads"),
        ("nowhere", "no node of the main graph"),
    ],
)
def test_what_is_no_layer_of_a_chain_stays(site: str, reason: str) -> None:
    """The refusal says why, and the graph is as it was."""
    editor = Editor(opened(_chain()))
    before = to_bytes(editor.model)
    made = DROP.apply(editor, Action.of("drop_layer", site), NoEvidence())
    assert isinstance(made, Rejection)
    assert reason in made.reason
    assert to_bytes(editor.model) == before


def test_least_squares_stand_in_for_a_dropped_layer(store: ArtifactStore) -> None:
    """What reads its result is solved for what it made: nearer than without."""
    model = _chain()
    evidence = evidence_of(model, store, random_feeds(model, 64))
    evidence.remember_float(opened(model))
    editor = Editor(opened(model))
    assert isinstance(DROP.apply(editor, Action.of("drop_layer", "b.r"), evidence), Action)
    fresh = random_feeds(model, 8, seed=9)
    before = output_error(opened(model), editor.model, fresh)
    asked = Action.of("least_squares", "*", samples=64)
    assert isinstance(SOLVE.apply(editor, asked, evidence), Action)
    assert output_error(opened(model), editor.model, fresh) < 0.9 * before


@pytest.mark.parametrize(("reads", "makes"), [(6, 12), (12, 6)])
def test_a_layer_with_padding_on_one_side_is_left_out(reads: int, makes: int) -> None:
    """The padding goes with it, and the outputs are those without the layer before it was padded.

    A layer that makes fewer channels than it reads, all of them needed, stays.
    """
    model, wanted = _uneven(reads, makes), _uneven(6, 6)
    (action,) = DROP.sites(opened(model), narrow_offer(8))
    assert action.site == "b.r"
    made = []
    for net in (model, wanted):
        editor = Editor(opened(net))
        assert isinstance(DROP.apply(editor, action, NoEvidence()), Action)
        made.append(editor.model)
    assert difference(made[1], made[0], random_feeds(wanted, 2)) <= TOLERANCE
    assert all(v.shape != [1, 12, 8, 8] for node in made[0].graph for v in node.outputs)
    full = Editor(opened(_uneven(reads, makes, zeros=False)))
    refused = DROP.apply(full, action, NoEvidence())
    assert isinstance(refused, Rejection)
    assert "another shape" in refused.reason


def _uneven(reads: int, makes: int, *, zeros: bool = True) -> onnx.ModelProto:
    """Three layers; the second reads and makes 6 channels, and further ones that are zeros."""
    generator = np.random.default_rng(1)
    b = Builder(3)
    source = "x"
    for name, ins, outs in (
        ("a", (3, 3), (6, reads)),
        ("b", (6, reads), (6, makes)),
        ("c", (6, makes), (4, 4)),
    ):
        weight = generator.normal(size=(outs[0], ins[0], 3, 3)).astype(np.float32)
        bias = generator.normal(size=outs[0]).astype(np.float32)
        wider = ((0, outs[1] - outs[0]), (0, ins[1] - ins[0]))
        filling = 0 if zeros else 1
        weight = np.pad(weight, (*wider, (0, 0), (0, 0)), constant_values=filling)
        names = [source, b.constant(f"{name}.w", weight)]
        names.append(b.constant(f"{name}.b", np.pad(bias, wider[0], constant_values=filling)))
        b.node("Conv", names, name, pads=[1, 1, 1, 1])
        source = b.node("Relu", [name], f"{name}.r")
    return b.model([("x", "float32", (1, 3, 8, 8))], [("c.r", "float32", (1, 4, 8, 8))])


def test_layers_go_before_channels() -> None:
    """Widths are those of the shallower net."""
    cut, drop = Action.of("channels_l1", "a", keep=4), Action.of("drop_layer", "b")
    assert in_order([cut, drop], ()) == [drop, cut]


def _skip(beside: int, own: int) -> onnx.ModelProto:
    """A layer of `own` channels, joined to one of `beside`, read by one layer."""
    b = Builder(6)
    b.node("Relu", [b.conv("x", "a", (3, beside))], "a.r")
    b.node("Relu", [b.conv("a.r", "b", (beside, own))], "b.r")
    b.node("Concat", ["a.r", "b.r"], "j", axis=1)
    b.node("Relu", [b.conv("j", "c", (beside + own, 4))], "c.r")
    b.conv("c.r", "y", (4, 3))
    return b.model([("x", "float32", (1, 3, 8, 8))], [("y", "float32", (1, 3, 8, 8))])


@pytest.mark.parametrize(
    ("beside", "own", "found"),
    [(4, 8, [4]), (4, 16, [12]), (8, 8, []), (2, 8, []), (4, 4, [])],
)
def test_a_width_that_fills_a_block_beside_another(beside: int, own: int, found: list[int]) -> None:
    """In blocks of 8: 4 beside 8 are read as two blocks, 4 beside 4 as one; no odd widths."""
    group = Dependencies(opened(_skip(beside, own))).group("b")
    assert group is not None
    assert [kept for (kept,) in widths(group, 8) if kept % 8] == found
    offered = BY_SIZE.sites(opened(_skip(beside, own)), narrow_offer(8))
    assert {a.get("keep") for a in offered if a.site == "b"} == {k for (k,) in widths(group, 8)}
