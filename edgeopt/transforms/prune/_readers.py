"""What reads the channels of a group: weights, and the moments of the values they stand against."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.base import Evidence
from edgeopt.transforms.calibration.moments import KEPT_BYTES, WIDEST, Moments, Wanted
from edgeopt.transforms.channels.groups import Group, Indices

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reader:
    """Weights that read places of a group.

    Args:
        units: Unit of each place [places].
        norms: Sum of squares of the weights that read each place [places].
        square: Mean square of what they read [places].
        products: Inner products of the weights [places, places]; None without a covariance.
        covariance: Of it [places, places]; None where the axis is too wide.
    """

    units: Indices
    norms: Floats
    square: Floats
    products: Floats | None
    covariance: Floats | None


class Readers:
    """What reads each group, as far as samples show it; looked at when it is asked for.

    One pass over the samples serves as many groups as there is memory for, in graph order.

    Args:
        model: Unchanged as long as this is asked.
        groups: All that will be asked for.
        evidence: Of the samples.
        covariance: Whether products of channels are needed.
    """

    def __init__(
        self, model: ir.Model, groups: Sequence[Group], evidence: Evidence, *, covariance: bool
    ) -> None:
        self._model = model
        self._evidence = evidence
        self._covariance = covariance
        self._beside: dict[str, list[Wanted]] = {}
        for together in _together(groups):
            wanted = sorted({one for group in together for one in _wanted(group)})
            self._beside |= {group.name: wanted for group in together}

    def of(self, group: Group) -> list[Reader]:
        """The weights that read one of the groups."""
        wanted = self._beside[group.name]
        moments = self._evidence.moments(self._model, wanted, products=self._covariance)
        return [one for one in _readers(group, moments) if one is not None]


class OnDemand(Mapping[str, Indices]):
    """Orders of groups, each found out when it is first asked for.

    Args:
        groups: Those that have one.
        rank: The order of a group; None where nothing says one.
    """

    def __init__(self, groups: Sequence[Group], rank: Callable[[Group], Indices | None]) -> None:
        self._groups = {group.name: group for group in groups}
        self._rank = rank
        self._found: dict[str, Indices | None] = {}

    def __getitem__(self, name: str) -> Indices:
        """The order of a group."""
        if name not in self._found:
            self._found[name] = self._rank(self._groups[name])
        order = self._found[name]
        if order is None:
            raise KeyError(name)
        return order

    def __iter__(self) -> Iterator[str]:
        """Names, also of groups that turn out to have no order."""
        return iter(self._groups)

    def __len__(self) -> int:
        """Number of groups."""
        return len(self._groups)


def _wanted(group: Group) -> set[Wanted]:
    found = (cut.source for cut in group.readers)
    return {(source[0].name or "", source[1]) for source in found if source is not None}


def _together(groups: Sequence[Group]) -> Iterator[list[Group]]:
    """Groups whose products fit into the memory that moments have."""
    batch: list[Group] = []
    total = 0
    for group in groups:
        widths = (len(cut.labels[0]) for cut in group.readers)
        size = sum(8 * width**2 for width in widths if width <= WIDEST)
        if batch and total + size > KEPT_BYTES:
            yield batch
            batch, total = [], 0
        batch.append(group)
        total += size
    if batch:
        yield batch


def _readers(group: Group, moments: Mapping[tuple[str, int], Moments]) -> Iterator[Reader | None]:
    for cut in group.readers:
        weight = array_of(cut.node.inputs[cut.index])
        if cut.source is None or weight is None or weight.dtype.kind != "f":
            continue
        seen = moments.get((cut.source[0].name or "", cut.source[1]))
        units = group.units_at(cut.labels)
        if seen is not None and len(seen.total) % len(units) == 0:
            yield _reader(seen, units, weight, cut.axis)


def _reader(seen: Moments, units: Indices, weight: npt.NDArray[Any], axis: int) -> Reader:
    """Grouped convolutions read several stretches with the same places: their mean counts."""
    places = np.flatnonzero(units >= 0)
    parts = len(seen.total) // len(units)
    rows = np.moveaxis(weight, axis, 0)[places].reshape(len(places), -1).astype(np.float64)
    square = (seen.square / seen.count).reshape(parts, -1).mean(axis=0)
    products = covariance = None
    if seen.products is not None:
        size = len(units)
        whole = (seen.products / seen.count).reshape(parts, size, parts, size)
        mean = (seen.total / seen.count).reshape(parts, -1)
        same = np.einsum("pipj->ij", whole) / parts
        covariance = (same - mean.T @ mean / parts)[np.ix_(places, places)]
        products = rows @ rows.T
    norms = np.einsum("ij,ij->i", rows, rows)
    return Reader(units[places], norms, square[places], products, covariance)
