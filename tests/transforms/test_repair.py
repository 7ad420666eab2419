"""Repairs: nearer to the float model with the structure unchanged, or refused."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt import plugins
from edgeopt.core.action import Action
from edgeopt.core.data import Feed
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
from edgeopt.transforms.repair._columns import columns, matrix
from edgeopt.transforms.repair._layers import layers
from edgeopt.transforms.repair._repair import output_error
from edgeopt.transforms.repair._stages import Stages
from edgeopt.transforms.repair.bias_correction import PLUGIN
from edgeopt.transforms.repair.round_weights import rounded
from edgeopt.transforms.stages import transform_of

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


REPAIRS = plugins.SHELVES["repair"].names()


@pytest.mark.parametrize("name", REPAIRS)
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.__name__)
def test_exam(net: object, name: str, store: ArtifactStore) -> None:
    """The outputs come nearer on fresh samples, and a replay gives the same."""
    assert callable(net)
    examine_repair(name, net(), store)


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
    far = [{"x": 40 + feed["x"]} for feed in graphs.random_feeds(model, 6)]
    near = graphs.random_feeds(model, 2, seed=1)
    evidence = evidence_of(model, store, [*far, *near])
    types = STATIC.sites(floats, offer())
    quantized = at_every_site("static_qdq", floats, evidence_of(model, store), types)
    evidence.remember_float(floats)
    before, editor = to_bytes(quantized), Editor(quantized)
    made = PLUGIN.apply(editor, Action.of("bias_correction", "*", samples=8), evidence)
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


def _first(floats: ir.Model) -> list[Action]:
    """The first way of quantizing each group."""
    first: dict[str, Action] = {}
    for action in STATIC.sites(floats, offer()):
        first.setdefault(action.site, action)
    return list(first.values())


def _repaired(
    name: str, model: onnx.ModelProto, feeds: list[Feed], store: ArtifactStore
) -> tuple[float, float, Action | Rejection]:
    """Error on fresh feeds before and after a repair of the model quantized everywhere."""
    floats, evidence = opened(model), evidence_of(model, store, feeds[:-8])
    quantized = at_every_site("static_qdq", floats, evidence, _first(floats))
    before = output_error(floats, quantized, feeds[-8:])
    repair = transform_of(name)[1]
    (action,) = repair.sites(quantized, offer())
    editor = Editor(quantized)
    made = repair.apply(editor, action, evidence)
    return before, output_error(floats, editor.model, feeds[-8:]), made


def test_judged_on_samples_that_it_has_not_seen(store: ArtifactStore) -> None:
    """With two samples one is held back; a single one cannot be judged, and is refused."""
    model = graphs.gemm_chain()
    for count, holds in ((1, False), (2, True)):
        floats = opened(model)
        evidence = evidence_of(model, store, graphs.random_feeds(model, count))
        quantized = at_every_site("static_qdq", floats, evidence, STATIC.sites(floats, offer()))
        made = PLUGIN.apply(Editor(quantized), PLUGIN.sites(quantized, offer())[0], evidence)
        if not holds:
            assert isinstance(made, Rejection)
            assert "two calibration samples" in made.reason
        elif isinstance(made, Rejection):
            assert "off the float ones" in made.reason


def test_later_layers_are_corrected_behind_earlier_ones(store: ArtifactStore) -> None:
    """Of a shifted first bias nothing reaches the second: correcting both at once would do it."""
    model = graphs.gemm_chain()
    floats, evidence = opened(model), evidence_of(model, store, graphs.random_feeds(model, 64))
    quantized = at_every_site("static_qdq", floats, evidence, STATIC.sites(floats, offer()))
    editor = Editor(quantized)
    levels = layers(editor.graph)
    first, second = levels[0][0], levels[1][0]
    before = second.bias_values()
    assert first.bias is not None
    codes, scale = array_of(first.bias.inputs[0]), array_of(first.bias.inputs[1])
    assert codes is not None
    assert scale is not None
    wrong = editor.initializer("wrong", codes + np.rint(1.0 / scale).astype(np.int32))
    editor.set_input(first.bias, 0, wrong)
    assert isinstance(PLUGIN.apply(editor, PLUGIN.sites(quantized, offer())[0], evidence), Action)
    after = layers(editor.graph)[1][0].bias_values()
    assert before is not None
    assert after is not None
    assert np.abs(after - before).max() < 0.1


def test_equalization_evens_out_channels(store: ArtifactStore) -> None:
    """A channel that is a hundred times larger than the others no longer takes all eight bits."""
    b = graphs.Builder()
    b.conv("x", "one", (3, 8))
    b.node("Relu", ["one"], "relu")
    b.conv("relu", "two", (8, 4))
    b.node("Relu", ["two"], "y")
    for tensor in b.initializers:
        array = onnx.numpy_helper.to_array(tensor).copy()
        if tensor.name in ("one.w", "one.b"):
            array[0] *= 100
        if tensor.name == "two.w":
            array[:, 0] /= 100
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    shape = ("N", 3, 8, 8)
    model = b.model([("x", "float32", shape)], [("y", "float32", ("N", 4, 8, 8))])
    feeds = graphs.random_feeds(model, 40)
    before, after, made = _repaired("cross_layer_equalization", model, feeds, store)
    assert isinstance(made, Action)
    assert after < before / 3


def test_outliers_of_a_norm_are_smoothed(store: ArtifactStore) -> None:
    """A channel of a norm that is far larger than the others is taken up by the weights."""
    b = graphs.Builder()
    gain = np.ones(16, np.float32)
    gain[3] = 80
    gain_name, bias = b.constant("gain", gain), b.constant("bias", np.zeros(16, np.float32))
    b.node("LayerNormalization", ["x", gain_name, bias], "norm")
    weight = np.random.default_rng(5).normal(size=(16, 8)).astype(np.float32)
    weight[3] /= 80
    b.node("MatMul", ["norm", b.constant("w", weight)], "y")
    model = b.model([("x", "float32", ("N", 5, 16))], [("y", "float32", ("N", 5, 8))])
    before, after, made = _repaired("smooth_outliers", model, graphs.random_feeds(model, 40), store)
    assert isinstance(made, Action)
    assert after < before / 3


def test_an_outlier_is_clipped(store: ArtifactStore) -> None:
    """A sample far out makes every step coarse; what it loses is less than what others gain."""
    b = graphs.Builder()
    b.node("Gemm", ["x", b.weight("w", 64, 32), b.weight("b", 32)], "y")
    model = b.model([("x", "float32", ("N", 64))], [("y", "float32", ("N", 32))])
    feeds = [
        {"x": np.random.default_rng(seed).normal(size=(32, 64)).astype(np.float32)}
        for seed in range(40)
    ]
    far = feeds[0]["x"].copy()
    far[0, 0] = 9.0
    before, after, made = _repaired("range_search", model, [{"x": far}, *feeds[1:]], store)
    assert isinstance(made, Action)
    assert after < before


def test_weights_are_rounded_for_their_inputs(store: ArtifactStore) -> None:
    """Inputs that go together: the layer's result comes nearer than with the nearest codes."""
    b = graphs.Builder()
    names = ["x", b.weight("w", 64, 32), b.weight("b", 32)]
    b.node("Gemm", names, "y")
    model = b.model([("x", "float32", ("N", 64))], [("y", "float32", ("N", 32))])
    draw = np.random.default_rng(0)
    mixing = draw.normal(size=(3, 64))
    feeds = [{"x": (draw.normal(size=(8, 3)) @ mixing).astype(np.float32)} for _ in range(72)]
    before, after, made = _repaired("round_weights", model, feeds, store)
    assert isinstance(made, Action)
    assert after < before


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(2, 12), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_rounding_is_no_worse_than_the_nearest_codes(
    seed: int, groups: int, inputs: int, rank: int
) -> None:
    """The error of the products, against that of rounding each weight to its nearest code."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(groups, inputs, rank)) @ draw.normal(size=(groups, rank, 200))
    x += 0.1 * draw.normal(size=x.shape)
    power = x @ x.transpose(0, 2, 1)
    goal = draw.normal(size=(groups, 6, inputs))
    scale = np.abs(goal).max(axis=2) / 20
    codes = rounded(goal, scale, power + 1e-3 * np.eye(inputs), 127)
    nearest = np.rint(goal / scale[..., None])

    def error(made: np.ndarray) -> float:
        missing = goal - made * scale[..., None]
        return float(np.einsum("gok,gkl,gol->", missing, power, missing))

    assert error(codes) <= 1.1 * error(nearest) + 1e-9


@given(
    st.sampled_from([1, 2]),
    st.sampled_from([1, 2]),
    st.integers(1, 2),
    st.integers(1, 2),
    st.booleans(),
    st.integers(1, 3),
)
@settings(max_examples=20, deadline=None)
def test_columns_are_what_a_convolution_multiplies(
    axes: int, group: int, stride: int, dilation: int, padded: bool, kernel: int
) -> None:
    """Weight times columns is the convolution without its bias, at every place."""
    draw = np.random.default_rng(0)
    b = graphs.Builder()
    weight = draw.integers(-9, 9, (6, 4 // group, *[kernel] * axes)).astype(np.int8)
    x = draw.integers(0, 9, (1, 4, *[9] * axes)).astype(np.float32)
    one, zero = b.constant("one", np.float32(1)), b.constant("zero", np.uint8(0))
    ones = b.constant("ones", np.ones(6, np.float32))
    zeros = b.constant("zeros", np.zeros(6, np.int8))
    b.node("QuantizeLinear", ["x", one, zero], "q")
    b.node("DequantizeLinear", ["q", one, zero], "d")
    b.node("DequantizeLinear", [b.constant("w", weight), ones, zeros], "wd", axis=0)
    pads = [int(padded), *[0] * (axes - 1), *[2 * int(padded)] * axes]
    attributes = {
        "kernel_shape": [kernel] * axes,
        "group": group,
        "strides": [stride] * axes,
        "dilations": [dilation] * axes,
        "pads": pads,
    }
    b.node("Conv", ["d", "wd"], "y", **attributes)
    model = b.model([("x", "float32", x.shape)], [("y", "float32", [None] * (axes + 2))])
    graph = opened(model)
    ((layer,),) = layers(graph.graph)
    (found,) = observe(graph, ["y"], [{"x": x}])
    made = matrix(layer, layer.codes()) @ columns(layer, x, 10_000)
    np.testing.assert_array_equal(made.reshape(6, -1), found["y"].reshape(6, -1))


def test_rounding_takes_no_notice_of_a_bias_that_was_corrected(store: ArtifactStore) -> None:
    """Behind a bias correction it leaves the mean error as small as without one."""
    model = graphs.conv_chain()
    feeds = graphs.random_feeds(model, 72)
    floats, evidence = opened(model), evidence_of(model, store, feeds[:-8])
    quantized = at_every_site("static_qdq", floats, evidence, _first(floats))
    found: list[float] = []
    for names in (("round_weights",), ("bias_correction", "round_weights")):
        editor = Editor(quantized.clone())
        for name in names:
            repair = transform_of(name)[1]
            repair.apply(editor, repair.sites(editor.model, offer())[0], evidence)
        found.append(output_error(floats, editor.model, feeds[-8:]))
    assert found[1] <= 1.3 * found[0]
