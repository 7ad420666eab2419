"""Layers of one value whose results are activated alike and joined, as one layer.

    Concat(f(Conv(x, W1, b1)), f(Conv(x, W2, b2)), y)  =  Concat(f(Conv(x, [W1; W2], [b1; b2])), y)

The same for MatMul and Gemm along their columns. f is any chain of functions of each element alone,
with the same numbers in each branch (also x · Sigmoid(x)), or none; what lies side by side is
joined, whatever else the Concat holds stays where it is. One layer instead of several, one
activation, and a copy less.

It must not fire where the layers read different values, differ in kernel, stride, padding,
dilation or scale, or have groups, where the activations differ, along another axis than the
channels, where they do not lie side by side, where something else reads a branch, or where weights
are no constants. Convolutions alone that are joined as they are: see `join_convolutions`.
Imperative, since branches and functions are of any number. ONNX Runtime does nothing of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, floating, input_of, integer, integers, refuse
from edgeopt.transforms.rewrite._around import Steps
from edgeopt.transforms.rewrite._rows import UNARY

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """A function of each element; `gated` is x · Sigmoid(x), which has two nodes."""

    node: ir.Node
    gated: bool
    key: Key


@dataclass(frozen=True, slots=True)
class _Branch:
    steps: tuple[_Step, ...]
    """From the layer on."""
    node: ir.Node
    weight: npt.NDArray[Any]
    bias: npt.NDArray[Any] | None
    side: int
    key: Key


@dataclass(frozen=True, slots=True)
class _Join:
    concat: ir.Node
    first: int
    branches: tuple[_Branch, ...]
    axis: int


def _match(concat: ir.Node) -> _Join | Rejection:
    shape = concat.outputs[0].shape
    if shape is None:
        return refuse("its rank is not known", concat)
    axis = integer(concat, "axis", 0) % len(shape)
    branches = [_branch(value, concat, axis, len(shape)) for value in concat.inputs]
    first, run = _longest(branches)
    if len(run) < 2:
        return refuse("no layers of one value lie side by side, activated alike", concat)
    plain = not run[0].steps and len(run) == len(branches)
    if plain and run[0].node.op_type == "Conv":
        return refuse("convolutions alone are left to join_convolutions", concat)
    return _Join(concat, first, run, axis)


def _longest(branches: Sequence[_Branch | None]) -> tuple[int, tuple[_Branch, ...]]:
    """The longest run of branches alike, and where it begins."""
    best: tuple[int, tuple[_Branch, ...]] = (0, ())
    for start, head in enumerate(branches):
        run: list[_Branch] = []
        for one in branches[start:]:
            if one is None or head is None or one.key != head.key:
                break
            run.append(one)
        if len(run) > len(best[1]):
            best = (start, tuple(run))
    return best


def _branch(value: ir.Value | None, user: ir.Node, axis: int, rank: int) -> _Branch | None:
    """What lies between a layer and the Concat; None where it is anything else."""
    steps: list[_Step] = []
    while value is not None:
        node = value.producer()
        if node is None or node.domain or node.graph is not user.graph:
            return None
        if sole_user(value) is not user and not _gates(value, user):
            return None
        step = _step(node)
        if step is None:
            return _layer(node, tuple(steps[::-1]), axis, rank)
        steps.append(step)
        value, user = _inner(step), node
    return None


def _step(node: ir.Node) -> _Step | None:
    if node.op_type == "Mul":
        gate = _gate(node)
        return None if gate is None else _Step(node, True, ("SiLU",))
    source = node.inputs[0] if node.op_type in UNARY else None
    if source is None or node.outputs[0].dtype != source.dtype:
        return None
    numbers: list[object] = []
    for value in node.inputs[1:]:
        array = array_of(value)
        if value is not None and array is None:
            return None
        numbers.append(None if array is None else (array.dtype.str, array.tobytes()))
    written = sorted((name, repr(each.value)) for name, each in node.attributes.items())
    return _Step(node, False, (node.op_type, tuple(numbers), tuple(written)))


def _gate(product: ir.Node) -> ir.Node | None:
    """The Sigmoid of x · Sigmoid(x)."""
    for own, other in ((0, 1), (1, 0)):
        value = product.inputs[other]
        node = None if value is None else value.producer()
        if value is None or node is None or node.domain or node.op_type != "Sigmoid":
            continue
        if node.inputs[0] is product.inputs[own] and sole_user(value) is product:
            return node
    return None


def _gates(value: ir.Value, user: ir.Node) -> bool:
    """Whether a value is read by x · Sigmoid(x) alone."""
    gate = _gate(user) if user.op_type == "Mul" else None
    readers = {one for one, _ in value.uses()}
    return gate is not None and readers == {user, gate} and not value.is_graph_output()


def _inner(step: _Step) -> ir.Value | None:
    """What a function is applied to."""
    gate = _gate(step.node) if step.gated else step.node
    return None if gate is None else gate.inputs[0]


def _layer(node: ir.Node, steps: tuple[_Step, ...], axis: int, rank: int) -> _Branch | None:
    bias: npt.NDArray[Any] | None = None
    if node.op_type == "Add":
        found = [array_of(each) for each in node.inputs]
        bias = next((one for one in found if one is not None), None)
        inner = next((v for v, one in zip(node.inputs, found, strict=True) if one is None), None)
        product = None if inner is None or sole_user(inner) is not node else inner.producer()
        if bias is None or bias.ndim > 1 or product is None or product.op_type != "MatMul":
            return None
        node = product
    weight = array_of(input_of(node, 1))
    if weight is None or node.domain:
        return None
    if node.op_type != "MatMul":
        bias = array_of(input_of(node, 2))
        if bias is None and input_of(node, 2) is not None:
            return None
    side = _side(node, weight, axis, rank)
    if side is None:
        return None
    if bias is not None:
        wide = bias.size == weight.shape[side] == bias.shape[-1] if bias.ndim else False
        if bias.size != 1 and not wide:
            return None
        bias = np.broadcast_to(bias.reshape(-1), (weight.shape[side],))
    others = tuple(size for index, size in enumerate(weight.shape) if index != side)
    key = (node.op_type, node.inputs[0], weight.dtype.str, side, others, _settings(node))
    return _Branch(steps, node, weight, bias, side, (key, tuple(step.key for step in steps)))


def _side(node: ir.Node, weight: npt.NDArray[Any], axis: int, rank: int) -> int | None:
    """The axis of the weight that lies along the axis of the Concat; None where none does."""
    if node.op_type == "Conv":
        return 0 if axis == 1 and integer(node, "group", 1) == 1 else None
    if axis != rank - 1 or weight.ndim != 2:
        return None
    if node.op_type == "MatMul":
        return 1
    return 1 - integer(node, "transB", 0) if node.op_type == "Gemm" else None


def _settings(node: ir.Node) -> Key:
    """What two layers must have alike beside their weights; what is left out says its default."""
    if node.op_type == "Gemm":
        scales = floating(node, "alpha", 1.0), floating(node, "beta", 1.0)
        return (*scales, integer(node, "transA", 0))
    if node.op_type != "Conv":
        return ()
    padded = node.attributes.get("auto_pad")
    names = ("strides", "dilations", "pads")
    plain = {"pads": 0}
    found: list[object] = ["NOTSET" if padded is None else padded.as_string()]
    for name in names:
        written = integers(node, name)
        found.append(() if set(written) == {plain.get(name, 1)} else written)
    return tuple(found)


def _rewrite(editor: Editor, found: _Join) -> None:
    concat, first = found.concat, found.branches[0]
    steps, shape = Steps(editor, "join_branches", concat), concat.outputs[0].shape
    assert shape is not None, "the match knows it"
    whole = len(found.branches) == len(concat.inputs)
    made = sum(branch.weight.shape[branch.side] for branch in found.branches)
    sizes = [made if i == found.axis else size for i, size in enumerate(shape)]
    value = _joined(steps, found, sizes)
    for number, step in enumerate(first.steps):
        held, name = step.node.inputs[1:], f"function{number}"
        if step.gated:
            gate = steps.add(f"gate{number}", "Sigmoid", [value], sizes)
            value = steps.add(name, "Mul", [value, gate], sizes)
        else:
            kind = dict(step.node.attributes)
            value = steps.add(name, step.node.op_type, [value, *held], sizes, **kind)
    if not whole:
        end = found.first + len(found.branches)
        inputs = [*concat.inputs[: found.first], value, *concat.inputs[end:]]
        steps.add("concat", "Concat", inputs, shape, axis=found.axis)
    steps.finish()


def _joined(steps: Steps, found: _Join, sizes: Sequence[object]) -> ir.Value:
    first, branches = found.branches[0], found.branches
    kind, source = first.node.op_type, first.node.inputs[0]
    weights = np.concatenate([one.weight for one in branches], axis=first.side)
    weight = steps.constant("weight", weights)
    bias: ir.Value | None = None
    if any(one.bias is not None for one in branches):
        rows = [
            np.zeros(one.weight.shape[one.side], one.weight.dtype) if one.bias is None else one.bias
            for one in branches
        ]
        bias = steps.constant("bias", np.concatenate(rows))
    if kind == "MatMul":
        product = steps.add("layer", kind, [source, weight], sizes)
        return product if bias is None else steps.add("sum", "Add", [product, bias], sizes)
    inputs = [source, weight, *([] if bias is None else [bias])]
    return steps.add("layer", kind, inputs, sizes, **dict(first.node.attributes))


PLUGIN = LocalRule(
    name="join_branches", roots=frozenset({"Concat"}), match=_match, rewrite=_rewrite
)
