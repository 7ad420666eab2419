"""Channels followed through every structure of edge models: removed equals unread."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from edgeopt.graph.check import check
from edgeopt.graph.editor import Editor
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.prunable import NETS
from edgeopt.testing.prune_groups import (
    TOLERANCE,
    apart_where_read,
    difference,
    removed,
    some_units,
    unread,
)
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.channels.groups import Dependencies
from edgeopt.transforms.channels.removal import remove

SITES = {
    "plain": ("a", "c"),
    "resnet": ("stem", "a1", "b1", "b2"),
    "mobilenet": ("stem", "expand", "d.squeeze"),
    "densenet": ("a", "b", "c"),
    "inception": ("stem", "one", "three.r", "three", "pooled"),
    "unet": ("enc", "mid", "dec"),
    "c2f": ("cv1", "m1", "cv2"),
    "shufflenet": ("stem", "g1"),
    "shufflenet_split": ("stem", "a1", "a3", "b1", "b3"),
    "grouped": ("a", "g"),
    "conv_transpose": ("a", "t", "e"),
    "shared": ("a", "b", "a2", "b2"),
    "flattened": ("a", "g", "h"),
    "bert_block": ("q.m", "up.m"),
    "vit_block": ("qkv.m", "up.m"),
    "contrib_attention": ("in.m", "a"),
    "lstm_head": ("c", "h"),
    "gru_both_ways": ("c", "h"),
    "quantized": ("a", "c"),
}


def _groups(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Units of every stratum by site."""
    found = Dependencies(opened(model)).groups
    return {group.name: tuple(len(stratum) for stratum in group.strata) for group in found}


def _why(model: onnx.ModelProto, name: str) -> str:
    return Dependencies(opened(model)).why_none(name)


@pytest.mark.parametrize("name", NETS)
def test_removed_equals_unread(name: str) -> None:
    """Every group of every structure, with random units: valid, and the same outputs."""
    model = NETS[name]()
    graph, feeds = opened(model), random_feeds(model, 1)
    groups = Dependencies(graph).groups
    assert tuple(group.name for group in groups) == SITES[name]
    generator = np.random.default_rng(7)
    for group in groups:
        kept = some_units(group, generator)
        smaller = removed(graph, group.name, kept)
        assert isinstance(smaller, ir.Model)
        check(smaller)
        assert difference(unread(graph, group.name, kept), smaller, feeds) <= TOLERANCE


@pytest.mark.parametrize("name", NETS)
def test_all_groups_after_one_another_and_back(name: str) -> None:
    """One cut after the other gives what all zeros give; undone, the bytes are as they were."""
    model = NETS[name]()
    graph, feeds = opened(model), random_feeds(model, 1)
    before, generator = to_bytes(graph), np.random.default_rng(3)
    editor, zeroed = Editor(graph.clone()), graph
    for group in Dependencies(graph).groups:
        kept = some_units(group, generator)
        zeroed = unread(zeroed, group.name, kept)
        found = Dependencies(editor.model)
        now = found.group(group.name)
        assert now is not None
        assert remove(editor, found, now, kept) is None
    check(editor.model)
    assert difference(zeroed, editor.model, feeds) <= 2 * TOLERANCE
    editor.undo()
    assert to_bytes(editor.model) == before


def test_the_oracle_sees_a_wrong_channel() -> None:
    """Another unit than the one that is not read makes other outputs."""
    model = NETS["plain"]()
    graph, feeds = opened(model), random_feeds(model, 1)
    smaller = removed(graph, "a", np.arange(1, 8))
    assert isinstance(smaller, ir.Model)
    assert difference(unread(graph, "a", np.arange(7)), smaller, feeds) > 100 * TOLERANCE


def test_where_channels_are_read_nothing_is_amplified_yet() -> None:
    """The readers make the same, with the right units; with others they don't."""
    model = NETS["plain"]()
    graph, feeds = opened(model), random_feeds(model, 1)
    zeroed = unread(graph, "a", np.arange(7))
    for kept, right in ((np.arange(7), True), (np.arange(1, 8), False)):
        smaller = removed(graph, "a", kept)
        assert isinstance(smaller, ir.Model)
        assert (apart_where_read(zeroed, smaller, "a", feeds) <= TOLERANCE) is right


def test_halves_of_a_split_are_strata() -> None:
    """The half that is part of a residual and the other half are kept apart."""
    assert _groups(NETS["c2f"]())["cv1"] == (8, 8)
    (group, *_) = Dependencies(opened(NETS["c2f"]())).groups
    assert group.residual == (False, True)


@pytest.mark.parametrize(
    ("net", "site", "reason"),
    [
        ("resnet", "y", "those of the output 'y'"),
        ("unet", "scores", "ArgMax 'y' mixes them"),
        ("vit_block", "patches", "LayerNormalization 'tokens.ln' mixes them"),
        ("bert_block", "o.m", "they meet Add 'res', whose other operand stays"),
        ("resnet", "project", "go with those of 'b2'"),
        ("resnet", "nowhere", "no layer whose channels are followed"),
    ],
)
def test_what_stays_says_why(net: str, site: str, reason: str) -> None:
    """A layer without a group names what is in the way."""
    assert reason in _why(NETS[net](), site)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("unknown", "Einsum is not followed"),
        ("broadcast", "ReduceSum 'y' mixes them"),
        ("step", "where it cuts is computed"),
        ("product", "sums over them"),
        ("body", "a body of an If or a loop reads"),
        ("one", "all of them are tied into one"),
        ("dead", "no layer reads them"),
    ],
)
def test_what_is_not_proven_is_refused(case: str, reason: str) -> None:
    """Operators without a rule, mixing, computed places, bodies: nothing is a group."""
    model = _refused(case)
    assert "a" not in _groups(model)
    assert reason in _why(model, "a")


def test_layers_in_bodies_say_so() -> None:
    """Only the main graph is followed, and what is elsewhere is counted."""
    found = Dependencies(opened(graphs.if_model()))
    assert not found.groups
    assert {one.name for one in found.refused} == {"then.mm", "else.mm"}
    assert "in a body of If 'chosen', and only the main graph is" in found.why_none("then.mm")


def _refused(case: str) -> onnx.ModelProto:
    b = Builder()
    b.conv("x", "a", (4, 4 if case == "one" else 8))
    if case == "unknown":
        b.node("Einsum", ["a"], "y", equation="bchw->bhwc")
    elif case == "broadcast":
        b.node("ReduceSum", ["a", b.constant("axes", np.array([1]))], "y")
    elif case == "step":
        names = [b.constant(n, np.array([v])) for n, v in (("s", 0), ("e", 8), ("k", 1), ("t", 2))]
        b.conv(b.node("Slice", ["a", *names], "half"), "y", (4, 4))
    elif case == "product":
        b.node("Reshape", ["a", b.constant("shape", np.array([8, 36]))], "flat")
        b.node("Transpose", ["flat"], "turned", perm=[1, 0])
        b.node("MatMul", ["turned", "flat"], "y")
    elif case == "one":
        b.conv(b.node("DepthToSpace", ["a"], "pixels", blocksize=2), "y", (1, 4))
    elif case == "dead":
        b.conv("x", "y", (4, 4))
    else:
        inner = helper.make_node("Neg", ["a"], ["t.y"], "t")
        other = helper.make_node("Abs", ["a"], ["e.y"], "e")
        info = helper.make_tensor_value_info
        made = [
            helper.make_graph([n], n.name, [], [info(n.output[0], 1, None)]) for n in (inner, other)
        ]
        b.node("Greater", ["x", b.constant("zero", np.float32(0))], "more")
        b.node("ReduceMin", [b.node("Cast", ["more"], "cast", to=1)], "least", keepdims=0)
        b.node("Cast", ["least"], "flag", to=9)
        b.node("If", ["flag"], "y", then_branch=made[0], else_branch=made[1])
    model = b.model([("x", "float32", (1, 4, 6, 6))], [("y", "float32", ())], opset=18)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model
