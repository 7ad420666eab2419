"""Types of new values: the onnx package's inference on single nodes, each question asked once.

Named free sizes keep their names; a size that inference cannot name is None.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
import onnx
import onnx_ir as ir
from onnx import checker, defs, helper, numpy_helper, shape_inference

from edgeopt.graph.stand_ins import DOMAIN, standing_in
from edgeopt.transforms.rules.sizes import Array
from edgeopt.transforms.rules.terms import Attribute

Sizes = tuple[int | str | None, ...]
Typed = tuple[int, Sizes | None]
"""Element type as ONNX numbers it, and sizes; None where the rank is not known."""
SCALED = frozenset({"Resize"})
"""Operators whose shapes depend on numbers in floating point."""
_KNOWN_SIZE = 64
"""Constants of up to so many integers take part by value: shapes, axes, pads."""


def infer(
    op_type: str,
    domain: str,
    version: int,
    attributes: Mapping[str, Attribute],
    inputs: Sequence[Typed | None],
    constants: Mapping[int, Array],
    outputs: int = 1,
) -> tuple[Typed | None, ...]:
    """Types of a node's outputs; None where nothing is known.

    Args:
        op_type: Operator.
        domain: Of the operator set.
        version: Of the operator set.
        attributes: As they are written.
        inputs: None for one that is left out.
        constants: Values of those inputs that shapes can depend on, by position.
        outputs: How many are asked for.
    """
    small = tuple(
        (index, array.dtype.str, array.shape, array.tobytes())
        for index, array in sorted(constants.items())
        if array.size <= _KNOWN_SIZE and (array.dtype == np.int64 or op_type in SCALED)
    )
    written = tuple((name, _frozen(value)) for name, value in sorted(attributes.items()))
    return _inferred(op_type, domain, version, written, tuple(inputs), small, outputs)


def typed(value: ir.Value) -> Typed | None:
    """What is recorded about a value; None where its element type is not known."""
    if value.dtype is None:
        return None
    shape = value.shape
    sizes = None if shape is None else tuple(s if isinstance(s, int) else s.value for s in shape)
    return int(value.dtype), sizes


def record(value: ir.Value, found: Typed | None) -> None:
    """Write a type down on a new value."""
    if found is not None:
        number, sizes = found
        value.type = ir.TensorType(ir.DataType(number))
        value.shape = None if sizes is None else ir.Shape(sizes)


def _frozen(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


@lru_cache(maxsize=8192)
def _inferred(
    op_type: str,
    domain: str,
    version: int,
    attributes: tuple[tuple[str, Any], ...],
    inputs: tuple[Typed | None, ...],
    constants: tuple[tuple[int, str, tuple[int, ...], bytes], ...],
    outputs: int,
) -> tuple[Typed | None, ...]:
    nothing: tuple[Typed | None, ...] = (None,) * outputs
    names = ["" if each is None else f"i{index}" for index, each in enumerate(inputs)]
    made = [f"o{index}" for index in range(outputs)]
    node = helper.make_node(op_type, names, made, domain=domain, **dict(attributes))
    types = {f"i{i}": _proto(each) for i, each in enumerate(inputs) if each is not None}
    if domain == DOMAIN:
        return _of_stand_in(node, version, types)
    if not defs.has(op_type, version, domain):
        return nothing
    data = {
        f"i{i}": numpy_helper.from_array(np.frombuffer(raw, np.dtype(kind)).reshape(shape))
        for i, kind, shape, raw in constants
    }
    try:
        found = shape_inference.infer_node_outputs(
            defs.get_schema(op_type, version, domain),
            node,
            types,
            data,
            opset_imports=[helper.make_opsetid(domain, version)],
        )
    except (
        shape_inference.InferenceError,
        checker.ValidationError,
        RuntimeError,
        ValueError,
    ):
        return nothing
    return tuple(_typed(found[name]) if name in found else None for name in made)


def _of_stand_in(
    node: onnx.NodeProto, version: int, types: Mapping[str, onnx.TypeProto]
) -> tuple[Typed | None, ...]:
    """Of one of the runtime's own operators; the version is the default operator set's."""
    nodes = standing_in(node, version)
    given = [helper.make_value_info(name, kind) for name, kind in types.items()]
    ends = [helper.make_empty_tensor_value_info(name) for name in node.output]
    graph = helper.make_graph([] if nodes == [node] else nodes, "g", given, ends)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    try:
        found = shape_inference.infer_shapes(model, data_prop=True).graph.output
    except (shape_inference.InferenceError, RuntimeError):
        return (None,) * len(node.output)
    return tuple(_typed(info.type) for info in found)


def _proto(found: Typed) -> onnx.TypeProto:
    number, sizes = found
    return helper.make_tensor_type_proto(number, None if sizes is None else list(sizes))


def _typed(proto: onnx.TypeProto) -> Typed | None:
    tensor = proto.tensor_type
    if not tensor.elem_type:
        return None
    if not tensor.HasField("shape"):
        return tensor.elem_type, None
    sizes = tuple(
        d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim
    )
    return tensor.elem_type, sizes
