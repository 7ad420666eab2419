"""What reads the channels of a group: weights, and the moments of the values they stand against."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.base import Evidence
from edgeopt.transforms.calibration.moments import Moments
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


def readers(
    model: ir.Model, groups: Sequence[Group], evidence: Evidence, *, covariance: bool
) -> Iterator[tuple[Group, list[Reader]]]:
    """Every group with what reads it, as far as samples show it."""
    wanted = {
        (source[0].name or "", source[1])
        for group in groups
        for cut in group.readers
        if (source := cut.source) is not None
    }
    moments = evidence.moments(model, sorted(wanted), products=covariance)
    for group in groups:
        yield group, [one for one in _readers(group, moments) if one is not None]


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
