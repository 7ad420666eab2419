"""Accuracy on boards through a real sshd: agreement, streamed samples, another architecture."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, quantize_static

from edgeopt.api.accuracy import Accuracy
from edgeopt.api.board_accuracy import BoardAccuracy
from edgeopt.api.subject import open_subject
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Part
from tests.api.other_board import OtherBoard
from tests.conftest import DIGITS
from tests.lab.board import Board, Network, Reach

pytestmark = pytest.mark.lab
SETTINGS = RuntimeSettings()


@pytest.fixture(scope="module")
def host() -> Accuracy:
    subject = open_subject(
        DIGITS / "digits.onnx",
        data=str(DIGITS / "digits.npz"),
        metric=None,
        seed=0,
        progress=lambda _: None,
    )
    return Accuracy(subject, SETTINGS)


class Reader(CalibrationDataReader):
    def __init__(self, part: Part) -> None:
        self._left = iter(part.feeds)

    def get_next(self) -> Any:
        return next(self._left, None)


def quantized(host: Accuracy, folder: Path) -> Path:
    """The digits network in static int8."""
    file = folder / "int8.onnx"
    options = {"WeightSymmetric": True}
    reader = Reader(host.data.calibration)
    quantize_static(host.model, file, reader, per_channel=True, extra_options=options)
    return file


def test_samples_are_streamed_to_a_board(
    host: Accuracy, reach: Reach, board: Board, tmp_path: Path
) -> None:
    """To a board that computes otherwise: another file than the one it is sent runs there."""
    model = onnx.load(host.model)
    tensor = max(model.graph.initializer, key=lambda each: len(each.raw_data))
    weights = numpy_helper.to_array(tensor)
    noise = 0.5 * np.random.default_rng(0).normal(size=weights.shape) * np.abs(weights).max()
    tensor.CopyFrom(numpy_helper.from_array((weights + noise).astype(np.float32), tensor.name))
    sent, other = tmp_path / "sent.onnx", tmp_path / "other.onnx"
    sent.write_bytes(host.model.read_bytes())
    onnx.save(model, other)
    target = reach(board.entry)
    device = OtherBoard(target, {sent: other})
    shown = BoardAccuracy(host, device, tmp_path / "batches", SETTINGS)
    part = host.data.search
    assert shown.baseline(part).origin == "host outputs, agreed on 64 samples on the board"
    found = shown.evidence(sent, part, "sent")
    assert found.origin == "outputs of the device"
    assert np.array_equal(found.evidence, host.evidence(other, part, "other").evidence)
    target.close()
    assert board.quiet()


def test_another_architecture_is_compared(
    host: Accuracy, network: Network, arm64: Path, reach: Reach, tmp_path: Path
) -> None:
    """Float and int8 on arm64 against x86: what is found is reported, whichever way it goes."""
    board = network.board("lab-arm64", entry={"python": str(arm64)})
    target = reach(board.entry)
    shown = BoardAccuracy(host, target, tmp_path / "batches", SETTINGS)
    given = shown.agreement(host.model, host.digest)
    assert given.ok, given.text
    file = quantized(host, tmp_path)
    int8 = shown.agreement(file, "int8")
    part = replace(host.data.search, name="short").take(200)
    scored = shown.evidence(file, part, "int8")
    assert scored.origin == int8.origin
    assert int8.text == shown.agreement_with_host("int8")
    assert abs(scored.value - host.evidence(file, part, "int8").value) < 0.05
    target.close()
    assert board.quiet()
