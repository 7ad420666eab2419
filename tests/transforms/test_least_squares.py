"""Least squares after pruning: columns, sums, kept rows, and the repair on small nets."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.action import Action
from edgeopt.core.data import Feed, Part
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import observe
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.prune_exam import narrow_offer
from edgeopt.testing.quantize_exam import at_every_site, evidence_of
from edgeopt.testing.transform_exam import offer, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.calibration.statistics import Statistics
from edgeopt.transforms.prune.channels_l1 import PLUGIN as CUT
from edgeopt.transforms.repair._kept import kept_rows
from edgeopt.transforms.repair._repair import mixed, output_error
from edgeopt.transforms.repair._solve import Sums
from edgeopt.transforms.repair._weighted import columns, separate, weighted
from edgeopt.transforms.repair.least_squares import PLUGIN

X = ("x", "float32", (1, 4, 6, 6))


def _layers() -> dict[str, onnx.ModelProto]:
    """One layer of each form."""
    found: dict[str, onnx.ModelProto] = {}
    forms = {
        "plain": {},
        "strided": {"strides": [2, 2], "pads": [1, 0, 2, 1]},
        "dilated": {"dilations": [2, 2], "pads": [2, 2, 2, 2]},
        "same": {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        "grouped": {"group": 2, "pads": [1, 1, 1, 1]},
    }
    for name, attributes in forms.items():
        b = Builder()
        weight = b.weight("w", 8, 4 // attributes.get("group", 1), 3, 3)
        b.node("Conv", ["x", weight, b.weight("b", 8)], "y", **attributes)
        found[name] = b.model([X], [("y", "float32", None)])
    for name, attributes in (
        ("transposed", {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
        ("transposed_groups", {"group": 2, "strides": [2, 3], "pads": [2, 3, 2, 2]}),
    ):
        b = Builder()
        weight = b.weight("w", 4, 6 // attributes.get("group", 1), 3, 3)
        b.node("ConvTranspose", ["x", weight, b.weight("b", 6)], "y", **attributes)
        found[name] = b.model([X], [("y", "float32", None)])
    b = Builder()
    b.node("MatMul", ["x", b.weight("w", 6, 5)], "m")
    b.node("Add", [b.weight("b", 5), "m"], "y")
    found["product"] = b.model([X], [("y", "float32", None)])
    b = Builder()
    b.node("Gemm", ["x", b.weight("w", 5, 6), b.weight("b", 5)], "y", transB=1)
    found["gemm"] = b.model([("x", "float32", (3, 6))], [("y", "float32", None)])
    return found


@pytest.mark.parametrize("form", list(_layers()))
def test_matrix_times_columns_is_what_the_runtime_computes(form: str) -> None:
    """Every form of a layer, at every place; and a matrix becomes the constant that it was."""
    model = _layers()[form]
    graph = opened(model)
    layer = next(found for node in graph.graph if (found := weighted(node)) is not None)
    (feed,) = graphs.random_feeds(model, 1)
    (values,) = observe(graph, ["y"], [feed])
    y = np.moveaxis(values["y"], layer.axis, 0)
    sizes = y.shape[2:] if layer.axis == 1 else ()
    flat = y.reshape(y.shape[0], -1)
    opposite = columns(layer, feed["x"], sizes, np.arange(flat.shape[1]))
    made = layer.matrix() @ opposite
    bias = layer.bias().reshape(-1, 1)
    np.testing.assert_allclose(made.reshape(flat.shape) + bias, flat, rtol=1e-4, atol=1e-4)
    held = layer.weight_from(layer.matrix())
    np.testing.assert_array_equal(held, graph.graph.initializers["w"].const_value.numpy())  # pyright: ignore[reportOptionalMemberAccess]


@given(
    rows=st.integers(1, 4),
    width=st.integers(1, 6),
    shift=st.floats(-50, 50),
    bias=st.booleans(),
    seed=st.integers(0, 9),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_sums_solve_what_all_samples_at_once_solve(
    rows: int, width: int, shift: float, bias: bool, seed: int
) -> None:
    """Piece by piece equals numpy's solution over all samples, with a bias and without."""
    generator = np.random.default_rng(seed)
    x = generator.normal(shift, 1.0, (width, 120))
    y = generator.normal(size=(rows, width)) @ x + generator.normal(size=(rows, 120))
    sums = Sums(1, width, rows)
    for part in np.array_split(np.arange(120), 5):
        sums.add(x[None][:, :, part], y[None][:, :, part])
    weight, free = sums.solved(np.zeros((1, rows, width)), 0.0, bias=bias)
    design = np.vstack([x, np.ones(120)]) if bias else x
    wanted = np.linalg.lstsq(design.T, y.T, rcond=None)[0].T
    np.testing.assert_allclose(weight[0], wanted[:, :width], rtol=1e-4, atol=1e-4)
    if bias:
        np.testing.assert_allclose(free[0], wanted[:, -1], rtol=1e-3, atol=1e-3)


def test_a_large_ridge_keeps_the_old_weight() -> None:
    """What no sample shows stays as it was."""
    generator = np.random.default_rng(0)
    x = np.concatenate([generator.normal(size=(1, 1, 50)), np.zeros((1, 1, 50))], axis=1)
    old = np.array([[[1.0, 7.0]]])
    sums = Sums(1, 2, 1)
    sums.add(x, 3 * x[:, :1])
    weight, _ = sums.solved(old, 1e-6, bias=True)
    np.testing.assert_allclose(weight, [[[3.0, 7.0]]], atol=1e-3)
    weight, _ = sums.solved(old, 1e9, bias=True)
    np.testing.assert_allclose(weight, old, atol=1e-3)


@pytest.mark.parametrize("biased", [True, False])
def test_kept_rows_are_told_from_what_is_left(biased: bool) -> None:
    """By biases, and without them by the weights, whose columns were cut too."""
    b = Builder()
    names = ["x", b.weight("w", 8, 4, 3, 3)] + ([b.weight("b", 8)] if biased else [])
    b.node("Conv", names, "y", pads=[1, 1, 1, 1])
    graph = opened(b.model([X], [("y", "float32", None)]))
    before = next(iter(graph.graph))
    editor = Editor(graph.clone())
    after = next(iter(editor.graph))
    rows, inputs = [1, 2, 6], [0, 3]
    cut = graph.graph.initializers["w"].const_value.numpy()[rows][:, inputs]  # pyright: ignore[reportOptionalMemberAccess]
    editor.set_input(after, 1, editor.initializer("cut", cut))
    if biased:
        left = graph.graph.initializers["b"].const_value.numpy()[rows]  # pyright: ignore[reportOptionalMemberAccess]
        editor.set_input(after, 2, editor.initializer("left", left))
    first, second = weighted(before), weighted(after)
    assert first is not None
    assert second is not None
    found = kept_rows(first, second)
    assert found is not None
    assert found.tolist() == rows


def _pruned(model: onnx.ModelProto, evidence: Statistics, keep: int = 4) -> ir.Model:
    sites = CUT.sites(opened(model), narrow_offer(keep))
    narrow = {action.site: action for action in sites}
    return at_every_site("channels_l1", opened(model), evidence, narrow.values())


def _redundant() -> onnx.ModelProto:
    """Eight channels, of which four are sums of the others: none is needed."""
    b = Builder()
    generator = np.random.default_rng(4)
    some = generator.normal(size=(4, 4, 3, 3))
    mix = generator.normal(size=(4, 4))
    more = np.einsum("ab,bchw->achw", mix, some)
    weight = b.constant("w", np.concatenate([some, 0.1 * more]).astype(np.float32))
    b.node("Conv", ["x", weight, b.weight("b", 8)], "hidden", pads=[1, 1, 1, 1])
    b.conv("hidden", "y", (8, 5))
    return b.model([X], [("y", "float32", None)])


def test_channels_that_others_span_cost_nothing(store: ArtifactStore) -> None:
    """A linear net whose removed channels are sums of the kept ones is as it was."""
    model = _redundant()
    floats, evidence = opened(model), evidence_of(model, store, graphs.random_feeds(model, 64))
    pruned = _pruned(model, evidence)
    evidence.remember_float(floats)
    fresh = graphs.random_feeds(model, 8, seed=5)
    before = output_error(floats, pruned, fresh)
    editor = Editor(pruned)
    made = PLUGIN.apply(editor, PLUGIN.sites(pruned, offer())[0], evidence)
    assert isinstance(made, Action)
    assert output_error(floats, pruned, fresh) < before / 3


def test_a_weight_of_two_layers_is_split() -> None:
    """Each layer gets a weight of its own, and the outputs stay."""
    b = Builder()
    shared = b.weight("shared", 4, 4, 3, 3)
    b.node("Conv", ["x", shared], "a", pads=[1, 1, 1, 1])
    b.node("Conv", ["a", shared], "y", pads=[1, 1, 1, 1])
    model = b.model([X], [("y", "float32", None)])
    graph = opened(model)
    feeds = graphs.random_feeds(model, 1)
    before = list(observe(graph, ["y"], feeds))
    bytes_before = to_bytes(graph)
    editor = Editor(graph)
    separate(editor)
    first, second = graph.graph
    assert first.inputs[1] is not second.inputs[1]
    assert len(first.inputs) == 3
    np.testing.assert_array_equal(next(iter(observe(graph, ["y"], feeds)))["y"], before[0]["y"])
    editor.undo()
    assert to_bytes(graph) == bytes_before


def test_refused_where_nothing_was_pruned(store: ArtifactStore) -> None:
    """The given model itself needs no repair; the graph stays as it is."""
    model = graphs.conv_chain()
    floats, evidence = opened(model), evidence_of(model, store)
    evidence.remember_float(floats)
    editor = Editor(floats.clone())
    before = to_bytes(editor.model)
    made = PLUGIN.apply(editor, Action.of("least_squares", "*", samples=8), evidence)
    assert isinstance(made, Rejection)
    assert "nothing was pruned" in made.reason
    assert to_bytes(editor.model) == before


def test_every_fourth_sample_is_shifted(store: ArtifactStore) -> None:
    """It is that sample of the broad part; without one all are plain."""
    model = graphs.conv_chain()
    plain, shifted = graphs.random_feeds(model, 6), graphs.random_feeds(model, 6, seed=9)
    part, broad = Part(name="c", feeds=plain), Part(name="broad", feeds=shifted)
    both = list(mixed(Statistics(part, store, broad=broad), 4))
    assert _same(both, [*plain[:3], shifted[3]])
    assert _same(list(mixed(Statistics(part, store), 4)), plain[:4])


def _same(found: list[Feed], wanted: list[Feed]) -> bool:
    return len(found) == len(wanted) and all(
        np.array_equal(one["x"], other["x"]) for one, other in zip(found, wanted, strict=True)
    )
