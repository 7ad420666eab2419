"""Training behind rounding: codes in torch, and a quantized net that comes nearer to float."""

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.core.action import Action
from edgeopt.core.data import Part
from edgeopt.graph.editor import Editor
from edgeopt.graph.structure import structure_digest
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.quantize_exam import at_every_site
from edgeopt.testing.transform_exam import offer, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.calibration.statistics import Statistics
from edgeopt.transforms.quantize.static_qdq import PLUGIN as QDQ
from edgeopt.transforms.repair._repair import output_error
from edgeopt.transforms.repair.distil_integers import PLUGIN
from tests.transforms.small_nets import EVERY_KIND

torch = pytest.importorskip("torch", reason="needs torch: pip install 'edgeopt[rl]'")

ACTION = Action.of("distil_integers", "*", samples=96, seconds=200.0, steps=80)


def _quantized(model: onnx.ModelProto, evidence: Statistics) -> ir.Model:
    return at_every_site("static_qdq", opened(model), evidence, QDQ.sites(opened(model), offer()))


def _evidence(model: onnx.ModelProto, store: ArtifactStore) -> Statistics:
    return Statistics(Part(name="calibration", feeds=graphs.random_feeds(model, 96)), store)


@pytest.mark.parametrize("net", EVERY_KIND, ids=lambda net: net.__name__)
def test_torch_computes_what_the_quantized_graph_computes(
    net: Callable[[], onnx.ModelProto], store: ArtifactStore
) -> None:
    """Codes, scales and zero points of every kind of net that can be quantized."""
    from edgeopt.transforms.repair._torch_graph import TorchGraph, check

    model = net()
    if not QDQ.sites(opened(model), offer()):
        return
    graph = _quantized(model, _evidence(model, store))
    assert check(TorchGraph(graph), graph, graphs.random_feeds(model, 2)) == ""


def test_a_quantized_net_comes_nearer(store: ArtifactStore) -> None:
    """On fresh samples, with the same structure and integers; a replay gives the same bytes."""
    model = graphs.conv_chain()
    evidence = _evidence(model, store)
    editor = Editor(_quantized(model, evidence))
    for name, value in list(editor.graph.initializers.items()):
        codes = value.const_value
        if codes is not None and codes.dtype is ir.DataType.INT8 and codes.size > 8:
            # Two bits less, so that there is something to recover.
            coarse = (codes.numpy() // 16 * 16).astype(np.int8)
            value.const_value = ir.tensor(coarse, name=name)
    coarse_bytes, structure = to_bytes(editor.model), structure_digest(editor.model)
    fresh = graphs.random_feeds(model, 16, seed=8)
    before = output_error(opened(model), editor.model, fresh)
    made = PLUGIN.apply(editor, ACTION, evidence)
    assert isinstance(made, Action)
    assert output_error(opened(model), editor.model, fresh) < 0.8 * before
    assert structure_digest(editor.model) == structure
    again = Editor(ir.from_proto(onnx.load_from_string(coarse_bytes)))
    assert PLUGIN.apply(again, made, Statistics(None, store)) == made
    assert to_bytes(again.model) == to_bytes(editor.model)


def test_a_float_net_is_refused(store: ArtifactStore) -> None:
    """Nothing was rounded, so nothing is recovered."""
    model = graphs.conv_chain()
    made = PLUGIN.apply(Editor(opened(model)), ACTION, _evidence(model, store))
    assert isinstance(made, Rejection)
    assert "integer layer" in made.reason


@given(st.lists(st.integers(-128, 127), min_size=4, max_size=4), st.integers(-3, 3))
def test_weights_of_codes_are_those_codes_again(codes: list[int], zero: int) -> None:
    """Decoded, rounded and encoded: every code is met again, whatever its scale."""
    from edgeopt.transforms.repair._torch_codes import Coded

    scale = np.array([[0.5], [3e-4]], np.float32)
    coded = Coded(scale=scale, zero=np.full((2, 1), zero, np.float32), dtype=np.dtype(np.int8))
    array = np.array(codes, np.int8).reshape(2, 2)
    weights = coded.decoded(array)
    np.testing.assert_array_equal(coded.encoded(weights), array)
    np.testing.assert_array_equal(coded.rounded(torch.from_numpy(weights)).numpy(), array)


def test_the_gradient_passes_rounding_and_stops_at_the_clip() -> None:
    """1 where a value is inside of the codes' range, 0 where it is cut off."""
    from edgeopt.transforms.repair._torch_codes import quantize

    x = torch.tensor([-0.3, 0.26, 200.0], requires_grad=True)
    node = ir.node("QuantizeLinear", [ir.val("x"), ir.val("s"), ir.val("z")])
    (made,) = quantize(node, [x, torch.tensor(0.5), torch.tensor(4, dtype=torch.uint8)])
    assert made.tolist() == [3.0, 5.0, 255.0]
    made.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 0.0]
