"""Providers proven by running: the tiny model is a model, and what goes wrong is an answer."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import edgeopt
from edgeopt.targets.local import LocalTarget

AGENT = Path(edgeopt.__file__).parent / "device_agent"
FAKE = Path(__file__).parent / "fake_runtime"
CPU, TENSORRT = "CPUExecutionProvider", "TensorrtExecutionProvider"
PATIENCE_S = 120.0


@pytest.fixture
def prove(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The agent's module; its siblings have plain names, as in the bundle."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(AGENT))
    import prove  # pyright: ignore[reportMissingImports]

    yield prove
    for name in set(sys.modules) - before:
        if str(AGENT) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_the_tiny_model_is_a_model(prove: Any) -> None:
    """onnx accepts the bytes, and its reference and the runtime compute the same from them."""
    data = prove.tiny_model()
    model = onnx.load_from_string(data)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Conv", "Relu"]
    assert (model.ir_version, model.opset_import[0].version) == (6, 11)
    feed = {"x": np.random.default_rng(0).normal(size=(1, 4, 8, 8)).astype(np.float32)}
    expected: Any = ReferenceEvaluator(model).run(None, feed)
    session = onnxruntime.InferenceSession(data, providers=[CPU])
    found: Any = session.run(None, feed)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-5)
    assert found[0].shape == (1, 4, 8, 8)
    assert found[0].max() > 0.1


def test_the_cpu_is_proven(tmp_path: Path) -> None:
    """On the real runtime: every listed provider has an answer, and the CPU agrees with itself."""
    with LocalTarget(folder=tmp_path) as target:
        found = target.request("prove", deadline_s=PATIENCE_S)
        probe = target.request("probe", deadline_s=PATIENCE_S, prove=True)
        plain = target.request("probe", deadline_s=PATIENCE_S)
    assert found["providers"].keys() == set(probe["providers"])
    assert found["providers"][CPU]["ok"]
    assert probe["providers_proven"].keys() == set(probe["providers"])
    assert "providers_proven" not in plain
    assert plain["fingerprint"] == probe["fingerprint"]
    for name, each in found["providers"].items():
        assert each["ok"] or each["text"], name


@pytest.mark.parametrize(
    ("habit", "words"),
    [
        ("left out", "the runtime left it out"),
        ("left to the CPU", "it left nodes to CPUExecutionProvider"),
        ("wrong", "from those of the CPU"),
        ("no kernel image", "no kernel image"),
        ("crash", "SIGILL"),
    ],
)
def test_a_provider_that_does_not_run(tmp_path: Path, habit: str, words: str) -> None:
    """What a list hides is said, and it is no trouble for the other providers."""
    environment = {"PYTHONPATH": str(FAKE), "FAKE_HABIT": habit}
    with LocalTarget(folder=tmp_path, environment=environment) as target:
        found = target.request("prove", deadline_s=PATIENCE_S)["providers"]
    assert not found[TENSORRT]["ok"]
    assert words in found[TENSORRT]["text"]
    assert found[CPU]["ok"]
