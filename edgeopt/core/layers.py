"""`LayerTable`: what a built model consists of, layer by layer, beside the given model.

Facts of the graph alone, the same on every device; what a runtime made of a layer is in `Lowered`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

SAME_DB = 200.0
"""Signal-to-noise ratio that stands for "not different": float64 rounding alone is louder."""

_FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(("Conv", "FusedConv", "NhwcFusedConv", "QLinearConv", "ConvInteger"), "Conv"),
    **dict.fromkeys(("ConvTranspose", "QLinearConvTranspose"), "ConvTranspose"),
    **dict.fromkeys(("MatMul", "Gemm", "FusedMatMul", "FusedGemm", "QGemm"), "MatMul"),
    **dict.fromkeys(("QLinearMatMul", "MatMulInteger", "MatMulInteger16"), "MatMul"),
    **dict.fromkeys(("MatMulIntegerToFloat", "DynamicQuantizeMatMul"), "MatMul"),
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4", "GemmFloat8"), "MatMul"),
    **dict.fromkeys(("LSTM", "DynamicQuantizeLSTM"), "LSTM"),
    "GRU": "GRU",
    "RNN": "RNN",
}


def family(operator: str) -> str:
    """What an operator is, whatever a runtime calls its kernels: `QLinearConv` is a `Conv`."""
    bare = operator.rpartition(":")[2]
    return _FAMILIES.get(bare, bare.removeprefix("QLinear").removeprefix("Fused"))


def weighted(operator: str) -> bool:
    """Whether it is a convolution, a matrix product or a recurrence."""
    return operator.rpartition(":")[2] in _FAMILIES


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltLayer:
    """One node of a built model; what only carries codes in and out (Q/DQ) is no layer.

    Args:
        value: Name of its first output: by it the layers of two models are aligned.
        name: The node's name.
        operator: Its type, with the domain where it isn't ONNX's.
        asked: Precision of the arithmetic that the graph asks for, a `Precision` of `Lowered`.
        shape: Of the first output for one input; None where it is not known.
        width: Output channels or features of a weighted layer; None for others.
        weight_bytes: Of the constants that it reads, as they are stored.
        macs: Multiply-adds of one run; None where a shape is not known.
        source: Position of the layer that makes its first computed input; None for inputs of
            the model.
        snr_db: Signal over noise of the value against the given model's value of the same name,
            in decibels, at most `SAME_DB`; None where it cannot be compared.
        actions: What changed it, as texts of actions; `normalize` is the preparation before all.
    """

    value: str
    name: str
    operator: str
    asked: str
    shape: tuple[int, ...] | None = None
    width: int | None = None
    weight_bytes: int = 0
    macs: int | None = None
    source: int | None = None
    snr_db: float | None = None
    actions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LayerTable:
    """The layers of one built model, in order of execution.

    Args:
        layers: As they stand in the file.
        absent: Column to the reason why it has no values (`snr_db`, `actions`, `macs`).
        snr_inputs: Inputs behind the signal-to-noise ratios; 0 without.
        removed: Value of the given model that is not made any more to the action that did it.
    """

    layers: tuple[BuiltLayer, ...]
    absent: Mapping[str, str] = field(default_factory=dict[str, str])
    snr_inputs: int = 0
    removed: Mapping[str, str] = field(default_factory=dict[str, str])
