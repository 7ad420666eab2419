"""Seeded random weights for an architecture whose own are one constant: no trained network at all.

The onnx package ships nine image networks with every large weight a ConstantOfShape. Here each
becomes an initializer of a sane size: He's rule (He et al., ICCV 2015), but relative to the power
that the layer's input has by a rough account of means and variances through the graph, so that
activations neither vanish nor explode; normalization statistics near what that account expects.
The last weighted layer is scaled so that logits spread by one to two over the classes: a Softmax
behind it has likely and unlikely classes, and is far from saturated.

The bytes are the same on every machine: draws are sums of three uniform numbers (bell-shaped,
within three deviations), so that no mathematical library is involved, and nothing is measured by
running the network.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

VERSION = 1
CARRIERS = ("Unsqueeze", "Reshape")
WEIGHTED = ("Conv", "Gemm")
JITTER, LOGITS = 0.1, 1.3
RECTIFIED = 0.45  # how far channel means of a rectified layer spread, for a layer that spreads by 1


@dataclass(frozen=True)
class Spread:
    """What is expected of a value's elements: mean and variance, over so many channels."""

    channels: int
    mean: float
    variance: float

    @property
    def power(self) -> float:
        """Mean square."""
        return self.mean**2 + self.variance


def build(architecture: Path, seed: int) -> bytes:
    """The ONNX file: weights as initializers that are no inputs, no ConstantOfShape left.

    Raises:
        ValueError: An operator or a parameter that none of the nine networks has.
    """
    model = onnx.load(architecture)
    model.ir_version = max(model.ir_version, 4)
    filling = Filling(model.graph, np.random.default_rng(seed))
    filling.run()
    filling.write()
    return model.SerializeToString(deterministic=True)


class Filling:
    """One walk through a graph in its order, drawing each parameter where it is used."""

    def __init__(self, graph: onnx.GraphProto, random: np.random.Generator) -> None:
        self.graph, self.random = graph, random
        given = {tensor.name: tensor for tensor in graph.initializer}
        filled = {
            node.output[0]: onnx.numpy_helper.to_array(given[node.input[0]]).tolist()
            for node in graph.node
            if node.op_type == "ConstantOfShape"
        }
        floats = {n: list(t.dims) for n, t in given.items() if t.data_type == t.FLOAT}
        self.shapes: dict[str, list[int]] = floats | filled
        self.carried = {name: name for name in self.shapes}
        self.nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
        self.last, self.last_size = _last(self.nodes)
        feeds = (value for value in graph.input if value.name not in given)
        self.spreads = {v.name: Spread(_channels(v), 0.0, 1.0) for v in feeds}
        self.made: dict[str, onnx.TensorProto] = {}

    def run(self) -> None:
        """Visit every node."""
        for node in self.nodes:
            first = node.input[0]
            if node.op_type in CARRIERS and first in self.carried:
                self.carried[node.output[0]] = self.carried[first]
            else:
                inputs = [self.spreads[name] for name in node.input if name in self.spreads]
                self.spreads[node.output[0]] = self._after(node, inputs)

    def write(self) -> None:
        """Replace the graph's nodes, initializers and inputs."""
        used = {name for node in self.nodes for name in node.input}
        kept = [t for t in self.graph.initializer if t.name in used and t.name not in self.made]
        names = {tensor.name for tensor in kept} | set(self.made)
        inputs = [v for v in self.graph.input if v.name in used and v.name not in names]
        _replace(self.graph.input, inputs)
        _replace(self.graph.initializer, kept)
        _replace(self.graph.node, self.nodes)
        for tensor in self.made.values():
            self.graph.initializer.append(tensor)

    def _after(self, node: onnx.NodeProto, inputs: Sequence[Spread]) -> Spread:
        parameters = [self.carried[name] for name in node.input if name in self.carried]
        if node.op_type in WEIGHTED:
            return self._weighted(node, parameters, inputs[0])
        if parameters:
            return self._normalized(node, parameters, inputs[0])
        return _passed(node, inputs)

    def _weighted(self, node: onnx.NodeProto, parameters: Sequence[str], at: Spread) -> Spread:
        """Weights of variance 1 / (fan-in x power of the input): an output of variance one."""
        shape = self.shapes[parameters[0]]
        channels = shape[0] if node.op_type == "Conv" else int(np.prod(self.shapes[parameters[1]]))
        fan_in = int(np.prod(shape)) // channels
        size = self.last_size if node.output[0] == self.last else 1.0
        self._draw(parameters[0], 0.0, size / np.sqrt(fan_in * at.power))
        for bias in parameters[1:]:
            self._draw(bias, 0.0, JITTER * size)
        return Spread(channels, 0.0, size**2)

    def _normalized(self, node: onnx.NodeProto, parameters: Sequence[str], at: Spread) -> Spread:
        deviation = float(np.sqrt(at.power))
        if node.op_type == "BatchNormalization":
            scale, shift, mean, variance = parameters
            self._draw(mean, at.mean, JITTER * deviation)
            self._draw(variance, at.variance, JITTER * at.variance)
            self._draw(scale, 1.0, JITTER)
            self._draw(shift, 0.0, JITTER)
            return Spread(at.channels, 0.0, 1.0)
        if node.op_type == "Mul":
            self._draw(parameters[0], 1.0, JITTER)
            return at
        if node.op_type == "Add":
            self._draw(parameters[0], 0.0, JITTER * deviation)
            return at
        raise ValueError(f"{node.op_type} has parameters of an unknown kind: {list(parameters)}")

    def _draw(self, name: str, centre: float, deviation: float) -> None:
        """A parameter's values: a sum of three uniform numbers, which has variance 1/4."""
        if name in self.made:
            return
        shape = self.shapes[name]
        count = int(np.prod(shape))
        total = self.random.random(count, dtype=np.float32)
        for _ in range(2):
            total += self.random.random(count, dtype=np.float32)
        total -= np.float32(1.5)
        total *= np.float32(round(2 * deviation, 6 - int(np.floor(np.log10(deviation)))))
        total += np.float32(centre)
        raw = total.astype("<f4", copy=False).tobytes()
        self.made[name] = onnx.TensorProto(
            name=name, dims=shape, data_type=onnx.TensorProto.FLOAT, raw_data=raw
        )


def _passed(node: onnx.NodeProto, inputs: Sequence[Spread]) -> Spread:
    """Spread behind an operator without parameters."""
    first = inputs[0]
    if node.op_type == "Relu":
        return _rectified(first)
    if node.op_type == "Sum":
        mean, variance = (sum(getattr(s, key) for s in inputs) for key in ("mean", "variance"))
        return Spread(first.channels, mean, variance)
    if node.op_type == "Concat":
        channels = sum(s.channels for s in inputs)
        mean, power = (
            sum(s.channels * getattr(s, key) for s in inputs) / channels
            for key in ("mean", "power")
        )
        return Spread(channels, mean, power - mean**2)
    if node.op_type == "MaxPool":
        rise = 0.25 * (_attribute(node, "kernel_shape", [3])[0] - 1)
        return replace(first, mean=first.mean + rise * float(np.sqrt(first.variance)))
    if node.op_type == "LRN":
        factor = _attribute(node, "bias", 1.0) ** -_attribute(node, "beta", 0.75)
        return replace(first, mean=first.mean * factor, variance=first.variance * factor**2)
    if node.op_type in ("AveragePool", "GlobalAveragePool"):
        return replace(first, variance=0.5 * first.variance)
    if node.op_type in ("Reshape", "Transpose", "Dropout", "Softmax"):
        return first
    raise ValueError(f"{node.op_type} is in none of the nine networks")


def _rectified(spread: Spread) -> Spread:
    """max(0, x) of a normal variable, with a rational normal distribution function."""
    deviation = float(np.sqrt(spread.variance))
    at = spread.mean / deviation
    # logistic approximation of the normal distribution, good to 0.01; only a size depends on it
    below = 1 / (1 + float(np.exp(-1.702 * at)))
    density = float(np.exp(-(at**2) / 2)) * 0.3989423
    mean = spread.mean * below + deviation * density
    power = spread.power * below + spread.mean * deviation * density
    return Spread(spread.channels, mean, power - mean**2)


def _last(nodes: Sequence[onnx.NodeProto]) -> tuple[str, float]:
    """Output of the last layer with weights, and by how much it has to spread."""
    index = max(i for i, node in enumerate(nodes) if node.op_type in WEIGHTED)
    rectified = any(node.op_type == "Relu" for node in nodes[index:])
    return nodes[index].output[0], LOGITS / RECTIFIED if rectified else LOGITS


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    found = (onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name)
    return next(found, default)


def _channels(value: onnx.ValueInfoProto) -> int:
    return int(value.type.tensor_type.shape.dim[1].dim_value)


def _replace(field, values: Sequence) -> None:
    copies = [type(value).FromString(value.SerializeToString()) for value in values]
    del field[:]
    field.extend(copies)
