"""Channel groups that go together, and their removal."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.prunable import NETS
from edgeopt.testing.prune_exam import examine_prune, narrow_offer
from edgeopt.testing.transform_exam import NoEvidence, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.channels.groups import Dependencies
from edgeopt.transforms.prune._channels import ascending, kept_units
from edgeopt.transforms.prune.channels_l1 import PLUGIN, norms
from tests.transforms.small_nets import EVERY_KIND

X = ("x", "float32", (1, 4, 6, 6))


def _names(model: onnx.ModelProto) -> list[str]:
    return [group.name for group in Dependencies(opened(model)).groups]


@pytest.mark.parametrize("net", EVERY_KIND, ids=lambda net: net.__name__)
def test_exam(net: object) -> None:
    """Zeroed equals removed at every site of every tiny net."""
    assert callable(net)
    examine_prune("channels_l1", net())


@given(
    widths=st.lists(st.integers(4, 13), min_size=2, max_size=4),
    block=st.sampled_from([1, 2, 4]),
    seed=st.integers(0, 9),
)
@settings(max_examples=6, deadline=None, derandomize=True)
def test_exam_on_random_chains(widths: list[int], block: int, seed: int) -> None:
    """Chains of any widths pass, and kept widths are multiples of the block."""
    model = graphs.conv_chain((3, *widths), seed=seed)
    for one in examine_prune("channels_l1", model, offered=narrow_offer(block)):
        assert int(one.action.get("keep")) % block == 0


def test_lowest_norms_go() -> None:
    """The channels whose rows have the largest L1 norms are kept, in their order."""
    graph = opened(graphs.gemm_chain())
    found = Dependencies(graph)
    group = found.group("fc1")
    assert group is not None
    maker = group.sources[0].value.producer()
    assert maker is not None
    weight = np.asarray(maker.inputs[1].const_value)
    expected = np.abs(weight).sum(axis=1)
    assert np.allclose(norms(found, group), expected)
    kept = kept_units(group, ascending(expected.tolist()), (6,))
    assert list(kept) == sorted(kept)
    assert expected[kept].min() > np.delete(expected, kept).max()


def test_depthwise_and_batchnorm_go_along() -> None:
    """Everything between producer and consumer is cut to the same width."""
    b = Builder()
    b.conv("x", "expand", (4, 8), kernel=1)
    b.batchnorm("expand", "bn", 8)
    b.node("HardSwish", ["bn"], "hs")
    b.conv("hs", "dw", (8, 8), group=8)
    b.conv("dw", "y", (8, 4), kernel=1)
    model = b.model([X], [("y", "float32", (1, 4, 6, 6))])
    (one, other, _) = examine_prune("channels_l1", model, offered=narrow_offer(2))
    shapes = {n: tuple(v.shape or ()) for n, v in one.graph.graph.initializers.items()}
    assert sum(6 in shape for shape in shapes.values()) == 9
    depthwise = next(node for node in other.graph.graph if node.outputs[0].name == "dw")
    assert depthwise.attributes.get_int("group") == 4


def test_a_squeeze_gate_ties_its_channels() -> None:
    """The gate of a squeeze-and-excite block and what it scales are one group."""
    b = Builder()
    b.conv("x", "main", (4, 8))
    b.node("GlobalAveragePool", ["main"], "pool")
    b.conv("pool", "squeeze", (8, 4), kernel=1)
    b.node("Relu", ["squeeze"], "relu")
    b.conv("relu", "excite", (4, 8), kernel=1)
    b.node("HardSigmoid", ["excite"], "gate")
    b.node("Mul", ["main", "gate"], "scaled")
    b.conv("scaled", "y", (8, 4), kernel=1)
    model = b.model([X], [("y", "float32", (1, 4, 6, 6))])
    by_name = {group.name: group for group in Dependencies(opened(model)).groups}
    assert [len(by_name[name].sources) for name in ("main", "squeeze")] == [2, 1]
    offered = {
        one.action.site for one in examine_prune("channels_l1", model, offered=narrow_offer(2))
    }
    assert offered == {"main", "squeeze"}


@pytest.mark.parametrize("target", [[0, -1], [-1, 8], [1, 8], [0, 8]])
def test_reshape_of_one_pixel_is_adjusted(target: list[int]) -> None:
    """A static target that says the width is rewritten; one that infers it is left."""
    b = Builder()
    b.conv("x", "c", (4, 8))
    b.node("GlobalAveragePool", ["c"], "pool")
    b.node("Reshape", ["pool", b.constant("target", np.array(target, np.int64))], "flat")
    b.node("Gemm", ["flat", b.weight("w", 8, 3)], "y")
    model = b.model([X], [("y", "float32", (1, 3))])
    assert {one.action.site for one in examine_prune("channels_l1", model)} == {"c"}


def test_a_kept_residual_offers_nothing() -> None:
    """Channels that several layers add to are groups, and yet not offered."""
    offered = {action.site for action in PLUGIN.sites(opened(NETS["resnet"]()), narrow_offer(2))}
    assert offered == {"a1", "b1"}
    assert set(_names(NETS["resnet"]())) > offered


def test_a_shared_weight_is_split() -> None:
    """Each user of a shared initializer gets its own cut of it, rows here and columns there."""
    b = Builder()
    shared = b.weight("shared", 4, 4, 1, 1)
    b.node("Conv", ["x", shared], "a")
    b.node("Conv", ["a", shared], "y")
    model = b.model([X], [("y", "float32", (1, 4, 6, 6))])
    (one, *_) = examine_prune("channels_l1", model, offered=narrow_offer(2))
    shapes = sorted(tuple(v.shape or ()) for v in one.graph.graph.initializers.values())
    assert shapes == [(2, 4, 1, 1), (4, 2, 1, 1)]


@pytest.mark.parametrize(("site", "keep"), [("nowhere", 4), ("conv1", 0), ("conv1", 8)])
def test_refused(site: str, keep: int) -> None:
    """Unknown sites and widths that leave nothing, or everything, are refused untouched."""
    graph = opened(graphs.conv_chain())
    before = to_bytes(graph)
    made = PLUGIN.apply(Editor(graph), Action.of("channels_l1", site, keep=keep), NoEvidence())
    assert isinstance(made, Rejection)
    assert to_bytes(graph) == before
