"""What rules ask about the neighbours of a node, and how they put their nodes in."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, new_node, sole_user
from edgeopt.transforms.local_rule import input_of, site_of

Sizes = tuple[int, ...]


def maker(user: ir.Node, index: int, *operators: str) -> ir.Node | None:
    """The node of one of these types whose only reader is an input of `user`."""
    value = input_of(user, index)
    made = None if value is None else value.producer()
    if value is None or made is None or made.domain or made.graph is not user.graph:
        return None
    return made if made.op_type in operators and sole_user(value) is user else None


def sizes_of(value: ir.Value | None) -> Sizes | None:
    """The shape of a value where every size is known."""
    if value is None or value.shape is None:
        return None
    sizes = tuple(size for size in value.shape if isinstance(size, int))
    return sizes if len(sizes) == len(value.shape) else None


def constant_operand(node: ir.Node) -> tuple[ir.Value, npt.NDArray[Any]] | None:
    """The other operand and the constant one of a node with two; None where there is none."""
    if len(node.inputs) != 2 or node.inputs[0] is None or node.inputs[1] is None:
        return None
    for own, other in ((0, 1), (1, 0)):
        array, value = array_of(node.inputs[other]), node.inputs[own]
        if array is not None and value is not None and array_of(value) is None:
            return value, array
    return None


def rows(array: npt.NDArray[Any], axis_from_end: int, size: int) -> npt.NDArray[np.float64] | None:
    """A constant as one number a position of an axis; None where it varies over another.

    Args:
        array: A constant that is broadcast.
        axis_from_end: 1 for the last axis.
        size: Of the axis.
    """
    if array.size != 1 and (array.ndim < axis_from_end or array.shape[-axis_from_end] != size):
        return None
    if array.size not in (1, size):
        return None
    return np.broadcast_to(array.reshape(-1).astype(np.float64), (size,))


def shape_of(sizes: Iterable[object]) -> ir.Shape:
    """A new shape of sizes of others."""
    return ir.Shape([one if isinstance(one, int | ir.SymbolicDim) else None for one in sizes])


class Steps:
    """New nodes of a rule, named after its site, put before its root.

    Args:
        rule: Name of the rule.
        root: The node whose output the last one replaces.
    """

    def __init__(self, editor: Editor, rule: str, root: ir.Node) -> None:
        self._editor = editor
        self._root = root
        self.name = f"{site_of(root)}/{rule}"
        self._made: list[ir.Node] = []

    def constant(self, role: str, array: npt.NDArray[Any]) -> ir.Value:
        """A constant of the rule."""
        name = f"{self.name}/{role}"
        while name in self._editor.graph.initializers:
            name += "+"
        return self._editor.initializer(name, array)

    def add(
        self,
        role: str,
        operator: str,
        inputs: Sequence[ir.Value | None],
        shape: Iterable[object] | None = None,
        **attributes: Any,
    ) -> ir.Value:
        """One more node; its type is that of its first input."""
        made = new_node(operator, inputs, output=f"{self.name}/{role}", attributes=attributes)
        made.outputs[0].shape = None if shape is None else shape_of(shape)
        made.outputs[0].type = None if inputs[0] is None else inputs[0].type
        self._made.append(made)
        return made.outputs[0]

    def insert(self, before: ir.Node | None = None) -> None:
        """Put the nodes in before the root, which stays, or before another node."""
        self._editor.insert(self._made, before=before or self._root)
        self._made = []

    def finish(self, result: ir.Value | None = None) -> None:
        """Put the nodes in and let the last (or `result`) take the place of the root's output."""
        old = self._root.outputs[0]
        new = result if result is not None else self._made[-1].outputs[0]
        self._editor.insert(self._made, before=self._root)
        if new.shape is None:
            new.shape = old.shape
        own = any(new is node.outputs[0] for node in self._made)
        if own or old.is_graph_output():
            self._editor.replace_value(old, new)
        else:
            self._editor.replace_uses(old, new)
        self._editor.remove_dead([self._root])
