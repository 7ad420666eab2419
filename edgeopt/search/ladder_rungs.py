"""The ladder behind `ladder` and `portfolio`: from everything on to nothing that hurts."""

from collections.abc import Sequence

from edgeopt.search.codes import Codes
from edgeopt.search.table import Table

_TINY = 1e-9


def rungs(table: Table) -> tuple[Codes, ...]:
    """From every choice at its start to nothing on, one release a rung.

    Each choice goes down the convex hull of its alternatives, so that within a choice what saves
    most a gain comes first; over all choices steps are merged by that rate.
    """
    steps: list[tuple[float, int, int, int]] = []
    start: list[int] = []
    for index, (cost, damage) in enumerate(zip(table.cost, table.damage, strict=True)):
        near = sum(value for pair, value in table.edges.items() if index in pair)
        hull = _hull([c + near * (k > 0) for k, c in enumerate(cost)], damage)
        start.append(hull[0][0])
        steps += [(-rate, index, n, code) for n, (code, rate) in enumerate(hull) if n]
    codes = list(start)
    found = [tuple(codes)]
    for _, index, _, code in sorted(steps):
        codes[index] = code
        found.append(tuple(codes))
    return tuple(found)


def _hull(cost: Sequence[float], damage: Sequence[float]) -> list[tuple[int, float]]:
    """Alternatives from the one that gains most to the harmless one, with damage saved a gain
    lost of the step that leads there; rates fall, since what comes first should save most."""
    at = min(range(len(cost)), key=lambda k: (cost[k], damage[k], k))
    found = [(at, 0.0)]
    while at:
        rates = [
            (((damage[at] - damage[k]) / max(cost[k] - cost[at], _TINY)), -damage[k], -k)
            for k in range(len(cost))
            if damage[k] < damage[at] or k == 0
        ]
        rate, _, code = max(rates)
        at = -code
        found.append((at, rate))
    return found
