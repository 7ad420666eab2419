"""Simulated models on simulated devices: what a policy is trained on. Everything here is drawn.

Of each there are two instances: what counts, and what a search would see of it after so many
trials (tables with an error that shrinks, and no clashes between damages).
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from edgeopt.search.policy.tables import FAMILIES, Floats, Instance, Ints

_FUSE, _PRUNE, _QUANTIZE = FAMILIES.index("fuse"), FAMILIES.index("prune"), 3
_ENOUGH = 25.0
_WHOLE = math.log(6.0)
_PLACES = 140
"""Alternatives of a model at most: padding costs time, and a policy fits any size."""


@dataclass(frozen=True)
class Pair:
    """What counts, what is seen, and where a search begins.

    Args:
        true: What counts.
        shown: What a search would see of it.
        start: Where it begins.
        found: Plans that a search has found for the model, to imitate where they are good here.
    """

    true: Instance
    shown: Instance
    start: tuple[int, ...]
    found: tuple[tuple[int, ...], ...] = ()


def generated(generator: np.random.Generator, shortest: int = 10, longest: int = 50) -> Pair:
    """A model with a network of precision choices, pruned groups and exact rewrites."""
    families = _families(generator, int(generator.integers(shortest, longest + 1)))
    counts = _counts(generator, families)
    while counts.sum() > _PLACES:
        counts = np.maximum(counts - (families >= _PRUNE), 2)
    length = len(families)
    width = int(counts.max())
    share = generator.lognormal(0.0, 1.0, length)
    share /= share.sum()
    weight = share * generator.lognormal(0.0, 1.0, length)
    weight /= weight.sum()
    cost: Floats = np.zeros((length, width))
    damage: Floats = np.zeros((length, width))
    size: Floats = np.zeros((length, width))
    taste = generator.uniform(0.15, 0.7), generator.uniform(0.2, 0.6)
    slow = generator.random(length) < generator.uniform(0.0, 0.35)
    hurts = generator.lognormal(0.0, generator.uniform(0.8, 1.8), length)
    for i in range(length):
        for k in range(1, int(counts[i])):
            cost[i, k], damage[i, k], size[i, k] = _alternative(
                generator, int(families[i]), k, taste, bool(slow[i]), float(hurts[i])
            )
        cost[i] *= share[i]
        size[i] *= weight[i]
    damage = scaled(damage, generator)
    edges = _borders(generator, families, share)
    for pair, both in edges.items():  # one integer neighbour alone converts to and fro
        for i in pair:
            cost[i, 1:] -= 0.5 * both * (np.arange(1, width) < counts[i])
    true = Instance(
        cost=cost,
        damage=damage,
        size=size,
        edges=edges,
        counts=counts,
        families=families,
        clashes=_clashes(generator, damage),
    )
    return blurred(true, starting(families), generator)


def starting(families: Ints) -> tuple[int, ...]:
    """Exact rewrites on, all else off."""
    return tuple(int(family < _PRUNE) for family in families)


def scaled(damage: Floats, generator: np.random.Generator) -> Floats:
    """Damages such that everything on hurts six times what is allowed, more or less."""
    whole = float(damage.max(axis=1).sum())
    factor = float(generator.lognormal(_WHOLE, 0.9)) / max(whole, 1e-9)
    return damage * factor


def blurred(true: Instance, start: tuple[int, ...], generator: np.random.Generator) -> Pair:
    """With what a search knows after a number of trials that is drawn."""
    measured = int(generator.choice([0, 2, 6, 12, 20, 40, 80, 120]))
    doubt = float(1.0 / np.sqrt(1.0 + measured / _ENOUGH))
    shape = true.cost.shape
    bias = generator.normal(0.0, 0.25 * doubt, len(FAMILIES))[true.families][:, None]
    typical = float(np.abs(true.cost).mean())
    cost = true.cost * (1.0 + bias + 0.35 * doubt * generator.standard_normal(shape))
    cost += typical * 0.25 * doubt * generator.standard_normal(shape) * (true.cost != 0)
    spread = float(generator.uniform(0.4, 1.3) * doubt)
    off = float(generator.normal(0.0, 0.7 * doubt))
    wrong: Floats = spread * generator.standard_normal(shape) + off
    damage = true.damage * np.exp(wrong)
    edges = {
        pair: value * float(generator.lognormal(0.0, 0.5 * doubt))
        for pair, value in true.edges.items()
        if generator.random() > 0.15 * doubt
    }
    shown = replace(true, cost=cost, damage=damage, edges=edges, clashes={}, measured=measured)
    return Pair(true, shown, start)


def _families(generator: np.random.Generator, length: int) -> Ints:
    """In graph order: exact ones first, as spaces have them, then pruned groups, then precision."""
    exact = int(length * generator.uniform(0.02, 0.3))
    pruned = int((length - exact) * generator.choice([0.0, generator.uniform(0.1, 0.5)]))
    first = generator.integers(0, _FUSE + 1, exact)
    last = length - exact - pruned
    return np.concatenate([np.sort(first), np.full(pruned, _PRUNE), np.full(last, _QUANTIZE)])


def _counts(generator: np.random.Generator, families: Ints) -> Ints:
    """Alternatives of each choice: alike within a model, but for a few."""
    usual = int(generator.choice([2, 2, 3, 4, 6]))
    found = np.full(len(families), 2)
    found[families == _QUANTIZE] = usual
    found[families == _PRUNE] = 3
    odd = generator.random(len(families)) < 0.1
    return np.where(odd & (families >= _PRUNE), generator.integers(2, 6, len(families)), found)


def _alternative(
    generator: np.random.Generator,
    family: int,
    k: int,
    taste: tuple[float, float],
    slow: bool,
    hurt: float,
) -> tuple[float, float, float]:
    """Relative changes of one choice: of its cost, its damage, its size."""
    if family < _PRUNE:
        return -abs(float(generator.normal(0.05, 0.1))) + 0.02 * k, 0.0, 0.0
    if family == _PRUNE:
        cut = min(0.25 * k, 0.75) * float(generator.uniform(0.6, 1.2))
        return -cut * taste[1], 4 * hurt * cut, -cut
    gain = taste[0] * float(generator.uniform(0.3, 1.3)) * (0.4 if k > 2 else 1.0)
    kind = float(generator.lognormal(0.0, 0.4)) * (0.5 if k % 2 else 1.0)
    cost = float(generator.uniform(0.0, 0.8)) if slow else -gain
    return cost, hurt * kind, -float(generator.uniform(0.65, 0.76))


def _borders(
    generator: np.random.Generator, families: Ints, share: Floats
) -> dict[tuple[int, int], float]:
    """Less than nothing: two neighbours that are both integer need no conversion between them."""
    places = np.flatnonzero(families == _QUANTIZE)
    price = float(generator.uniform(0.0, 0.5)) * float(share.mean())
    found: dict[tuple[int, int], float] = {}
    for i, j in pairwise(map(int, places)):
        found[i, j] = -price * float(generator.lognormal(0.0, 0.7))
    for _ in range(int(len(places) * generator.uniform(0.0, 0.5))):
        i, j = sorted(map(int, generator.choice(places, 2, replace=False)))
        found[i, j] = -price * float(generator.lognormal(0.0, 0.7))
    return found


def _clashes(generator: np.random.Generator, damage: Floats) -> dict[tuple[int, int], float]:
    """Damages that are more, or less, together than alone."""
    hurts = damage.max(axis=1)
    strength = float(generator.uniform(0.0, 0.8))
    found: dict[tuple[int, int], float] = {}
    for _ in range(len(hurts)):
        i, j = sorted(map(int, generator.choice(len(hurts), 2, replace=False)))
        both = float(np.sqrt(hurts[i] * hurts[j]))
        found[i, j] = strength * both * float(generator.normal(0.3, 0.6))
    return found
