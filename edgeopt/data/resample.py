"""The bootstrap over groups: values of models on the same random draws of whole groups."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from edgeopt.core.protocols import AccuracyMetric
from edgeopt.data.accuracy_metric import Weighted
from edgeopt.data.ratio import Ratio, share

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
DRAWS = 2000
_PIECE = 250_000


def units_of(groups: Integers) -> tuple[int, Integers]:
    """How many units are drawn from, and the unit of each row."""
    units, owner = np.unique(groups, return_inverse=True)
    return len(units), owner.astype(np.int64)


def resampled(
    metric: AccuracyMetric,
    evidence: Sequence[Floats],
    owner: Integers,
    *,
    seed: int = 0,
    draws: int = DRAWS,
) -> Floats:
    """Values [models, draws] of several models on the same draws of units.

    Args:
        metric: Computes the values.
        evidence: [rows, columns] a model.
        owner: [rows], the unit of each row, counted from 0.
        seed: Of the draws.
        draws: How many.
    """
    if isinstance(metric, Ratio):
        return _of_ratios([found[:, :2] for found in evidence], owner, seed, draws)
    units, pieces = int(owner.max()) + 1, list[Floats]()
    for counts in _draws(units, len(owner), seed, draws):
        weights = counts[:, owner]
        pieces.append(np.stack([_weighted(metric, found, weights) for found in evidence]))
    return np.concatenate(pieces, axis=1)


def _weighted(metric: AccuracyMetric, evidence: Floats, weights: Floats) -> Floats:
    if isinstance(metric, Weighted):
        return metric.weighted(evidence, weights)
    times = weights.astype(np.int64)
    return np.array([metric.value(np.repeat(evidence, row, axis=0)) for row in times])


def _of_ratios(evidence: Sequence[Floats], owner: Integers, seed: int, draws: int) -> Floats:
    """Units with equal sums are drawn together: often there are only a few kinds of them."""
    columns = np.concatenate(evidence, axis=1)
    sums = np.zeros((int(owner.max()) + 1, columns.shape[1]))
    np.add.at(sums, owner, columns)
    kinds, counts = np.unique(sums, axis=0, return_counts=True)
    if 4 * len(kinds) <= len(sums):
        drawn = np.random.default_rng(seed).multinomial(len(sums), counts / len(sums), size=draws)
        found = drawn @ kinds
    else:
        found = np.concatenate([some @ sums for some in _draws(len(sums), len(sums), seed, draws)])
    return np.stack([share(found[:, i], found[:, i + 1]) for i in range(0, found.shape[1], 2)])


def _draws(units: int, rows: int, seed: int, draws: int) -> Iterator[Floats]:
    """How often each unit is drawn [some, units], in pieces that fit the cache."""
    generator = np.random.default_rng(seed)
    some = max(1, min(draws, _PIECE // max(units, rows)))
    for start in range(0, draws, some):
        count = min(some, draws - start)
        drawn = generator.integers(units, size=(count, units), dtype=np.int32).astype(np.int64)
        drawn += np.arange(count)[:, None] * units
        counts = np.bincount(drawn.ravel(), minlength=count * units)
        yield counts.reshape(count, units).astype(np.float64)
