"""`Operator`: one kernel as a runtime executes it, identified by everything its time depends on.

Two kernels are the same where operator, attributes, element types and shapes are. What they do is
counted from the shapes: multiply-adds, and bytes that they read and write at least once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_BYTES = {
    **dict.fromkeys(("double", "int64", "uint64"), 8),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("int8", "uint8", "bool"), 1),
}
_WEIGHT = {"Conv": 1, "FusedConv": 1, "NhwcFusedConv": 1, "ConvInteger": 1, "QLinearConv": 3}
_PRODUCTS = frozenset(
    {"MatMul", "FusedMatMul", "Gemm", "FusedGemm", "MatMulInteger", "MatMulIntegerToFloat"}
    | {"DynamicQuantizeMatMul", "QGemm", "QLinearMatMul", "MatMulNBits"}
)
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1, "DynamicQuantizeLSTM": 4}
HOLDERS = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""Operators whose time is that of the operators in their bodies, which have times of their own."""

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """Element type, as the runtime names it, and shape."""

    dtype: str
    shape: Shape

    @property
    def text(self) -> str:
        """Such as `float[1,3,224,224]`."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def bytes(self) -> int:
        """Size in memory; an element of an unknown type counts as four bytes."""
        return math.prod(self.shape) * _BYTES.get(self.dtype, 4)

    @staticmethod
    def parse(text: str) -> "Tensor":
        """The inverse of `text`.

        Raises:
            ValueError: It is none.
        """
        dtype, _, sizes = text.removesuffix("]").partition("[")
        return Tensor(dtype=dtype, shape=tuple(int(size) for size in sizes.split(",") if size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One executed kernel.

    Args:
        operator: Type, with its domain before a colon where that is not ONNX's own.
        attributes: Digest of the attributes; empty for none, `?` where they are not known.
        inputs: What it reads, weights included.
        outputs: What it makes.
    """

    operator: str
    attributes: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @property
    def key(self) -> str:
        """Everything in one line; equal for operators that take the same time."""
        sides = (";".join(tensor.text for tensor in side) for side in (self.inputs, self.outputs))
        return "|".join((self.operator, self.attributes, *sides))

    @staticmethod
    def parse(key: str) -> "Operator":
        """The inverse of `key`.

        Raises:
            ValueError: It is none.
        """
        operator, attributes, inputs, outputs = key.split("|")
        return Operator(
            operator=operator,
            attributes=attributes,
            inputs=tuple(Tensor.parse(text) for text in inputs.split(";") if text),
            outputs=tuple(Tensor.parse(text) for text in outputs.split(";") if text),
        )

    @property
    def moved_bytes(self) -> int:
        """Bytes that are read and written, each once."""
        return sum(tensor.bytes for tensor in (*self.inputs, *self.outputs))

    @property
    def macs(self) -> int:
        """Multiply-adds; 0 for what does none or is not known to."""
        name = self.operator.rpartition(":")[2]
        if not self.inputs or not self.outputs:
            return 0
        if name in _WEIGHT:
            weight = self._shape(_WEIGHT[name])
            return math.prod(self.outputs[0].shape) * math.prod(weight[1:]) if weight else 0
        if name == "ConvTranspose":
            return math.prod(self.inputs[0].shape) * math.prod(self._shape(1)[1:])
        if name in _PRODUCTS:
            return math.prod(self.outputs[0].shape) * self._inner()
        return self._recurrent(_GATES[name]) if name in _GATES else 0

    @property
    def kind(self) -> str:
        """Kernels that reach one rate: of one domain, kind of product and first element type."""
        name = self.operator.rpartition(":")[2]
        if name in _WEIGHT:
            weight = self._shape(_WEIGHT[name])
            work = "depthwise" if len(weight) > 1 and weight[1] == 1 else "conv"
        else:
            work = "product" if name in _PRODUCTS else name
        domain = self.operator.rpartition(":")[0]
        return f"{domain}:{work}:{self.inputs[0].dtype if self.inputs else ''}"

    def _shape(self, index: int) -> Shape:
        return self.inputs[index].shape if index < len(self.inputs) else ()

    def _inner(self) -> int:
        """The contracted axis: the last of the left side, or the one before where it is turned."""
        left, made = self._shape(0), self.outputs[0].shape
        if len(left) < 2 or len(made) < 2 or left[-2] == made[-2]:
            return left[-1] if left else 0
        return left[-2] if left[-1] == made[-2] else left[-1]

    def _recurrent(self, gates: int) -> int:
        given, recurrence = self._shape(0), self._shape(2)
        if len(given) != 3 or len(recurrence) != 3:
            return 0
        steps, batch, width = given
        hidden = min(recurrence[1:])
        return steps * batch * recurrence[0] * gates * hidden * (width + hidden)


def operators_of(nodes: Sequence[Mapping[str, Any]]) -> list[tuple[Operator, float]]:
    """Operators of a profile in the device agent's form, with their times in seconds.

    Those that hold bodies are left out: the bodies' operators are there themselves. Empty where
    the profile has no shapes (written by an older agent, or by a provider that hides its layers).
    """
    found: list[tuple[Operator, float]] = []
    for node in nodes:
        if "input_shapes" not in node or node["op"] in HOLDERS:
            continue
        domain, attributes = node.get("domain") or "", node.get("attributes")
        prefix = f"{domain}:" if domain not in {"", "ai.onnx"} else ""
        operator = Operator(
            operator=f"{prefix}{node['op']}",
            attributes="?" if attributes is None else str(attributes),
            inputs=_tensors(node["inputs"], node["input_shapes"]),
            outputs=_tensors(node["outputs"], node["output_shapes"]),
        )
        found.append((operator, float(node.get("time_s") or 0.0)))
    return found


def _tensors(types: Sequence[str], shapes: Sequence[Sequence[int]]) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(dtype=name.removeprefix("tensor(").rstrip(")"), shape=tuple(shape))
        for name, shape in zip(types, shapes, strict=True)
    )
