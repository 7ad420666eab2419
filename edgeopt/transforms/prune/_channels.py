"""`ChannelRemoval`: remove channels of a group, the least important first, as a `Transform`.

A criterion says in which order the units of a group would go; everything else is the same for all
of them. Widths that are left are multiples of the device's channel block, stratum by stratum (see
`channels.groups`): one channel off a multiple of 16 more than doubled the time of a float
convolution. `keep` is the number of units that are left, or `16/8` for several strata.

Orders that data decides are an artifact: a replay uses the stored one. They are those of the graph
before its first cut, whatever is cut first; each is found out when it is asked for, and one pass
over the samples serves many of them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.channels.groups import Dependencies, Group, Indices
from edgeopt.transforms.channels.removal import remove

RATIOS = (0.25, 0.375, 0.5, 0.65)
"""Shares of the units that are removed."""
_ORDER = "order"
_KEY = "edgeopt.prune.orders"

Orders = Mapping[str, Indices]
Criterion = Callable[[ir.Model, Dependencies, Sequence[Group], Evidence], Orders]
"""From groups to the units of each that it can rank, by name, first to go first. It may answer
later: the model does not change."""


def every_group(group: Group) -> bool:
    """Offered wherever removal is proven, but for residual streams."""
    del group
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRemoval:
    """Removal by one criterion.

    Args:
        name: Of the plug-in: its file's name.
        criterion: See `Criterion`.
        needs_data: Whether it asks the evidence for anything.
        offered: Which groups it is meant for.
        control: Whether it is there to compare with: recipes may name it, a search is not
            offered it.
        version: Raised when the same action starts to mean something else.
    """

    name: str
    criterion: Criterion
    needs_data: bool = False
    offered: Callable[[Group], bool] = every_group
    control: bool = False
    version: int = 1
    whole_model: bool = False

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """A few widths a group, multiples of the device's channel block.

        Residual streams are not offered: several layers write each of their channels, and
        removing some by any criterion ruined every net it was tried on.
        """
        found: list[Action] = []
        for group in Dependencies(model).groups:
            if not self.offered(group):
                continue
            found += [
                Action.of(self.name, group.name, version=self.version, keep=_word(left))
                for left in widths(group, offer.profile.channel_block)
            ]
        return tuple(found)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Keep the `keep` most important units."""
        found = Dependencies(editor.model)
        group = found.group(action.site)
        if group is None:
            return Rejection(reason=found.why_none(action.site))
        left = _asked(group, str(action.get("keep")))
        if isinstance(left, Rejection):
            return left
        order, digest = self._order(editor.model, found, group, action, evidence)
        if order is None:
            return Rejection(reason="no calibration sample says how important its channels are")
        reason = remove(editor, found, group, kept_units(group, order, left))
        if reason is not None:
            return Rejection(reason=reason)
        return action if digest is None else action.with_artifacts(**{_ORDER: digest})

    def _order(
        self,
        model: ir.Model,
        found: Dependencies,
        group: Group,
        action: Action,
        evidence: Evidence,
    ) -> tuple[Indices | None, str | None]:
        """All units, first to go first; and the artifact, of an order that data decides."""
        if not self.needs_data:
            return self.criterion(model, found, [group], evidence).get(group.name), None
        digest = action.artifact(_ORDER)
        held = None if digest is None else evidence.recall(digest)
        if digest is not None and held is not None and _fits(held[_ORDER], group):
            return held[_ORDER], digest
        orders = _held(model.graph, self.name)
        if orders is None or not _fits(orders.get(group.name), group):
            orders = evidence.once(
                model,
                f"orders by {self.name}",
                lambda: self._of_all(model.clone(), evidence),
            )
            model.graph.meta[f"{_KEY}.{self.name}"] = orders
        order = orders.get(group.name)
        return (None, None) if order is None else (order, evidence.keep({_ORDER: order}))

    def _of_all(self, model: ir.Model, evidence: Evidence) -> Orders:
        found = Dependencies(model)
        return self.criterion(model, found, found.groups, evidence)


def kept_units(group: Group, order: Indices, left: Sequence[int]) -> Indices:
    """Of every stratum the units that would go last, ascending."""
    found: list[int] = []
    for stratum, count in zip(group.strata, left, strict=True):
        inside = order[np.isin(order, stratum)]
        found += inside[len(inside) - count :].tolist()
    return np.array(sorted(found), np.int64)


def ascending(values: Sequence[float]) -> Indices:
    """An order from importances: the least first."""
    return np.argsort(np.asarray(values), kind="stable").astype(np.int64)


def widths(group: Group, block: int) -> tuple[tuple[int, ...], ...]:
    """What may be left of each stratum, widest first."""
    full = tuple(len(stratum) for stratum in group.strata)
    found = {_left(group, ratio, block) for ratio in RATIOS} | _beside(group, block)
    return tuple(sorted(found - {full}, key=sum, reverse=True))


def _beside(group: Group, block: int) -> set[tuple[int, ...]]:
    """A width with which it makes whole blocks together with what is joined to it.

    8 channels beside 16 fill a block and a half, which is read as two: without 8 of the 16 it is
    one. Half blocks, since of a narrow group nothing else would be left to choose.
    """
    if len(group.strata) != 1 or group.channels != (1,) or group.residual[0]:
        return set()
    found: set[tuple[int, ...]] = set()
    for cut in group.readers:
        places, axis = group.units_at(cut.labels), len(cut.labels[0])
        own = int((places >= 0).sum())
        left = group.width - axis % block
        if own == group.width < axis and left > 0 and left % max(block // 2, 1) == 0:
            found.add((left,))
    return found


def _left(group: Group, ratio: float, block: int) -> tuple[int, ...]:
    """What is left of each stratum, to the nearest multiple of the block, one block at least.

    All of a residual.
    """
    found: list[int] = []
    kinds = zip(group.strata, group.channels, group.residual, strict=True)
    for stratum, channels, residual in kinds:
        if residual:
            found.append(len(stratum))
            continue
        units = block // math.gcd(block, channels)
        left = max(round(len(stratum) * (1 - ratio) / units), 1) * units
        found.append(min(left, len(stratum)))
    return tuple(found)


def _word(left: Sequence[int]) -> int | str:
    return left[0] if len(left) == 1 else "/".join(map(str, left))


def _asked(group: Group, word: str) -> tuple[int, ...] | Rejection:
    parts = word.split("/")
    sizes = [len(stratum) for stratum in group.strata]
    text = "/".join(map(str, sizes))
    refused = Rejection(reason=f"it has {text} channels, {word} cannot be kept")
    if len(parts) != len(sizes) or not all(part.isdecimal() for part in parts):
        return refused
    left = tuple(int(part) for part in parts)
    inside = all(0 < count <= size for count, size in zip(left, sizes, strict=True))
    return left if inside and list(left) != sizes else refused


def _fits(order: Indices | None, group: Group) -> bool:
    return order is not None and np.array_equal(np.sort(order), np.arange(group.width))


def _held(graph: ir.Graph, name: str) -> Orders | None:
    """Of the graph before its first cut; they go with its clones."""
    return graph.meta.get(f"{_KEY}.{name}")  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
