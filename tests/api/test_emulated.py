"""Warnings beside a measurement: what the device shows and this machine hides."""

from pathlib import Path

import numpy as np
import onnx

from edgeopt.api.emulated import float16_warnings, runs_in_half, warnings_of
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.graph.read import read_model
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.targets.profiles import load_profile
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.transforms.replay import Workshop

AVX2, VNNI = load_profile("x86-avx2"), load_profile("x86-vnni")
TENSORRT = load_profile("jetson-orin-nano").on("TensorrtExecutionProvider")
HALF = RuntimeSettings(provider="TensorrtExecutionProvider", options={"trt_fp16_enable": "True"})


def workshop_of(model: onnx.ModelProto, folder: Path) -> Workshop:
    """A workshop with positive inputs as calibration."""
    feeds = [{"x": np.abs(feed["x"])} for feed in graphs.random_feeds(model, 4)]
    return Workshop(
        read_model(graphs.write(model, folder)),
        evidence=evidence_of(model, ArtifactStore(folder), feeds),
        opset_ceiling=17,
        feed=feeds[0],
    )


def given_in_integers() -> onnx.ModelProto:
    """A model that came quantized, with weights of eight bits at the ends of their range."""
    b = Builder()
    b.node("DynamicQuantizeLinear", ["x"], "q")
    b.nodes[0].output.extend(["scale", "zero"])
    b.node("MatMulInteger", ["q", b.constant("w", np.full((8, 4), 127, np.int8)), "zero"], "sum")
    b.node("Cast", ["sum"], "real", to=1)
    b.node("Mul", ["real", "scale"], "y")
    return b.model([("x", "float32", ("N", 8))], [("y", "float32", ("N", 4))])


def test_saturation_is_told_of_devices_without_vnni(tmp_path: Path) -> None:
    """The given model is accused on x86-avx2, by layer and share, and not on x86-vnni."""
    workshop = workshop_of(given_in_integers(), tmp_path)
    built = workshop.build(workshop.recipe())
    (told,) = warnings_of(workshop, built, AVX2, RuntimeSettings())
    assert told.startswith("MatMulInteger 'sum' would saturate 16-bit sums in ")
    assert "x86-avx2" in told
    assert warnings_of(workshop, built, VNNI, RuntimeSettings()) == ()


def test_float16_is_told_where_an_option_asks_for_it(tmp_path: Path) -> None:
    """An engine built with trt_fp16_enable overflows where the float graph's values do."""
    b = Builder()
    b.node("Mul", ["x", b.constant("k", np.array(3e5, np.float32))], "loud")
    b.node("Sigmoid", ["loud"], "y")
    workshop = workshop_of(
        b.model([("x", "float32", (2, 8))], [("y", "float32", (2, 8))]), tmp_path
    )
    built = workshop.build(workshop.recipe())
    told = warnings_of(workshop, built, TENSORRT, HALF)
    assert any("Mul 'loud' reaches" in line and "jetson-orin-nano" in line for line in told)
    assert list(told) == float16_warnings(workshop, TENSORRT)
    plain = RuntimeSettings(provider="TensorrtExecutionProvider")
    assert not runs_in_half(plain)
    assert warnings_of(workshop, built, TENSORRT, plain) == ()
