"""Stacks of additive tables: what plans cost, hurt and weigh, and what each edit changes.

Axes: B plans, L choices (padded), K alternatives (padded), C candidates (STOP, single edits,
macros; padded). A `Tables` may hold one instance for all plans (its first axis is then 1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
FAMILIES = ("rewrite", "fuse", "prune", "quantize", "repair", "")
"""The last one is every other."""
_EXACT = 2
"""Families that change no outputs come first."""
MACROS = 12
_SHARES = (0.5, 1.0)


@dataclass(frozen=True)
class Instance:
    """One space with what a table says of it.

    Args:
        cost, size: Relative changes [choices, alternatives] of the first objective and the size;
            0 where a choice has no such alternative.
        damage: Drops [choices, alternatives] in units of what may be lost.
        edges: Added to the cost where both choices are on, by pair, the smaller index first.
        counts: Alternatives [choices], the baseline's included.
        families: Index into `FAMILIES` [choices].
        measured: Trials behind the table.
        clashes: Added to the damage where both are on; known of simulated devices only.
    """

    cost: Floats
    damage: Floats
    size: Floats
    edges: Mapping[tuple[int, int], float]
    counts: Ints
    families: Ints
    measured: int = 0
    clashes: Mapping[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])


@dataclass(frozen=True)
class Tables:
    """Instances, padded to one shape."""

    cost: Floats
    damage: Floats
    size: Floats
    edges: Floats
    clashes: Floats

    def take(self, index: Ints) -> "Tables":
        """Those of some instances, in that order."""
        return Tables(*(each[index] for each in self._all))

    @property
    def _all(self) -> tuple[Floats, ...]:
        return self.cost, self.damage, self.size, self.edges, self.clashes

    def values(self, codes: Ints) -> Floats:
        """Cost, damage (0 or more) and size [B, 3] of plans [B, L]."""
        on = (codes > 0).astype(np.float64)
        alone = [picked(each, codes).sum(axis=1) for each in (self.cost, self.damage, self.size)]
        alone[0] = alone[0] + 0.5 * (on * _times(self.edges, on)).sum(axis=1)
        alone[1] = alone[1] + 0.5 * (on * _times(self.clashes, on)).sum(axis=1)
        found = np.stack(alone, axis=1)
        found[:, 1] = np.maximum(found[:, 1], 0.0)
        return found


@dataclass(frozen=True)
class Edits:
    """The candidates of each instance: STOP first, then single edits, then macros.

    Args:
        choice, code: Of the single edits [N, S].
        single: Which of them are there [N, S].
        macro: Code that a macro sets [N, M, L]; -1 leaves a choice as it is.
        kind: Family of a macro [N, M]; -1 where there is none.
        members: Share of each choice in each candidate [N, C, L].
    """

    choice: Ints
    code: Ints
    single: npt.NDArray[np.bool_]
    macro: Ints
    kind: Ints
    members: npt.NDArray[np.float32]

    def take(self, index: Ints) -> "Edits":
        """Those of some instances, in that order."""
        return Edits(
            self.choice[index],
            self.code[index],
            self.single[index],
            self.macro[index],
            self.kind[index],
            self.members[index],
        )

    def after(self, codes: Ints, picked_: Ints) -> Ints:
        """Plans [B, L] after one candidate each [B]; STOP changes nothing."""
        found = codes.copy()
        count = len(codes)
        wide = [np.broadcast_to(x, (count, *x.shape[1:])) for x in (self.choice, self.code)]
        rows = np.arange(count)
        single = (picked_ > 0) & (picked_ <= self.choice.shape[1])
        at = rows[single], picked_[single] - 1
        found[rows[single], wide[0][at]] = wide[1][at]
        late = picked_ > self.choice.shape[1]
        macro = np.broadcast_to(self.macro, (count, *self.macro.shape[1:]))
        sets = macro[rows[late], picked_[late] - 1 - self.choice.shape[1]]
        found[late] = np.where(sets >= 0, sets, found[late])
        return found


def picked(table: Floats, codes: Ints) -> Floats:
    """The entries [B, L] of a table [B or 1, L, K] for plans [B, L]."""
    wide = np.broadcast_to(table, (len(codes), *table.shape[1:]))
    return np.take_along_axis(wide, codes[:, :, None], axis=2)[:, :, 0]


def changes(tables: Tables, edits: Edits, codes: Ints) -> tuple[Floats, Floats]:
    """What each candidate would change, and which part of its cost lies on the pairs.

    Returns:
        Changes of cost, damage and size [B, C, 3]; [B, C].
    """
    now = [picked(each, codes) for each in (tables.cost, tables.damage, tables.size)]
    on = (codes > 0).astype(np.float64)
    near = _times(tables.edges, on), _times(tables.clashes, on)
    count = len(codes)
    rows = np.arange(count)[:, None]
    choice = np.broadcast_to(edits.choice, (count, edits.choice.shape[1]))
    code = np.broadcast_to(edits.code, choice.shape)
    turned = (code > 0) - on[rows, choice]
    parts = [
        np.broadcast_to(each, (count, *each.shape[1:]))[rows, choice, code] - old[rows, choice]
        for each, old in zip((tables.cost, tables.damage, tables.size), now, strict=True)
    ]
    border = turned * near[0][rows, choice]
    parts[0] = parts[0] + border
    parts[1] = parts[1] + turned * near[1][rows, choice]
    single = np.stack(parts, axis=2)
    macro, over = _macro_changes(tables, edits, codes, now, on, near)
    nothing = np.zeros((count, 1))
    found = np.concatenate([np.zeros((count, 1, 3)), single, macro], axis=1)
    return found, np.concatenate([nothing, border, over], axis=1)


def _macro_changes(
    tables: Tables,
    edits: Edits,
    codes: Ints,
    now: Sequence[Floats],
    on: Floats,
    near: tuple[Floats, Floats],
) -> tuple[Floats, Floats]:
    sets = np.where(edits.macro >= 0, edits.macro, codes[:, None, :])
    parts: list[Floats] = []
    for each, old in zip((tables.cost, tables.damage, tables.size), now, strict=True):
        wide = np.broadcast_to(each, (len(codes), *each.shape[1:]))
        new = np.take_along_axis(wide, sets.transpose(0, 2, 1), axis=2).transpose(0, 2, 1)
        parts.append((new - old[:, None, :]).sum(axis=2))
    turned = (sets > 0) - on[:, None, :]
    both = [
        (turned * (beside[:, None, :] + 0.5 * (turned @ matrix))).sum(axis=2)
        for beside, matrix in zip(near, (tables.edges, tables.clashes), strict=True)
    ]
    parts[0] = parts[0] + both[0]
    parts[1] = parts[1] + both[1]
    return np.stack(parts, axis=2), both[0]


def _times(matrix: Floats, on: Floats) -> Floats:
    """[B, L] from matrices [B or 1, L, L]."""
    return np.asarray((matrix @ on[:, :, None])[:, :, 0], dtype=np.float64)


def stacked(instances: Sequence[Instance]) -> Tables:
    """Padded with zeros, which change nothing."""
    length = max(len(each.counts) for each in instances)
    width = max(each.cost.shape[1] for each in instances)
    shape = (len(instances), length, width)
    cost, damage, size = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    edges = np.zeros((len(instances), length, length))
    clashes = np.zeros_like(edges)
    for n, one in enumerate(instances):
        choices, alternatives = one.cost.shape
        for target, source in ((cost, one.cost), (damage, one.damage), (size, one.size)):
            target[n, :choices, :alternatives] = source
        for target, pairs in ((edges, one.edges), (clashes, one.clashes)):
            for (i, j), value in pairs.items():
                target[n, i, j] = target[n, j, i] = value
    return Tables(cost, damage, size, edges, clashes)


def edits_of(instances: Sequence[Instance]) -> Edits:
    """Every alternative alone, and for each kind the mild half of its alternatives and all."""
    length = max(len(each.counts) for each in instances)
    most = max(int(each.counts.sum()) for each in instances)
    count = len(instances)
    choice, code = np.zeros((count, most), np.int64), np.zeros((count, most), np.int64)
    single = np.zeros((count, most), np.bool_)
    macro = np.full((count, MACROS, length), -1, np.int64)
    kind = np.full((count, MACROS), -1, np.int64)
    members = np.zeros((count, 1 + most + MACROS, length), np.float32)
    for n, one in enumerate(instances):
        places = [(i, k) for i, size in enumerate(one.counts) for k in range(size)]
        for s, (i, k) in enumerate(places):
            choice[n, s], code[n, s], single[n, s] = i, k, True
            members[n, 1 + s, i] = 1.0
        for m, (family, sets) in enumerate(_macros(one)):
            kind[n, m] = family
            for i, k in sets:
                macro[n, m, i] = k
                members[n, 1 + most + m, i] = 1 / len(sets)
    return Edits(choice, code, single, macro, kind, members)


def _macros(one: Instance) -> list[tuple[int, list[tuple[int, int]]]]:
    """Nothing that changes outputs; then each kind that does, the most frequent first."""
    kinds: dict[tuple[int, int], list[int]] = {}
    lossy = [i for i, family in enumerate(one.families) if family >= _EXACT]
    for i in lossy:
        for k in range(1, int(one.counts[i])):
            kinds.setdefault((int(one.families[i]), k), []).append(i)
    found = [(len(FAMILIES) - 1, [(i, 0) for i in lossy])] if lossy else []
    for (family, k), places in sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0])):
        mild = sorted(places, key=lambda i, k=k: (float(one.damage[i, k]), i))
        for share in _SHARES:
            part = mild[: max(int(len(mild) * share), 1)]
            if len(part) > 1:
                found.append((family, [(i, k) for i in part]))
    return found[:MACROS]
