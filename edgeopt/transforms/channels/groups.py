"""`Dependencies`: groups of channels that can be removed, and why others cannot.

Atoms that are tied go together: a *unit*. Units whose layers are connected are a *group*, the
site of an action, named after the first value that a layer of it makes. Within a group units
differ in what they are: half of a Split, say, is also part of a residual and the other half is
not. Units of one kind are a *stratum*; widths are kept stratum by stratum.
("DepGraph: Towards Any Structural Pruning", Fang et al., CVPR 2023, on ONNX axes, place by place.)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.transforms.channels.edits import Cut, Edit
from edgeopt.transforms.channels.labels import (
    NONE,
    Axes,
    Axis,
    Labels,
    atoms_of,
    components,
    places,
)
from edgeopt.transforms.channels.registry import RULES
from edgeopt.transforms.channels.walk import Source, Walk

Indices = npt.NDArray[np.int64]
_READS_NOTHING = "no layer reads them"
_ONE_UNIT = "all of them are tied into one"
_WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN"})
_GRAPH = ir.AttributeType.GRAPH


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Channels that are removed unit by unit.

    Args:
        sources: Layers that make them, in graph order.
        unit_of: Unit of each atom of the graph, -1 for atoms of others.
        strata: Units by kind, each ascending.
        channels: Channels that one unit has in its widest layer, for each stratum.
        readers: Cuts of the weights that read them.
        residual: Of each stratum, whether values of several layers are added there.
    """

    sources: tuple[Source, ...]
    unit_of: Labels
    strata: tuple[Indices, ...]
    channels: tuple[int, ...]
    readers: tuple[Cut, ...]
    residual: tuple[bool, ...]

    @property
    def name(self) -> str:
        """The value that the first layer makes: the site of actions on this group."""
        return self.sources[0].value.name or ""

    @property
    def width(self) -> int:
        """Number of units."""
        return sum(len(stratum) for stratum in self.strata)

    def units_at(self, axis: Axis) -> Labels:
        """The unit at each place of an axis, -1 where none of this group stands."""
        found = np.full(len(axis[0]), NONE, np.int64)
        for labels in axis:
            here = np.where(labels >= 0, self.unit_of[labels], NONE)
            found = np.where(found >= 0, found, here)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A layer none of whose channels can be removed.

    Args:
        name: Of the value that it makes.
        reason: Why, as the end of a sentence about its channels.
    """

    name: str
    reason: str


class Dependencies:
    """What the channels of a model depend on.

    Args:
        model: Sorted, with shapes; unchanged, and whatever is read here is of it.
    """

    def __init__(self, model: ir.Model) -> None:
        walk = Walk(model.graph, RULES)
        walk.run()
        self._walk = walk
        self._graph = model.graph
        self._unit = components(walk.atoms, walk.ties)
        self._stays = np.zeros(walk.atoms, np.bool_)
        for one in walk.frozen:
            self._stays[self._unit[one.atoms]] = True
        self._stays = self._stays[self._unit]

    @property
    def cuts(self) -> Sequence[Cut]:
        """Every constant that has channels along an axis."""
        return self._walk.cuts

    @property
    def edits(self) -> Sequence[Edit]:
        """Everything else that says how many channels there are."""
        return self._walk.edits

    @property
    def axes(self) -> Mapping[ir.Value, Axes]:
        """What stands along each axis of the values that hold channels."""
        return self._walk.axes

    def widths(self, gone: npt.NDArray[np.bool_]) -> Iterator[tuple[ir.Value, int, int, int]]:
        """Values that become narrower: value, axis, size before and behind."""
        for value, axes in self._walk.axes.items():
            for index, axis in enumerate(axes):
                lost = len(places(axis, gone)) if axis else 0
                if lost:
                    yield value, index, len(axis[0]), len(axis[0]) - lost

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Every group whose removal is proven possible, in graph order."""
        return tuple(g for g in (self._group(s) for s in self._connected) if g is not None)

    @cached_property
    def refused(self) -> tuple[Refused, ...]:
        """Layers that are in no group, in graph order."""
        held = {source.value for group in self.groups for source in group.sources}
        outside = [
            Refused(name=source.value.name or "", reason=self._reason(source))
            for source in self._walk.sources
            if source.value not in held
        ]
        return (*outside, *_inside(self._graph))

    def why_none(self, name: str) -> str:
        """Why no channels can be removed at a site that is no group's."""
        for one in self.refused:
            if one.name == name:
                return f"its channels stay: {one.reason}"
        for group in self.groups:
            if any(source.value.name == name for source in group.sources):
                return f"its channels go with those of {group.name!r}, which is the site"
        return "no layer whose channels are followed makes this value"

    def group(self, name: str) -> Group | None:
        """The group of that name; the others are not looked at."""
        for listed in self._connected:
            if self._walk.sources[listed[0]].value.name == name:
                return self._group(listed)
        return None

    @cached_property
    def _reading(self) -> list[tuple[Cut, set[int]]]:
        """Cuts of weights that read channels, and the layers that make these."""
        cuts = (cut for cut in self._walk.cuts if cut.reads)
        return [(cut, set(self._source_of[atoms_of([cut.labels])].tolist())) for cut in cuts]

    @cached_property
    def _source_of(self) -> Labels:
        found = np.zeros(self._walk.atoms, np.int64)
        for index, source in enumerate(self._walk.sources):
            found[source.first : source.first + source.count] = index
        return found

    @cached_property
    def _connected(self) -> list[list[int]]:
        """Sources that share units which can go."""
        free = np.flatnonzero(~self._stays)
        pair = self._source_of[free], self._source_of[self._unit[free]]
        root = components(len(self._walk.sources), [pair])
        found: dict[int, list[int]] = {}
        for index in dict.fromkeys(self._source_of[free].tolist()):
            found.setdefault(int(root[index]), []).append(index)
        return list(found.values())

    @cached_property
    def _kinds(self) -> npt.NDArray[np.uint8]:
        """Which parts of split axes each unit has places in [units, parts]."""
        found = np.zeros((self._walk.atoms, len(self._walk.parts)), np.uint8)
        for index, labels in enumerate(self._walk.parts):
            found[self._unit[labels[labels >= 0]], index] = 1
        return found

    def _group(self, listed: list[int]) -> Group | None:
        inside = np.isin(self._source_of, listed) & ~self._stays
        atoms = np.flatnonzero(inside)
        roots, unit = np.unique(self._unit[atoms], return_inverse=True)
        unit_of = np.full(self._walk.atoms, NONE, np.int64)
        unit_of[atoms] = unit
        counts = np.zeros((len(roots), len(listed)), np.int64)
        column = {source: index for index, source in enumerate(listed)}
        owner = np.array([column[s] for s in self._source_of[atoms].tolist()], np.int64)
        np.add.at(counts, (unit, owner), 1)
        times = np.array([self._walk.sources[index].times for index in listed])
        signature = np.concatenate([counts, self._kinds[roots]], axis=1)
        _, kind = np.unique(signature, axis=0, return_inverse=True)
        kind = kind.reshape(-1)
        order = sorted(set(kind.tolist()), key=lambda k: int(np.flatnonzero(kind == k)[0]))
        strata = tuple(np.flatnonzero(kind == k) for k in order)
        near = (cut for cut, made in self._reading if not made.isdisjoint(listed))
        readers = tuple(cut for cut in near if _holds(cut, unit_of))
        if not readers or max(len(stratum) for stratum in strata) < 2:
            return None
        return Group(
            sources=tuple(self._walk.sources[index] for index in listed),
            unit_of=unit_of,
            strata=strata,
            channels=tuple(int((counts[stratum[0]] * times).max()) for stratum in strata),
            readers=readers,
            residual=tuple(self._adds(unit_of, stratum) for stratum in strata),
        )

    def _adds(self, unit_of: Labels, stratum: Indices) -> bool:
        of = self._source_of
        return any(
            bool((np.isin(unit_of[one], stratum) & (of[one] != of[other])).any())
            for one, other in self._walk.sums
        )

    def _reason(self, source: Source) -> str:
        own = np.arange(source.first, source.first + source.count)
        roots = set(self._unit[own].tolist())
        if not self._stays[own].all():
            return _READS_NOTHING if len(roots) > 1 else _ONE_UNIT
        for one in self._walk.frozen:
            if roots & set(self._unit[one.atoms].tolist()):
                return one.reason
        return _ONE_UNIT


def _inside(graph: ir.Graph) -> Iterator[Refused]:
    """Layers with weights in the bodies of If, Loop and Scan."""
    for owner in graph:
        bodies = [a.as_graph() for a in owner.attributes.values() if a.type is _GRAPH]
        reason = f"they are in a body of {owner.op_type} {owner.outputs[0].name!r}"
        for node in (node for body in bodies for node in body.all_nodes()):
            if node.op_type in _WEIGHTED and any(map(_is_constant, node.inputs)):
                yield Refused(
                    name=node.outputs[0].name or "",
                    reason=f"{reason}, and only the main graph is followed",
                )


def _is_constant(value: ir.Value | None) -> bool:
    return value is not None and ir.convenience.get_const_tensor(value) is not None


def _holds(cut: Cut, unit_of: Labels) -> bool:
    return any(bool((unit_of[labels[labels >= 0]] >= 0).any()) for labels in cut.labels)
