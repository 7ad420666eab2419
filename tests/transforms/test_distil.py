"""Distillation: torch computes what the runtime computes, and a pruned net comes nearer."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from edgeopt.core.action import Action
from edgeopt.core.data import Feed, Part
from edgeopt.graph.editor import Editor
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.prune_exam import narrow_offer
from edgeopt.testing.quantize_exam import at_every_site
from edgeopt.testing.transform_exam import offer, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.calibration.statistics import Statistics
from edgeopt.transforms.prune.channels_l1 import PLUGIN as CUT
from edgeopt.transforms.repair._broadened import Broadener
from edgeopt.transforms.repair._repair import output_error
from edgeopt.transforms.repair.distil import PLUGIN
from edgeopt.transforms.stages import canonical
from tests.transforms.small_nets import EVERY_KIND, recurrent

if TYPE_CHECKING:
    from edgeopt.transforms.repair._torch_graph import TorchGraph

torch = pytest.importorskip("torch", reason="needs torch: pip install 'edgeopt[rl]'")

X = ("x", "float32", (2, 4, 6, 6))
_PADS = [1, 0, 0, 1]


def _net(*nodes: onnx.NodeProto, weights: Builder | None = None) -> onnx.ModelProto:
    b = weights or Builder()
    b.nodes += nodes
    return b.model([X], [("y", "float32", None)])


def _ints(b: Builder, name: str, *values: int) -> str:
    return b.constant(name, np.array(values, np.int64))


def _cases() -> dict[str, onnx.ModelProto]:
    """One small graph for each operator that has variants."""
    node = helper.make_node
    found: dict[str, onnx.ModelProto] = {}
    for name in ("Relu", "LeakyRelu", "Elu", "Selu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh"):
        found[name] = _net(node(name, ["x"], ["y"]))
    for name in ("Softplus", "Softsign", "Erf", "Abs", "Neg", "Floor", "Softmax", "LogSoftmax"):
        found[name] = _net(node(name, ["x"], ["y"]))
    for name in ("MaxPool", "AveragePool"):
        for pads in (None, _PADS, "SAME_UPPER"):
            given = {"auto_pad": pads} if isinstance(pads, str) else {"pads": pads or [0] * 4}
            found[f"{name}/{pads}"] = _net(
                node(name, ["x"], ["y"], kernel_shape=[2, 3], strides=[2, 1], **given)
            )
    for name in ("ReduceMean", "ReduceMax", "ReduceL2"):
        found[name] = _net(node(name, ["x"], ["y"], axes=[1, 3], keepdims=0))
    b = Builder()
    found["ReduceSum"] = _net(node("ReduceSum", ["x", _ints(b, "a", -1)], ["y"]), weights=b)
    for mode, form, nearest in (
        ("nearest", "asymmetric", "floor"),
        ("nearest", "half_pixel", "round_prefer_floor"),
        ("linear", "half_pixel", "floor"),
        ("linear", "align_corners", "floor"),
        ("linear", "pytorch_half_pixel", "floor"),
    ):
        b = Builder()
        scales = b.constant("s", np.array([1, 1, 2, 1.5], np.float32))
        made = node(
            "Resize",
            ["x", "", scales],
            ["y"],
            mode=mode,
            coordinate_transformation_mode=form,
            nearest_mode=nearest,
        )
        found[f"Resize/{mode}/{form}"] = _net(made, weights=b)
    b = Builder()
    ends = [_ints(b, "s", 5, -1), _ints(b, "e", -9, 0), _ints(b, "a", 2, 3), _ints(b, "t", -2, -1)]
    found["Slice"] = _net(node("Slice", ["x", *ends], ["y"]), weights=b)
    b = Builder()
    split = node("Split", ["x", _ints(b, "p", 1, 3)], ["l", "r"], axis=1)
    found["Split"] = _net(split, node("Concat", ["r", "l"], ["y"], axis=1), weights=b)
    b = Builder()
    pads = _ints(b, "p", 0, 0, 1, 2, 0, 0, 2, 1)
    for mode in ("constant", "reflect", "edge"):
        found[f"Pad/{mode}"] = _net(node("Pad", ["x", pads], ["y"], mode=mode), weights=b)
        b = Builder()
        pads = _ints(b, "p", 0, 0, 1, 2, 0, 0, 2, 1)
    b = Builder()
    found["Gather"] = _net(node("Gather", ["x", _ints(b, "i", 3, -1)], ["y"], axis=1), weights=b)
    b = Builder()
    one = node("Gather", ["n", b.constant("i", np.array(1, np.int64))], ["size"])
    scaled = node("Mul", ["x", "f"], ["y"])
    cast = node("Cast", ["size"], ["f"], to=onnx.TensorProto.FLOAT)
    found["Gather/one size"] = _net(node("Shape", ["x"], ["n"]), one, cast, scaled, weights=b)
    b = Builder()
    moved = node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1])
    flat = node("Reshape", ["t", _ints(b, "z", 0, -1, 12)], ["r"])
    normed = node("LayerNormalization", ["r", b.weight("g", 12), b.weight("h", 12)], ["y"])
    found["LayerNormalization"] = _net(moved, flat, normed, weights=b)
    b = Builder()
    names = ["x", b.weight("g", 4), b.weight("h", 4)]
    found["InstanceNormalization"] = _net(node("InstanceNormalization", names, ["y"]), weights=b)
    b = Builder()
    found["PRelu"] = _net(node("PRelu", ["x", b.weight("g", 4, 1, 1)], ["y"]), weights=b)
    b = Builder()
    names = ["x", b.weight("w", 4, 3, 3, 3), b.weight("b", 6)]
    made = node("ConvTranspose", names, ["y"], strides=[2, 2], pads=[1] * 4, group=2)
    found["ConvTranspose"] = _net(made, weights=b)
    b = Builder()
    names = ["x", b.weight("w", 5, 4, 3, 3)]
    found["Conv/same"] = _net(
        node("Conv", names, ["y"], auto_pad="SAME_LOWER", strides=[2, 2]), weights=b
    )
    b = Builder()
    names = ["x", b.weight("w", 5, 4, 3, 3)]
    found["Conv/uneven"] = _net(node("Conv", names, ["y"], pads=_PADS), weights=b)
    b = Builder()
    shape = node("Shape", ["x"], ["n"])
    first = node("Gather", ["n", _ints(b, "i", 0)], ["f"])
    joined = node("Concat", ["f", _ints(b, "m", -1)], ["z"], axis=0)
    found["Shape"] = _net(shape, first, joined, node("Reshape", ["x", "z"], ["y"]), weights=b)
    found["LSTM"] = recurrent(state=True)
    found["LSTM/both"] = recurrent(directions=2)
    return found


_CASES = {**_cases(), **{net.__name__: net() for net in EVERY_KIND if net is not graphs.if_model}}


@pytest.mark.parametrize("case", list(_CASES))
def test_torch_computes_what_the_runtime_computes(case: str) -> None:
    """Every operator in its variants, and the small nets."""
    from edgeopt.transforms.repair._torch_graph import TorchGraph, check

    model = _CASES[case]
    graph = opened(model)
    assert check(TorchGraph(graph), graph, graphs.random_feeds(model, 2)) == ""


def test_what_torch_computes_otherwise_is_told() -> None:
    """A constant that was changed behind its back is found by the comparison."""
    from edgeopt.transforms.repair._torch_graph import TorchGraph, check

    model = graphs.conv_chain()
    graph = opened(model)
    made = TorchGraph(graph)
    name = next(iter(made.weights))
    made.load({name: made.arrays()[name] + 1})
    assert "than the runtime" in check(made, graph, graphs.random_feeds(model, 1))


def _pruned(model: onnx.ModelProto, evidence: Statistics) -> ir.Model:
    widths: dict[str, Action] = {}
    for action in CUT.sites(opened(model), narrow_offer()):
        widths.setdefault(action.site, action)
    pruned = at_every_site("channels_l1", opened(model), evidence, widths.values())
    evidence.remember_float(opened(model))
    return pruned


def _evidence(model: onnx.ModelProto, store: ArtifactStore, **more: object) -> Statistics:
    part = Part(name="calibration", feeds=graphs.random_feeds(model, 96))
    return Statistics(part, store, **more)  # pyright: ignore[reportArgumentType]


ACTION = Action.of("distil", "*", version=2, samples=96, seconds=200.0, steps=120)


def test_a_pruned_net_comes_nearer(store: ArtifactStore) -> None:
    """On fresh samples; and a replay gives the same bytes."""
    model = graphs.conv_chain()
    evidence = _evidence(model, store)
    editor = Editor(_pruned(model, evidence))
    fresh = graphs.random_feeds(model, 16, seed=8)
    before = output_error(opened(model), editor.model, fresh)
    made = PLUGIN.apply(editor, ACTION, evidence)
    assert isinstance(made, Action)
    assert output_error(opened(model), editor.model, fresh) < 0.8 * before
    again = Editor(_pruned(model, evidence))
    alone = Statistics(None, store)
    assert PLUGIN.apply(again, made, alone) == made
    assert to_bytes(again.model) == to_bytes(editor.model)


def test_a_training_that_was_stopped_goes_on(store: ArtifactStore, tmp_path: Path) -> None:
    """Whoever stops it in the middle finds its state, and the next one begins there; one that
    ended gives its weights at once.
    """
    model = graphs.conv_chain()
    told: list[str] = []

    def stop_soon(text: str) -> None:
        told.append(text)
        if len(told) == 3:
            raise KeyboardInterrupt

    kept = {"kept": tmp_path / "kept", "data_digest": "sha256:d"}
    first = _evidence(model, store, progress=stop_soon, **kept)
    with pytest.raises(KeyboardInterrupt):
        PLUGIN.apply(Editor(_pruned(model, first)), ACTION, first)
    assert len(list((tmp_path / "kept" / "unfinished").glob("distil-*.state"))) == 1
    later: list[str] = []
    second = _evidence(model, store, progress=later.append, **kept)
    made = PLUGIN.apply(Editor(_pruned(model, second)), ACTION, second)
    assert isinstance(made, Action)
    assert "goes on after" in later[0]
    again: list[str] = []
    third = _evidence(model, store, progress=again.append, **kept)
    same = PLUGIN.apply(Editor(_pruned(model, third)), ACTION, third)
    assert same == made
    assert again == ["distilled before, in 120 steps"]


def test_an_operator_without_a_torch_form_is_named(store: ArtifactStore) -> None:
    """The refusal says which, and the graph stays as it was."""
    b = Builder()
    b.conv("x", "a", (4, 8))
    b.node("Hardmax", ["a"], "h")
    b.node("Mul", ["a", "h"], "m")
    b.conv("m", "n", (8, 8))
    b.conv("n", "y", (8, 4))
    model = b.model([("x", "float32", (1, 4, 6, 6))], [("y", "float32", None)])
    evidence = _evidence(model, store)
    editor = Editor(_pruned(model, evidence))
    before = to_bytes(editor.model)
    made = PLUGIN.apply(editor, ACTION, evidence)
    assert isinstance(made, Rejection)
    assert "Hardmax" in made.reason
    assert to_bytes(editor.model) == before


def test_offered_with_its_price_where_there_is_time() -> None:
    """Seconds come from the offer; without enough of them nothing is offered."""
    graph = opened(graphs.conv_chain())
    assert PLUGIN.sites(graph, offer()) == ()
    assert PLUGIN.sites(graph, replace(offer(), distil_s=3.0)) == ()
    (action,) = PLUGIN.sites(graph, replace(offer(), distil_s=61.7))
    assert action.get("seconds") == 62.0


def test_repairs_of_pruning_come_before_quantization() -> None:
    """Canonical order: prune, least squares, distil, quantize, other repairs."""
    names = ["channels_l1", "least_squares", "distil", "static_qdq", "bias_correction"]
    actions = [Action.of(name, "*") for name in names]
    shuffled = [actions[i] for i in (4, 3, 1, 2, 0)]
    assert [action.transform for action in canonical(shuffled)] == names


def test_broadened_samples_keep_their_form() -> None:
    """Shapes and types stay, values move, and a seed says how."""
    generator = np.random.default_rng(0)
    feeds = [{"x": generator.normal(size=(1, 3, 12, 16)).astype(np.float32)} for _ in range(6)]
    first, second = Broadener(feeds, seed=3), Broadener(feeds, seed=3)
    changed = 0
    for feed in feeds * 4:
        one, other = first.variant(feed)["x"], second.variant(feed)["x"]
        np.testing.assert_array_equal(one, other)
        assert one.shape == feed["x"].shape
        assert one.dtype == np.float32
        assert np.isfinite(one).all()
        changed += int(not np.array_equal(one, feed["x"]))
    assert 8 < changed < 24


def test_only_images_are_changed_as_images_are() -> None:
    """Of features with four axes (a spectrogram) no sample is inverted, moved or blurred: what is
    nearest to it is always the sample itself.
    """
    generator = np.random.default_rng(0)
    feeds = [{"x": generator.normal(size=(1, 24, 16, 1)).astype(np.float32)} for _ in range(6)]

    def likeness(kind: str) -> float:
        broadener = Broadener(feeds, kind=kind)
        pairs = [(feed["x"], broadener.variant(feed)["x"]) for feed in feeds * 10]
        return min(float(np.corrcoef(a.ravel(), b.ravel())[0, 1]) for a, b in pairs)

    assert likeness("features") > 0.5
    assert likeness("image") < 0.1
    assert likeness("") < 0.1


def test_tokens_are_exchanged_and_masks_are_not() -> None:
    """Integers with two values are masks; others come from another sample here and there."""
    generator = np.random.default_rng(1)
    mask = np.ones((1, 20), np.int64)
    feeds = [{"ids": generator.integers(9, 99, (1, 20)), "mask": mask} for _ in range(4)]
    broadener = Broadener(feeds)
    made = [broadener.variant(feed) for feed in feeds * 5]
    assert any(
        not np.array_equal(one["ids"], f["ids"]) for one, f in zip(made, feeds * 5, strict=True)
    )
    assert all(np.array_equal(one["mask"], mask) for one in made)


def _training(student: "TorchGraph", given: ir.Model, feeds: Sequence[Feed], **more: Any) -> Any:
    from edgeopt.transforms.repair._loss import heads
    from edgeopt.transforms.repair._teacher import Teacher
    from edgeopt.transforms.repair._training import Training

    ends = heads(given, given)
    teacher = Teacher(given, [head.name for head in ends])
    return Training(
        student=student, teacher=teacher, ends=ends, between=(), feeds=feeds, seconds=1e6, **more
    )


def test_a_training_that_gains_nothing_ends_early_and_changes_nothing(
    store: ArtifactStore,
) -> None:
    """Where all rates lead away it ends long before its time is over, and says so."""
    from edgeopt.transforms.repair._torch_graph import TorchGraph

    model = graphs.conv_chain()
    student = TorchGraph(_pruned(model, _evidence(model, store)))
    before = student.arrays()
    told: list[str] = []
    feeds = graphs.random_feeds(model, 12)
    training = _training(student, opened(model), feeds, tell=told.append, steps_most=60, rate=1e4)
    assert training.run() == 1.0
    assert "of 1000000 s, 4 steps" in told[0]
    assert "24 steps at 6 rates of learning" in training.in_vain
    assert len(told) < 10
    assert all(np.array_equal(before[name], array) for name, array in student.arrays().items())


def test_a_training_too_slow_for_its_time_ends_at_once_and_changes_nothing(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few steps fit: of fewer samples each where that is enough, and else it says so."""
    from edgeopt.transforms.repair import _training as module
    from edgeopt.transforms.repair._torch_graph import TorchGraph

    model = graphs.conv_chain()
    student, feeds = TorchGraph(_pruned(model, _evidence(model, store))), graphs.random_feeds(model)
    before = student.arrays()
    training = _training(student, opened(model), feeds * 6, tell=lambda _: None)
    for steps, fits, samples in ((1000, True, module.BATCH), (50, True, 8), (10, False, 8)):
        assert training._fits(1e6 / steps) == fits
        assert training._count == samples
    monkeypatch.setattr(module, "_FEWEST_STEPS", 10**15)
    slow = _training(student, opened(model), feeds * 6, tell=lambda _: None)
    assert slow.run() == 1.0
    assert slow.in_vain.startswith("2 steps took")
    assert "too few fit into 1000000 s" in slow.in_vain
    assert all(np.array_equal(before[name], array) for name, array in student.arrays().items())


def test_what_says_the_same_is_not_trained() -> None:
    """A net that was not changed."""
    from edgeopt.transforms.repair._torch_graph import TorchGraph

    model = graphs.conv_chain()
    feeds = graphs.random_feeds(model, 12)
    graph = opened(model)
    training = _training(TorchGraph(graph), graph, feeds, tell=lambda _: None, steps_most=60)
    assert training.run() == 1.0
    assert "already" in training.in_vain


def test_a_rate_that_leads_away_is_lowered(store: ArtifactStore) -> None:
    """From where the weights were; what a lower one gains is kept."""
    from edgeopt.transforms.repair._torch_graph import TorchGraph

    model = graphs.conv_chain()
    graph = opened(model)
    pruned = _pruned(model, _evidence(model, store))
    feeds = graphs.random_feeds(model, 48)
    training = _training(
        TorchGraph(pruned), graph, feeds, tell=lambda _: None, steps_most=100, rate=0.1
    )
    assert training.run() < 0.6


def test_a_training_that_rights_the_ruined_samples_is_kept() -> None:
    """Though those that were right by six digits are so by three then."""
    from edgeopt.transforms.repair._repair import _is_less, _is_nearer

    before = np.array([1.0, 0.9, 1.1, 0.8] + [1e-6] * 8)
    after = np.array([0.2, 0.1, 0.3, 0.1] + [1e-3] * 8)
    assert not _is_nearer(before, after)
    assert _is_less(before, after)
    assert not _is_less(after, before)
    assert not _is_less(before, before[::-1])
