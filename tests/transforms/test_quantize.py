"""Groups, scales, pairs: what is asked for really runs in integers, and stays near the float."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.action import Action
from edgeopt.core.profile import DeviceProfile, QuantizationTypes
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.quantize_exam import (
    at_every_site,
    evidence_of,
    examine_quantize,
    lowered_counts,
    sqnr_db,
)
from edgeopt.testing.transform_exam import offer, opened
from edgeopt.transforms.base import Offer, Range, Rejection
from edgeopt.transforms.calibration.statistics import Statistics
from edgeopt.transforms.groups import groups
from edgeopt.transforms.quantize import _kept
from edgeopt.transforms.quantize._scale import gate_scale_of, scale_of
from edgeopt.transforms.quantize.ort_dynamic import PLUGIN as ORT_DYNAMIC
from edgeopt.transforms.quantize.static_qdq import PLUGIN
from tests.transforms.small_nets import EVERY_KIND

X = ("x", "float32", (1, 4, 8, 8))


def _all(model: onnx.ModelProto, store: ArtifactStore, offered: Offer | None = None):
    """A model with every group quantized, and what the runtime made of it."""
    graph = opened(model)
    actions = _first_of_each_site(graph, offered or offer())
    made = at_every_site("static_qdq", graph, evidence_of(model, store), actions)
    return made, lowered_counts(made, graphs.random_feeds(model)[0])


def _first_of_each_site(graph: ir.Model, offered: Offer) -> list[Action]:
    found: dict[str, Action] = {}
    for action in PLUGIN.sites(graph, offered):
        found.setdefault(action.site, action)
    return list(found.values())


def _near(model: onnx.ModelProto, made: object, least_db: float = 25.0) -> bool:
    feeds = graphs.random_feeds(model, 4, seed=5)
    return sqnr_db(model.SerializeToString(), to_bytes(made), feeds) > least_db  # type: ignore


@pytest.mark.parametrize("net", EVERY_KIND, ids=lambda net: net.__name__)
def test_exam(net: object, store: ArtifactStore) -> None:
    """Each group alone runs in integers, and the order of groups does not matter."""
    assert callable(net)
    examine_quantize("static_qdq", net(), store)


def test_the_dynamic_tool_is_tried_once_on_a_net_of_convolutions():
    """It turns them into ConvInteger, which is slow with one scale a channel too."""
    convolutions, products = Builder(), Builder()
    convolutions.conv("x", "y", (3, 8))
    products.node("MatMul", ["x", products.weight("w", 16, 8)], "y")
    shapes = (("N", 3, 8, 8), ("N", 8, 8, 8)), (("N", 16), ("N", 8))
    counts = [
        len(ORT_DYNAMIC.sites(opened(_model(b, *shape)), offer()))
        for b, shape in zip((convolutions, products), shapes, strict=True)
    ]
    assert counts == [1, 2]


def _model(b: Builder, read: tuple[str | int, ...], made: tuple[str | int, ...]):
    return b.model([("x", "float32", read)], [("y", "float32", made)])


@pytest.mark.parametrize("name", ["ort_static", "ort_dynamic"])
@pytest.mark.parametrize("net", [graphs.conv_chain, graphs.gemm_chain, graphs.lstm])
def test_exam_of_the_runtimes_tools(name: str, net: object, store: ArtifactStore) -> None:
    """The runtime's own tools go through the same exam as whole models."""
    assert callable(net)
    examine_quantize(name, net(), store, least_db=15.0)


def test_residual_add_stays_in_integers(store: ArtifactStore) -> None:
    """Nothing but the way in and the way out is float in a quantized residual block."""
    made, counts = _all(graphs.residual(), store)
    assert counts["QLinearConv"] == 3
    assert counts["QLinearAdd"] == 1
    assert counts["QuantizeLinear"] == counts["DequantizeLinear"] == 1
    assert _near(graphs.residual(), made)


def test_clip_and_relu_vanish_in_the_kernel(store: ArtifactStore) -> None:
    """A Clip at 6 that the data reach is fused: no code lies above it."""
    b = Builder()
    low, high = (b.constant(n, np.full((), v, np.float32)) for n, v in (("low", 0), ("high", 6)))
    b.constant("gain", np.full((), 9, np.float32))
    b.node("Mul", ["x", "gain"], "loud")
    b.conv("loud", "c", (4, 8))
    b.node("Clip", ["c", low, high], "c6")
    b.conv("c6", "y", (8, 4))
    model = b.model([X], [("y", "float32", (1, 4, 8, 8))])
    made, counts = _all(model, store)
    assert "Clip" not in counts
    assert counts["QLinearConv"] == 2
    assert _near(model, made)


def test_hardswish_between_convolutions_stays_in_integers(store: ArtifactStore) -> None:
    """HardSwish becomes a Clip of codes and an integer product, near the float one."""
    b = Builder()
    b.constant("gain", np.full((), 4, np.float32))
    b.node("Mul", ["x", "gain"], "loud")
    b.conv("loud", "c", (4, 8))
    b.node("HardSwish", ["c"], "h")
    b.conv("h", "y", (8, 4))
    model = b.model([X], [("y", "float32", (1, 4, 8, 8))])
    made, counts = _all(model, store)
    assert counts["QLinearMul"] == counts["Clip"] == 1
    assert "HardSigmoid" not in counts
    assert _near(model, made)
    examine_quantize("static_qdq", model, store)


def test_matmul_and_its_bias_are_one_integer_product(store: ArtifactStore) -> None:
    """An Add of a vector behind a MatMul goes into the accumulator."""
    b = Builder()
    b.node("MatMul", ["x", b.weight("w", 16, 8)], "m")
    b.node("Add", ["m", b.weight("bias", 8)], "a")
    b.node("Relu", ["a"], "r")
    b.node("MatMul", ["r", b.weight("v", 8, 4)], "n")
    b.node("Add", [b.weight("more", 4), "n"], "y")
    model = b.model([("x", "float32", (3, 16))], [("y", "float32", (3, 4))])
    made, counts = _all(model, store)
    assert counts.get("QGemm") == 2
    assert _near(model, made)
    examine_quantize("static_qdq", model, store)


def test_groups_are_the_same_before_during_and_after(store: ArtifactStore) -> None:
    """Pairs do not change which nodes belong together, nor what the groups are called."""
    for net in (graphs.residual, graphs.mobilenet_block, graphs.segmentation_argmax):
        model = net()
        graph = opened(model)
        whole = groups(graph)
        assert len(whole) > 1
        evidence = evidence_of(model, store)
        editor = Editor(graph.clone())
        for action in PLUGIN.sites(graph, offer()):
            assert isinstance(PLUGIN.apply(editor, action, evidence), Action)
            assert groups(editor.model) == whole


def test_many_layers_become_few_groups() -> None:
    """Neighbours are merged until at most forty groups are left, and none is lost."""
    graph = opened(graphs.gemm_chain([4] * 100))
    found = groups(graph)
    assert len(found) <= 40
    members = [name for group in found for name in group.nodes]
    assert len(members) == len(set(members)) == 99 + 98


def test_a_scale_is_shared_where_codes_pass_through(store: ArtifactStore) -> None:
    """Both sides of a MaxPool and all of a Concat have one scale."""
    made, counts = _all(_joined(1.0), store)
    scales = {n: v for n, v in made.graph.initializers.items() if n.endswith("__scale")}
    assert {float(array_of(scales[f"{n}__scale"])) for n in ("a", "b", "j", "p")} == {  # type: ignore
        float(array_of(scales["a__scale"]))  # type: ignore
    }
    assert "Concat" not in counts or counts["DequantizeLinear"] == 1
    assert _near(_joined(1.0), made)


def test_no_shared_scale_where_one_operand_would_drown(store: ArtifactStore) -> None:
    """Boxes of hundreds beside scores of one keep their own scales (ONNX Runtime issue 14233)."""
    made, _ = _all(_joined(640.0), store)
    first, second = (array_of(made.graph.initializers[f"{n}__scale"]) for n in ("a", "b"))
    assert first is not None
    assert second is not None
    assert float(second) > 100 * float(first)


def _joined(factor: float) -> onnx.ModelProto:
    b = Builder()
    b.conv("x", "a", (4, 8))
    names = ["x", b.weight("w", 8, 4, 3, 3, scale=factor / 6), b.weight("c", 8, scale=0.1)]
    b.node("Conv", names, "b", pads=[1, 1, 1, 1])
    b.node("Concat", ["a", "b"], "j", axis=1)
    b.node("MaxPool", ["j"], "p", kernel_shape=[2, 2], strides=[2, 2])
    b.conv("p", "y", (16, 4))
    return b.model([X], [("y", "float32", (1, 4, 4, 4))])


def test_a_shared_weight_stays_float_for_its_float_user(store: ArtifactStore) -> None:
    """Quantizing one user of an initializer leaves the other user's alone."""
    b = Builder()
    b.weight("w", 4, 4, 1, 1)
    b.weight("c", 4)
    b.node("Conv", ["x", "w", "c"], "a")
    b.node("Conv", ["a", "w", "c"], "y")
    model = b.model([X], [("y", "float32", (1, 4, 8, 8))])
    one, other = examine_quantize("static_qdq", model, store)
    for applied in (one, other):
        assert {"w", "c"} <= set(applied.graph.graph.initializers)
    made, _ = _all(model, store)
    assert {"w", "c"}.isdisjoint(made.graph.initializers)
    assert _near(model, made)


def test_a_bias_far_above_its_channel_fits(store: ArtifactStore) -> None:
    """A near-dead channel with a large bias gets a coarser weight, not an overflow."""
    b = Builder()
    weight = np.ones((4, 4, 1, 1), np.float32)
    weight[0] = 1e-12
    b.node("Conv", ["x", b.constant("w", weight), b.constant("c", np.full(4, 3, np.float32))], "y")
    model = b.model([X], [("y", "float32", (1, 4, 8, 8))])
    made, _ = _all(model, store)
    assert _near(model, made, 30.0)


@pytest.mark.parametrize(
    "types",
    [
        QuantizationTypes(),
        QuantizationTypes(per_channel=False),
        QuantizationTypes(reduce_range=True),
        QuantizationTypes(weight="uint8"),
        QuantizationTypes(activation="int8"),
    ],
    ids=lambda types: f"{types.activation}-{types.weight}-{types.per_channel}",
)
def test_types_are_those_of_the_profile(types: QuantizationTypes, store: ArtifactStore) -> None:
    """Every combination of integer types that a profile may name gives a model near the float."""
    profile = DeviceProfile(name="t", title="t", architecture="x86_64", quantization=types)
    model = graphs.conv_chain()
    made, counts = _all(model, store, Offer(profile=profile))
    # Symmetric int8 is TensorRT's form: this runtime keeps the Relu before it, hence the Conv.
    assert counts.get("QLinearConv", 0) == (3 if types.activation == "uint8" else 0)
    codes = made.graph.initializers["conv1__weight_quantized"].const_value
    assert codes is not None
    assert codes.numpy().dtype == types.weight
    assert made.graph.initializers["relu1__zero"].const_value.numpy().dtype == types.activation
    if types.reduce_range:
        assert np.abs(codes.numpy()).max() <= 63
    assert _near(model, made, 30.0)


def test_nothing_is_offered_without_types_or_data() -> None:
    """A device without fast integers and a study without data have no such actions."""
    graph = opened(graphs.conv_chain())
    slow = DeviceProfile(name="s", title="s", architecture="armv7")
    assert PLUGIN.sites(graph, Offer(profile=slow)) == ()
    assert PLUGIN.sites(graph, offer(data=False)) == ()


def _refusal(model: onnx.ModelProto, evidence: Statistics, action: Action) -> str:
    graph = opened(model)
    before = to_bytes(graph)
    editor = Editor(graph)
    made = PLUGIN.apply(editor, action, evidence)
    assert isinstance(made, Rejection)
    editor.undo()
    assert to_bytes(graph) == before
    return made.reason


def test_reasons(store: ArtifactStore) -> None:
    """What does not fit is refused with its reason, and leaves no trace."""
    model = graphs.conv_chain()
    action = PLUGIN.sites(opened(model), offer())[0]
    evidence = evidence_of(model, store)
    assert "no range" in _refusal(model, Statistics(None, store), action)
    assert "no weighted node" in _refusal(model, evidence, Action.of("static_qdq", "pool"))
    old = graphs.conv_chain()
    old.opset_import[0].version = 12
    assert "opset 12" in _refusal(old, evidence, action)
    assert PLUGIN.sites(opened(old), offer()) == ()
    made, _ = _all(model, store)
    foreign = onnx.load_from_string(to_bytes(made))
    assert "of its own" in _refusal(foreign, evidence, action)
    assert PLUGIN.sites(opened(foreign), offer()) == ()


def test_twice_and_mixed_types_are_refused(store: ArtifactStore) -> None:
    """A group is quantized once, and a value is coded in one type."""
    model = graphs.conv_chain()
    evidence, editor = evidence_of(model, store), Editor(opened(model))
    first, second, *_ = PLUGIN.sites(editor.model, offer())
    assert isinstance(PLUGIN.apply(editor, first, evidence), Action)
    mark = editor.mark()
    again = PLUGIN.apply(editor, first, evidence)
    assert isinstance(again, Rejection)
    assert "already" in again.reason
    editor.undo(mark)
    changed = {**dict(second.parameters), "activation": "int8"}
    mixed = PLUGIN.apply(editor, Action.of("static_qdq", second.site, **changed), evidence)
    assert isinstance(mixed, Rejection)
    assert "uint8 already" in mixed.reason


def test_an_alpha_is_refused(store: ArtifactStore) -> None:
    """Factors of a Gemm have no integer form."""
    b = Builder()
    b.node("Gemm", ["x", b.weight("w", 8, 4), b.weight("c", 4)], "y", alpha=0.5)
    model = b.model([("x", "float32", (2, 8))], [("y", "float32", (2, 4))])
    action = PLUGIN.sites(opened(model), offer())[0]
    assert "factors" in _refusal(model, evidence_of(model, store), action)


BOUND = st.floats(-1e4, 1e4, width=32)


@given(low=BOUND, high=BOUND, dtype=st.sampled_from(["uint8", "int8"]))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_scales_cover_the_range_and_code_zero_exactly(low: float, high: float, dtype: str) -> None:
    """Half a step of error at most inside the range; 0 is a code; int8 is symmetric."""
    low, high = min(low, high), max(low, high)
    made = scale_of(Range(low=low, high=high), dtype)
    info = np.iinfo(dtype)
    scale, zero = float(made.scale), int(made.zero)
    assert scale > 0
    assert info.min <= zero <= info.max
    assert dtype == "uint8" or zero == 0
    values = np.linspace(low, high, 50)
    codes = np.clip(np.rint(values / scale) + zero, info.min, info.max)
    assert np.all(np.abs((codes - zero) * scale - values) <= scale * 1.001)
    if dtype == "uint8" and low >= 0 and high > 1e-30:
        assert np.float32(255 * made.scale) <= np.float32(high)


@given(high=st.floats(-5, 60, width=32))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_gate_codes_give_hardswish(high: float) -> None:
    """Read at a sixth of the scale, clipped codes are HardSigmoid within one step."""
    made = gate_scale_of(Range(low=-9, high=high))
    if made is None:
        assert high > 40
        return
    scale, zero = float(made.scale), int(made.zero)
    values = np.linspace(-9, max(high, 0.0), 200)
    codes = np.clip(np.rint(values / scale) + zero, 0, 255)
    gate = np.clip(codes, 0, min(2 * zero, 255)) * scale / 6
    wanted = values * np.clip(values / 6 + 0.5, 0, 1)
    assert np.abs((codes - zero) * scale * gate - wanted).max() <= 1.5 * scale


def test_a_weight_is_coded_once_for_all_clones(store: ArtifactStore) -> None:
    """Clones share the codes of a weight, which are the costly part of a candidate."""
    model = graphs.conv_chain(seed=77)
    _all(model, store)
    graph, evidence = opened(model), evidence_of(model, store)
    actions = PLUGIN.sites(graph, offer())
    at_every_site("static_qdq", graph, evidence, actions)
    held = _kept._KEPT.bytes
    at_every_site("static_qdq", graph, evidence, actions)
    assert _kept._KEPT.bytes == held > 0
