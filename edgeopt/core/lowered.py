"""`Lowered`: what the runtime made of a model, layer by layer: asked against ran."""

from dataclasses import dataclass
from typing import Literal

Precision = Literal["float32", "float16", "int8", "int4", "other", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One node that the runtime executed.

    Args:
        name: The node's name in the runtime's graph.
        operator: Its type there (`QLinearConv`, `Conv`), with the domain where it isn't ONNX's.
        precision: Of the arithmetic it does.
        provider: Execution provider that ran it.
        time_s: Mean time of one run, None where it was not profiled.
    """

    name: str
    operator: str
    precision: Precision
    provider: str
    time_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """The layers of one built model, and whether what was asked for came true.

    Args:
        layers: In the order of execution.
        asked: Operators that the recipe wanted in integer arithmetic.
        ran: Operators of those kinds that did run in integer arithmetic; None where the
            provider hides it.
        islands: Dequantize, compute in float, quantize again: how many such places remain.
        note: Why something is unknown.
        stayed: A sentence an operator: it stayed float, because ...
        traps: Sentences: what runs otherwise than it was written, and costs time or accuracy.
        between: A sentence an island: which operators compute in float between integers.
    """

    layers: tuple[Layer, ...]
    asked: int = 0
    ran: int | None = None
    islands: int = 0
    note: str = ""
    stayed: tuple[str, ...] = ()
    traps: tuple[str, ...] = ()
    between: tuple[str, ...] = ()
