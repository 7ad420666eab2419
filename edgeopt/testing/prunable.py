"""Tiny nets with the structures that channels meet in edge models, one each; see `NETS`."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from edgeopt.testing.graphs import Builder, Dimensions

_IMAGE: Dimensions = (1, 3, 8, 8)
_HEADS, _SIZE, _TIME = 4, 3, 5


def _images(b: Builder, made: Dimensions, output: str = "y") -> onnx.ModelProto:
    return b.model([("x", "float32", _IMAGE)], [(output, "float32", made)])


def _ints(b: Builder, name: str, *numbers: int) -> str:
    return b.constant(name, np.array(numbers, np.int64))


def _several(b: Builder, operator: str, inputs: list[str], made: list[str], **more: Any) -> None:
    b.nodes.append(helper.make_node(operator, inputs, made, f"{made[0]}/node", **more))


def _gate(b: Builder, source: str, width: int, squeezed: int) -> str:
    """A squeeze-and-excite gate and what it scales."""
    b.node("GlobalAveragePool", [source], f"{source}.pool")
    b.conv(f"{source}.pool", f"{source}.squeeze", (width, squeezed), kernel=1)
    b.node("Relu", [f"{source}.squeeze"], f"{source}.relu")
    b.conv(f"{source}.relu", f"{source}.excite", (squeezed, width), kernel=1)
    b.node("HardSigmoid", [f"{source}.excite"], f"{source}.gate")
    return b.node("Mul", [source, f"{source}.gate"], f"{source}.scaled")


def plain() -> onnx.ModelProto:
    """Conv, normalization, pooling, PRelu, Pad, average over pixels, a Gemm."""
    b = Builder(1)
    b.batchnorm(b.conv("x", "a", (3, 8)), "a.bn", 8)
    b.node("PRelu", ["a.bn", b.weight("slope", 8, 1, 1)], "a.p")
    b.node("MaxPool", ["a.p"], "a.m", kernel_shape=[2, 2], strides=[2, 2])
    b.node("Pad", ["a.m", _ints(b, "pads", 0, 0, 1, 1, 0, 0, 1, 1)], "a.pad")
    b.conv("a.pad", "c", (8, 12), pad=False)
    b.node("InstanceNormalization", ["c", b.weight("in.s", 12), b.weight("in.b", 12)], "c.n")
    b.node("Relu", ["c.n"], "c.r")
    b.node("GlobalAveragePool", ["c.r"], "g")
    b.node("Flatten", ["g"], "f", axis=1)
    b.node("Gemm", ["f", b.weight("w", 12, 5)], "y")
    return _images(b, (1, 5))


def resnet() -> onnx.ModelProto:
    """Two blocks and a projection on the residual stream."""
    b = Builder(2)
    b.node("Relu", [b.conv("x", "stem", (3, 8))], "s")
    b.conv(b.node("Relu", [b.conv("s", "a1", (8, 6))], "a.r"), "a2", (6, 8))
    b.node("Relu", [b.node("Add", ["a2", "s"], "a")], "ar")
    b.conv(b.node("Relu", [b.conv("ar", "b1", (8, 10), stride=2)], "b.r"), "b2", (10, 12))
    b.conv("ar", "project", (8, 12), kernel=1, stride=2)
    b.node("Relu", [b.node("Add", ["b2", "project"], "b")], "br")
    b.conv("br", "y", (12, 4), kernel=1)
    return _images(b, (1, 4, 4, 4))


def mobilenet() -> onnx.ModelProto:
    """Expansion, depthwise, squeeze-and-excite, projection, residual."""
    b = Builder(3)
    b.node("HardSwish", [b.conv("x", "stem", (3, 8))], "s")
    b.node("HardSwish", [b.conv("s", "expand", (8, 16), kernel=1)], "e")
    b.node("HardSwish", [b.conv("e", "dw", (16, 16), group=16)], "d")
    b.conv(_gate(b, "d", 16, 4), "project", (16, 8), kernel=1)
    b.node("Add", ["s", "project"], "sum")
    b.conv("sum", "y", (8, 4), kernel=1)
    return _images(b, (1, 4, 8, 8))


def densenet() -> onnx.ModelProto:
    """Each layer reads all before it."""
    b = Builder(4)
    b.conv("x", "a", (3, 8))
    values, width = ["a"], 8
    for name in ("b", "c"):
        source = values[0] if len(values) == 1 else b.node("Concat", values, f"{name}.in", axis=1)
        b.node("Relu", [b.batchnorm(source, f"{name}.bn", width)], f"{name}.r")
        values.append(b.conv(f"{name}.r", name, (width, 6)))
        width += 6
    b.node("Concat", values, "all", axis=1)
    b.conv("all", "y", (width, 4), kernel=1)
    return _images(b, (1, 4, 8, 8))


def inception() -> onnx.ModelProto:
    """Branches side by side, one of them a pool."""
    b = Builder(5)
    b.node("Relu", [b.conv("x", "stem", (3, 8))], "s")
    b.conv("s", "one", (8, 6), kernel=1)
    b.conv(b.conv("s", "three.r", (8, 4), kernel=1), "three", (4, 6))
    b.node("MaxPool", ["s"], "p", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    b.conv("p", "pooled", (8, 4), kernel=1)
    b.node("Relu", [b.node("Concat", ["one", "three", "pooled", "s"], "all", axis=1)], "r")
    b.conv("r", "y", (24, 4), kernel=1)
    return _images(b, (1, 4, 8, 8))


def unet() -> onnx.ModelProto:
    """Down, up by Resize with stated sizes, and a skip."""
    b = Builder(6)
    b.node("Relu", [b.conv("x", "enc", (3, 8))], "e")
    b.node("MaxPool", ["e"], "p", kernel_shape=[2, 2], strides=[2, 2])
    b.node("Relu", [b.conv("p", "mid", (8, 12))], "m")
    sizes = _ints(b, "sizes", 1, 12, 8, 8)
    b.node("Resize", ["m", "", "", sizes], "up", mode="nearest")
    b.node("Concat", ["up", "e"], "cat", axis=1)
    b.node("Relu", [b.conv("cat", "dec", (20, 8))], "d")
    scales = b.constant("scales", np.array([1, 1, 2, 2], np.float32))
    b.node("Resize", ["d", "", scales], "up2", mode="nearest")
    b.node("ArgMax", [b.conv("up2", "scores", (8, 3), kernel=1)], "y", axis=1)
    return b.model([("x", "float32", _IMAGE)], [("y", "int64", (1, 1, 16, 16))])


def c2f() -> onnx.ModelProto:
    """YOLO: Split, a bottleneck with a residual on one half, everything joined."""
    b = Builder(7)
    b.node("HardSwish", [b.conv("x", "cv1", (3, 16), kernel=1)], "c")
    _several(b, "Split", ["c", _ints(b, "halves", 8, 8)], ["left", "right"], axis=1)
    b.node("Relu", [b.conv("right", "m1", (8, 6))], "m1.r")
    b.node("Add", ["right", b.conv("m1.r", "m2", (6, 8))], "res")
    b.node("Concat", ["left", "right", "res"], "cat", axis=1)
    b.node("Relu", [b.conv("cat", "cv2", (24, 8), kernel=1)], "r")
    b.conv("r", "y", (8, 4), kernel=1)
    return _images(b, (1, 4, 8, 8))


def _shuffle(b: Builder, source: str, width: int, groups: int) -> str:
    apart = _ints(b, f"{source}.apart", 1, groups, width // groups, 8, 8)
    back = _ints(b, f"{source}.back", 1, width, 8, 8)
    b.node("Reshape", [source, apart], f"{source}.5d")
    b.node("Transpose", [f"{source}.5d"], f"{source}.t", perm=[0, 2, 1, 3, 4])
    return b.node("Reshape", [f"{source}.t", back], f"{source}.shuffled")


def shufflenet() -> onnx.ModelProto:
    """Grouped layers with a shuffle between, as in the first version."""
    b = Builder(8)
    b.conv("x", "stem", (3, 16))
    b.node("Relu", [b.conv("stem", "g1", (16, 16), kernel=1, group=2)], "r1")
    b.conv(_shuffle(b, "r1", 16, 2), "dw", (16, 16), group=16)
    b.conv("dw", "g2", (16, 16), kernel=1, group=2)
    b.node("Add", ["stem", "g2"], "sum")
    b.conv("sum", "y", (16, 4), kernel=1)
    return _images(b, (1, 4, 8, 8))


def shufflenet_split() -> onnx.ModelProto:
    """Halves of the channels, one of them through layers, joined and shuffled: twice."""
    b = Builder(9)
    source = b.conv("x", "stem", (3, 16))
    for name in ("a", "b"):
        _several(b, "Split", [source], [f"{name}.l", f"{name}.r"], axis=1)
        b.node("Relu", [b.conv(f"{name}.r", f"{name}1", (8, 8), kernel=1)], f"{name}.relu")
        b.conv(f"{name}.relu", f"{name}2", (8, 8), group=8)
        b.conv(f"{name}2", f"{name}3", (8, 8), kernel=1)
        b.node("Concat", [f"{name}.l", f"{name}3"], f"{name}.cat", axis=1)
        source = _shuffle(b, f"{name}.cat", 16, 2)
    b.conv(source, "y", (16, 4), kernel=1)
    return _images(b, (1, 4, 8, 8))


def grouped() -> onnx.ModelProto:
    """A dense layer, a grouped one with several channels a group, a dense one."""
    b = Builder(10)
    b.node("Relu", [b.conv("x", "a", (3, 16))], "r")
    b.node("Relu", [b.conv("r", "g", (16, 24), group=4)], "gr")
    b.conv("gr", "y", (24, 4), kernel=1)
    return _images(b, (1, 4, 8, 8))


def conv_transpose() -> onnx.ModelProto:
    """Dense and depthwise transposed convolutions, and channels that become pixels."""
    b = Builder(11)
    b.conv("x", "a", (3, 8))
    up = {"kernel_shape": [2, 2], "strides": [2, 2]}
    b.node("ConvTranspose", ["a", b.weight("t.w", 8, 12, 2, 2), b.weight("t.b", 12)], "t", **up)
    b.node("Relu", ["t"], "r")
    b.node("ConvTranspose", ["r", b.weight("d.w", 12, 1, 2, 2)], "d", group=12, **up)
    b.conv("d", "e", (12, 16), kernel=1)
    b.node("DepthToSpace", ["e"], "p", blocksize=2)
    b.conv("p", "y", (4, 3), kernel=1)
    return _images(b, (1, 3, 64, 64))


def shared() -> onnx.ModelProto:
    """Two convolutions with one weight, on two scales, as in a detection head."""
    b = Builder(12)
    b.conv("x", "a", (3, 8))
    b.conv("x", "b", (3, 8), stride=2)
    weight, bias = b.weight("w", 8, 8, 3, 3), b.weight("bias", 8)
    for name in ("a", "b"):
        b.node("Conv", [name, weight, bias], f"{name}2", pads=[1] * 4, kernel_shape=[3, 3])
        b.node("Relu", [f"{name}2"], f"{name}.r")
        b.conv(f"{name}.r", f"{name}.y", (8, 4), kernel=1)
    b.node("GlobalAveragePool", ["a.y"], "a.g")
    b.node("GlobalAveragePool", ["b.y"], "b.g")
    b.node("Add", ["a.g", "b.g"], "y")
    return _images(b, (1, 4, 1, 1))


def flattened() -> onnx.ModelProto:
    """Every channel becomes many columns, through Flatten and through Reshape."""
    b = Builder(13)
    b.node("Relu", [b.conv("x", "a", (3, 8), stride=2)], "r")
    b.node("Flatten", ["r"], "f", axis=1)
    b.node("Gemm", ["f", b.weight("w", 12, 128), b.weight("b", 12)], "g", transB=1)
    b.node("Relu", ["g"], "gr")
    b.node("Gemm", ["gr", b.weight("w2", 12, 32)], "h")
    b.node("Reshape", ["h", _ints(b, "map", 1, 8, 2, 2)], "m")
    b.conv("m", "y", (8, 4), kernel=1)
    return _images(b, (1, 4, 2, 2))


def _linear(b: Builder, source: str, name: str, given: int, made: int) -> str:
    b.node("MatMul", [source, b.weight(f"{name}.w", given, made, scale=0.3)], f"{name}.m")
    return b.node("Add", [f"{name}.m", b.weight(f"{name}.b", made)], name)


def _norm(b: Builder, source: str, width: int) -> str:
    names = [source, b.weight(f"{source}.s", width), b.weight(f"{source}.o", width)]
    return b.node("LayerNormalization", names, f"{source}.ln", axis=-1)


def bert_block() -> onnx.ModelProto:
    """Written-out attention with a product each for query, key and value, and a GELU pair."""
    b = Builder(14)
    inner = _HEADS * _SIZE
    shape = _ints(b, "heads", 0, -1, _HEADS, _SIZE)
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        b.node("Reshape", [_linear(b, "x", name, 10, inner), shape], f"{name}.4d")
        b.node("Transpose", [f"{name}.4d"], f"{name}.t", perm=order)
    b.node("MatMul", ["q.t", "k.t"], "scores")
    b.node("Div", ["scores", b.constant("root", np.full((), 1.7, np.float32))], "scaled")
    b.node("Softmax", ["scaled"], "p", axis=-1)
    b.node("MatMul", ["p", "v.t"], "mixed")
    b.node("Transpose", ["mixed"], "back", perm=[0, 2, 1, 3])
    b.node("Reshape", ["back", _ints(b, "flat", 0, 0, inner)], "joined")
    _norm(b, b.node("Add", [_linear(b, "joined", "o", inner, 10), "x"], "res"), 10)
    b.node("Gelu", [_linear(b, "res.ln", "up", 10, 16)], "act")
    b.node("Add", [_linear(b, "act", "down", 16, 10), "res.ln"], "y")
    shapes: Dimensions = (1, _TIME, 10)
    return b.model([("x", "float32", shapes)], [("y", "float32", shapes)], opset=20)


def vit_block() -> onnx.ModelProto:
    """Patches, one product for query, key and value together, picked apart by Gather."""
    b = Builder(15)
    inner = _HEADS * _SIZE
    b.conv("x", "patches", (3, 10), kernel=4, stride=4, pad=False)
    b.node("Reshape", ["patches", _ints(b, "rows", 1, 10, 4)], "rows.t")
    b.node("Transpose", ["rows.t"], "tokens", perm=[0, 2, 1])
    _linear(b, _norm(b, "tokens", 10), "qkv", 10, 3 * inner)
    b.node("Reshape", ["qkv", _ints(b, "apart", 1, 4, 3, _HEADS, _SIZE)], "five")
    b.node("Transpose", ["five"], "three", perm=[2, 0, 3, 1, 4])
    for index, name in enumerate("qkv"):
        number = b.constant(f"{name}.i", np.array(index, np.int64))
        b.node("Gather", ["three", number], f"{name}.g", axis=0)
    b.node("Transpose", ["k.g"], "k.t", perm=[0, 1, 3, 2])
    b.node("Softmax", [b.node("MatMul", ["q.g", "k.t"], "scores")], "p", axis=-1)
    b.node("Transpose", [b.node("MatMul", ["p", "v.g"], "mixed")], "back", perm=[0, 2, 1, 3])
    b.node("Reshape", ["back", _ints(b, "flat", 1, 4, inner)], "joined")
    b.node("Add", [_linear(b, "joined", "o", inner, 10), "tokens"], "res")
    b.node("Relu", [_linear(b, _norm(b, "res", 10), "up", 10, 16)], "act")
    b.node("Add", [_linear(b, "act", "down", 16, 10), "res"], "y")
    return b.model([("x", "float32", _IMAGE)], [("y", "float32", (1, 4, 10))])


def contrib_attention() -> onnx.ModelProto:
    """The runtime's own attention in one node."""
    b = Builder(16)
    inner = _HEADS * _SIZE
    b.node("Relu", [_linear(b, "x", "in", 10, 8)], "r")
    names = ["r", b.weight("w", 8, 3 * inner), b.weight("b", 3 * inner)]
    b.node("Attention", names, "a", domain="com.microsoft", num_heads=_HEADS)
    _linear(b, "a", "y", inner, 6)
    io = [("x", "float32", (1, _TIME, 10))], [("y", "float32", (1, _TIME, 6))]
    return b.model(*io, domains=[("com.microsoft", 1)])


def _recurrent(operator: str, directions: int) -> onnx.ModelProto:
    b = Builder(17)
    gates, hidden = {"LSTM": 4, "GRU": 3}[operator], 6
    b.node("Relu", [b.conv("x", "c", (3, 8), stride=2)], "r")
    b.node("ReduceMean", ["r", _ints(b, "rows", 2)], "m", keepdims=0)
    b.node("Transpose", ["m"], "t", perm=[2, 0, 1])
    names = [
        "t",
        b.weight("w", directions, gates * hidden, 8, scale=0.3),
        b.weight("u", directions, gates * hidden, hidden, scale=0.3),
        b.weight("b", directions, 2 * gates * hidden, scale=0.1),
    ]
    way = {"direction": "bidirectional"} if directions == 2 else {}
    _several(b, operator, names, ["h"], hidden_size=hidden, **way)
    b.node("Transpose", ["h"], "h.t", perm=[0, 2, 1, 3])
    b.node("Reshape", ["h.t", _ints(b, "both", 0, 0, -1)], "joined")
    _linear(b, "joined", "y", directions * hidden, 5)
    return b.model([("x", "float32", _IMAGE)], [("y", "float32", (4, 1, 5))], opset=18)


def lstm_head() -> onnx.ModelProto:
    """A convolution and an LSTM over the columns of its map."""
    return _recurrent("LSTM", 1)


def gru_both_ways() -> onnx.ModelProto:
    """A bidirectional GRU, whose directions are side by side in what reads them."""
    return _recurrent("GRU", 2)


def quantized() -> onnx.ModelProto:
    """Weights as codes with a scale a channel, activations through a pair."""
    b = Builder(18)
    point = b.constant("z", np.array(3, np.uint8))
    scale = b.constant("s", np.array(0.05, np.float32))
    source, given = "x", 3
    for name, made in (("a", 8), ("c", 12), ("y", 4)):
        codes = np.random.default_rng(len(name) + made).integers(-90, 90, (made, given, 3, 3))
        b.constant(f"{name}.w", codes.astype(np.int8))
        b.constant(f"{name}.s", np.linspace(0.001, 0.003, made, dtype=np.float32))
        b.constant(f"{name}.z", np.zeros(made, np.int8))
        b.node("DequantizeLinear", [f"{name}.w", f"{name}.s", f"{name}.z"], f"{name}.f", axis=0)
        b.node("Conv", [source, f"{name}.f"], name, pads=[1] * 4, kernel_shape=[3, 3])
        b.node("QuantizeLinear", [name, scale, point], f"{name}.q")
        source, given = b.node("DequantizeLinear", [f"{name}.q", scale, point], f"{name}.dq"), made
    return _images(b, (1, 4, 8, 8), "y.dq")


NETS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    net.__name__: net
    for net in (
        *(plain, resnet, mobilenet, densenet, inception, unet, c2f, shufflenet, shufflenet_split),
        *(grouped, conv_transpose, shared, flattened, bert_block, vit_block, contrib_attention),
        *(lstm_head, gru_both_ways, quantized),
    )
}
"""By name."""
