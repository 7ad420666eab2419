"""`PlanMoves`: every move on codes, as actions that never enter a recipe, and as rows of numbers.

assign "quantize:conv1" to=1           another alternative of one choice; 0 takes it back
assign_many "prune" share=0.5 to=1     the half of a family that should hurt least; the rest off

What a move changes follows from the codes of one choice and of those that it costs together with,
of many from sums by family: no plan behind a move is ever looked at.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from edgeopt.core.action import Action, Choice
from edgeopt.search.plan_table import GIVEN, PlanTable

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float32]
ONE, MANY = "assign", "assign_many"
FAMILIES = ("rewrite", "fuse", "prune", "quantize", "repair")
SHARES = (0.25, 0.5, 0.75, 1.0)
MOVE_COLUMNS = ("back", "share", "to", "place", *FAMILIES, "latency", "size", "accuracy_drop")
GROUP_COLUMNS = (
    *("code", "alternatives", "place", "borders", *FAMILIES),
    *("latency", "size", "accuracy_drop", "least_latency", "least_drop"),
)
_KINDS = len(FAMILIES)
_LEAVE = -1


class PlanMoves:
    """Moves on the codes of a table.

    Args:
        table: What they are predicted to change; moves of many follow it.
        anchors: Rows of nodes plus 1 around each choice [choices, n].
    """

    def __init__(self, table: PlanTable, anchors: npt.NDArray[np.int32]) -> None:
        self._table, choices = table, table.choices
        self.actions = tuple(_listed(choices))
        self.number = {action: n for n, action in enumerate(self.actions)}
        self._objects = np.empty(len(self.actions), dtype=object)
        self._objects[:] = self.actions
        self._single = int(table.sizes.sum())
        """Moves of one choice come first, in the order of the alternatives that they set."""
        self._at = np.repeat(np.arange(len(choices)), table.sizes)
        self._to = np.arange(self._single) - table.ends[self._at]
        self._sets_on = (self._to > 0).astype(np.float64)
        self.groups = np.zeros((len(self.actions), 1), np.int32)
        self.groups[: self._single, 0] = self._at + 1
        held = np.concatenate([np.zeros((1, anchors.shape[1]), np.int32), anchors])
        self.anchors = held[self.groups[:, 0]]
        families = list(dict.fromkeys(choice.family for choice in choices))
        kinds = np.array([families.index(choice.family) for choice in choices], dtype=np.int64)
        self._member = (kinds == np.arange(len(families))[:, None]).astype(np.float64)
        self._kinds = kinds
        self._many = np.array(
            [families.index(action.site) for action in self.actions[self._single :]], np.int64
        )
        """The family of each move of many."""
        self._columns = self._written()
        self._fixed = np.zeros((len(choices), len(GROUP_COLUMNS)), np.float32)
        for i, choice in enumerate(choices):
            self._fixed[i, 1] = len(choice)
            self._fixed[i, 2] = (i + 1) / len(choices)
            self._fixed[i, 4 : 4 + _KINDS] = _one_hot(choice.family)
        self.follow()

    def follow(self) -> None:
        """Take in that the table is another one."""
        table, many = self._table, self.actions[self._single :]
        found = [self._target(action) for action in many]
        self._targets = np.array(found, dtype=np.int64).reshape(len(many), len(table.choices))
        self._small = self._targets.astype(np.int16)
        own, on = self._targets != _LEAVE, self._targets > 0
        pairs = table.pairs
        inside = self._kinds[pairs[:, 0]] == self._kinds[pairs[:, 1]]
        alone = table.alone[np.where(own, self._targets + table.ends, 0)] * own[:, :, None]
        self._set = alone.sum(axis=1)
        """What the alternatives that a move of many sets change together [many, 3]."""
        first, second = pairs[inside].T
        self._set[:, 0] += (on[:, first] & on[:, second]) @ table.both[inside]
        self._turned_on = on.astype(np.float64)
        at, other = np.concatenate([pairs, pairs[:, ::-1]]).T
        apart = len(table.choices) * np.tile(~inside, 2)
        self._sides: tuple[Ints, Ints, Floats] = (at + apart, other, np.tile(table.both, 2))
        """Each pair from either side; those across families behind the others."""
        self._fixed[:, -2], self._fixed[:, -1] = table.least_cost, table.least_hurt

    def open(self, row: Ints) -> Ints:
        """Numbers of the moves that change codes [choices]."""
        changes = np.ones(len(self.actions), dtype=np.bool_)
        changes[self._table.ends + row] = False
        other = (self._small != row.astype(np.int16)) & (self._small != _LEAVE)
        changes[self._single :] = other.any(axis=1)
        return np.flatnonzero(changes)

    def listed(self, numbers: Ints) -> tuple[Action, ...]:
        """Moves by their numbers."""
        return tuple(self._objects[numbers].tolist())

    def after(self, row: Ints, number: int) -> Ints:
        """Codes [choices] behind a move."""
        found = row.copy()
        if number < self._single:
            found[self._at[number]] = self._to[number]
            return found
        target = self._targets[number - self._single]
        return np.where(target == _LEAVE, row, target)

    def rows(self, row: Ints, numbers: Ints) -> tuple[Rows, Rows]:
        """`GROUP_COLUMNS` of every choice (what it is set to, and what that is predicted to do)
        and `MOVE_COLUMNS` of some moves (what they are, and what they should change)."""
        table, on = self._table, (row > 0).astype(np.float64)
        now = table.alone.take(row + table.ends, axis=0)
        inside, across = self._beside(on)
        groups, moves = self._fixed.copy(), self._columns.take(numbers, axis=0)
        borders = (inside + across) * on
        groups[:, 0], groups[:, 3] = row, borders
        groups[:, -5:-2] = now
        groups[:, -5] = now[:, 0] + borders
        one = self._of_one(now, on, inside + across)
        many = self._of_many(now, on, inside, across)
        moves[:, -3:] = np.concatenate([one, many]).take(numbers, axis=0)
        return groups, moves

    def _of_one(self, now: Floats, on: Floats, beside: Floats) -> Floats:
        """What every alternative of every choice would change [alternatives, 3]."""
        found = self._table.alone - now.take(self._at, axis=0)
        found[:, 0] += beside.take(self._at) * (self._sets_on - on.take(self._at))
        return found

    def _of_many(self, now: Floats, on: Floats, inside: Floats, across: Floats) -> Floats:
        """What every move of many would change [many, 3]: sums of its family, replaced."""
        sums = self._member @ now
        pairs = self._member @ (on * (0.5 * inside + across))
        before = GIVEN + sums.sum(axis=0)
        before[0] += 0.5 * (on * (inside + across)).sum()
        sums[:, 0] += pairs
        after = before + self._set - sums.take(self._many, axis=0)
        after[:, 0] += self._turned_on @ across
        return self._table.floored(after) - self._table.floored(before)

    def _beside(self, on: Floats) -> tuple[Floats, Floats]:
        """What each choice would change with those that are on, of its family and of others."""
        at, other, both = self._sides
        weights: Floats = both * on.take(other)
        found = np.asarray(np.bincount(at, weights, 2 * len(on)), dtype=np.float64)
        return found[: len(on)], found[len(on) :]

    def _written(self) -> Rows:
        """`MOVE_COLUMNS` of every move, but for what it changes."""
        choices = self._table.choices
        family = {choice.name: choice.family for choice in choices}
        found = np.zeros((len(self.actions), len(MOVE_COLUMNS)), np.float32)
        for n, action in enumerate(self.actions):
            to, share = int(action.get("to")), float(action.get("share", 0.0))
            place = int(self.groups[n, 0]) / max(len(choices), 1)
            kinds = _one_hot(family.get(action.site, action.site))
            found[n, : 4 + _KINDS] = (to == 0, share, to, place, *kinds)
        return found

    def _target(self, action: Action) -> list[int]:
        choices, to = self._table.choices, int(action.get("to"))
        found = [0 if c.family == action.site else _LEAVE for c in choices]
        able = [i for i, c in enumerate(choices) if c.family == action.site and len(c) > to]
        table = self._table.table
        able.sort(key=lambda i: (table.damage[i][to], table.cost[i][to], i))
        for i in able[: round(float(action.get("share")) * len(able))]:
            found[i] = to
        return found


def _one_hot(family: str) -> list[float]:
    return [float(family == each) for each in FAMILIES]


def _listed(choices: Sequence[Choice]) -> Iterator[Action]:
    for choice in choices:
        for code in range(len(choice)):
            yield Action.of(ONE, choice.name, to=code)
    for family in dict.fromkeys(choice.family for choice in choices):
        most = max(len(choice) for choice in choices if choice.family == family)
        for to in range(1, most):
            for share in SHARES:
                yield Action.of(MANY, family, share=share, to=to)
        yield Action.of(MANY, family, share=0.0, to=0)
