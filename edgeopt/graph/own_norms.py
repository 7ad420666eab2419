"""Normalizations that the runtime writes into the standard domain, where the standard lacks them.

    LayerNormalization(x, g, b)         =  (x - mean(x)) / sqrt(var(x) + eps) · g + b
    SimplifiedLayerNormalization(x, g)  =  x / sqrt(mean(x²) + eps) · g

ONNX Runtime saves an optimized model with the first also below opset 17, with the second in any.
No other tool takes such a file, and no converter raises its operator set. They are spelled as
exporters spell them, which the runtime fuses again.
"""

from contextlib import suppress

import numpy as np
import onnx_ir as ir

from edgeopt.errors import ModelError
from edgeopt.graph.editor import Editor, new_node
from edgeopt.graph.shapes import infer_shapes
from edgeopt.graph.stand_ins import NORMS

_STANDARD_FROM, _AXES_AS_INPUT = 17, 18
_EPSILON = 1e-5


def spell_norms(graph: ir.Model) -> int:
    """Spell every normalization that the graph's operator set lacks, in place, in bodies too.

    Returns:
        How many there were; those over axes of unknown number, or whose mean is read, stay.
    """
    editor, version = Editor(graph), graph.graph.opset_imports.get("", 1)
    found = [node for node in graph.graph.all_nodes() if _is_foreign(node, version)]
    spelled = 0
    if any(_axes(node) is None for node in found):
        with suppress(ModelError):
            infer_shapes(graph)
    for node in found:
        axes = _axes(node)
        part = node.graph
        read = any(value.uses() or value.is_graph_output() for value in node.outputs[1:])
        if axes is None or read or not isinstance(part, ir.Graph):
            continue
        _Speller(editor.inside(part), node, axes, version).write()
        spelled += 1
    return spelled


def _is_foreign(node: ir.Node, version: int) -> bool:
    if node.domain or node.op_type not in NORMS:
        return False
    return node.op_type != "LayerNormalization" or version < _STANDARD_FROM


def _axes(node: ir.Node) -> tuple[int, ...] | None:
    """From the first axis that is normalized to the last, counted from behind."""
    first = node.attributes.get_int("axis", -1) or 0
    source = node.inputs[0]
    if first < 0:
        return tuple(range(first, 0))
    shape = None if source is None else source.shape
    return None if shape is None else tuple(range(first - len(shape), 0))


class _Speller:
    """Writes the nodes that one normalization is."""

    def __init__(self, editor: Editor, node: ir.Node, axes: tuple[int, ...], version: int) -> None:
        self._editor = editor
        self._node = node
        self._axes = axes
        self._version = version
        self._made: list[ir.Node] = []
        source = node.inputs[0]
        assert source is not None, "it has an input"
        self._source = source
        scale = node.inputs[1]
        held = scale.dtype if scale is not None else None
        self._dtype = source.dtype or held or ir.DataType.FLOAT

    def write(self) -> None:
        """Put them in the place of the node."""
        node, x = self._node, self._source
        apart = x if node.op_type != "LayerNormalization" else self._add("Sub", x, self._mean(x))
        square = self._add("Pow", apart, self._number("two", 2.0))
        epsilon = node.attributes.get_float("epsilon", _EPSILON) or 0.0
        floor = self._add("Add", self._mean(square), self._number("epsilon", epsilon))
        made = self._add("Div", apart, self._add("Sqrt", floor))
        made = self._add("Mul", made, node.inputs[1])
        offset = node.inputs[2] if len(node.inputs) > 2 else None
        made = made if offset is None else self._add("Add", made, offset)
        self._editor.insert(self._made, before=node)
        self._editor.replace_value(node.outputs[0], made)
        self._editor.remove_dead([node])

    def _mean(self, value: ir.Value) -> ir.Value:
        if self._version < _AXES_AS_INPUT:
            return self._add("ReduceMean", value, axes=list(self._axes), keepdims=1)
        axes = self._editor.initializer(
            f"{self._node.outputs[0].name}/axes", np.array(self._axes, np.int64)
        )
        return self._add("ReduceMean", value, axes, keepdims=1)

    def _number(self, role: str, number: float) -> ir.Value:
        name = f"{self._node.outputs[0].name}/{role}"
        return self._editor.initializer(name, np.array(number, self._dtype.numpy()))

    def _add(self, operator: str, *inputs: ir.Value | None, **attributes: object) -> ir.Value:
        label = f"{self._node.outputs[0].name}/{operator.lower()}{len(self._made)}"
        made = new_node(operator, list(inputs), output=label, attributes=dict(attributes))
        self._made.append(made)
        return made.outputs[0]
