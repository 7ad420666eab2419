"""`HeldAtMean`: a computed value becomes the mean of each of its channels over the samples.

What computed it goes. The mean is taken with everything at work, so that one pass over the samples
serves every set of such values of a graph; it is an artifact, and a replay uses the stored one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.local_rule import producer_of, refuse

Array = npt.NDArray[Any]
_MEAN = "mean"


class Place(Protocol):
    """Where such a value is used."""

    @property
    def width(self) -> int:
        """Its number of channels."""
        ...

    @property
    def axis(self) -> int:
        """The axis of its channels."""
        ...


Found = TypeVar("Found", bound=Place)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAtMean(Generic[Found]):
    """Approximate: a value becomes a constant of each channel.

    Args:
        name: Of the plug-in.
        values: All that could be held, in graph order.
        match: Where a value is used; a rejection where it must stay.
        hold: Puts the mean [width] there.
        unknown: The refusal where no sample shows the value.
        holds: Sorts it before channels: its mean is then one that every candidate shares.
    """

    name: str
    values: Callable[[ir.Model], Sequence[ir.Value]]
    match: Callable[[ir.Value], Found | Rejection]
    hold: Callable[[Editor, Found, Array], None]
    unknown: str
    version: int = 1
    needs_data: bool = True
    whole_model: bool = False
    holds: bool = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action a value, by its name."""
        del offer
        return tuple(Action.of(self.name, one.name) for one in self.values(model) if one.name)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Hold the value at its mean."""
        node = producer_of(editor.model, action.site)
        if node is None:
            return Rejection(reason=f"no node of the main graph computes {action.site!r}")
        value = next(output for output in node.outputs if output.name == action.site)
        found = self.match(value)
        if isinstance(found, Rejection):
            return found
        digest = action.artifact(_MEAN)
        stored = None if digest is None else evidence.recall(digest)
        mean = None if stored is None else stored[_MEAN]
        if digest is None or mean is None or mean.shape != (found.width,):
            mean = self._mean(editor.model, action.site, found.width, evidence)
            if mean is None:
                return refuse(self.unknown, node)
            digest = evidence.keep({_MEAN: mean})
        self.hold(editor, found, mean)
        return action.with_artifacts(**{_MEAN: digest})

    def _mean(self, model: ir.Model, site: str, width: int, evidence: Evidence) -> Array | None:
        """The mean [width] of a value; None where no sample shows it, or not as a number."""
        key = f"edgeopt.prune.{self.name}"
        means = _before(model.graph, key)
        if means is None or len(means.get(site, ())) != width:
            means = self._means(model, evidence)
            model.graph.meta[key] = means
        mean = means.get(site)
        usable = mean is not None and len(mean) == width and np.isfinite(mean).all()
        return mean if usable else None

    def _means(self, model: ir.Model, evidence: Evidence) -> dict[str, Array]:
        names: dict[int, list[str]] = {}
        for value in self.values(model):
            place = self.match(value)
            if value.name and not isinstance(place, Rejection):
                names.setdefault(place.axis, []).append(value.name)
        return {
            name: one.total / max(one.count, 1)
            for axis, listed in names.items()
            for name, one in evidence.channels(model, listed, axis=axis).items()
        }


def _before(graph: ir.Graph, key: str) -> dict[str, Array] | None:
    """Of the graph before its first value was held; they go with its clones."""
    return graph.meta.get(key)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
