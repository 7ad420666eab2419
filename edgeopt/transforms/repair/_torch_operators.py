"""What one ONNX operator computes, in torch: `OPERATORS[type](node, inputs)` gives its outputs.

Semantics are those of the operator's specification as far as a net that is trained here has it; a
variant that is not covered raises `Uncovered`. The whole is compared with the runtime before it is
used (`_torch_graph`), so that a case which was not thought of cannot go unseen.
"""

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from edgeopt.transforms.local_rule import floating, integer, integers, word
from edgeopt.transforms.repair._torch import torch
from edgeopt.transforms.repair._torch_codes import dequantize, quantize
from edgeopt.transforms.repair._torch_layers import (
    IMAGE,
    Operator,
    Tensors,
    Uncovered,
    batch_norm,
    clip,
    conv,
    conv_transpose,
    gelu,
    gemm,
    hard_sigmoid,
    instance_norm,
    layer_norm,
    padded,
    pool,
    prelu,
    softmax,
)


def _reduced(function: str) -> Operator:
    def operator(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
        x, *more = inputs
        axes = [int(a) for a in more[0]] if more and more[0] is not None else integers(node, "axes")
        if not axes:
            if integer(node, "noop_with_empty_axes", 0):
                return (x,)
            axes = range(x.ndim)
        keep = bool(integer(node, "keepdims", 1))
        library = torch()
        if function == "l2":
            return (x.square().sum(tuple(axes), keepdim=keep).sqrt(),)
        return (getattr(library, function)(x, tuple(axes), keepdim=keep),)

    return operator


def _reshape(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, target = inputs[0], [int(size) for size in inputs[1]]
    if not integer(node, "allowzero", 0):
        target = [x.shape[i] if size == 0 else size for i, size in enumerate(target)]
    return (x.reshape(tuple(target)),)


def _flatten(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    axis = integer(node, "axis", 1)
    axis = axis + inputs[0].ndim if axis < 0 else axis
    return (inputs[0].reshape(math.prod(inputs[0].shape[:axis]), -1),)


def _axes(node: ir.Node, inputs: Tensors) -> list[int]:
    if len(inputs) > 1 and inputs[1] is not None:
        return [int(axis) for axis in inputs[1]]
    return list(integers(node, "axes"))


def _squeeze(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, axes = inputs[0], _axes(node, inputs)
    return (x.squeeze(tuple(axes)) if axes else x.squeeze(),)


def _unsqueeze(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, axes = inputs[0], _axes(node, inputs)
    rank = x.ndim + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return (x,)


def _transpose(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x = inputs[0]
    return (x.permute(integers(node, "perm") or tuple(range(x.ndim))[::-1]),)


def _concat(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    return (torch().cat(list(inputs), dim=integer(node, "axis", 0)),)


def _split(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, axis = inputs[0], integer(node, "axis", 0)
    sizes = [int(s) for s in inputs[1]] if len(inputs) > 1 else list(integers(node, "split"))
    if not sizes:
        return tuple(torch().tensor_split(x, len(node.outputs), dim=axis))
    return tuple(torch().split(x, sizes, dim=axis))


def _slice(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, *more = inputs
    given = [None if one is None else [int(v) for v in one] for one in more]
    if not given:
        found = integers(node, "axes")
        given = [list(integers(node, "starts")), list(integers(node, "ends")), list(found) or None]
    starts, ends, axes, steps = (*given, None, None)[:4]
    assert starts is not None, "Slice has starts"
    assert ends is not None, "Slice has ends"
    axes = list(range(len(starts))) if axes is None else axes
    for start, end, axis, step in zip(starts, ends, axes, steps or [1] * len(starts), strict=True):
        places = range(x.shape[axis])[slice(start, end, step)]
        x = x.index_select(axis, torch().tensor(list(places), dtype=torch().int64))
    return (x,)


def _gather(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, places = inputs
    axis = integer(node, "axis", 0) % x.ndim
    flat = places.reshape(-1) % x.shape[axis]
    made = x.index_select(axis, flat)
    return (made.reshape((*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])),)


def _shape(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    sizes = list(inputs[0].shape)
    end = integer(node, "end", len(sizes))
    return (torch().tensor(sizes[integer(node, "start", 0) : end], dtype=torch().int64),)


def _constant_of_shape(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    held = node.attributes.get("value")
    value = np.zeros(1, np.float32) if held is None else held.as_tensor().numpy()
    filled = np.full([int(s) for s in inputs[0]], value.reshape(-1)[0], value.dtype)
    return (torch().from_numpy(filled),)


def _expand(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, target = inputs[0], [int(size) for size in inputs[1]]
    return (x.expand(torch().broadcast_shapes(tuple(x.shape), tuple(target))),)


def _cast(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    wanted = ir.DataType(integer(node, "to", 1)).numpy()
    return (inputs[0].to(torch().from_numpy(np.zeros(0, wanted)).dtype),)


def _pad(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, *more = inputs
    pads = [int(p) for p in more[0]] if more else list(integers(node, "pads"))
    if len(more) > 2 and more[2] is not None:
        raise Uncovered("Pad with axes")
    value = float(more[1]) if len(more) > 1 and more[1] is not None else 0.0
    mode = word(node, "mode", "constant")
    before, after = pads[: x.ndim], pads[x.ndim :]
    if mode == "constant":
        return (padded(x, before, after, value),)
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        if first or last:
            inside = np.arange(int(x.shape[axis]))
            at = np.pad(inside, (first, last), mode=_PAD_MODES[mode])
            x = x.index_select(axis, torch().from_numpy(at.astype(np.int64)))
    return (x,)


_PAD_MODES: Any = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def _resize(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x = inputs[0]
    if node.op_type == "Upsample":
        sizes, scales = None, inputs[1]
    else:
        scales = inputs[2] if len(inputs) > 2 else None
        sizes = inputs[3] if len(inputs) > 3 else None
    if sizes is not None and len(sizes):
        target = [int(size) for size in sizes]
    else:
        assert scales is not None, "Resize has sizes or scales"
        target = [math.floor(n * float(s)) for n, s in zip(x.shape, scales, strict=True)]
    mode = word(node, "mode", "nearest")
    form = word(node, "coordinate_transformation_mode", "half_pixel")
    if x.ndim != IMAGE or target[:2] != list(x.shape[:2]):
        raise Uncovered("Resize of other axes than height and width")
    for axis in (2, 3):
        x = _along(x, axis, target[axis], mode, form, word(node, "nearest_mode", ""))
    return (x,)


def _along(x: Any, axis: int, size: int, mode: str, form: str, nearest: str) -> Any:
    """One axis to another size, nearest or linear."""
    old = x.shape[axis]
    at = np.arange(size, dtype=np.float64)
    if form == "align_corners":
        at = at * (old - 1) / max(size - 1, 1)
    elif form == "asymmetric":
        at = at * old / size
    elif form in ("half_pixel", "pytorch_half_pixel"):
        at = (at + 0.5) * old / size - 0.5
        at = at * (size > 1) if form == "pytorch_half_pixel" else at
    else:
        raise Uncovered(f"Resize with {form}")
    if mode == "nearest":
        rounding = {"floor": np.floor, "ceil": np.ceil, "round_prefer_ceil": _half_up}
        places = rounding.get(nearest, _half_down)(at)
        chosen = np.clip(places, 0, old - 1).astype(np.int64)
        return x.index_select(axis, torch().from_numpy(chosen))
    if mode != "linear":
        raise Uncovered(f"Resize with mode {mode}")
    at = np.clip(at, 0, old - 1)
    left = np.floor(at).astype(np.int64)
    shape = [1] * x.ndim
    shape[axis] = size
    share = torch().from_numpy((at - left).astype(np.float32)).reshape(shape)
    first = x.index_select(axis, torch().from_numpy(left))
    return first + share * (
        x.index_select(axis, torch().from_numpy(np.minimum(left + 1, old - 1))) - first
    )


def _half_up(at: Any) -> Any:
    return np.floor(at + 0.5)


def _half_down(at: Any) -> Any:
    return np.ceil(at - 0.5)


def _arg_max(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    axis, keep = integer(node, "axis", 0), bool(integer(node, "keepdims", 1))
    return (inputs[0].argmax(dim=axis, keepdim=keep),)


def _lstm(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    x, w, r, *more = inputs
    bias, lengths, hidden, cell, peephole = (*more, None, None, None, None, None)[:5]
    plain = lengths is None and peephole is None and not node.attributes.get("activations")
    if not plain or integer(node, "input_forget", 0) or integer(node, "layout", 0):
        raise Uncovered("LSTM with lengths, peepholes or other activations")
    directions, size = w.shape[0], integer(node, "hidden_size", r.shape[-1])
    if directions == 1 and word(node, "direction", "forward") == "reverse":
        raise Uncovered("LSTM backwards alone")
    zeros = x.new_zeros(directions, x.shape[1], size)
    order = [0, 2, 3, 1]  # the specification says input, output, forget, cell
    parts: list[Any] = []
    for index in range(directions):
        split = None if bias is None else bias[index].reshape(2, 4, size)[:, order]
        none = x.new_zeros(4 * size)
        parts += [
            w[index].reshape(4, size, -1)[order].reshape(4 * size, -1),
            r[index].reshape(4, size, -1)[order].reshape(4 * size, -1),
            none if split is None else split[0].reshape(-1),
            none if split is None else split[1].reshape(-1),
        ]
    state = (zeros if hidden is None else hidden, zeros if cell is None else cell)
    made = torch().lstm(x, state, parts, True, 1, 0.0, False, directions == 2, False)
    out, last, memory = made
    steps, batch = x.shape[:2]
    return out.reshape(steps, batch, directions, size).permute(0, 2, 1, 3), last, memory


def _power(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    base, exponent = inputs
    return (torch().pow(base, exponent.to(base.dtype)),)


def _divided(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    a, b = inputs
    exact = a.dtype.is_floating_point
    return (a / b if exact else torch().div(a, b, rounding_mode="trunc"),)


def _folded(function: str) -> Operator:
    def operator(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
        made = inputs[0]
        for other in inputs[1:]:
            made = getattr(torch(), function)(made, other)
        return (made,)

    return operator


def _global(function: str) -> Operator:
    def operator(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
        axes = tuple(range(2, inputs[0].ndim))
        return (getattr(torch(), function)(inputs[0], axes, keepdim=True),)

    return operator


def _plain(function: str) -> Operator:
    return lambda node, inputs: (getattr(torch(), function)(*inputs),)


def _functional(function: str) -> Operator:
    return lambda node, inputs: (getattr(torch().nn.functional, function)(*inputs),)


def _scaled(function: str, alpha: float) -> Operator:
    return lambda node, inputs: (
        getattr(torch().nn.functional, function)(inputs[0], floating(node, "alpha", alpha)),
    )


def _first(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    return (inputs[0],)


OPERATORS: dict[str, Operator] = {
    **{name: _plain(name.lower()) for name in ("Add", "Sub", "Mul", "MatMul", "Where", "Erf")},
    **{name: _plain(name.lower()) for name in ("Exp", "Log", "Sqrt", "Abs", "Neg", "Sigmoid")},
    **{name: _plain(name.lower()) for name in ("Tanh", "Floor", "Ceil", "Round", "Sign", "Sin")},
    **{name: _plain(name.lower()) for name in ("Cos", "Relu", "Reciprocal")},
    **{name: _functional(name.lower()) for name in ("Softplus", "Softsign", "Mish", "Selu")},
    **dict.fromkeys(("Identity", "Dropout"), _first),
    "Equal": _plain("eq"),
    "Greater": _plain("gt"),
    "GreaterOrEqual": _plain("ge"),
    "Less": _plain("lt"),
    "LessOrEqual": _plain("le"),
    "And": _plain("logical_and"),
    "Or": _plain("logical_or"),
    "Not": _plain("logical_not"),
    "Sum": _folded("add"),
    "Min": _folded("minimum"),
    "Max": _folded("maximum"),
    "Div": _divided,
    "Pow": _power,
    "HardSwish": _functional("hardswish"),
    "LeakyRelu": _scaled("leaky_relu", 0.01),
    "Elu": _scaled("elu", 1.0),
    "Celu": _scaled("celu", 1.0),
    "PRelu": prelu,
    "HardSigmoid": hard_sigmoid,
    "Gelu": gelu,
    "QuickGelu": lambda node, inputs: (
        inputs[0] * torch().sigmoid(inputs[0] * floating(node, "alpha", 1.702)),
    ),
    "Clip": clip,
    "Softmax": softmax,
    "LogSoftmax": softmax,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Gemm": gemm,
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "InstanceNormalization": instance_norm,
    "MaxPool": pool,
    "AveragePool": pool,
    "GlobalAveragePool": _global("mean"),
    "GlobalMaxPool": _global("amax"),
    "ReduceMean": _reduced("mean"),
    "ReduceSum": _reduced("sum"),
    "ReduceMax": _reduced("amax"),
    "ReduceMin": _reduced("amin"),
    "ReduceL2": _reduced("l2"),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "Shape": _shape,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Cast": _cast,
    "Pad": _pad,
    "Resize": _resize,
    "Upsample": _resize,
    "ArgMax": _arg_max,
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "LSTM": _lstm,
}
DOMAINS = frozenset({"", "ai.onnx", "com.microsoft"})
_ONLY_STANDARD = frozenset(OPERATORS) - {"Gelu", "QuickGelu"}


def operator_of(node: ir.Node) -> Operator:
    """What computes a node.

    Raises:
        Uncovered: Nothing does; says the operator's name.
    """
    found = OPERATORS.get(node.op_type)
    foreign = node.domain == "com.microsoft" and node.op_type in _ONLY_STANDARD
    if found is None or node.domain not in DOMAINS or foreign:
        where = f"{node.domain}." if node.domain else ""
        raise Uncovered(f"{where}{node.op_type}")
    return found
