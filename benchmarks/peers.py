"""What a user could run instead: the runtime's quantization tools and two simplifiers.

Each takes the user's file as it is and writes another; what it raises is kept as its answer. They
get the same calibration samples that edgeopt has.
"""

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from edgeopt.core.data import Feed

Peer = Callable[[Path, Path, Sequence[Feed]], None]
"""Reads the first path and writes the second one; the feeds are for calibration."""


def _static(activation: str, weight: str, *, per_channel: bool) -> Peer:
    def run(source: Path, made: Path, feeds: Sequence[Feed]) -> None:
        ort: Any = importlib.import_module("onnxruntime.quantization")
        rest = iter(feeds)

        class Reader(ort.CalibrationDataReader):
            def get_next(self) -> dict[str, Any] | None:
                feed = next(rest, None)
                return None if feed is None else dict(feed)

        ort.quantize_static(
            str(source),
            str(made),
            Reader(),
            quant_format=ort.QuantFormat.QDQ,
            activation_type=getattr(ort.QuantType, activation),
            weight_type=getattr(ort.QuantType, weight),
            per_channel=per_channel,
        )

    return run


def _dynamic(source: Path, made: Path, _: Sequence[Feed]) -> None:
    ort: Any = importlib.import_module("onnxruntime.quantization")
    ort.quantize_dynamic(str(source), str(made))


def _onnxsim(source: Path, made: Path, _: Sequence[Feed]) -> None:
    simplified, _valid = importlib.import_module("onnxsim").simplify(onnx.load(source))
    onnx.save(simplified, made)


def _onnxslim(source: Path, made: Path, _: Sequence[Feed]) -> None:
    onnx.save(importlib.import_module("onnxslim").slim(onnx.load(source)), made)


def _onnxoptimizer(source: Path, made: Path, _: Sequence[Feed]) -> None:
    onnx.save(importlib.import_module("onnxoptimizer").optimize(onnx.load(source)), made)


SIMPLIFIERS: dict[str, Peer] = {
    "onnxsim": _onnxsim,
    "onnxslim": _onnxslim,
    "onnxoptimizer": _onnxoptimizer,
}
"""Tools that mean to change no output."""

PEERS: dict[str, Peer] = {
    "static": _static("QInt8", "QInt8", per_channel=False),
    "u8s8": _static("QUInt8", "QInt8", per_channel=True),
    "dynamic": _dynamic,
    "onnxsim": _onnxsim,
    "onnxslim": _onnxslim,
}
"""The tool's defaults, what a competent user picks on x86, dynamic, and two simplifiers."""


def built(
    source: Path, folder: Path, feeds: Sequence[Feed], peers: Mapping[str, Peer] | None = None
) -> tuple[dict[str, Path], dict[str, str]]:
    """The files that the peers made, and of those that failed what they said, by name."""
    logging.disable(logging.WARNING)
    files: dict[str, Path] = {}
    failed: dict[str, str] = {}
    for name, peer in (PEERS if peers is None else peers).items():
        made = folder / f"{name}.onnx"
        try:
            peer(source, made, feeds)
        except Exception as error:  # whatever a foreign tool raises is its answer
            lines = str(error).strip().splitlines() or [""]
            failed[name] = f"{type(error).__name__}: {lines[0][:120]}"
        else:
            files[name] = made
    return files, failed
