"""`light_proto`: a graph of any size as a message that protobuf can hold."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from edgeopt.graph.write import EXTERNAL_ABOVE_BYTES, copy_of, to_proto, weight_bytes

_LIGHT_BYTES = 1024
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
        return to_proto(graph), {}
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
    return ir.to_proto(copy), weights
