"""Accuracy on a device: what is computed there, what counts, and what is said of it."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, quantize_static

from edgeopt.api import zoo
from edgeopt.api.accuracy import Accuracy
from edgeopt.api.board_accuracy import BoardAccuracy
from edgeopt.api.board_outputs import BoardOutputs
from edgeopt.api.subject import Subject, open_subject
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import DataSet, Part
from edgeopt.data.accuracy_metric import load_metric
from edgeopt.data.evaluate import outputs_of
from edgeopt.data.reduction import reduction
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import RuntimeFailure, Session
from edgeopt.targets.local import LocalTarget
from tests.api.other_board import OtherBoard
from tests.conftest import DIGITS

SETTINGS = RuntimeSettings()
AGREED = "host outputs, agreed on 64 samples on the board"


@pytest.fixture(scope="module")
def target() -> Iterator[LocalTarget]:
    with LocalTarget() as made:
        yield made


@pytest.fixture(scope="module")
def digits() -> Subject:
    return _opened(DIGITS / "digits.onnx", str(DIGITS / "digits.npz"))


def _opened(model: str | Path, data: str | None = None) -> Subject:
    return open_subject(model, data=data, metric=None, seed=0, progress=lambda _: None)


@pytest.fixture(scope="module")
def host(digits: Subject) -> Accuracy:
    return Accuracy(digits, SETTINGS)


def _perturbed(folder: Path, by: float) -> Path:
    """The digits network with other weights in its last layer."""
    model = onnx.load(DIGITS / "digits.onnx")
    tensor = max(model.graph.initializer, key=lambda each: len(each.raw_data))
    weights = numpy_helper.to_array(tensor)
    noise = np.random.default_rng(0).normal(size=weights.shape) * by * np.abs(weights).max()
    tensor.CopyFrom(numpy_helper.from_array((weights + noise).astype(np.float32), tensor.name))
    path = folder / f"perturbed-{by}.onnx"
    onnx.save(model, path)
    return path


def test_a_device_that_agrees_lets_the_host_count(
    host: Accuracy, target: LocalTarget, tmp_path: Path
) -> None:
    """Values and evidence are the host's, and the note says on what ground."""
    board = BoardAccuracy(host, target, tmp_path, SETTINGS)
    part = host.data.search
    assert board.agreement(host.model, host.digest).ok
    assert np.array_equal(board.baseline(part).evidence, host.baseline(part).evidence)
    note = board.value(board.baseline(part), part).note
    assert note == f"{len(part)} samples, {AGREED}"
    assert board.decidable_drop(part) == host.decidable_drop(part)
    board.refuse_chance()
    said = board.agreement_with_host(host.digest)
    assert said.endswith("0 of 64 decisions differ (64 samples)")
    assert host.agreement_with_host(host.digest) == ""


def test_another_optimization_level_on_the_device_agrees(
    host: Accuracy, target: LocalTarget, tmp_path: Path
) -> None:
    """What lies within the runtime's own spread is no difference."""
    settings = replace(SETTINGS, optimization="off")
    found = BoardAccuracy(host, target, tmp_path, settings).agreement(host.model, "")
    assert found.ok, found.text


def test_a_device_that_computes_otherwise_is_believed(
    host: Accuracy, target: LocalTarget, tmp_path: Path
) -> None:
    """The candidate's evidence comes from the device's outputs, reduced there to decisions."""
    sent = tmp_path / "candidate.onnx"
    sent.write_bytes(host.model.read_bytes())
    other = _perturbed(tmp_path, 0.5)
    device = OtherBoard(target, {sent: other})
    board = BoardAccuracy(host, device, tmp_path / "batches", SETTINGS)
    part = host.data.search
    found = board.agreement(sent, "other")
    assert not found.ok
    assert "is the tolerance" in found.reason
    scored = board.evidence(sent, part, "other")
    truth = Accuracy(replace_model(host, other), SETTINGS).baseline(part)
    assert np.array_equal(scored.evidence, truth.evidence)
    assert scored.value < board.baseline(part).value
    assert board.value(scored, part).note.endswith("outputs of the device")
    assert {"argmax:1"} in [set(asked["reduce"].values()) for asked in device.asked]
    assert not list((tmp_path / "batches").iterdir())


def replace_model(host: Accuracy, file: Path) -> Subject:
    return Subject(
        name="other",
        model=read_model(file),
        data=host.data,
        metric_name=host.name,
        metric=host.metric,
    )


def test_drops_are_against_the_given_model_on_that_device(
    host: Accuracy, target: LocalTarget, tmp_path: Path
) -> None:
    """Where the device runs the given model worse, that is what a candidate is compared with."""
    other = _perturbed(tmp_path, 0.5)
    board = BoardAccuracy(host, OtherBoard(target, {host.model: other}), tmp_path, SETTINGS)
    part = host.data.search
    assert board.baseline(part).value < host.baseline(part).value
    assert board.baseline(part).origin == "outputs of the device"
    value = board.value(board.evidence(other, part, "same"), part)
    assert value.flips == (0, 0)
    assert value.interval is not None
    assert value.interval.low <= board.baseline(part).value <= value.interval.high


def test_small_differences_that_flip_nothing_are_still_reported(
    host: Accuracy, target: LocalTarget, tmp_path: Path
) -> None:
    """Beyond the tolerance with all decisions alike: not agreed, and the text says how far."""
    sent = tmp_path / "candidate.onnx"
    sent.write_bytes(host.model.read_bytes())
    board = BoardAccuracy(
        host, OtherBoard(target, {sent: _perturbed(tmp_path, 1e-4)}), tmp_path, SETTINGS
    )
    found = board.agreement(sent, "near")
    assert (found.ok, found.rows) == (False, 0)
    assert "0 of 64 decisions differ" in found.text
    assert "% of the range" in found.text


def test_the_same_file_is_compared_and_scored_once(
    host: Accuracy, target: LocalTarget, tmp_path: Path
) -> None:
    """Threads that ask at once wait for one another, and get the same object."""
    device = OtherBoard(target, {})
    board = BoardAccuracy(host, device, tmp_path, SETTINGS)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(board.baseline(host.data.test)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asked = len(device.asked)
    assert board.baseline(host.data.test) is found[0]
    assert len({id(each) for each in found}) == 1
    assert len(device.asked) == asked
    board.agreement(host.model, host.digest, replace(SETTINGS, threads=2))
    assert len(device.asked) == asked
    board.agreement(host.model, host.digest, replace(SETTINGS, optimization="basic"))
    assert len(device.asked) > asked


def test_a_model_that_the_device_refuses_is_a_failure_of_the_candidate(
    host: Accuracy, target: LocalTarget, tmp_path: Path
) -> None:
    """Said as the host's own failures are."""
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    board = BoardAccuracy(host, OtherBoard(target, {host.model: broken}), tmp_path, SETTINGS)
    with pytest.raises(RuntimeFailure, match="does not load"):
        board.baseline(host.data.search)


def _accumulator(folder: Path, scale: float, name: str) -> Path:
    """total = scale x + state, and of it the two scores of a decision."""
    make = helper.make_tensor_value_info
    infos = [make(each, TensorProto.FLOAT, [1]) for each in ("x", "state")]
    results = [make("y", TensorProto.FLOAT, [1, 2]), make("total", TensorProto.FLOAT, [1])]
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "state"], ["total"]),
        helper.make_node("Neg", ["total"], ["minus"]),
        helper.make_node("Concat", ["minus", "total"], ["flat"], axis=0),
        helper.make_node("Reshape", ["flat", "shape"], ["y"]),
    ]
    held = [
        numpy_helper.from_array(np.array([scale], np.float32), "scale"),
        numpy_helper.from_array(np.array([1, 2], np.int64), "shape"),
    ]
    graph = helper.make_graph(nodes, "g", infos, results, held)
    opset = [helper.make_opsetid("", 17)]
    path = folder / name
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def _recordings(groups: int, length: int) -> Part:
    """Random steps; the label is the side on which their running sum within a group is."""
    steps = np.random.default_rng(1).normal(size=(groups, length)).astype(np.float32)
    zero = np.zeros(1, np.float32)
    feeds = [{"x": step.reshape(1), "state": zero} for step in steps.ravel()]
    return Part(
        name="search",
        feeds=feeds,
        target=(np.cumsum(steps, axis=1) > 0).astype(np.int64).ravel(),
        group=np.repeat(np.arange(groups), length),
    )


@pytest.mark.parametrize("metric", ["top1", "auc", "agreement"])
def test_state_lives_on_the_device_within_groups(
    metric: str, target: LocalTarget, tmp_path: Path
) -> None:
    """Groups longer and shorter than a batch, of a device that computes otherwise."""
    part = _recordings(7, 23)
    data = DataSet(
        digest="sha256:0",
        calibration=replace(part, name="calibration"),
        search=part,
        test=replace(part, name="test"),
        state={"total": "state"},
    )
    given = _accumulator(tmp_path, 1.0, "given.onnx")
    sent, other = (_accumulator(tmp_path, s, f"{s}.onnx") for s in (1.25, -0.75))
    subject = Subject(
        name="sum",
        model=read_model(given),
        data=data,
        metric_name=metric,
        metric=load_metric(metric, {"output": "y"}),
    )
    accuracy = Accuracy(subject, SETTINGS)
    device = OtherBoard(target, {sent: other})
    board = BoardAccuracy(accuracy, device, tmp_path / "batches", SETTINGS)
    assert board.baseline(part).origin == AGREED
    scored = board.evidence(sent, part, "other")
    assert scored.origin == "outputs of the device"
    assert np.allclose(scored.evidence, accuracy.evidence(other, part, "truth").evidence)
    assert all(len(set(asked["groups"])) * 23 >= len(asked["groups"]) for asked in device.asked)


def test_only_what_a_metric_reads_comes_back(
    digits: Subject, target: LocalTarget, tmp_path: Path
) -> None:
    """Restored decisions are judged as whole outputs are, for every metric of classes."""
    assert digits.data is not None
    part = digits.data.search.take(40)
    run = Session(digits.model.path, SETTINGS).run
    whole = outputs_of(part, run)
    assert part.target is not None
    for name in ("top1", "f1"):
        metric = load_metric(name)
        said = reduction(metric, whole[0], np.asarray(part.target[0]))
        sent = BoardOutputs(target, tmp_path, SETTINGS).run(
            digits.model.path, part, reductions=said, bytes_each=2, state={}
        )
        for index, (one, other) in enumerate(zip(whole, sent, strict=True)):
            label = np.asarray(part.target[index])
            mine, theirs = (metric.evidence(each, label, None) for each in (one, other))
            assert np.array_equal(mine, theirs)


class _Reader(CalibrationDataReader):
    def __init__(self, part: Part) -> None:
        self._left = iter(part.feeds)

    def get_next(self) -> Any:
        return next(self._left, None)


@pytest.mark.parametrize("level", ["all", "off"])
def test_a_quantized_model_may_be_rounded_otherwise(
    host: Accuracy, target: LocalTarget, tmp_path: Path, level: str
) -> None:
    """Integer kernels on the host, and on the device those or the same graph in float."""
    file = tmp_path / "int8.onnx"
    # Of so many samples the ranges put some sums between two codes, where kernels round apart.
    reader = _Reader(host.data.calibration.take(128))
    quantize_static(
        host.model, file, reader, per_channel=True, extra_options={"WeightSymmetric": True}
    )
    board = BoardAccuracy(host, target, tmp_path, replace(SETTINGS, optimization=level))
    found = board.agreement(file, "int8")
    assert found.rows == 0
    assert found.ok, found.text
    largest = max(each.largest for each in found.differences.values())
    assert (largest > 0) == (level == "off")


@pytest.mark.zoo
def test_a_real_stateful_model_agrees(target: LocalTarget, tmp_path: Path) -> None:
    """silero-vad in sequence: its state is kept on the device."""
    files = zoo.get("silero-vad-sequence")
    subject = _opened("silero-vad-sequence")
    board = BoardAccuracy(Accuracy(subject, SETTINGS), target, tmp_path, SETTINGS)
    found = board.agreement(files.model, "")
    assert found.ok, found.text
