"""`Recorder`: an editor that says which values its edits concern."""

from collections.abc import Iterable
from typing import Any

import onnx_ir as ir

from edgeopt.graph.bodies import captured
from edgeopt.graph.editor import Editor


class Recorder(Editor):
    """Reversible edits, and the values whose making, reading or type they changed.

    Args:
        model: Changed in place; the caller owns it.
        touched: Where values are recorded; shared with editors `inside` bodies.
    """

    def __init__(self, model: ir.Model, touched: dict[ir.Value, None] | None = None) -> None:
        super().__init__(model)
        self.touched: dict[ir.Value, None] = {} if touched is None else touched

    def inside(self, body: ir.Graph) -> "Recorder":
        """As `Editor.inside`; records to the same place."""
        if body is self.graph:
            return self
        plain = super().inside(body)
        inner = Recorder(plain.model, self.touched)
        inner._undo, inner._whole = self._undo, self._whole
        return inner

    def insert(self, nodes: Iterable[ir.Node], *, before: ir.Node) -> None:
        """As `Editor.insert`."""
        made = list(nodes)
        super().insert(made, before=before)
        self._touch(*made)

    def insert_after(self, nodes: Iterable[ir.Node], *, after: ir.Node) -> None:
        """As `Editor.insert_after`."""
        made = list(nodes)
        super().insert_after(made, after=after)
        self._touch(*made)

    def append(self, nodes: Iterable[ir.Node]) -> None:
        """As `Editor.append`."""
        made = list(nodes)
        super().append(made)
        self._touch(*made)

    def remove(self, node: ir.Node) -> None:
        """As `Editor.remove`."""
        self._touch(node)
        self.touched |= dict.fromkeys(captured(node))
        super().remove(node)

    def set_input(self, node: ir.Node, index: int, value: ir.Value | None) -> None:
        """As `Editor.set_input`."""
        self._touch(node)
        super().set_input(node, index, value)
        self._touch(node)

    def set_attribute(self, node: ir.Node, name: str, value: Any) -> None:
        """As `Editor.set_attribute`."""
        super().set_attribute(node, name, value)
        self._touch(node)

    def replace_value(self, old: ir.Value, new: ir.Value) -> None:
        """As `Editor.replace_value`."""
        super().replace_value(old, new)
        self.touched[old] = self.touched[new] = None

    def set_shape(self, value: ir.Value, shape: ir.Shape | None) -> None:
        """As `Editor.set_shape`."""
        super().set_shape(value, shape)
        self.touched[value] = None

    def _touch(self, *nodes: ir.Node) -> None:
        for node in nodes:
            for value in (*node.inputs, *node.outputs):
                if value is not None:
                    self.touched[value] = None
