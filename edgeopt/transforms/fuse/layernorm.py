"""A layer normalization that is spelled out, as the one operator.

    s = g / sqrt(mean((x - m)²) + eps)      x · s + (b - m · s)  =  LayerNormalization(x, g, b)
                                    (x - m) / sqrt(...) · g + b  =  LayerNormalization(x, g, b)

with m = mean(x) over the last axis. The first is how the first BERT's batch normalization over the
last axis is exported; also (x - m) · s + b, whose root is a Reciprocal and not a Div. The second is
what every exporter writes below opset 17.

It must not fire below opset 17 (no LayerNormalization), over other axes than the last, where m,
x - m or s belong to different values, or with a gain or offset that is no vector of that axis.
ONNX Runtime fuses the form with a Div by itself, the others not; left as it is, its gain and offset
would go into the layer behind it (`affine_before`), and what stays is fused no more.
"""

from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.fuse._gates import scalar
from edgeopt.transforms.local_rule import LocalRule, input_of, integer, integers, refuse
from edgeopt.transforms.rewrite._around import Steps, constant_operand

_SQUARE = 2.0


@dataclass(frozen=True, slots=True)
class _Norm:
    root: ir.Node
    source: ir.Value
    gain: ir.Value
    offset: ir.Value
    epsilon: float


@dataclass(frozen=True, slots=True)
class _Scale:
    """`gain / sqrt(mean((source - mean)²) + epsilon)`."""

    source: ir.Value
    mean: ir.Value
    gain: ir.Value
    epsilon: float


def _node(value: ir.Value | None, *operators: str) -> ir.Node | None:
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type in operators and not node.domain else None


def _mean_of(value: ir.Value | None) -> ir.Value | None:
    """What a value is the mean of, over the last axis, which it keeps."""
    node = _node(value, "ReduceMean")
    source = None if node is None else node.inputs[0]
    if node is None or source is None or source.shape is None or not integer(node, "keepdims", 1):
        return None
    given = array_of(input_of(node, 1))
    axes = integers(node, "axes") if given is None else tuple(int(one) for one in given)
    last = len(source.shape) - 1
    return source if [axis % (last + 1) for axis in axes] == [last] else None


def _apart(value: ir.Value | None) -> tuple[ir.Value, ir.Value] | None:
    """x and m in x - m with m = mean(x)."""
    node = _node(value, "Sub")
    source, mean = (None, None) if node is None else node.inputs
    if source is None or mean is None:
        return None
    return (source, mean) if _mean_of(mean) is source else None


def _square_of(value: ir.Value | None) -> ir.Value | None:
    node = _node(value, "Mul", "Pow")
    if node is None:
        return None
    first, second = node.inputs
    if node.op_type == "Pow":
        return first if scalar(second, first) == _SQUARE else None
    return first if first is second else None


def _scale(value: ir.Value | None) -> _Scale | None:
    node = _node(value, "Mul")
    for index in (0, 1) if node is not None else ():
        assert node is not None, "the loop is empty without it"
        gain, inverse = node.inputs[index], _node(node.inputs[1 - index], "Reciprocal")
        found = None if inverse is None else _deviation(inverse.inputs[0])
        if gain is not None and found is not None and array_of(gain) is not None:
            source, mean, epsilon = found
            return _Scale(source, mean, gain, epsilon)
    return None


def _deviation(value: ir.Value | None) -> tuple[ir.Value, ir.Value, float] | None:
    """x, m and eps of sqrt(mean((x - m)²) + eps)."""
    root = _node(value, "Sqrt")
    total = None if root is None else _node(root.inputs[0], "Add")
    found = None if total is None else constant_operand(total)
    if found is None or found[1].size != 1:
        return None
    apart = _apart(_square_of(_mean_of(found[0])))
    return None if apart is None else (*apart, float(found[1].reshape(-1)[0]))


def _divided(product: ir.Node) -> _Scale | None:
    """Of `(x - m) / sqrt(...) · gain`."""
    for index in (0, 1):
        gain, ratio = product.inputs[index], _node(product.inputs[1 - index], "Div")
        if gain is None or array_of(gain) is None or ratio is None:
            continue
        found, apart = _deviation(ratio.inputs[1]), _apart(ratio.inputs[0])
        if found is not None and apart == found[:2]:
            source, mean, epsilon = found
            return _Scale(source, mean, gain, epsilon)
    return None


def _match(root: ir.Node) -> _Norm | Rejection:
    for index in (0, 1):
        product, offset = _node(root.inputs[index], "Mul"), root.inputs[1 - index]
        if product is None or offset is None:
            continue
        scale = _divided(product)
        if scale is not None and array_of(offset) is not None:
            return _checked(root, scale, offset)
        for own in (0, 1):
            scale = _scale(product.inputs[1 - own])
            beta = None if scale is None else _offset(scale, product, own, offset)
            if scale is not None and beta is not None:
                return _checked(root, scale, beta)
    return refuse("it ends no layer normalization spelled through a factor", root)


def _offset(scale: _Scale, product: ir.Node, own: int, other: ir.Value) -> ir.Value | None:
    """The offset of `x · s + (b - m · s)`, or of `(x - m) · s + b`."""
    if _apart(product.inputs[own]) == (scale.source, scale.mean):
        return other if array_of(other) is not None else None
    shift = _node(other, "Sub")
    if product.inputs[own] is not scale.source or shift is None:
        return None
    moved = _node(shift.inputs[1], "Mul")
    pair = None if moved is None else set(moved.inputs)
    fits = pair == {scale.mean, product.inputs[1 - own]}
    beta = shift.inputs[0]
    return beta if fits and array_of(beta) is not None else None


def _checked(root: ir.Node, scale: _Scale, beta: ir.Value) -> _Norm | Rejection:
    shape = scale.source.shape
    size = None if not shape else shape[-1]
    vectors = [array_of(scale.gain), array_of(beta)]
    if any(one is None or one.shape != (size,) for one in vectors):
        return refuse("gain or offset is no vector of the last axis", root)
    if scale.source.dtype != ir.DataType.FLOAT:
        return refuse("it is not in float32", root)
    return _Norm(root, scale.source, scale.gain, beta, scale.epsilon)


def _rewrite(editor: Editor, found: _Norm) -> None:
    steps = Steps(editor, "layernorm", found.root)
    inputs = [found.source, found.gain, found.offset]
    shape = found.root.outputs[0].shape
    steps.add("norm", "LayerNormalization", inputs, shape, axis=-1, epsilon=found.epsilon)
    steps.finish()


PLUGIN = LocalRule(
    name="layernorm", roots=frozenset({"Add"}), match=_match, rewrite=_rewrite, opset=17
)
