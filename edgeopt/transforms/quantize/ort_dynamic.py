"""The runtime's own dynamic quantization tool, as a user runs it: ranges at run time.

A standard candidate: what is tried first on transformers and recurrent nets, and needs no data.
It also turns convolutions into ConvInteger, which is slower than float
(https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html).
"""

import importlib
from pathlib import Path
from typing import Any

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.cost import per_layer
from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.groups import is_weighted
from edgeopt.transforms.quantize._tool import run_tool

_TYPES = {"int8": "QInt8", "uint8": "QUInt8"}
_ONNX = frozenset({"ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"})
_INTEGER = _ONNX | {"DynamicQuantizeLSTM", "QAttention", "QEmbedLayerNormalization"}
_CONTRIB_FROM = frozenset({"LSTM", "Attention", "EmbedLayerNormalization"})


class OrtDynamic:
    """onnxruntime.quantization.quantize_dynamic."""

    version = 1
    needs_data = False
    whole_model = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """The tool's defaults, and the same with one scale a channel.

        Of a net that is mostly convolutions the defaults alone: ConvInteger takes seven times as
        long with either, and a study should not spend a minute on finding that out twice.
        """
        kinds = {node.op_type for node in model.graph}
        if offer.profile.quantization is None or "QuantizeLinear" in kinds:
            return ()
        if not (kinds & _CONTRIB_FROM or any(is_weighted(node) for node in model.graph)):
            return ()
        if not offer.contrib and kinds & _CONTRIB_FROM:
            return ()
        return tuple(
            Action.of("ort_dynamic", "*", weight="int8", per_channel=per_channel)
            for per_channel in ((False,) if _convolves(model) else (False, True))
        )

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Run the tool on a temporary file and take its result."""

        def tool(source: Path, made: Path) -> None:
            ort: Any = importlib.import_module("onnxruntime.quantization")
            ort.quantize_dynamic(
                str(source),
                str(made),
                weight_type=getattr(ort.QuantType, _TYPES[str(action.get("weight"))]),
                per_channel=bool(action.get("per_channel")),
            )

        return run_tool(editor, action, tool, _INTEGER)


def _convolves(model: ir.Model) -> bool:
    """Whether more than half of the multiplications are those of convolutions."""
    layers = per_layer(model)
    return 2 * sum(one.macs for one in layers if one.op == "Conv") > sum(one.macs for one in layers)


PLUGIN = OrtDynamic()
