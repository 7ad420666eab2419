"""Nets that carry the patterns of the rule catalogue, as exporters really write them.

Each is a small member of a public architecture, node for node in the spelling of the exporter
that is named, with seeded weights and a fixed input size: what a rule can do about it is what it
could do about the original. They are for `substitution.py`; nothing in them is trained.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx

from edgeopt.testing.graphs import Builder

Sizes = tuple[int, int]


class Net(Builder):
    """A builder that names values by itself and knows the usual layers."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._made = 0

    def name(self, role: str) -> str:
        """The next name."""
        self._made += 1
        return f"{role}_{self._made}"

    def op(self, operator: str, *inputs: str, **attributes: object) -> str:
        """A node; returns its output."""
        return self.node(operator, inputs, self.name(operator.lower()), **attributes)

    def number(self, value: float) -> str:
        """A scalar in float32."""
        return self.constant(self.name("number"), np.array(value, np.float32))

    def ints(self, *values: int) -> str:
        """A list in int64."""
        return self.constant(self.name("ints"), np.array(values, np.int64))

    def conv2d(
        self,
        x: str,
        channels: Sizes,
        kernel: int = 1,
        *,
        stride: int = 1,
        group: int = 1,
        dilation: int = 1,
        bias: bool = True,
        pad: int | None = None,
    ) -> str:
        """A convolution that keeps the size but for its stride."""
        given, made = channels
        margin = dilation * (kernel // 2) if pad is None else pad
        inputs = [x, self.weight(self.name("w"), made, given // group, kernel, kernel)]
        inputs += [self.weight(self.name("b"), made, scale=0.1)] if bias else []
        return self.op(
            "Conv",
            *inputs,
            kernel_shape=[kernel] * 2,
            pads=[margin] * 4,
            strides=[stride] * 2,
            dilations=[dilation] * 2,
            group=group,
        )

    def norm(self, x: str, channels: int) -> str:
        """A batch normalization in inference mode."""
        return self.batchnorm(x, self.name("bn"), channels)

    def cbr(self, x: str, channels: Sizes, kernel: int = 1, **options: int) -> str:
        """Convolution, batch normalization, ReLU."""
        made = self.conv2d(x, channels, kernel, bias=False, **options)  # type: ignore[arg-type]
        return self.op("Relu", self.norm(made, channels[1]))

    def linear(self, x: str, sizes: Sizes, *, bias: bool = True) -> str:
        """MatMul and Add, as torch writes a Linear of three axes."""
        given, made = sizes
        weight = self.weight(self.name("w"), given, made, scale=1 / math.sqrt(given))
        product = self.op("MatMul", x, weight)
        if not bias:
            return product
        return self.op("Add", self.weight(self.name("b"), made, scale=0.1), product)

    def gemm(self, x: str, sizes: Sizes) -> str:
        """A Linear of two axes."""
        given, made = sizes
        weight = self.weight(self.name("w"), made, given)
        return self.op("Gemm", x, weight, self.weight(self.name("b"), made), transB=1)

    def layer_norm(self, x: str, size: int) -> str:
        """As torch writes it below opset 17."""
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        square = self.op("Pow", centred, self.number(2))
        variance = self.op("ReduceMean", square, axes=[-1])
        root = self.op("Sqrt", self.op("Add", variance, self.number(1e-5)))
        scaled = self.op("Mul", self.op("Div", centred, root), self._gain(size))
        return self.op("Add", scaled, self.weight(self.name("beta"), size, scale=0.1))

    def layer_norm_tf(self, x: str, size: int) -> str:
        """As tf2onnx writes that of the first BERT: by way of a batch normalization."""
        mean = self.op("ReduceMean", x, axes=[-1], keepdims=1)
        apart = self.op("Sub", x, mean)
        variance = self.op("ReduceMean", self.op("Mul", apart, apart), axes=[-1], keepdims=1)
        root = self.op("Sqrt", self.op("Add", variance, self.number(1e-5)))
        scale = self.op("Mul", self.op("Reciprocal", root), self._gain(size))
        beta = self.weight(self.name("beta"), size, scale=0.1)
        shift = self.op("Sub", beta, self.op("Mul", mean, scale))
        return self.op("Add", self.op("Mul", x, scale), shift)

    def _gain(self, size: int) -> str:
        return self.constant(self.name("gamma"), np.linspace(0.8, 1.2, size, dtype=np.float32))

    def gelu(self, x: str) -> str:
        """With Erf, as torch writes it below opset 20."""
        curve = self.op("Erf", self.op("Div", x, self.number(math.sqrt(2))))
        return self.op(
            "Mul",
            self.op("Mul", x, self.op("Add", curve, self.number(1))),
            self.number(0.5),
        )

    def gelu_tanh(self, x: str) -> str:
        """With Tanh and Pow, as GPT-2 and the first BERT have it."""
        cube = self.op("Mul", self.op("Pow", x, self.number(3)), self.number(0.044715))
        inner = self.op("Mul", self.op("Add", x, cube), self.number(math.sqrt(2 / math.pi)))
        gate = self.op("Add", self.op("Tanh", inner), self.number(1))
        return self.op("Mul", self.op("Mul", x, self.number(0.5)), gate)

    def hardswish(self, x: str) -> str:
        """As torch below opset 14 and the YOLOv5 of 2020 write it."""
        gate = self.op("Clip", self.op("Add", x, self.number(3)), self.number(0), self.number(6))
        return self.op("Div", self.op("Mul", x, gate), self.number(6))

    def hardsigmoid(self, x: str) -> str:
        """Its gate alone."""
        gate = self.op("Clip", self.op("Add", x, self.number(3)), self.number(0), self.number(6))
        return self.op("Div", gate, self.number(6))

    def heads(self, x: str, length: int, size: int, count: int, order: Sequence[int]) -> str:
        """[N, S, D] to the heads' axes in an order."""
        split = self.op("Reshape", x, self.ints(-1, length, count, size // count))
        return self.op("Transpose", split, perm=list(order))

    def attention(self, x: str, length: int, size: int, count: int) -> str:
        """Self-attention as torch writes it."""
        q = self.heads(self.linear(x, (size, size)), length, size, count, (0, 2, 1, 3))
        k = self.heads(self.linear(x, (size, size)), length, size, count, (0, 2, 3, 1))
        v = self.heads(self.linear(x, (size, size)), length, size, count, (0, 2, 1, 3))
        scaled = self.op("Div", self.op("MatMul", q, k), self.number(math.sqrt(size / count)))
        mixed = self.op("MatMul", self.op("Softmax", scaled, axis=-1), v)
        joined = self.op("Transpose", mixed, perm=[0, 2, 1, 3])
        back = self.op("Reshape", joined, self.ints(-1, length, size))
        return self.linear(back, (size, size))

    def encoder(
        self,
        x: str,
        length: int,
        size: int,
        *,
        count: int = 4,
        norm: Callable[[str, int], str] | None = None,
        gelu: Callable[[str], str] | None = None,
        attention: Callable[[str, int, int, int], str] | None = None,
    ) -> str:
        """One block with the norm behind, as in BERT."""
        norm, gelu = norm or self.layer_norm, gelu or self.gelu
        attend = attention or self.attention
        x = norm(self.op("Add", attend(x, length, size, count), x), size)
        inner = gelu(self.linear(x, (size, 4 * size)))
        return norm(self.op("Add", self.linear(inner, (4 * size, size)), x), size)

    def resize(self, x: str, scale: float, mode: str = "nearest") -> str:
        """Enlarged planes, as torch's interpolate writes it."""
        scales = self.constant(self.name("scales"), np.array([1, 1, scale, scale], np.float32))
        attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        if mode == "linear":
            attributes = {"coordinate_transformation_mode": "half_pixel"}
        return self.op("Resize", x, "", scales, mode=mode, **attributes)

    def pool(self, x: str, kernel: int, stride: int, kind: str = "MaxPool", pad: int = 0) -> str:
        """A pooling of square windows."""
        shape = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.op(kind, x, **shape)

    def classifier(self, x: str, channels: int, classes: int = 10) -> str:
        """Global pooling and a Linear."""
        flat = self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)
        return self.gemm(flat, (channels, classes))

    def finish(self, result: str, shape: Sequence[int], rank: int, opset: int) -> onnx.ModelProto:
        """The model from `input` to `output`."""
        self.node("Identity", [result], "output")
        made: list[int | str | None] = [f"d{axis}" for axis in range(rank)]
        inputs = [("input", "float32", tuple(shape))]
        return self.model(inputs, [("output", "float32", made)], opset=opset)
