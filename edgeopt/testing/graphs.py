"""Tiny seeded models for tests: every builder returns the same `onnx.ModelProto` every time.

They are small enough to run in a millisecond, and each has the structure that one rule or one
failure needs. `as_graph` opens one for work, `write` puts it into a folder, `random_feeds` makes
inputs that it takes. Opset 17, batch axis named `N`, weights from a seeded generator.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from edgeopt.core.data import Feed

OPSET = 17
Dimensions = Sequence[int | str | None]
_DTYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "int32": 6,
    "int64": 7,
    "string": 8,
    "bool": 9,
    "float16": 10,
}


class Builder:
    """Collects nodes and seeded weights, in the order in which they are asked for.

    Args:
        seed: Of the weights.
    """

    def __init__(self, seed: int = 0) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._generator = np.random.default_rng(seed)

    def constant(self, name: str, array: npt.NDArray[Any]) -> str:
        """An initializer with the given values; returns its name."""
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, name: str, *shape: int, scale: float | None = None) -> str:
        """A normal float32 initializer, scaled so that activations keep their size."""
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 4
        size = scale if scale is not None else 1 / np.sqrt(fan_in)
        return self.constant(name, self._generator.normal(0, size, shape).astype(np.float32))

    def node(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """A node with one output, named after it; returns the output's name."""
        domain = attributes.pop("domain", "")
        self.nodes.append(
            helper.make_node(
                operator, inputs, [output], name=f"{output}/node", domain=domain, **attributes
            )
        )
        return output

    def conv(
        self,
        source: str,
        output: str,
        channels: tuple[int, int],
        *,
        kernel: int = 3,
        group: int = 1,
        stride: int = 1,
        bias: bool = True,
        pad: bool = True,
    ) -> str:
        """A convolution [N, channels[0], H, W] -> [N, channels[1], ...] with its own weights."""
        given, made = channels
        names = [source, self.weight(f"{output}.w", made, given // group, kernel, kernel)]
        if bias:
            names.append(self.weight(f"{output}.b", made, scale=0.1))
        margin = kernel // 2 if pad else 0
        attributes = {
            "kernel_shape": [kernel] * 2,
            "pads": [margin] * 4,
            "strides": [stride] * 2,
            "group": group,
        }
        return self.node("Conv", names, output, **attributes)

    def batchnorm(self, source: str, output: str, channels: int) -> str:
        """A batch normalization in inference mode, with variances away from zero."""
        draw = self._generator.uniform
        names = [
            self.constant(f"{output}.{role}", draw(low, high, channels).astype(np.float32))
            for role, low, high in (
                ("scale", 0.5, 1.5),
                ("bias", -0.5, 0.5),
                ("mean", -0.5, 0.5),
                ("var", 0.5, 2.0),
            )
        ]
        return self.node("BatchNormalization", [source, *names], output, epsilon=1e-5)

    def model(
        self,
        inputs: Sequence[tuple[str, str, Dimensions]],
        outputs: Sequence[tuple[str, str, Dimensions]],
        *,
        opset: int = OPSET,
        domains: Sequence[tuple[str, int]] = (),
    ) -> onnx.ModelProto:
        """The model of everything collected; inputs and outputs as (name, dtype, shape)."""
        graph = helper.make_graph(
            self.nodes, "tiny", _infos(inputs), _infos(outputs), self.initializers
        )
        opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(*d) for d in domains)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        model.producer_name = "edgeopt.testing"
        return model


def _infos(specs: Sequence[tuple[str, str, Dimensions]]) -> list[onnx.ValueInfoProto]:
    return [
        helper.make_tensor_value_info(name, _DTYPES[dtype], shape) for name, dtype, shape in specs
    ]


def conv_chain(
    widths: Sequence[int] = (3, 8, 12, 4), *, size: int = 8, seed: int = 0
) -> onnx.ModelProto:
    """Conv-Relu blocks, global pooling, logits: the smallest net that can be pruned.

    Values: `conv1`, `relu1`, ..., `pool`, `flat`, `logits`; input `x` [N, widths[0], size, size].
    """
    b = Builder(seed)
    value = "x"
    for index, channels in enumerate(itertools.pairwise(widths), start=1):
        value = b.conv(value, f"conv{index}", channels)
        value = b.node("Relu", [value], f"relu{index}")
    b.node("GlobalAveragePool", [value], "pool")
    b.node("Flatten", ["pool"], "flat", axis=1)
    b.node(
        "Gemm", ["flat", b.weight("fc.w", 5, widths[-1]), b.weight("fc.b", 5)], "logits", transB=1
    )
    shape: Dimensions = ("N", widths[0], size, size)
    return b.model([("x", "float32", shape)], [("logits", "float32", ("N", 5))])


def conv_bn(*, bias: bool = True, seed: int = 0) -> onnx.ModelProto:
    """Conv-BatchNormalization-Relu twice: values `conv1`, `bn1`, `relu1`, `conv2`, `bn2`, `y`."""
    b = Builder(seed)
    b.batchnorm(b.conv("x", "conv1", (3, 8), bias=bias), "bn1", 8)
    b.node("Relu", ["bn1"], "relu1")
    b.batchnorm(b.conv("relu1", "conv2", (8, 4), kernel=1, bias=bias), "bn2", 4)
    b.node("Relu", ["bn2"], "y")
    return b.model([("x", "float32", ("N", 3, 8, 8))], [("y", "float32", ("N", 4, 8, 8))])


def mobilenet_block(*, width: int = 8, expansion: int = 2, seed: int = 0) -> onnx.ModelProto:
    """Expand 1x1, depthwise 3x3, project 1x1, each but the last with Clip 0..6, and a residual.

    Values: `stem`, `expand`, `expand6`, `depthwise`, `depthwise6`, `project`, `y`.
    """
    b = Builder(seed)
    inner = width * expansion
    low, high = (b.constant(n, np.full((), v, np.float32)) for n, v in (("zero", 0), ("six", 6)))
    b.conv("x", "stem", (3, width))
    b.conv("stem", "expand", (width, inner), kernel=1)
    b.node("Clip", ["expand", low, high], "expand6")
    b.conv("expand6", "depthwise", (inner, inner), group=inner)
    b.node("Clip", ["depthwise", low, high], "depthwise6")
    b.conv("depthwise6", "project", (inner, width), kernel=1)
    b.node("Add", ["stem", "project"], "y")
    return b.model([("x", "float32", ("N", 3, 8, 8))], [("y", "float32", ("N", width, 8, 8))])


def residual(*, width: int = 8, seed: int = 0) -> onnx.ModelProto:
    """A stem and a two-convolution block with a skip: `stem`, `conv1`, `relu1`, `conv2`, `sum`."""
    b = Builder(seed)
    b.conv("x", "stem", (3, width))
    b.conv("stem", "conv1", (width, width))
    b.node("Relu", ["conv1"], "relu1")
    b.conv("relu1", "conv2", (width, width))
    b.node("Add", ["conv2", "stem"], "sum")
    b.node("Relu", ["sum"], "y")
    return b.model([("x", "float32", ("N", 3, 8, 8))], [("y", "float32", ("N", width, 8, 8))])


def gemm_chain(widths: Sequence[int] = (6, 16, 12, 4), *, seed: int = 0) -> onnx.ModelProto:
    """Gemm-Relu blocks (weights [out, in], transB) ending in `logits`: `fc1`, `relu1`, ..."""
    b = Builder(seed)
    value = "x"
    for index, (given, made) in enumerate(itertools.pairwise(widths), start=1):
        last = index == len(widths) - 1
        output = "logits" if last else f"fc{index}"
        names = [value, b.weight(f"{output}.w", made, given), b.weight(f"{output}.b", made)]
        value = b.node("Gemm", names, output, transB=1)
        value = value if last else b.node("Relu", [value], f"relu{index}")
    io = [("x", "float32", ("N", widths[0]))], [("logits", "float32", ("N", widths[-1]))]
    return b.model(*io)


def if_model(*, seed: int = 0) -> onnx.ModelProto:
    """An If on the sign of the sum of `x` [N, 4]: MatMul, or MatMul and Neg.

    The branches capture the outer value `x` and hold their own weights; output `y` [N, 4].
    """
    b = Builder(seed)
    b.constant("zero", np.zeros((), np.float32))
    b.node("ReduceSum", ["x"], "total", keepdims=0)
    b.node("Greater", ["total", "zero"], "positive")
    then, other = _branch("then", seed + 1), _branch("else", seed + 2, neg=True)
    b.node("If", ["positive"], "chosen", then_branch=then, else_branch=other)
    b.node("Relu", ["chosen"], "y")
    return b.model([("x", "float32", ("N", 4))], [("y", "float32", ("N", 4))])


def _branch(name: str, seed: int, *, neg: bool = False) -> onnx.GraphProto:
    inner = Builder(seed)
    value = inner.node("MatMul", ["x", inner.weight(f"{name}.w", 4, 4)], f"{name}.mm")
    if neg:
        value = inner.node("Neg", [value], f"{name}.neg")
    outputs = _infos([(value, "float32", ("N", 4))])
    return helper.make_graph(inner.nodes, name, [], outputs, inner.initializers)


def hardswish_spelled(*, seed: int = 0) -> onnx.ModelProto:
    """Conv, then x * clip(x + 3, 0, 6) / 6 in four nodes, as exporters below opset 14 spell it.

    Values: `conv1`, `add3`, `clip6`, `product`, `hswish` (= the input of `conv2`), `y`.
    """
    b = Builder(seed)
    for name, number in (("three", 3), ("zero", 0), ("six", 6)):
        b.constant(name, np.full((), number, np.float32))
    b.conv("x", "conv1", (3, 8))
    b.node("Add", ["conv1", "three"], "add3")
    b.node("Clip", ["add3", "zero", "six"], "clip6")
    b.node("Mul", ["conv1", "clip6"], "product")
    b.node("Div", ["product", "six"], "hswish")
    b.conv("hswish", "y", (8, 4), kernel=1)
    return b.model([("x", "float32", ("N", 3, 8, 8))], [("y", "float32", ("N", 4, 8, 8))])


def segmentation_argmax(*, classes: int = 3, seed: int = 0) -> onnx.ModelProto:
    """Conv-Relu-Conv `scores`, then ArgMax over channels: `mask` [N, H, W] int64."""
    b = Builder(seed)
    b.conv("x", "conv1", (3, 8))
    b.node("Relu", ["conv1"], "relu1")
    b.conv("relu1", "scores", (8, classes), kernel=1)
    b.node("ArgMax", ["scores"], "mask", axis=1, keepdims=0)
    return b.model([("x", "float32", ("N", 3, 8, 8))], [("mask", "int64", ("N", 8, 8))])


def lstm(*, hidden: int = 6, seed: int = 0) -> onnx.ModelProto:
    """An LSTM over `x` [time, N, 4] with its state as input and output (`h`, `c`, `hn`, `cn`)."""
    b = Builder(seed)
    names = [
        "x",
        b.weight("lstm.w", 1, 4 * hidden, 4),
        b.weight("lstm.r", 1, 4 * hidden, hidden),
        b.weight("lstm.b", 1, 8 * hidden),
        "",
        "h",
        "c",
    ]
    node = helper.make_node("LSTM", names, ["y", "hn", "cn"], name="lstm/node", hidden_size=hidden)
    b.nodes.append(node)
    state: Dimensions = (1, "N", hidden)
    inputs = [("x", "float32", ("T", "N", 4)), ("h", "float32", state), ("c", "float32", state)]
    outputs = [
        ("y", "float32", ("T", 1, "N", hidden)),
        ("hn", "float32", state),
        ("cn", "float32", state),
    ]
    return b.model(inputs, outputs)


def as_graph(model: onnx.ModelProto) -> ir.Model:
    """The model opened for work: a new `ir.Model` every time."""
    return ir.from_proto(model)


def write(model: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    """Write the model into a folder; returns the file."""
    path = folder / name
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path


def random_feeds(
    model: onnx.ModelProto, count: int = 1, *, seed: int = 0, free: int = 2
) -> list[Feed]:
    """Feeds that the model takes: floats are normal, integers small; free dimensions are `free`."""
    generator = np.random.default_rng(seed)
    held = {item.name for item in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in held]
    return [{info.name: _draw(info, generator, free) for info in infos} for _ in range(count)]


def _draw(info: onnx.ValueInfoProto, generator: np.random.Generator, free: int) -> Any:
    tensor = info.type.tensor_type
    shape = [d.dim_value if d.HasField("dim_value") else free for d in tensor.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype.kind == "f":
        return generator.normal(size=shape).astype(dtype)
    return generator.integers(0, 2, shape).astype(dtype)
