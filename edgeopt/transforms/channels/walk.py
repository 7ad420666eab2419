"""`Walk`: one pass over a sorted graph that says what stands on every axis of every value.

What an operator does to axes is a function of its own in `rules`, found by the operator's name.
It returns nothing, or the reason why what it touches cannot be removed: then all atoms that it
reads are frozen with that reason, and its outputs hold nothing that could be removed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.channels.edits import Cut, Edit
from edgeopt.transforms.channels.labels import NONE, Axes, Axis, Labels, atoms_of, same

Rule = Callable[["Walk", ir.Node], str | None]
_FOLLOWED_CONSTANTS = frozenset(
    {"DequantizeLinear", "QuantizeLinear", "Transpose", "Cast", "Identity"}
)
CONTRIB = "com.microsoft"


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """A rule, and whether it can begin channels of its own."""

    rule: Rule
    opens: bool


_RULES: dict[tuple[str, str], RuleEntry] = {}


def registered() -> Mapping[tuple[str, str], RuleEntry]:
    """Every rule by domain and operator, of the files that were imported."""
    return _RULES


def rule(*operators: str, opens: bool = False, domain: str = "") -> Callable[[Rule], Rule]:
    """Register a function for operators of a domain.

    Args:
        operators: Their names.
        opens: Whether such a node makes channels although it reads none: it is asked always.
        domain: Of the operators.
    """

    def register(function: Rule) -> Rule:
        for operator in operators:
            _RULES[domain, operator] = RuleEntry(function, opens)
        return function

    return register


@dataclass(frozen=True, slots=True)
class Source:
    """A layer that makes channels.

    Args:
        value: What it makes.
        first: Its first atom.
        count: Of its atoms.
        times: How many channels each of them is: one a group, or a direction.
    """

    value: ir.Value
    first: int
    count: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Frozen:
    """Atoms that stay, and why."""

    atoms: Labels
    reason: str


@dataclass
class Walk:
    """What the pass has found so far; rules read and write it."""

    graph: ir.Graph
    rules: Mapping[tuple[str, str], RuleEntry]
    atoms: int = 0
    axes: dict[ir.Value, Axes] = field(default_factory=dict[ir.Value, Axes])
    sizes: dict[ir.Value, Axes] = field(default_factory=dict[ir.Value, Axes])
    sources: list[Source] = field(default_factory=list[Source])
    ties: list[tuple[Labels, Labels]] = field(default_factory=list[tuple[Labels, Labels]])
    sums: list[tuple[Labels, Labels]] = field(default_factory=list[tuple[Labels, Labels]])
    frozen: list[Frozen] = field(default_factory=list[Frozen])
    cuts: list[Cut] = field(default_factory=list[Cut])
    edits: list[Edit] = field(default_factory=list[Edit])
    parts: list[Labels] = field(default_factory=list[Labels])
    passed: set[ir.Node] = field(default_factory=set[ir.Node])

    def run(self) -> None:
        """Every node once, then what the graph shows to others."""
        for node in self.graph:
            if node not in self.passed:
                self._step(node)
        for value in self.graph.outputs:
            self.freeze(self.of(value), f"they are those of the output {value.name!r}")
        for value, axes in self.axes.items():
            if any(user.graph is not self.graph for user, _ in value.uses()):
                self.freeze(axes, f"a body of an If or a loop reads {value.name!r}")

    def _step(self, node: ir.Node) -> None:
        entry = self.rules.get((_domain(node), node.op_type))
        held = [value for value in node.inputs if value is not None and self.holds(value)]
        if not held and (entry is None or not entry.opens):
            return
        reason = f"{node.op_type} is not followed" if entry is None else entry.rule(self, node)
        if reason is not None:
            self.stop(node, reason)

    def holds(self, value: ir.Value) -> bool:
        """Whether anything on a value could be removed, or it says the size of such an axis."""
        return any(self.axes.get(value, ())) or any(self.sizes.get(value, ()))

    def stop(self, node: ir.Node, reason: str) -> None:
        """Nothing that a node reads can be removed, and nothing that it makes."""
        name = node.outputs[0].name
        for value in node.inputs:
            if value is not None:
                axes = (*self.axes.get(value, ()), *self.sizes.get(value, ()))
                self.freeze(axes, f"they meet {node.op_type} {name!r}: {reason}")
        for value in node.outputs:
            self.axes.pop(value, None)

    def of(self, value: ir.Value | None) -> Axes:
        """What stands on each axis of a value; empty where its rank is not known."""
        if value is None:
            return ()
        found = self.axes.get(value)
        if found is not None:
            return found
        return () if value.shape is None else ((),) * len(value.shape)

    def put(self, value: ir.Value, axes: Sequence[Axis]) -> None:
        """Say what stands on each axis of a value."""
        if any(axes):
            self.axes[value] = tuple(axes)

    def open(self, value: ir.Value, count: int, times: int = 1) -> Labels:
        """New atoms that a layer makes, each several channels of it."""
        first = self.atoms
        self.atoms += count
        self.sources.append(Source(value, first, count, times))
        return np.arange(first, self.atoms)

    def freeze(self, axes: Iterable[Axis], reason: str) -> None:
        """Everything on some axes stays."""
        atoms = atoms_of(axis for axis in axes if axis)
        if atoms.size:
            self.frozen.append(Frozen(atoms, reason))

    def tie(self, one: Axis, other: Axis, reason: str, *, added: bool = False) -> Axis:
        """Two axes lose the same places, or none; returns what stands there now.

        Args:
            one: An axis.
            other: Another of the same size.
            reason: Why a place stays that only one of them could lose.
            added: Whether the values are added: a residual.
        """
        if same(one, other):
            return one
        if len(one) != 1 or len(other) != 1 or one[0].shape != other[0].shape:
            self.freeze((one, other), reason)
            return one or other
        first, second = one[0], other[0]
        both = (first >= 0) & (second >= 0)
        pair = first[both], second[both]
        self.ties.append(pair)
        if added:
            self.sums.append(pair)
        for labels, others in ((first, second), (second, first)):
            self.freeze(((labels[others < 0],),), reason)
        return (np.where(first >= 0, first, NONE),)

    def tie_rows(self, labels: npt.NDArray[np.int64]) -> Labels:
        """Atoms of each row of a matrix go together; returns one for each row."""
        first = labels.max(axis=1)
        mixed = (labels < 0).any(axis=1) & (first >= 0)
        self.freeze(((labels[mixed].reshape(-1),),), "some of what goes with them cannot go")
        whole = (first >= 0) & ~mixed
        spread = np.broadcast_to(first[whole, np.newaxis], labels[whole].shape)
        self.ties.append((spread.reshape(-1), labels[whole].reshape(-1)))
        return np.where(whole, first, NONE)

    def cut(
        self,
        node: ir.Node,
        index: int,
        axis: int,
        labels: Axis,
        *,
        reads: tuple[ir.Value, int] | None = None,
        reading: bool = False,
    ) -> bool:
        """Cut a constant operand along an axis; False where it is not made of constants alone.

        Quantized weights are seen through: their codes and scales are cut.
        """
        if not labels:
            return True
        value = node.inputs[index]
        array = array_of(value)
        if array is not None:
            if array.ndim <= axis or array.shape[axis] != len(labels[0]):
                return False
            self.cuts.append(Cut(node, index, axis, labels, reading or reads is not None, reads))
            return True
        maker = None if value is None else value.producer()
        if maker is None or value is None or not is_constant(value) or len(value.uses()) != 1:
            return False
        if maker.op_type == "Transpose":
            order = maker.attributes.get_ints("perm")
            axis = axis if order is None else int(order[axis])
        known = reads is not None
        if not self.cut(maker, 0, axis, labels, reads=reads, reading=reading or known):
            return False
        return self._cut_scales(maker, axis, labels)

    def _cut_scales(self, maker: ir.Node, axis: int, labels: Axis) -> bool:
        if maker.op_type not in ("DequantizeLinear", "QuantizeLinear"):
            return True
        if maker.attributes.get_int("block_size", 0):
            return False
        for index in range(1, len(maker.inputs)):
            held = array_of(maker.inputs[index])
            along = maker.attributes.get_int("axis", 1) == axis
            if held is not None and held.ndim == 1 and held.size > 1 and along:
                self.cut(maker, index, 0, labels)
        return True

    def cut_if_there(self, node: ir.Node, index: int, labels: Axis) -> bool:
        """Cut an optional operand along its last axis, where it has one number a place."""
        if len(node.inputs) <= index or node.inputs[index] is None or not labels:
            return True
        shape = constant_shape(node.inputs[index])
        if shape is None:
            return False
        if not shape or shape[-1] == 1:
            return True
        return self.cut(node, index, len(shape) - 1, labels)


def is_constant(value: ir.Value | None) -> bool:
    """Whether a value is made of constants alone, through what keeps their places."""
    if value is None:
        return False
    if array_of(value) is not None:
        return True
    maker = value.producer()
    if maker is None or maker.op_type not in _FOLLOWED_CONSTANTS or not maker.inputs:
        return False
    return all(each is None or is_constant(each) for each in maker.inputs)


def constant_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """The shape of a constant; None where the value is none."""
    array = array_of(value)
    if array is not None:
        return tuple(int(size) for size in array.shape)
    if value is None or not is_constant(value):
        return None
    maker = value.producer()
    assert maker is not None, "a constant without an array has a maker"
    before = constant_shape(maker.inputs[0])
    order = maker.attributes.get_ints("perm") if maker.op_type == "Transpose" else None
    if before is None or maker.op_type != "Transpose":
        return before
    listed = tuple(order) if order is not None else tuple(range(len(before)))[::-1]
    return tuple(before[int(axis)] for axis in listed)


def size_of(value: ir.Value | None, axis: int) -> int | None:
    """Size of an axis; None where it is free or not known."""
    if value is None or value.shape is None or not -len(value.shape) <= axis < len(value.shape):
        return None
    size: Any = value.shape[axis]
    return size if isinstance(size, int) else None


def _domain(node: ir.Node) -> str:
    return "" if node.domain == "ai.onnx" else node.domain
