"""The families of `pattern_nets`: one function a net, listed in `NETS`."""

import math
from collections.abc import Callable

import numpy as np
import onnx
from pattern_nets import Net

IMAGE = (1, 3, 96, 96)


def encoder_first_token() -> onnx.ModelProto:
    """Three blocks of a sentence encoder (torch, opset 14); the head reads the first token."""
    n, length, size = Net(), 128, 192
    x = n.layer_norm("input", size)
    for _ in range(3):
        x = n.encoder(x, length, size)
    first = n.op("Gather", x, n.constant("zero", np.array(0, np.int64)), axis=1)
    pooled = n.op("Tanh", n.gemm(first, (size, size)))
    return n.finish(n.gemm(pooled, (size, 6)), (1, length, size), 2, 14)


def bert_tensorflow() -> onnx.ModelProto:
    """The first BERT by tf2onnx: its own layer norm, Einsum, GELU with Pow, a slice as pooler."""
    n, length, size = Net(1), 64, 128

    def attend(x: str, length: int, size: int, count: int) -> str:
        q, k, v = (
            n.op(
                "Reshape",
                n.linear(x, (size, size)),
                n.ints(-1, length, count, size // count),
            )
            for _ in range(3)
        )
        logits = n.op("Einsum", q, k, equation="BFNH,BTNH->BNFT")
        logits = n.op("Mul", logits, n.number(1 / math.sqrt(size / count)))
        mixed = n.op("Einsum", n.op("Softmax", logits, axis=-1), v, equation="BNFT,BTNH->BFNH")
        return n.linear(n.op("Reshape", mixed, n.ints(-1, length, size)), (size, size))

    x = "input"
    for _ in range(3):
        x = n.encoder(x, length, size, norm=n.layer_norm_tf, gelu=n.gelu_tanh, attention=attend)
    first = n.op("Slice", x, n.ints(0), n.ints(1), n.ints(1))
    pooled = n.op("Tanh", n.gemm(n.op("Squeeze", first, n.ints(1)), (size, size)))
    return n.finish(n.gemm(pooled, (size, 3)), (1, length, size), 2, 13)


def lora_encoder() -> onnx.ModelProto:
    """Two blocks with adapters of rank 8 that were not merged before the export (torch)."""
    n, length, size = Net(2), 64, 192

    def adapted(x: str) -> str:
        low = n.linear(n.linear(x, (size, 8), bias=False), (8, size), bias=False)
        return n.op("Add", n.linear(x, (size, size)), n.op("Mul", low, n.number(2)))

    def attend(x: str, length: int, size: int, count: int) -> str:
        q = n.heads(adapted(x), length, size, count, (0, 2, 1, 3))
        k = n.heads(n.linear(x, (size, size)), length, size, count, (0, 2, 3, 1))
        v = n.heads(adapted(x), length, size, count, (0, 2, 1, 3))
        scaled = n.op("Div", n.op("MatMul", q, k), n.number(math.sqrt(size / count)))
        mixed = n.op("MatMul", n.op("Softmax", scaled, axis=-1), v)
        joined = n.op("Transpose", mixed, perm=[0, 2, 1, 3])
        return n.linear(n.op("Reshape", joined, n.ints(-1, length, size)), (size, size))

    x = "input"
    for _ in range(2):
        x = n.encoder(x, length, size, attention=attend)
    mean = n.op("ReduceMean", n.linear(x, (size, 64)), axes=[1], keepdims=0)
    return n.finish(n.gemm(mean, (64, 4)), (1, length, size), 2, 14)


def speech_commands() -> onnx.ModelProto:
    """Strided convolutions on a wave, a block, projector and mean over time (wav2vec2 head)."""
    n, size, length = Net(3), 128, 98
    x = "input"
    for given, kernel, stride in ((1, 10, 5), (64, 8, 4), (64, 4, 2)):
        w = n.weight(n.name("w"), 64, given, kernel)
        x = n.gelu(n.op("Conv", x, w, kernel_shape=[kernel], strides=[stride]))
    x = n.linear(n.op("Transpose", x, perm=[0, 2, 1]), (64, size))
    x = n.encoder(x, length, size)
    mean = n.op("ReduceMean", n.linear(x, (size, 256)), axes=[1], keepdims=0)
    return n.finish(n.gemm(mean, (256, 12)), (1, 1, 4000), 2, 14)


def repvgg_train() -> onnx.ModelProto:
    """RepVGG before its branches are merged: 3x3, 1x1 and identity, each normalized (torch)."""
    n, x, given = Net(4), "input", 3
    for made, stride, count in ((32, 2, 1), (32, 2, 2), (64, 2, 4), (128, 2, 4)):
        for index in range(count):
            step = stride if index == 0 else 1
            big = n.norm(n.conv2d(x, (given, made), 3, stride=step, bias=False), made)
            small = n.norm(n.conv2d(x, (given, made), 1, stride=step, bias=False), made)
            total = n.op("Add", big, small)
            if step == 1 and given == made:
                total = n.op("Add", total, n.norm(x, made))
            x, given = n.op("Relu", total), made
    return n.finish(n.classifier(x, given), IMAGE, 2, 13)


def densenet_bc() -> onnx.ModelProto:
    """DenseNet-BC with growth 12: normalization first, transitions that pool last (torch)."""
    n, width, growth = Net(5), 24, 12
    x = n.conv2d("input", (3, width), 3, bias=False)
    for block in range(3):
        for _ in range(4):
            inner = n.conv2d(n.op("Relu", n.norm(x, width)), (width, 4 * growth), bias=False)
            outer = n.op("Relu", n.norm(inner, 4 * growth))
            new = n.conv2d(outer, (4 * growth, growth), 3, bias=False)
            x, width = n.op("Concat", x, new, axis=1), width + growth
        if block < 2:
            made = n.conv2d(n.op("Relu", n.norm(x, width)), (width, width // 2), bias=False)
            x, width = n.pool(made, 2, 2, "AveragePool"), width // 2
    x = n.op("Relu", n.norm(x, width))
    return n.finish(n.classifier(x, width), (1, 3, 32, 32), 2, 13)


def yolo_spp() -> onnx.ModelProto:
    """YOLOv3-tiny with the SPP block: three large max poolings side by side (torch)."""
    n, x, given = Net(6), "input", 3

    def leaky(x: str, channels: tuple[int, int], kernel: int, stride: int = 1) -> str:
        made = n.conv2d(x, channels, kernel, stride=stride, bias=False)
        return n.op("LeakyRelu", n.norm(made, channels[1]), alpha=0.1)

    for made in (16, 32, 64, 128):
        x, given = leaky(x, (given, made), 3, 2), made
    x = leaky(x, (128, 128), 1)
    pools = [n.pool(x, k, 1, pad=k // 2) for k in (5, 9, 13)]
    x = leaky(n.op("Concat", *pools, x, axis=1), (512, 128), 1)
    return n.finish(n.conv2d(x, (128, 255)), (1, 3, 208, 208), 4, 13)


def yolo_focus() -> onnx.ModelProto:
    """The first YOLOv5: Focus of strided slices, hard swish spelled, decoupled head (torch)."""
    n = Net(7)

    def part(row: int, column: int) -> str:
        made = "input"
        for axis, start in ((2, row), (3, column)):
            made = n.op("Slice", made, n.ints(start), n.ints(2**31 - 1), n.ints(axis), n.ints(2))
        return made

    def unit(x: str, channels: tuple[int, int], kernel: int, stride: int = 1) -> str:
        made = n.conv2d(x, channels, kernel, stride=stride, bias=False)
        return n.hardswish(n.norm(made, channels[1]))

    x = n.op("Concat", part(0, 0), part(1, 0), part(0, 1), part(1, 1), axis=1)
    x, given = unit(x, (12, 16), 3), 16
    for made in (32, 64, 128):
        x, half = unit(x, (given, made), 3, 2), made // 2
        inner = n.op("Add", y := unit(x, (made, half), 1), unit(y, (half, half), 3))
        joined = n.op("Concat", inner, unit(x, (made, half), 1), axis=1)
        x, given = unit(joined, (made, made), 1), made
    heads = [n.conv2d(x, (128, made)) for made in (4, 1, 80)]
    return n.finish(n.op("Concat", *heads, axis=1), (1, 3, 192, 192), 4, 12)


def deeplab_aspp() -> onnx.ModelProto:
    """DeepLab's head: dilated branches and image pooling, enlarged, joined, projected (torch)."""
    n, x, given = Net(8), "input", 3
    for made, stride in ((16, 2), (32, 2), (64, 2), (128, 2)):
        x, given = n.cbr(x, (given, made), 3, stride=stride), made
    width = 64
    branches = [n.cbr(x, (given, width))]
    branches += [n.cbr(x, (given, width), 3, dilation=rate) for rate in (2, 4)]
    pooled = n.cbr(n.op("GlobalAveragePool", x), (given, width))
    branches.append(n.resize(pooled, 12, "linear"))
    x = n.cbr(n.op("Concat", *branches, axis=1), (4 * width, width))
    logits = n.conv2d(x, (width, 21))
    return n.finish(n.resize(logits, 4, "linear"), (1, 3, 192, 192), 4, 13)


def lraspp() -> onnx.ModelProto:
    """Lite R-ASPP (torchvision): enlarged before its pointwise classifier."""
    n, x, given = Net(9), "input", 3
    low = x
    for made, stride in ((16, 2), (24, 2), (40, 2), (96, 2)):
        wide = n.cbr(x, (given, 2 * made))
        deep = n.cbr(wide, (2 * made, 2 * made), 3, stride=stride, group=2 * made)
        x, given = n.norm(n.conv2d(deep, (2 * made, made), bias=False), made), made
        low = x if made == 40 else low
    gate = n.conv2d(n.op("GlobalAveragePool", x), (given, 128), bias=False)
    x = n.op("Mul", n.cbr(x, (given, 128)), n.op("Sigmoid", gate))
    high = n.conv2d(n.resize(x, 2, "linear"), (128, 21))
    logits = n.op("Add", n.conv2d(low, (40, 21)), high)
    return n.finish(n.resize(logits, 8, "linear"), (1, 3, 192, 192), 4, 13)


def fastdepth() -> onnx.ModelProto:
    """FastDepth: depthwise decoder that enlarges, its last pointwise layer at full size (torch)."""
    n, x, given = Net(10), "input", 3
    skips: list[str] = []
    for made in (16, 32, 64, 128):
        x = n.cbr(x, (given, made), 3, stride=2)
        x, given = n.cbr(n.cbr(x, (made, made), 3, group=made), (made, made)), made
        skips.append(x)
    for made, skip in ((64, skips[2]), (32, skips[1]), (16, skips[0])):
        x = n.cbr(n.cbr(x, (given, given), 5, group=given), (given, made))
        x, given = n.op("Add", n.resize(x, 2), skip), made
    x = n.cbr(n.cbr(x, (given, given), 5, group=given), (given, 32))
    x = n.cbr(n.resize(x, 2), (32, 1))
    return n.finish(x, (1, 3, 192, 192), 4, 13)


def normalised_mobilenet() -> onnx.ModelProto:
    """MobileNet by tf2onnx with its preprocessing inside: a cast input, centred and scaled."""
    n, given = Net(11), 3
    x = n.op("Transpose", "input", perm=[0, 3, 1, 2])
    row = n.constant("mean", np.array([123.7, 116.3, 103.5], np.float32).reshape(1, 3, 1, 1))
    std = n.constant("std", np.array([58.4, 57.1, 57.4], np.float32).reshape(1, 3, 1, 1))
    x = n.op("Div", n.op("Sub", x, row), std)
    for made, stride in ((16, 2), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
        if given > 3:
            deep = n.norm(n.conv2d(x, (given, given), 3, stride=stride, group=given), given)
            x = n.op("Clip", deep, n.number(0), n.number(6))
            x = n.conv2d(x, (given, made), bias=False)
        else:
            x = n.conv2d(x, (given, made), 3, stride=stride, bias=False, pad=0)
        x, given = n.op("Clip", n.norm(x, made), n.number(0), n.number(6)), made
    mean = n.op("ReduceMean", x, axes=[2, 3], keepdims=0)
    logits = n.linear(mean, (given, 10))
    return n.finish(n.op("Softmax", logits, axis=-1), (1, 97, 97, 3), 2, 13)


def mobilenet_v3() -> onnx.ModelProto:
    """MobileNetV3 with squeeze-and-excite, hard swish spelled (torch, opset 12)."""
    n, given = Net(12), 16
    x = n.hardswish(n.norm(n.conv2d("input", (3, 16), 3, stride=2, bias=False), 16))
    for wide, made, stride in ((64, 24, 2), (72, 24, 1), (120, 40, 2), (240, 40, 1), (240, 80, 2)):
        y = n.hardswish(n.norm(n.conv2d(x, (given, wide), bias=False), wide))
        y = n.conv2d(y, (wide, wide), 3, stride=stride, group=wide, bias=False)
        y = n.hardswish(n.norm(y, wide))
        squeezed = n.op("Relu", n.conv2d(n.op("GlobalAveragePool", y), (wide, wide // 4)))
        y = n.op("Mul", n.hardsigmoid(n.conv2d(squeezed, (wide // 4, wide))), y)
        y = n.norm(n.conv2d(y, (wide, made), bias=False), made)
        x, given = n.op("Add", x, y) if stride == 1 and given == made else y, made
    x = n.hardswish(n.norm(n.conv2d(x, (given, 480), bias=False), 480))
    return n.finish(n.classifier(x, 480), (1, 3, 128, 128), 2, 12)


def non_local() -> onnx.ModelProto:
    """A non-local block of dot products in a small ResNet (torch, mmaction's spelling)."""
    n, x, given = Net(13), "input", 3
    for made in (32, 64):
        x = n.cbr(x, (given, made), 3, stride=2)
        inner = n.norm(n.conv2d(n.cbr(x, (made, made), 3), (made, made), 3, bias=False), made)
        x, given = n.op("Relu", n.op("Add", inner, x)), made
    half, places = 32, 24 * 24
    rows = [n.op("Reshape", n.conv2d(x, (64, half)), n.ints(1, half, -1)) for _ in range(3)]
    theta, phi, g = rows
    pairs = n.op("MatMul", n.op("Transpose", theta, perm=[0, 2, 1]), phi)
    pairs = n.op("Div", pairs, n.number(places))
    mixed = n.op("MatMul", pairs, n.op("Transpose", g, perm=[0, 2, 1]))
    planes = n.op("Reshape", n.op("Transpose", mixed, perm=[0, 2, 1]), n.ints(1, half, 24, 24))
    x = n.op("Add", n.norm(n.conv2d(planes, (half, 64)), 64), x)
    return n.finish(n.classifier(x, 64), IMAGE, 2, 13)


def googlenet_aux() -> onnx.ModelProto:
    """GoogLeNet with local response normalization and a head of training nobody reads (Caffe2)."""
    n = Net(14)
    x = n.op("Relu", n.conv2d("input", (3, 32), 7, stride=2))
    x = n.op("LRN", n.pool(x, 3, 2, pad=1), size=5, alpha=1e-4, beta=0.75, bias=1.0)
    x = n.op("Relu", n.conv2d(n.op("Relu", n.conv2d(x, (32, 32))), (32, 96), 3))
    x = n.pool(n.op("LRN", x, size=5, alpha=1e-4, beta=0.75, bias=1.0), 3, 2, pad=1)
    given = 96
    for index in range(2):
        branches = [n.op("Relu", n.conv2d(x, (given, 32)))]
        for middle, made, kernel in ((48, 64, 3), (8, 16, 5)):
            inner = n.op("Relu", n.conv2d(x, (given, middle)))
            branches.append(n.op("Relu", n.conv2d(inner, (middle, made), kernel)))
        branches.append(n.op("Relu", n.conv2d(n.pool(x, 3, 1, pad=1), (given, 16))))
        x, given = n.op("Concat", *branches, axis=1), 128
        if index == 0:
            aux = n.op("Relu", n.conv2d(n.pool(x, 5, 3, "AveragePool"), (given, 64)))
            n.op("Relu", n.gemm(n.op("Flatten", aux, axis=1), (64 * 4 * 4, 128)))
    return n.finish(n.classifier(x, given), (1, 3, 112, 112), 2, 12)


def yolov8_head() -> onnx.ModelProto:
    """A small detector with the distribution over 16 bins of YOLOv8 (ultralytics, opset 13)."""
    n, x, given = Net(15), "input", 3

    def silu(x: str, channels: tuple[int, int], kernel: int, stride: int = 1) -> str:
        made = n.norm(n.conv2d(x, channels, kernel, stride=stride, bias=False), channels[1])
        return n.op("Mul", made, n.op("Sigmoid", made))

    for made in (16, 32, 64):
        x, given = silu(x, (given, made), 3, 2), made
    box = n.conv2d(silu(x, (64, 64), 3), (64, 64))
    kind = n.conv2d(silu(x, (64, 64), 3), (64, 80))
    joined = n.op("Reshape", n.op("Concat", box, kind, axis=1), n.ints(1, 144, -1))
    sizes = n.constant("parts", np.array([64, 80], np.int64))
    names = [n.name("box"), n.name("kind")]
    n.nodes.append(onnx.helper.make_node("Split", [joined, sizes], names, name="split", axis=1))
    bins = n.op("Transpose", n.op("Reshape", names[0], n.ints(1, 4, 16, 1024)), perm=[0, 2, 1, 3])
    soft = n.op("Softmax", bins, axis=1)
    steps = n.constant("bins", np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1))
    boxes = n.op("Reshape", n.op("Conv", soft, steps), n.ints(1, 4, 1024))
    result = n.op("Concat", boxes, n.op("Sigmoid", names[1]), axis=1)
    return n.finish(result, (1, 3, 256, 256), 3, 13)


NETS: dict[str, Callable[[], onnx.ModelProto]] = {
    made.__name__: made
    for made in (
        encoder_first_token,
        bert_tensorflow,
        lora_encoder,
        speech_commands,
        repvgg_train,
        densenet_bc,
        yolo_spp,
        yolo_focus,
        deeplab_aspp,
        lraspp,
        fastdepth,
        normalised_mobilenet,
        mobilenet_v3,
        non_local,
        googlenet_aux,
        yolov8_head,
    )
}
