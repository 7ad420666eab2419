"""`light_proto`: a graph of any size as a message that protobuf can hold; `file_bytes`: the size of
its file, without making it."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from edgeopt.graph.write import (
    EXTERNAL_ABOVE_BYTES,
    copy_of,
    leave_out_shapes,
    stored_proto,
    weight_bytes,
)

_LIGHT_BYTES = 1024
_COPIED_BYTES = 64_000_000
"""Up to here copying weights takes less than copying the graph does."""
_NO_FILE = "given-in-memory"


def light_proto(
    graph: ir.Model, limit_bytes: int = EXTERNAL_ABOVE_BYTES
) -> tuple[onnx.ModelProto, dict[str, npt.NDArray[Any]]]:
    """The graph as a message that can be serialised, and the constants that it only names.

    Args:
        graph: Unchanged.
        limit_bytes: Where all constants together are larger, none of the main graph that has a
            size worth it stays in the message: protobuf ends at 2 GiB.
    """
    if weight_bytes(graph) <= limit_bytes:
        return stored_proto(graph), {}
    copy, weights = copy_of(graph), dict[str, npt.NDArray[Any]]()
    for name, value in copy.graph.initializers.items():
        tensor = value.const_value
        if tensor is not None and tensor.nbytes >= _LIGHT_BYTES:
            weights[name] = np.ascontiguousarray(tensor.numpy())
            value.const_value = ir.ExternalTensor(
                _NO_FILE,
                0,
                tensor.nbytes,
                tensor.dtype,
                shape=ir.Shape(tensor.shape.numpy()),
                name=name,
            )
    return leave_out_shapes(ir.to_proto(copy)), weights


def file_bytes(graph: ir.Model) -> int:
    """Size of the self-contained file that a graph would make; large weights are not copied."""
    if weight_bytes(graph) <= _COPIED_BYTES:
        return stored_proto(graph).ByteSize()
    light, weights = light_proto(graph, 0)
    inner = light.graph.ByteSize()
    whole = light.ByteSize() - _field(inner)
    for tensor in light.graph.initializer:
        if tensor.name in weights:
            inner -= _field(tensor.ByteSize())
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            inner += _field(tensor.ByteSize() + _field(weights[tensor.name].nbytes))
    return whole + _field(inner)


def _field(length: int) -> int:
    """Bytes of a field that holds so many: a tag of one byte, the length in base 128, the rest."""
    return 1 + max((length.bit_length() + 6) // 7, 1) + length
