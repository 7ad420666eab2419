"""A layer whose columns are parts of heads, as several layers, one a part.

    q, k, v = Parts(View(x W + b))  =  View(x Wq + bq), View(x Wk + bk), View(x Wv + bv)

View is a Reshape that factors the columns, and Transposes, Unsqueezes and Squeezes behind it;
Parts are Gathers, Slices or a Split along one of the factors, as attention is written: queries,
keys and values of one product, [batch, tokens, 3, heads, width] with the 3 brought to the front
(vision transformers; in Segment Anything a second Reshape then merges heads with windows), first
axis of three (torch's own attention), or side by side in every head (LeViT, and the attention of
YOLO11 behind a convolution). Each part is then laid out by itself, one
copy less; has weights, precisions and widths of its own; and what only one part needs (a scale, a
selection) can move into its layer.

It must not fire where something else reads the whole result or a view of it, where a part is not
along one factor of the columns or parts overlap, with one part only (`select_first`), where the
views merge what tells the parts apart with rows, with groups, where sizes of the rows are not known
to stay, or where weights are no constants.
Imperative, since views and parts are of any number. ONNX Runtime does nothing of it; measured
1.02 to 1.12 on single blocks of attention (six sizes from 16 to 3136 rows, one x86 thread), and
nothing that shows on whole models (0.99 on ViT-tiny, 1.02 on a text recogniser with two blocks).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, input_of, integer, refuse
from edgeopt.transforms.rewrite._around import Steps
from edgeopt.transforms.rewrite._selection import selection_of
from edgeopt.transforms.rewrite._views import Layout, split_columns, through_views, view_of


@dataclass(frozen=True, slots=True)
class _Layer:
    """A product or convolution, and the sum of its bias where that is a node of its own."""

    node: ir.Node
    weight: npt.NDArray[Any]
    bias: npt.NDArray[Any] | None
    side: int
    """The axis of the weight that makes columns."""

    @property
    def columns(self) -> int:
        return self.weight.shape[self.side]


@dataclass(frozen=True, slots=True)
class _Part:
    old: ir.Value
    index: tuple[int, ...]
    layout: Layout


@dataclass(frozen=True, slots=True)
class _Parts:
    layer: _Layer
    factor: int
    layout: Layout
    parts: tuple[_Part, ...]


def _match(view: ir.Node) -> _Parts | Rejection:
    source = view.inputs[0]
    layer = None if source is None or sole_user(source) is not view else _layer(source, view)
    if layer is None or source is None or source.shape is None:
        return refuse("no layer with constant weights makes it for this view alone", view)
    axis = 1 if layer.node.op_type == "Conv" else len(source.shape) - 1
    layout = split_columns(view, layer.columns, axis)
    if layout is None or len(layout.factors) < 2:
        return refuse("it does not factor the columns, or sizes are not known", view)
    layout = through_views(layout)
    parts = _selected(layout)
    if isinstance(parts, Rejection):
        return parts
    chosen = [one for part in parts for one in part.index]
    if len(parts) < 2 or len(set(chosen)) != len(chosen):
        return refuse("there is one part only, or parts overlap", view)
    factor = layout.factor(_axis_of(layout, parts[0].old))
    assert factor is not None, "a part lies along a factor"
    return _Parts(layer, factor, layout, parts)


def _layer(value: ir.Value, view: ir.Node) -> _Layer | None:
    node, bias = value.producer(), None
    if node is not None and node.op_type == "Add" and not node.domain:
        found = [array_of(each) for each in node.inputs]
        bias = next((one for one in found if one is not None), None)
        inner = next((v for v, one in zip(node.inputs, found, strict=True) if one is None), None)
        if bias is None or inner is None or sole_user(inner) is not node:
            return None
        node = inner.producer()
    if node is None or node.domain or node.graph is not view.graph:
        return None
    weight = array_of(input_of(node, 1))
    if weight is None or weight.ndim < 2 or (node.op_type != "MatMul" and bias is not None):
        return None
    if node.op_type == "MatMul":
        fits = weight.ndim == 2 and (bias is None or bias.ndim < 2)
        return _Layer(node, weight, bias, 1) if fits else None
    bias = array_of(input_of(node, 2))
    if bias is None and input_of(node, 2) is not None:
        return None
    if node.op_type == "Gemm":
        plain = not integer(node, "transA", 0) and (bias is None or bias.ndim < 2)
        return _Layer(node, weight, bias, 1 - integer(node, "transB", 0)) if plain else None
    ungrouped = node.op_type == "Conv" and integer(node, "group", 1) == 1
    return _Layer(node, weight, bias, 0) if ungrouped else None


def _selected(layout: Layout) -> tuple[_Part, ...] | Rejection:
    """What reads a viewed value, each reader a part of it."""
    value = layout.value
    refusal = refuse("something reads more than one part of it", layout.chain[-1])
    if value.is_graph_output():
        return refusal
    found: list[_Part] = []
    for user, index in value.uses():
        if index != 0 or user.domain or user.graph is not layout.chain[0].graph:
            return refusal
        parts = _split(layout, user) if user.op_type == "Split" else _one(layout, user)
        if parts is None:
            return refusal
        found += parts
    axes = {_axis_of(layout, part.old) for part in found}
    if len(axes) != 1 or layout.factor(next(iter(axes))) is None:
        return refuse("the parts do not lie along one factor of the columns", layout.chain[-1])
    return tuple(found)


def _axis_of(layout: Layout, part: ir.Value) -> int:
    """The axis of the viewed value along which a part is taken."""
    node = part.producer()
    while node is not None and node.inputs[0] is not layout.value:
        made = node.inputs[0]
        node = None if made is None else made.producer()
    assert node is not None, "a part is made of the value"
    found = None if node.op_type == "Split" else selection_of(node)
    return integer(node, "axis", 0) % layout.rank if found is None else found[0].axis


def _one(layout: Layout, node: ir.Node) -> list[_Part] | None:
    found = selection_of(node)
    if found is None or len(set(found[0].indices)) != len(found[0].indices):
        return None
    return _parts(layout, node.outputs[0], found[0].axis, found[0].indices, drops=found[1])


def _split(layout: Layout, node: ir.Node) -> list[_Part] | None:
    axis, start, parts = integer(node, "axis", 0) % layout.rank, 0, list[_Part]()
    told = array_of(input_of(node, 1))
    for number, value in enumerate(node.outputs):
        made = None if value.shape is None else value.shape[axis]
        size = made if told is None else int(told[number])
        if not isinstance(size, int) or size == 0:
            return None
        if value.uses() or value.is_graph_output():
            found = _parts(layout, value, axis, tuple(range(start, start + size)), drops=False)
            if found is None:
                return None
            parts += found
        start += size
    return parts


def _parts(
    layout: Layout, value: ir.Value, axis: int, index: tuple[int, ...], *, drops: bool
) -> list[_Part] | None:
    """A part with the layout that it is to have; a Squeeze of its axis is taken along.

    None where it would keep its axis in a layout that is computed.
    """
    user = sole_user(value)
    if not drops and len(index) == 1 and user is not None and user.op_type == "Squeeze":
        gone = array_of(input_of(user, 1))
        rank = layout.rank
        if gone is not None and [int(one) % rank for one in gone.reshape(-1)] == [axis]:
            value, drops = user.outputs[0], True
    if layout.tail is not None and not drops and array_of(layout.tail) is None:
        return None
    factor = layout.factor(axis)
    sizes = tuple(len(index) if i == factor else s for i, s in enumerate(layout.factors))
    axes = tuple(place for i, place in enumerate(layout.axes) if not (drops and i == axis))
    return [_Part(value, index, replace(layout, factors=sizes, axes=axes))]


def _rewrite(editor: Editor, found: _Parts) -> None:
    layer, view = found.layer, found.layout.chain[0]
    columns = np.arange(layer.columns).reshape(found.layout.factors)
    steps = Steps(editor, "heads_to_siblings", view)
    made: list[ir.Value] = []
    for number, part in enumerate(found.parts):
        rows = columns.take(part.index, axis=found.factor).reshape(-1)
        value = _product(steps, layer, number, rows, view)
        sizes, order = view_of(part.layout)
        plain = order == list(range(len(order)))
        if not (plain and _is(value, sizes)):
            shape = steps.constant(f"shape{number}", np.array(sizes, np.int64))
            value = steps.add(f"view{number}", "Reshape", [value, shape])
        if not plain:
            value = steps.add(f"part{number}", "Transpose", [value], perm=order)
        if found.layout.tail is not None:
            target = _target(steps, found, number)
            value = steps.add(f"merged{number}", "Reshape", [value, target])
        made.append(value)
    steps.insert(before=found.layout.chain[-1])
    for part, value in zip(found.parts, made, strict=True):
        value.shape = part.old.shape
        editor.replace_value(part.old, value)
    gone = [part.old.producer() for part in found.parts]
    editor.remove_dead([node for node in gone if node is not None])


def _target(steps: Steps, found: _Parts, number: int) -> ir.Value:
    """What the Reshape behind the views makes of a part: its first axis is less, or gone."""
    target, part = found.layout.tail, found.parts[number]
    assert target is not None, "there is such a Reshape"
    told, drops = array_of(target), len(part.layout.axes) < len(found.layout.axes)
    name = f"target{number}"
    if told is not None:
        first = [] if drops else [len(part.index)]
        return steps.constant(name, np.array([*first, *told[1:]], np.int64))
    ends = {"start": 1, "end": np.iinfo(np.int64).max}
    bounds = [steps.constant(f"{n}{number}", np.array([i], np.int64)) for n, i in ends.items()]
    return steps.add(name, "Slice", [target, *bounds])


def _is(value: ir.Value, target: list[int]) -> bool:
    """Whether a value has the sizes of a Reshape's target already."""
    shape = value.shape
    if shape is None or len(shape) != len(target):
        return False
    return all(told in (0, size) for told, size in zip(target, shape, strict=True))


def _product(
    steps: Steps, layer: _Layer, number: int, rows: npt.NDArray[np.int64], view: ir.Node
) -> ir.Value:
    """The layer with some of its columns."""
    source, whole = layer.node.inputs[0], view.inputs[0]
    assert whole is not None, "the match knows its shape"
    assert whole.shape is not None, "the match knows its shape"
    axis = 1 if layer.node.op_type == "Conv" else len(whole.shape) - 1
    sizes = [len(rows) if i == axis else size for i, size in enumerate(whole.shape)]
    weight = steps.constant(f"weight{number}", layer.weight.take(rows, axis=layer.side))
    bias = layer.bias
    if bias is not None and bias.size == layer.columns > 1:
        bias = bias.take(rows, axis=bias.ndim - 1)
    held = None if bias is None else steps.constant(f"bias{number}", bias)
    kind, name = layer.node.op_type, f"layer{number}"
    if kind == "MatMul":
        made = steps.add(name, kind, [source, weight], sizes)
        return made if held is None else steps.add(f"sum{number}", "Add", [made, held], sizes)
    inputs = [source, weight, *([] if held is None else [held])]
    return steps.add(name, kind, inputs, sizes, **dict(layer.node.attributes))


PLUGIN = LocalRule(
    name="heads_to_siblings",
    roots=frozenset({"Reshape"}),
    match=_match,
    rewrite=_rewrite,
    opset=13,
)
