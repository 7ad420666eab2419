"""Repairs: nearer to the float model with the structure unchanged, or refused."""

from pathlib import Path

import numpy as np
import pytest

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.runtime import observe
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.quantize_exam import at_every_site, evidence_of
from edgeopt.testing.repair_exam import examine_repair
from edgeopt.testing.transform_exam import offer, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.quantize.static_qdq import PLUGIN as STATIC
from edgeopt.transforms.repair._stages import Stages
from edgeopt.transforms.repair.bias_correction import PLUGIN, output_error

NETS = [
    graphs.conv_bn,
    graphs.conv_chain,
    graphs.mobilenet_block,
    graphs.residual,
    graphs.gemm_chain,
    graphs.hardswish_spelled,
    graphs.if_model,
    graphs.lstm,
]


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path)


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.__name__)
def test_exam(net: object, store: ArtifactStore) -> None:
    """The mean error a channel does not grow on fresh samples, and a replay gives the same."""
    assert callable(net)
    examine_repair("bias_correction", net(), store)


def test_a_wrong_bias_is_found(store: ArtifactStore) -> None:
    """Biases that were shifted on purpose come back to where they were."""
    model = graphs.gemm_chain()
    floats, evidence = opened(model), evidence_of(model, store)
    quantized = at_every_site("static_qdq", floats, evidence, STATIC.sites(floats, offer()))
    editor = Editor(quantized)
    bias = next(n for n in editor.graph if n.outputs[0].name == "fc1__bias_dequantized")
    codes, scale = array_of(bias.inputs[0]), array_of(bias.inputs[1])
    assert codes is not None
    assert scale is not None
    wrong = codes + np.rint(0.5 / scale).astype(np.int32)
    editor.set_input(bias, 0, editor.initializer("wrong", wrong))
    feeds = graphs.random_feeds(model, 8, seed=8)
    before = output_error(floats, quantized, feeds)
    evidence.remember_float(floats)
    made = PLUGIN.apply(editor, PLUGIN.sites(quantized, offer())[0], evidence)
    assert isinstance(made, Action)
    assert output_error(floats, quantized, feeds) < before / 3
    repaired = array_of(bias.inputs[0])
    assert repaired is not None
    assert np.abs((repaired - codes) * scale).max() < 0.1


def test_refused_without_anything_to_do(store: ArtifactStore) -> None:
    """A float model, an unknown float model and no data are refused; nothing is listed."""
    model = graphs.conv_chain()
    floats, evidence = opened(model), evidence_of(model, store)
    action = Action.of("bias_correction", "*", samples=4)
    assert PLUGIN.sites(floats, offer()) == ()
    assert isinstance(PLUGIN.apply(Editor(floats), action, evidence), Rejection)
    quantized = at_every_site("static_qdq", floats, evidence, STATIC.sites(floats, offer()))
    assert PLUGIN.sites(quantized, offer(data=False)) == ()
    made = PLUGIN.apply(Editor(quantized), action, evidence_of(model, store))
    assert isinstance(made, Rejection)
    assert "not known" in made.reason


def test_what_makes_it_worse_is_refused_and_undone(store: ArtifactStore) -> None:
    """Calibration samples unlike those that it is judged on: the gate closes."""
    model = graphs.gemm_chain()
    floats = opened(model)
    far = [{"x": 40 + feed["x"]} for feed in graphs.random_feeds(model, 4)]
    near = graphs.random_feeds(model, 4, seed=1)
    evidence = evidence_of(model, store, [*far, *near])
    types = STATIC.sites(floats, offer())
    quantized = at_every_site("static_qdq", floats, evidence_of(model, store), types)
    evidence.remember_float(floats)
    before, editor = to_bytes(quantized), Editor(quantized)
    made = PLUGIN.apply(editor, Action.of("bias_correction", "*", samples=4), evidence)
    assert isinstance(made, Rejection)
    assert "off the float ones" in made.reason
    editor.undo()
    assert to_bytes(quantized) == before


def test_stages_compute_what_one_run_computes() -> None:
    """Piece by piece gives the values of the whole, and drops what nobody needs any more."""
    model = graphs.residual()
    graph = opened(model)
    feeds = graphs.random_feeds(model, 2)
    names = ["conv1", "conv2", "y"]
    wanted = list(observe(graph, names, feeds))
    stages = Stages(graph, feeds)
    for name in names:
        stages.advance([name])
        for values, one in zip(stages.values, wanted, strict=True):
            np.testing.assert_allclose(values[name], one[name], rtol=1e-4, atol=1e-5)
    assert "stem" not in stages.values[0]
