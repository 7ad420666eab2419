"""A small ONNX writer for the networks that models/train_*.py export.

Written by hand instead of torch's exporter: the graph keeps what an optimizer has to find
(unfolded BatchNormalization, hard-swish spelled out), and no exporter's version changes it.
Needs onnx and numpy.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Writer:
    """Nodes and weights in the order of writing; every verb returns the value's name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._count: dict[str, int] = {}

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        """Any operator with one output."""
        self._count[op] = self._count.get(op, 0) + 1
        out = f"{op.lower()}_{self._count[op]}"
        self._nodes.append(helper.make_node(op, inputs, [out], name=out + "_node", **attributes))
        return out

    def weight(self, name: str, value: np.ndarray) -> str:
        """An initializer."""
        self._weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def conv(self, x: str, layer, name: str) -> str:
        """A torch Conv2d with its own strides, padding and groups."""
        pad_h, pad_w = layer.padding
        return self.node(
            "Conv",
            x,
            *self._parameters(layer, name),
            kernel_shape=list(layer.kernel_size),
            strides=list(layer.stride),
            pads=[pad_h, pad_w, pad_h, pad_w],
            group=layer.groups,
        )

    def batch_norm(self, x: str, layer, name: str) -> str:
        """A torch BatchNorm2d in inference, not folded into its neighbour."""
        parts = {
            "scale": layer.weight,
            "bias": layer.bias,
            "mean": layer.running_mean,
            "var": layer.running_var,
        }
        names = [self.weight(f"{name}.{key}", _array(value)) for key, value in parts.items()]
        return self.node("BatchNormalization", x, *names, epsilon=float(layer.eps))

    def hard_swish(self, x: str) -> str:
        """x * clip(x + 3, 0, 6) / 6 in four nodes, as exporters of older opsets write it."""
        zero, three, six = (
            name if any(w.name == name for w in self._weights) else self.weight(name, value)
            for name, value in (
                ("zero", np.float32(0)),
                ("three", np.float32(3)),
                ("six", np.float32(6)),
            )
        )
        gate = self.node("Clip", self.node("Add", x, three), zero, six)
        return self.node("Div", self.node("Mul", x, gate), six)

    def gemm(self, x: str, layer, name: str) -> str:
        """A torch Linear."""
        return self.node("Gemm", x, *self._parameters(layer, name), transB=1)

    def save(self, path: Path, inputs: dict[str, list], outputs: dict[str, tuple]) -> None:
        """Checked, with shapes inferred. Outputs: name to (value, element type, shape)."""
        for name, (value, _, _) in outputs.items():
            self._nodes[[n.output[0] for n in self._nodes].index(value)].output[0] = name
        graph = helper.make_graph(
            self._nodes,
            self.name,
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in inputs.items()
            ],
            [
                helper.make_tensor_value_info(name, element, shape)
                for name, (_, element, shape) in outputs.items()
            ],
            self._weights,
        )
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, producer_name="edgeopt-models")
        model.ir_version = 8
        onnx.checker.check_model(model, full_check=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)

    def _parameters(self, layer, name: str) -> list[str]:
        names = [self.weight(f"{name}.weight", _array(layer.weight))]
        if layer.bias is not None:
            names.append(self.weight(f"{name}.bias", _array(layer.bias)))
        return names


def _array(tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().astype(np.float32)
