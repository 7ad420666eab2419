"""Squeeze-and-excite gates held at their mean."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.action import Action
from edgeopt.core.data import Feed
from edgeopt.graph.editor import Editor
from edgeopt.graph.read import read_model
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.prune_exam import examine_held
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.testing.transform_exam import NoEvidence, offer, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.prune.static_gate import PLUGIN
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace
from tests.transforms.small_nets import EVERY_KIND

KINDS = ["hardsigmoid", "silu", "gemm", "reduce_mean", "spelled"]


class Gates:
    """A net with one squeeze-and-excite gate after another.

    Args:
        width: Channels of the map.
        reader: What reads the last product: `conv`, `grouped`, `depthwise`, `relu` or `both`.
    """

    def __init__(self, width: int = 6, reader: str = "conv") -> None:
        self.builder = Builder()
        self.width = width
        self.reader = reader

    def gate(self, x: str, name: str, kind: str) -> str:
        """The gated map; its gate is `<name>.gate`."""
        b, width, small, gate = self.builder, self.width, self.width // 2, f"{name}.gate"
        if kind == "reduce_mean":
            b.node("ReduceMean", [x], f"{name}.pool", axes=[2, 3], keepdims=1)
        else:
            b.node("GlobalAveragePool", [x], f"{name}.pool")
        if kind == "gemm":
            b.node("Flatten", [f"{name}.pool"], f"{name}.flat")
            b.node("Gemm", [f"{name}.flat", b.weight(f"{name}.w", width, width)], f"{name}.fc")
            b.node("Sigmoid", [f"{name}.fc"], f"{name}.s")
            shape = b.constant(f"{name}.shape", np.array([0, width, 1, 1], np.int64))
            b.node("Reshape", [f"{name}.s", shape], gate)
            return b.node("Mul", [gate, x], f"{name}.product")
        b.conv(f"{name}.pool", f"{name}.squeeze", (width, small), kernel=1)
        if kind == "silu":
            b.node("Sigmoid", [f"{name}.squeeze"], f"{name}.inner")
            b.node("Mul", [f"{name}.squeeze", f"{name}.inner"], f"{name}.act")
        else:
            b.node("Relu", [f"{name}.squeeze"], f"{name}.act")
        b.conv(f"{name}.act", f"{name}.excite", (small, width), kernel=1)
        if kind == "spelled":
            three, zero, six = (
                b.constant(f"{name}.{n}", np.array(n, np.float32)) for n in (3, 0, 6)
            )
            b.node("Add", [f"{name}.excite", three], f"{name}.plus")
            b.node("Clip", [f"{name}.plus", zero, six], f"{name}.clip")
            b.node("Div", [f"{name}.clip", six], gate)
        else:
            b.node("HardSigmoid" if kind == "hardsigmoid" else "Sigmoid", [f"{name}.excite"], gate)
        return b.node("Mul", [x, gate], f"{name}.product")

    def model(self, kinds: Sequence[str], *, free: bool = False) -> onnx.ModelProto:
        """Input, one block for every kind, and a layer that reads the last product."""
        b, width = self.builder, self.width
        x = b.conv("x", "stem", (3, width))
        for index, kind in enumerate(kinds):
            x = self.gate(x, f"g{index}", kind)
            if index + 1 < len(kinds):
                x = b.conv(x, f"mix{index}", (width, width))
        groups = {"grouped": 2, "depthwise": width}.get(self.reader, 1)
        if self.reader != "relu":
            x, before = b.conv(x, "read", (width, width), group=groups), x
            x = b.node("Add", [x, before], "sum") if self.reader == "both" else x
        b.node("Relu", [x], "y")
        size = ("H", "W") if free else (5, 6)
        shapes = [("N", channels, *size) for channels in (3, width)]
        return b.model([("x", "float32", shapes[0])], [("y", "float32", shapes[1])])


def _samples(count: int = 12) -> list[Feed]:
    generator = np.random.default_rng(1)
    return [{"x": generator.normal(size=(1, 3, 5, 6)).astype(np.float32)} for _ in range(count)]


@pytest.mark.parametrize("net", EVERY_KIND, ids=lambda net: net.__name__)
def test_other_nets_have_no_gates(net: Callable[[], onnx.ModelProto]) -> None:
    """What is no gate is left alone on every tiny net."""
    assert PLUGIN.sites(opened(net()), offer()) == ()


@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=2),
    reader=st.sampled_from(["conv", "grouped", "depthwise", "relu", "both"]),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_exam(kinds: list[str], reader: str) -> None:
    """Whatever computes the gate and reads the product: as with the gate's mean in its place."""
    model = Gates(reader=reader).model(kinds)
    samples = _samples()
    store = _Kept()
    applied = examine_held("static_gate", model, samples, evidence_of(model, store, samples))
    assert [one.action.site for one in applied] == [f"g{i}.gate" for i in range(len(kinds))]
    left = [node.op_type for node in applied[-1].graph.graph]
    assert ("Mul" in [*left]) or reader in {"conv", "grouped", "depthwise"}


class _Kept:
    """Artifacts in memory."""

    def __init__(self) -> None:
        self.kept = 0

    def store(self, data: bytes, suffix: str) -> str:
        """Count it."""
        del data, suffix
        self.kept += 1
        return "sha256:kept"

    def path(self, digest: str) -> Path | None:
        """Nothing is found again."""
        del digest


def test_folds_into_the_convolution(store: ArtifactStore) -> None:
    """The pool, both layers and the product are gone; bias and everything else stay."""
    model = Gates().model(["hardsigmoid"], free=True)
    editor = Editor(opened(model))
    made = PLUGIN.apply(
        editor, Action.of("static_gate", "g0.gate"), evidence_of(model, store, _samples())
    )
    assert not isinstance(made, Rejection)
    assert made.artifact("mean") is not None
    assert [node.op_type for node in editor.graph] == ["Conv", "Conv", "Relu"]


def test_a_replay_uses_the_stored_mean(store: ArtifactStore) -> None:
    """With its artifact the action needs no samples; without artifact and samples it is refused."""
    model = Gates().model(["silu"])
    action = Action.of("static_gate", "g0.gate")
    one, other = Editor(opened(model)), Editor(opened(model))
    evidence = evidence_of(model, store, _samples())
    made = PLUGIN.apply(one, action, evidence)
    assert not isinstance(made, Rejection)
    elsewhere = evidence_of(model, store, _samples(2))
    assert PLUGIN.apply(other, made, elsewhere) == made
    assert to_bytes(one.model) == to_bytes(other.model)
    refused = PLUGIN.apply(Editor(opened(model)), action, NoEvidence())
    assert isinstance(refused, Rejection)
    assert "no calibration sample" in refused.reason


def test_must_not_fire(store: ArtifactStore) -> None:
    """Not where the gate is read elsewhere, is no function of a mean, or the map is one pixel."""
    b = Builder()
    b.node("GlobalAveragePool", ["x"], "pool")
    b.node("Sigmoid", ["pool"], "gate")
    b.node("Mul", ["x", "gate"], "scaled")
    b.node("Add", ["scaled", "gate"], "y")
    shared = b.model([("x", "float32", ("N", 3, 5, 6))], [("y", "float32", ("N", 3, 5, 6))])
    b = Builder()
    b.node("Sigmoid", ["z"], "gate")
    b.node("Mul", ["x", "gate"], "y")
    given_gate = b.model(
        [("x", "float32", ("N", 3, 5, 6)), ("z", "float32", ("N", 3, 1, 1))],
        [("y", "float32", ("N", 3, 5, 6))],
    )
    b = Builder()
    b.node("GlobalAveragePool", ["x"], "pool")
    b.node("Sigmoid", ["pool"], "gate")
    b.node("Mul", ["pool", "gate"], "y")
    pixels = b.model([("x", "float32", ("N", 3, 5, 6))], [("y", "float32", ("N", 3, 1, 1))])
    reasons = ["something else than one product", "mean of a map alone", "no map"]
    for model, reason in zip([shared, given_gate, pixels], reasons, strict=True):
        assert PLUGIN.sites(opened(model), offer()) == ()
        evidence = evidence_of(model, store)
        made = PLUGIN.apply(Editor(opened(model)), Action.of("static_gate", "gate"), evidence)
        assert isinstance(made, Rejection)
        assert reason in made.reason


@pytest.mark.parametrize("spread", [False, True])
def test_one_map_for_a_batch_of_gates(spread: bool, store: ArtifactStore) -> None:
    """A product that broadcasts one map over the samples would lose them: refused."""
    b = Builder()
    b.node("GlobalAveragePool", ["x"], "pool")
    b.node("Sigmoid", ["pool"], "gate")
    if spread:
        b.node("Mul", ["z", "gate"], "y")
    else:
        b.node("Mul", [b.weight("k", 1, 4, 5, 5), "gate"], "y")
    inputs = [("x", "float32", (3, 4, 5, 5)), ("z", "float32", (1, 4, 5, 5))][: 1 + spread]
    model = b.model(inputs, [("y", "float32", (3, 4, 5, 5))])
    assert PLUGIN.sites(opened(model), offer()) == ()
    made = PLUGIN.apply(
        Editor(opened(model)), Action.of("static_gate", "gate"), evidence_of(model, store)
    )
    assert isinstance(made, Rejection)
    assert "batch" in made.reason


def test_search_reaches_any_set_of_gates_with_the_layout(tmp_path: Path) -> None:
    """The space offers each gate alone; held gates go with padded channels and spread gates."""
    model = Gates(width=6).model(["spelled", "hardsigmoid", "silu"])
    workshop = Workshop(
        read_model(graphs.write(model, tmp_path)),
        evidence=evidence_of(model, ArtifactStore(tmp_path), _samples()),
        opset_ceiling=17,
        feed=_samples(1)[0],
        data_digest="sha256:data",
    )
    space = GraphSpace(workshop, offer())
    gates = [f"prune:g{index}.gate" for index in range(3)]
    assert [c.name for c in space.choices if c.name.endswith(".gate")] == gates
    on = {"prune:g0.gate": 1, "prune:g2.gate": 1, "rewrite:layout": 2, "rewrite:canonicalize": 1}
    recipe = space.decode([on.get(choice.name, 0) for choice in space.choices])
    done = [action.transform for action in recipe.actions]
    assert done.count("static_gate") == 2
    assert {"pad_channels", "se_resize", "hardsigmoid"} <= set(done)
    assert recipe.data == "sha256:data"
    built = workshop.build(recipe)
    workshop.verify(built)
    kinds = [node.op_type for node in built.graph.graph]
    assert kinds.count("GlobalAveragePool") == 1
    again = workshop.build(recipe.parse(recipe.text))
    assert to_bytes(again.graph) == to_bytes(built.graph)


def test_every_set_of_gates_is_calibrated_at_once(store: ArtifactStore) -> None:
    """The mean of a gate does not depend on the gates held before it: nothing more is observed."""
    model = Gates().model(["silu", "hardsigmoid"])
    evidence = evidence_of(model, store, _samples())
    actions = [Action.of("static_gate", f"g{index}.gate") for index in range(2)]
    alone = PLUGIN.apply(Editor(opened(model)), actions[1], evidence)
    seen = evidence.known
    both = Editor(opened(model))
    assert not isinstance(PLUGIN.apply(both, actions[0], evidence), Rejection)
    assert PLUGIN.apply(both, actions[1], evidence) == alone
    assert evidence.known == seen > 0
