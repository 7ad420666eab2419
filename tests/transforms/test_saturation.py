"""16-bit saturation of processors without VNNI, as `transforms.emulate.saturation` foresees it."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from edgeopt.core.action import Action
from edgeopt.core.profile import DeviceProfile, QuantizationTypes
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.targets.profiles import load_profile
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.quantize_exam import at_every_site, evidence_of
from edgeopt.testing.transform_exam import offer, opened
from edgeopt.transforms.base import Offer
from edgeopt.transforms.emulate.saturation import saturated, saturating_product, sentences
from edgeopt.transforms.stages import transform_of


def matmul_integer(weight: npt.NDArray[np.int8]) -> onnx.ModelProto:
    """MatMulInteger of uint8 codes with a signed weight."""
    b = Builder()
    b.node("MatMulInteger", ["x", b.constant("w", weight)], "y")
    depth, width = weight.shape
    return b.model([("x", "uint8", ("N", depth))], [("y", "int32", ("N", width))])


def test_issue_5849() -> None:
    """Loud activations by loud weights saturate: each pair loses half of its sum."""
    weight = np.full((8, 4), 127, np.int8)
    codes = np.full((3, 8), 255, np.uint8)
    graph = ir.from_proto(matmul_integer(weight))
    found = saturated(graph, [{"x": codes}])
    assert [(one.name, one.pairs, one.share) for one in found] == [("y", 3 * 4 * 4, 1.0)]
    exact = Session(to_bytes(graph)).run({"x": codes})["y"]
    assert int(exact[0, 0]) == 8 * 255 * 127
    assert int(saturating_product(codes, weight)[0, 0]) == 4 * 32767
    assert "100 % of its pairs on x86-avx2" in sentences(found, "x86-avx2")[0]


def test_issue_16105() -> None:
    """A pair of -81 and -80 by 210 and 198 goes below -32768: 32850 become 32768 here."""
    codes = np.array([[210, 198, 234]], np.uint8)
    weight = np.array([[-81], [-80], [127]], np.int8)
    exact = int((codes.astype(np.int64) @ weight.astype(np.int64))[0, 0])
    wrong = int(saturating_product(codes, weight)[0, 0])
    assert (exact, wrong) == (-3132, -32768 + 234 * 127)
    found = saturated(ir.from_proto(matmul_integer(weight)), [{"x": codes}])
    assert (found[0].pairs, found[0].saturating) == (2, 1)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_seven_bits_never_saturate(data: st.DataObject) -> None:
    """Weights within +-63 give the exact product, whatever the activations."""
    depth, width = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 4))
    codes = data.draw(st_numpy.arrays(np.uint8, (3, depth)))
    weight = data.draw(
        st_numpy.arrays(np.int8, (depth, width), elements=st.integers(-63, 63).map(np.int8))
    )
    exact = codes.astype(np.int64) @ weight.astype(np.int64)
    np.testing.assert_array_equal(saturating_product(codes, weight), exact)
    assert not saturated(ir.from_proto(matmul_integer(weight)), [{"x": codes}])


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_counts_are_those_of_every_pair(data: st.DataObject) -> None:
    """The layer's count equals a count over all pairs of all rows and columns."""
    depth, width = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 4))
    loud = st.integers(180, 255).map(np.uint8)
    codes = data.draw(st_numpy.arrays(np.uint8, (3, depth), elements=loud))
    weight = data.draw(st_numpy.arrays(np.int8, (depth, width)))
    expected = 0
    for row, column in np.ndindex(3, width):
        products = [int(a) * int(b) for a, b in zip(codes[row], weight[:, column], strict=True)]
        products += [0] * (depth % 2)
        pairs = [products[i] + products[i + 1] for i in range(0, len(products), 2)]
        expected += sum(not -32768 <= pair <= 32767 for pair in pairs)
    found = saturated(ir.from_proto(matmul_integer(weight)), [{"x": codes}])
    assert sum(one.saturating for one in found) == expected


@pytest.mark.parametrize(("stride", "group", "pad"), [(1, 1, True), (2, 1, False), (1, 2, True)])
def test_convolution_by_windows(stride: int, group: int, pad: bool) -> None:
    """Pairs of a convolution run along channels first; windows, padding and groups are its own."""
    generator = np.random.default_rng(stride + group)
    weight = generator.choice(np.array([-127, 127, 3], np.int8), (4, 4 // group, 3, 3))
    codes = generator.integers(0, 256, (2, 4, 5, 5)).astype(np.uint8)
    b = Builder()
    margin = [int(pad)] * 4
    names = ["x", b.constant("w", weight), b.constant("z", np.array(128, np.uint8))]
    b.node(
        "ConvInteger", names, "y", kernel_shape=[3, 3], pads=margin, strides=[stride] * 2,
        group=group,
    )  # fmt: skip
    model = b.model([("x", "uint8", codes.shape)], [("y", "int32", (2, 4, None, None))])
    found = saturated(ir.from_proto(model), [{"x": codes}])
    padded = np.pad(codes, [(0, 0), (0, 0), *[(int(pad),) * 2] * 2], constant_values=128)
    size, each = (padded.shape[2] - 3) // stride + 1, 4 // group
    pairs = bad = 0
    for n, out, i, j in np.ndindex(2, 4, size, size):
        first = out // (4 // group) * each
        window = padded[n, first : first + each, i * stride :, j * stride :][:, :3, :3]
        left = np.moveaxis(window, 0, -1).reshape(-1).astype(np.int64)
        right = np.moveaxis(weight[out], 0, -1).reshape(-1).astype(np.int64)
        products = np.append(left * right, [0] * (left.size % 2)).reshape(-1, 2).sum(axis=1)
        pairs += products.size
        bad += int(np.count_nonzero(np.abs(products + 0.5) > 32768))
    assert bad
    assert (found[0].pairs, found[0].saturating) == (pairs, bad)


def test_depthwise_and_unsigned_weights_are_exact() -> None:
    """Kernels that add in 32 bits are not accused."""
    b = Builder()
    loud = np.full((4, 1, 3, 3), 127, np.int8)
    b.node("ConvInteger", ["x", b.constant("w", loud)], "y", kernel_shape=[3, 3], group=4)
    model = b.model([("x", "uint8", (1, 4, 5, 5))], [("y", "int32", (1, 4, 3, 3))])
    assert not saturated(ir.from_proto(model), [{"x": np.full((1, 4, 5, 5), 255, np.uint8)}])
    b = Builder()
    b.node("MatMulInteger", ["x", b.constant("w", np.full((4, 4), 255, np.uint8))], "y")
    model = b.model([("x", "uint8", (2, 4))], [("y", "int32", (2, 4))])
    assert not saturated(ir.from_proto(model), [{"x": np.full((2, 4), 255, np.uint8)}])


def loud_net() -> onnx.ModelProto:
    """Convolutions and a product whose weights are all at the ends of their range."""
    b = Builder(3)
    sign = np.random.default_rng(0).choice(np.array([-1, 1], np.float32), (8, 4, 3, 3))
    b.node("Conv", ["x", b.constant("w", sign / 6)], "c", kernel_shape=[3, 3])
    b.node("Relu", ["c"], "r")
    b.node("GlobalAveragePool", ["r"], "g")
    b.node("Flatten", ["g"], "f")
    b.node("Gemm", ["f", b.weight("v", 8, 5), b.weight("b", 5)], "y")
    return b.model([("x", "float32", ("N", 4, 6, 6))], [("y", "float32", ("N", 5))])


@pytest.mark.parametrize("transform", ["static_qdq", "dynamic_matmul"])
def test_profile_without_vnni_gets_weights_of_seven_bits(transform: str, tmp_path: Path) -> None:
    """What x86-avx2 is offered never saturates; what x86-vnni is offered would on that one."""
    model = loud_net()
    evidence = evidence_of(model, ArtifactStore(tmp_path))
    graph = opened(model)
    feeds = [{"x": np.abs(feed["x"]) * 3} for feed in graphs.random_feeds(model, 4)]
    counts: dict[str, int] = {}
    for name in ("x86-avx2", "x86-vnni"):
        listed = transform_of(transform)[1].sites(graph, Offer(profile=load_profile(name)))
        firsts = tuple({action.site: action for action in reversed(listed)}.values())
        built = at_every_site(transform, graph, evidence, firsts)
        counts[name] = sum(one.saturating for one in saturated(built, feeds))
    assert counts["x86-avx2"] == 0
    assert counts["x86-vnni"] > 0 or transform == "dynamic_matmul"


def test_profile_may_ask_for_unsigned_weights(tmp_path: Path) -> None:
    """uint8 by uint8 is the other cure: eight bits, and no kernel that saturates."""
    model = loud_net()
    types = QuantizationTypes(activation="uint8", weight="uint8")
    mine = DeviceProfile(name="mine", title="mine", architecture="x86_64", quantization=types)
    graph = opened(model)
    actions = transform_of("static_qdq")[1].sites(graph, Offer(profile=mine))
    evidence = evidence_of(model, ArtifactStore(tmp_path))
    built = at_every_site("static_qdq", graph, evidence, actions)
    feeds = graphs.random_feeds(model, 2)
    assert not saturated(built, feeds)
    counted = [v for v in built.graph.initializers.values() if v.dtype is ir.DataType.UINT8]
    assert any(value.const_value is not None and value.const_value.size > 8 for value in counted)


def test_runtime_tool_reduces_its_range_too(tmp_path: Path) -> None:
    """The runtime's own tool, as a competent user runs it there, keeps to seven bits."""
    model = loud_net()
    graph = opened(model)
    listed = transform_of("ort_static")[1].sites(graph, Offer(profile=load_profile("x86-avx2")))
    chosen = next(action for action in listed if action.get("activation") == "uint8")
    plain = transform_of("ort_static")[1].sites(graph, offer())
    assert not any("reduce_range" in dict(action.parameters) for action in plain)
    assert isinstance(chosen, Action)
    evidence = evidence_of(model, ArtifactStore(tmp_path))
    built = at_every_site("ort_static", graph, evidence, (chosen,))
    assert not saturated(built, graphs.random_feeds(model, 2))
