"""Constant expressions of a replacement: their type now, their value when somebody asks for it.

Arithmetic is done in double precision and rounded once, to the type of the weights.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from edgeopt.transforms.rules.inference import Typed
from edgeopt.transforms.rules.sizes import Array
from edgeopt.transforms.rules.terms import Attribute
from edgeopt.transforms.rules.weights import name_expression

EAGER_ELEMENTS = 256
"""Up to so many elements a value is computed at once: it costs less than to put it off."""


@dataclass(frozen=True, slots=True, eq=False)
class Folded:
    """A constant expression.

    Args:
        typed: Its type.
        compute: Its value in double precision, where it is in floating point.
        text: How it is computed, in short; the same text means the same value.
    """

    typed: Typed
    compute: Callable[[], Array]
    text: Callable[[], str]

    @property
    def dtype(self) -> ir.DataType:
        """Element type."""
        return ir.DataType(self.typed[0])

    def array(self) -> Array:
        """The value, in its own type."""
        return np.asarray(self.compute(), self.dtype.numpy(), order="C")

    def tensor(self, name: str) -> ir.TensorProtocol:
        """The value as a tensor of a graph, computed when it is asked for."""
        sizes = self.typed[1]
        if sizes is None or not all(isinstance(size, int) for size in sizes):
            return ir.Tensor(self.array(), name=name)
        shape = ir.Shape(sizes)
        if np.prod([int(size or 0) for size in sizes]) <= EAGER_ELEMENTS:
            return ir.Tensor(self.array(), name=name)
        lazy = ir.LazyTensor(
            lambda: ir.Tensor(self.array(), name=name), self.dtype, shape, cache=True, name=name
        )
        name_expression(lazy, self.text())
        return lazy


def widened(array: Array) -> Array:
    """In double precision, where it is in floating point."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def once(compute: Callable[[], Array]) -> Callable[[], Array]:
    """The same value, computed at most once."""
    held: list[Array] = []

    def get() -> Array:
        if not held:
            held.append(compute())
        return held[0]

    return get


def evaluate(
    op_type: str, version: int, attributes: Mapping[str, Attribute], inputs: list[Array | None]
) -> Array:
    """One operator on arrays."""
    known = _DIRECT.get(op_type)
    given = [each for each in inputs if each is not None]
    if known is not None and not attributes and len(given) == len(inputs):
        return np.asarray(known(*given))
    return _reference(op_type, version, attributes, inputs)


def _reshape(array: Array, shape: Array) -> Array:
    sizes = [array.shape[i] if size == 0 else int(size) for i, size in enumerate(shape)]
    return array.reshape(sizes)


def _divide(one: Array, other: Array) -> Array:
    if one.dtype.kind == "f":
        return one / other
    return np.asarray(np.trunc(one / other), one.dtype)


def _unsqueeze(array: Array, axes: Array) -> Array:
    return np.expand_dims(array, tuple(int(axis) for axis in axes.reshape(-1)))


def _squeeze(array: Array, axes: Array) -> Array:
    return np.squeeze(array, tuple(int(axis) for axis in axes.reshape(-1)))


def _expand(array: Array, shape: Array) -> Array:
    wanted = np.broadcast_shapes(array.shape, tuple(int(size) for size in shape))
    return np.broadcast_to(array, wanted)


_DIRECT: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divide,
    "MatMul": np.matmul,
    "Neg": np.negative,
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Reciprocal": np.reciprocal,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Expand": _expand,
}


def _reference(
    op_type: str, version: int, attributes: Mapping[str, Attribute], inputs: list[Array | None]
) -> Array:
    """The onnx package's own evaluation, for what is not spelled above."""
    names = ["" if each is None else f"i{index}" for index, each in enumerate(inputs)]
    written: dict[str, Any] = dict(attributes)
    node = helper.make_node(op_type, names, ["y"], **written)
    infos: list[onnx.ValueInfoProto] = []
    feeds: dict[str, Array] = {}
    for name, each in zip(names, inputs, strict=True):
        if each is not None:
            number = numpy_helper.from_array(np.zeros(0, each.dtype)).data_type
            infos.append(helper.make_tensor_value_info(name, number, each.shape))
            feeds[name] = each
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    evaluator: Any = ReferenceEvaluator(model)
    return np.asarray(evaluator.run(None, feeds)[0])
