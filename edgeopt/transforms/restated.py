"""Values that a graph states otherwise than the one that it came from.

A transform may let a layer make a · (x + s), channel by channel, in the place of x, and account for
it in what reads it. Who compares values by name must know: what was restated lies in the graph's
metadata and goes with its clones, and `as_stated` says the other graph in the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.local_rule import set_constant
from edgeopt.transforms.repair._weighted import Weighted, weighted

Floats = npt.NDArray[np.float32]
_KEY = "edgeopt.restated"


@dataclass(frozen=True, slots=True)
class Restated:
    """A value x that stands as a · (x + s).

    Args:
        factor: a, above 0 [channels].
        shift: s [channels].
    """

    factor: Floats
    shift: Floats


def layer_of(value: ir.Value) -> Weighted | None:
    """The layer that makes a value, with a bias of its own or room for one; none of an output."""
    node = value.producer()
    if node is not None and node.op_type == "Add":
        sources = (v.producer() for v in node.inputs if v is not None)
        node = next((one for one in sources if one is not None and one.op_type == "MatMul"), None)
    layer = None if node is None else weighted(node)
    if layer is None or layer.result is not value or value.shape is None:
        return None
    if value.is_graph_output():
        return None
    return None if layer.adds is None and layer.node.op_type == "MatMul" else layer


def restate(editor: Editor, layer: Weighted, how: Restated) -> None:
    """Let a layer make a · (x + s) where it made x, and take that down."""
    matrix, bias = layer.matrix(), layer.bias()
    factors = how.factor.reshape(matrix.shape[0], -1, 1)
    weight = layer.weight_from((matrix * factors).astype(np.float32))
    _put_bias(editor, layer, (how.factor * (bias + how.shift)).astype(np.float32))
    set_constant(editor, layer.node, 1, f"{layer.result.name}/restated/weight", weight)
    graph = editor.graph
    graph.meta[_KEY] = {**held(graph), str(layer.result.name): how}


def shift_bias(editor: Editor, layer: Weighted, by: Floats) -> None:
    """Add something [out] to the bias of a layer."""
    _put_bias(editor, layer, (layer.bias() + by).astype(np.float32))


def held(graph: ir.Graph) -> Mapping[str, Restated]:
    """What was restated, by name of the value."""
    found = graph.meta.get(_KEY)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    return cast("Mapping[str, Restated]", found or {})


def as_stated(reference: ir.Model, model: ir.Model) -> ir.Model:
    """A graph that computes what the reference does, and has the values that a model restated as
    this model has them; the reference itself where it restated nothing.
    """
    restated = held(model.graph)
    if not restated:
        return reference
    editor = Editor(reference.clone())
    for name, how in restated.items():
        node = editor.producer(name)
        layer = None if node is None else layer_of(node.outputs[0])
        if layer is None or layer.matrix().shape[0] * layer.matrix().shape[1] != how.factor.size:
            continue
        restate(editor, layer, how)
        _read_back(editor, layer, how)
    return editor.model


def _read_back(editor: Editor, layer: Weighted, how: Restated) -> None:
    """Let everybody read x again: x = (a · (x + s)) / a - s."""
    made = layer.result
    rank = len(made.shape or ())
    shape = (-1, *(1,) * (rank - 2)) if layer.axis == 1 else (-1,)
    constants = [
        editor.initializer(f"{made.name}/restated/{label}", array.reshape(shape))
        for label, array in (("factor", how.factor), ("shift", how.shift))
    ]
    divided = new_node("Div", [made, constants[0]], output=f"{made.name}/restated/x", like=made)
    back = new_node(
        "Sub", [divided.outputs[0], constants[1]], output=f"{made.name}/given", like=made
    )
    maker = made.producer()
    assert maker is not None, "a layer makes it"
    editor.insert_after([divided, back], after=maker)
    editor.replace_uses(made, back.outputs[0], keep=[divided])


def _put_bias(editor: Editor, layer: Weighted, bias: Floats) -> None:
    name = f"{layer.result.name}/restated/bias"
    if layer.adds is None:
        set_constant(editor, layer.node, 2, name, bias)
    else:
        set_constant(editor, layer.adds, layer.bias_index, name, layer.bias_from(bias))
