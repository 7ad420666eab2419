"""The runtime's own static quantization tool, as a user runs it: the whole model in QDQ form.

A standard candidate, there to be beaten. Its defaults (int8 activations, one scale a tensor) are
slower than float wherever a value has two users on x86; the other variant is what a competent
user picks there (https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html).
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.core.data import Feed
from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.groups import is_weighted
from edgeopt.transforms.quantize._tool import run_tool

FEEDS = 64
_TYPES = {"int8": "QInt8", "uint8": "QUInt8"}
_INTEGER = frozenset({"QuantizeLinear"})


class OrtStatic:
    """onnxruntime.quantization.quantize_static with our calibration feeds."""

    version = 1
    needs_data = True
    whole_model = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """The tool's defaults, and uint8 activations with per-channel int8 weights, of seven
        bits where sums of two products are kept in 16."""
        held = any(node.op_type == "QuantizeLinear" for node in model.graph)
        nothing = not any(is_weighted(node) for node in model.graph)
        if offer.profile.quantization is None or not offer.data or held or nothing:
            return ()
        variants = (("int8", False), ("uint8", True))
        narrow = {"reduce_range": True} if offer.profile.quantization.reduce_range else {}
        return tuple(
            Action.of("ort_static", "*", activation=a, weight="int8", per_channel=per_channel, **n)
            for (a, per_channel), n in zip(variants, ({}, narrow), strict=True)
        )

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Run the tool on a temporary file and take its result."""
        feeds = evidence.feeds(FEEDS)
        if not feeds:
            return Rejection(reason="there is no calibration data")

        def tool(source: Path, made: Path) -> None:
            ort: Any = importlib.import_module("onnxruntime.quantization")
            ort.quantize_static(
                str(source),
                str(made),
                _reader(ort, iter(feeds)),
                quant_format=ort.QuantFormat.QDQ,
                activation_type=getattr(ort.QuantType, _TYPES[str(action.get("activation"))]),
                weight_type=getattr(ort.QuantType, _TYPES[str(action.get("weight"))]),
                per_channel=bool(action.get("per_channel")),
                reduce_range=bool(action.get("reduce_range", False)),
            )

        return run_tool(editor, action, tool, _INTEGER)


def _reader(ort: Any, feeds: Iterator[Feed]) -> Any:
    class Reader(ort.CalibrationDataReader):
        def get_next(self) -> dict[str, Any] | None:
            feed = next(feeds, None)
            return None if feed is None else dict(feed)

    return Reader()


PLUGIN = OrtStatic()
