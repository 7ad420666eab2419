"""What has to be rewritten when channels go, besides nothing but constants cut along an axis.

Every edit knows the axes that it speaks of, and what to do once some of their places are gone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, new_node
from edgeopt.transforms.channels.labels import Axis

Gone = Callable[[Axis], npt.NDArray[np.int64]]
"""Places of an axis that go."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One constant operand of a node, cut along an axis.

    Args:
        node: Whose operand.
        index: Which.
        axis: Of the constant.
        labels: What stands along it.
        reads: Whether these are the weights that read the channels, and nothing else.
        source: What they read, and on which axis of it; None where that is not seen.
    """

    node: ir.Node
    index: int
    axis: int
    labels: Axis
    reads: bool = False
    source: tuple[ir.Value, int] | None = None


class Edit(Protocol):
    """A change that follows from places that are gone."""

    @property
    def axes(self) -> tuple[Axis, ...]:
        """What it depends on."""
        ...

    def redo(self, editor: Editor, gone: Gone) -> None:
        """Rewrite the node for what is left."""
        ...


@dataclass(frozen=True, slots=True)
class Count:
    """An integer attribute that says how many places an axis has, over a divisor.

    Args:
        node: With the attribute.
        name: Of the attribute.
        axis: Counted; each place once.
        divisor: By which the count is divided.
        position: In a list of integers; None for a single one.
    """

    node: ir.Node
    name: str
    axis: Axis
    divisor: int = 1
    position: int | None = None

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (self.axis,)

    def redo(self, editor: Editor, gone: Gone) -> None:
        left = (len(self.axis[0]) - len(gone(self.axis))) // self.divisor
        if self.position is None:
            editor.set_attribute(self.node, self.name, left)
            return
        listed = list(self.node.attributes.get_ints(self.name) or ())
        listed[self.position] = left
        editor.set_attribute(self.node, self.name, listed)


@dataclass(frozen=True, slots=True)
class Size:
    """An element of a constant that says the size of an axis (a target of Reshape, for one).

    Args:
        node: Reads the constant: the node itself, or the Concat that puts sizes together.
        index: Which operand of it.
        position: Of the element.
        axis: Whose size.
        user: The node that reads the Concat, and which operand; None where it is `node`.
    """

    node: ir.Node
    index: int
    position: int
    axis: Axis
    user: tuple[ir.Node, int] | None = None

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (self.axis,)

    def redo(self, editor: Editor, gone: Gone) -> None:
        left = len(self.axis[0]) - len(gone(self.axis))
        node = self._own(editor)
        target = np.array(array_of(node.inputs[self.index]))
        target.reshape(-1)[self.position] = left
        put(editor, node, self.index, target, f"size{self.position}_{left}")

    def _own(self, editor: Editor) -> ir.Node:
        """The node; of a Concat that others read too a copy for this user."""
        if self.user is None:
            return self.node
        user, operand = self.user
        held = user.inputs[operand]
        maker = None if held is None else held.producer()
        assert held is not None, "the walk has seen the operand"
        assert maker is not None, "the walk has seen the Concat"
        if len(held.uses()) == 1:
            return maker
        name = f"{user.outputs[0].name}/sizes"
        copy = new_node("Concat", maker.inputs, output=name, attributes={"axis": 0}, like=held)
        editor.insert([copy], before=user)
        editor.set_input(user, operand, copy.outputs[0])
        return copy


@dataclass(frozen=True, slots=True)
class Parts:
    """The sizes of a Split.

    Args:
        node: The Split.
        parts: The axis of each output and its size.
    """

    node: ir.Node
    parts: tuple[tuple[Axis, int], ...]

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(axis for axis, _ in self.parts)

    def redo(self, editor: Editor, gone: Gone) -> None:
        left = [size - (len(gone(axis)) if axis else 0) for axis, size in self.parts]
        word = "_".join(map(str, left))
        put(editor, self.node, 1, np.array(left, np.int64), f"split_{word}")
        if "num_outputs" in self.node.attributes:
            editor.set_attribute(self.node, "num_outputs", None)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a Slice of step 1 begins and ends on an axis.

    Args:
        node: The Slice.
        position: Of the axis among its axes.
        axis: Before the cut.
        start: First place.
        end: Behind the last.
    """

    node: ir.Node
    position: int
    axis: Axis
    start: int
    end: int

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (self.axis,)

    def redo(self, editor: Editor, gone: Gone) -> None:
        places = gone(self.axis)
        for index, bound in ((1, self.start), (2, self.end)):
            left = bound - int((places < bound).sum())
            held = np.array(array_of(self.node.inputs[index]))
            held.reshape(-1)[self.position] = left
            put(editor, self.node, index, held, f"bound{self.position}_{left}")


@dataclass(frozen=True, slots=True)
class Places:
    """The constant indices of a Gather along an axis.

    Args:
        node: The Gather.
        axis: Before it.
        made: Behind it.
    """

    node: ir.Node
    axis: Axis
    made: Axis

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (self.axis, self.made)

    def redo(self, editor: Editor, gone: Gone) -> None:
        lost = gone(self.axis)
        indices = np.array(array_of(self.node.inputs[1]))
        whole = np.delete(indices % len(self.axis[0]), gone(self.made) if self.made else [])
        moved = whole - np.searchsorted(lost, whole)
        name = f"places_{len(moved)}"
        put(editor, self.node, 1, moved.astype(indices.dtype), name)


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Reshape, Transpose, Reshape that move whole channels: a Gather, once some are gone.

    Args:
        first: The first Reshape.
        node: The last one.
        dimension: The axis that is shuffled.
        order: Where each place comes from.
        axis: Behind the shuffle.
        before: In front of it.
    """

    first: ir.Node
    node: ir.Node
    dimension: int
    order: npt.NDArray[np.int64]
    axis: Axis
    before: Axis

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (self.axis, self.before)

    def redo(self, editor: Editor, gone: Gone) -> None:
        old = self.node.outputs[0]
        left = np.delete(self.order, gone(self.axis))
        moved = left - np.searchsorted(gone(self.before), left)
        indices = constant(editor, f"{old.name}/shuffle_{len(moved)}", moved)
        made = new_node(
            "Gather",
            [self.first.inputs[0], indices],
            output=f"{old.name}/shuffled",
            attributes={"axis": self.dimension},
            like=old,
        )
        editor.insert([made], before=self.node)
        if old.shape is not None:
            sizes = [len(moved) if at == self.dimension else n for at, n in enumerate(old.shape)]
            editor.set_shape(made.outputs[0], ir.Shape(sizes))
        editor.replace_value(old, made.outputs[0])
        editor.remove_dead([self.node])


def put(editor: Editor, node: ir.Node, index: int, array: npt.NDArray[Any], word: str) -> None:
    """Give one user its own constant: others may share the old one."""
    held = node.inputs[index] if len(node.inputs) > index else None
    name = f"{node.outputs[0].name}__operand{index}_{word}"
    editor.set_input(node, index, constant(editor, name, array))
    drop_unused(editor, held)


def constant(editor: Editor, name: str, array: npt.NDArray[Any]) -> ir.Value:
    """A constant of that name, or of the next longer one that no other constant has."""
    held = editor.graph.initializers.get(name)
    while held is not None and not np.array_equal(array_of(held), array):  # pyright: ignore[reportArgumentType]
        name += "+"
        held = editor.graph.initializers.get(name)
    return editor.initializer(name, array)


def drop_unused(editor: Editor, value: ir.Value | None) -> None:
    """Take a constant out that nobody uses any more."""
    if value is None or value.uses() or value.is_graph_output() or value.is_graph_input():
        return
    if value.is_initializer():
        editor.drop_initializer(value)
    elif (maker := value.producer()) is not None:
        editor.remove_dead([maker])
