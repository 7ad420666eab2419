"""Operators with weights or windows, norms and activations, in torch (see `_torch_operators`)."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from edgeopt.transforms.local_rule import floating, integer, integers, word
from edgeopt.transforms.repair._torch import torch
from edgeopt.transforms.repair._windows import margins

Tensors = Sequence[Any]
Operator = Callable[[ir.Node, Tensors], tuple[Any, ...]]
_PLANES = {1: "1d", 2: "2d", 3: "3d"}
IMAGE = 4


class Uncovered(Exception):  # noqa: N818 (it becomes a rejection)
    """An operator, or a variant of one, that is not computed here."""


def padded(x: Any, before: Sequence[int], after: Sequence[int], value: float = 0.0) -> Any:
    flat = [p for pair in zip(before[::-1], after[::-1], strict=True) for p in pair]
    return torch().nn.functional.pad(x, flat, value=value) if any(flat) else x


def conv(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, weight, *bias = inputs
    axes = weight.ndim - 2
    function = getattr(torch().nn.functional, f"conv{_PLANES[axes]}")
    before, after = margins(node, x.shape[2:], weight.shape[2:])
    same = before == after
    made = function(
        x if same else padded(x, before, after),
        weight,
        bias[0] if bias else None,
        stride=integers(node, "strides") or 1,
        padding=before if same else 0,
        dilation=integers(node, "dilations") or 1,
        groups=integer(node, "group", 1),
    )
    return (made,)


def conv_transpose(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, weight, *bias = inputs
    axes = weight.ndim - 2
    automatic = word(node, "auto_pad", "NOTSET") != "NOTSET"
    before, after = margins(node, x.shape[2:], weight.shape[2:])
    if automatic or before != after or integers(node, "output_shape"):
        raise Uncovered("ConvTranspose with uneven padding")
    function = getattr(torch().nn.functional, f"conv_transpose{_PLANES[axes]}")
    made = function(
        x,
        weight,
        bias[0] if bias else None,
        stride=integers(node, "strides") or 1,
        padding=before,
        output_padding=integers(node, "output_padding") or 0,
        groups=integer(node, "group", 1),
        dilation=integers(node, "dilations") or 1,
    )
    return (made,)


def gemm(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    a, b, *c = inputs
    a = a.T if integer(node, "transA", 0) else a
    b = b.T if integer(node, "transB", 0) else b
    made = floating(node, "alpha", 1.0) * (a @ b)
    return (made + floating(node, "beta", 1.0) * c[0] if c and c[0] is not None else made,)


def batch_norm(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    if integer(node, "training_mode", 0):
        raise Uncovered("BatchNormalization in training mode")
    x, scale, bias, mean, variance = inputs
    epsilon = floating(node, "epsilon", 1e-5)
    made = torch().nn.functional.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)
    return (made,)


def layer_norm(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    if len(node.outputs) > 1:
        raise Uncovered("LayerNormalization with its statistics as outputs")
    x, scale, *bias = inputs
    axis = integer(node, "axis", -1) % x.ndim
    function = torch().nn.functional.layer_norm
    made = function(x, x.shape[axis:], eps=floating(node, "epsilon", 1e-5)) * scale
    return (made + bias[0] if bias else made,)


def instance_norm(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, scale, bias = inputs
    epsilon = floating(node, "epsilon", 1e-5)
    made = torch().nn.functional.instance_norm(x, weight=scale, bias=bias, eps=epsilon)
    return (made,)


def clip(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, *bounds = inputs
    if not bounds:
        bounds = [floating(node, "min", -math.inf), floating(node, "max", math.inf)]
    low, high = (*bounds, None, None)[:2]
    made = x if low is None else torch().clamp(x, min=low)
    return (made if high is None else torch().clamp(made, max=high),)


def hard_sigmoid(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    slope, shift = floating(node, "alpha", 0.2), floating(node, "beta", 0.5)
    return ((inputs[0] * slope + shift).clamp(0.0, 1.0),)


def gelu(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    form = word(node, "approximate", "none")
    return (torch().nn.functional.gelu(inputs[0], approximate=form),)


def prelu(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, slope = inputs
    return (torch().where(x < 0, slope * x, x),)


def softmax(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, axis = inputs[0], integer(node, "axis", -1)
    function = getattr(torch(), "softmax" if node.op_type == "Softmax" else "log_softmax")
    opset = 13 if node.version is None else node.version
    if opset >= 13 or axis % x.ndim == x.ndim - 1:
        return (function(x, dim=axis),)
    raise Uncovered(f"{node.op_type} over several axes")


def pool(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, kernel = inputs[0], integers(node, "kernel_shape")
    axes = len(kernel)
    before, after = margins(node, x.shape[2:], kernel)
    strides = integers(node, "strides") or (1,) * axes
    if integer(node, "ceil_mode", 0) or len(node.outputs) > 1:
        raise Uncovered(f"{node.op_type} with ceil_mode or indices")
    functional = torch().nn.functional
    if node.op_type == "MaxPool":
        x = padded(x, before, after, -math.inf)
        dilations = integers(node, "dilations") or 1
        function = getattr(functional, f"max_pool{_PLANES[axes]}")
        return (function(x, kernel, strides, dilation=dilations),)
    if any(step != 1 for step in integers(node, "dilations")):
        raise Uncovered("AveragePool with dilations")
    function = getattr(functional, f"avg_pool{_PLANES[axes]}")
    made = function(padded(x, before, after), kernel, strides)
    if any((*before, *after)) and not integer(node, "count_include_pad", 0):
        ones = torch().ones((1, 1, *x.shape[2:]))
        made = made / function(padded(ones, before, after), kernel, strides)
    return (made,)
