"""Nets some of whose channels have weights of zero, as pruning tools and training leave them."""

import random

import numpy as np
import onnx
from onnx import numpy_helper

_LAYERS = {"Conv": 0, "ConvTranspose": 1, "Gemm": 0, "MatMul": 1, "BatchNormalization": 0}
"""The axis of the channels that a layer's weight (or scale) makes."""


def withered(model: onnx.ModelProto, draw: random.Random) -> onnx.ModelProto:
    """A copy in which most layers make nothing of a few channels, the same ones everywhere.

    Biases stay now and then, so that such a channel is a number other than zero.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    held = {tensor.name: tensor for tensor in copy.graph.initializer}
    gone = draw.sample(range(8), draw.randint(1, 4))
    for node in copy.graph.node:
        axis = _LAYERS.get(node.op_type)
        if axis is None or node.input[1] not in held or draw.random() < 0.2:
            continue
        turned = any(a.name == "transB" and a.i for a in node.attribute)
        axis = 1 if node.op_type == "Gemm" and not turned else axis
        _clear(held[node.input[1]], axis, gone)
        if len(node.input) > 2 and node.input[2] in held and draw.random() < 0.6:
            _clear(held[node.input[2]], -1, gone)
    return copy


def _clear(tensor: onnx.TensorProto, axis: int, gone: list[int]) -> None:
    array = np.array(numpy_helper.to_array(tensor))
    if array.ndim and array.dtype.kind == "f":
        places = [index for index in gone if index < array.shape[axis]]
        np.moveaxis(array, axis, 0)[places] = 0
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
