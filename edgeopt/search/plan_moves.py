"""`PlanMoves`: every move on codes, as actions that never enter a recipe, and as rows of numbers.

assign "quantize:conv1" to=1           another alternative of one choice; 0 takes it back
assign_many "prune" share=0.5 to=1     the half of a family that should hurt least; the rest off
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from edgeopt.core.action import Action, Choice
from edgeopt.search.plan_table import PlanTable

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.float32]
ONE, MANY = "assign", "assign_many"
FAMILIES = ("rewrite", "fuse", "prune", "quantize", "repair")
SHARES = (0.25, 0.5, 0.75, 1.0)
MOVE_COLUMNS = ("back", "share", "to", "place", *FAMILIES, "latency", "size", "accuracy_drop")
GROUP_COLUMNS = (
    *("code", "alternatives", "place", "borders", *FAMILIES),
    *("latency", "size", "accuracy_drop", "least_latency", "least_drop"),
)
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
        names = {choice.name: i for i, choice in enumerate(choices)}
        at = [names.get(a.site, _LEAVE) if a.transform == ONE else _LEAVE for a in self.actions]
        families = {choice.name: choice.family for choice in choices}
        self.groups = np.array(at, dtype=np.int32).reshape(-1, 1) + 1
        held = np.concatenate([np.zeros((1, anchors.shape[1]), np.int32), anchors])
        self.anchors = held[self.groups[:, 0]]
        self._columns = np.zeros((len(self.actions), len(MOVE_COLUMNS)), np.float32)
        for n, action in enumerate(self.actions):
            to, share = int(action.get("to")), float(action.get("share", 0.0))
            place = (at[n] + 1) / max(len(choices), 1)
            family = families.get(action.site, action.site)
            kinds = [float(family == each) for each in FAMILIES]
            self._columns[n, : 4 + len(FAMILIES)] = (to == 0, share, to, place, *kinds)
        one = self.groups[:, 0] > 0
        self._single = int(one.sum())
        """Moves of one choice come first; `_at` and `_to` are where they act and what they set."""
        self._at = self.groups[: self._single, 0].astype(np.int64) - 1
        self._to = np.array(
            [int(action.get("to")) for action in self.actions[: self._single]], dtype=np.int64
        )
        self._place = table.ends[self._at] + self._to
        self._fixed = np.zeros((len(choices), len(GROUP_COLUMNS)), np.float32)
        for i, choice in enumerate(choices):
            kinds = [float(choice.family == each) for each in FAMILIES]
            place = (i + 1) / len(choices)
            self._fixed[i, : 4 + len(FAMILIES)] = (0.0, len(choice), place, 0.0, *kinds)
        self.follow()

    def follow(self) -> None:
        """Take in that the table is another one."""
        many = self.actions[self._single :]
        found = [self._target(action) for action in many]
        self._targets = np.array(found, dtype=np.int64).reshape(len(many), -1)

    def open(self, row: Ints) -> Ints:
        """Numbers of the moves that change codes [choices]."""
        changes = np.empty(len(self.actions), dtype=np.bool_)
        changes[: self._single] = row[self._at] != self._to
        other = (self._targets != row) & (self._targets != _LEAVE)
        changes[self._single :] = other.any(axis=1)
        return np.flatnonzero(changes)

    def after(self, row: Ints, number: int) -> Ints:
        """Codes [choices] behind a move."""
        found = row.copy()
        if number < self._single:
            found[self._at[number]] = self._to[number]
            return found
        target = self._targets[number - self._single]
        return np.where(target == _LEAVE, row, target)

    def move_rows(self, row: Ints, numbers: Ints) -> Rows:
        """`MOVE_COLUMNS` of some moves: what they are, and what they should change."""
        found = self._columns[numbers]
        single = int(np.searchsorted(numbers, self._single))
        found[:single, -3:] = self._changes_of_one(row, numbers[:single])
        if single < len(numbers):
            targets = self._targets[numbers[single:] - self._single]
            after = np.where(targets == _LEAVE, row, targets)
            found[single:, -3:] = self._table.costs(after) - self._table.costs(row[None])
        return found

    def _changes_of_one(self, row: Ints, numbers: Ints) -> npt.NDArray[np.float64]:
        """Without summing over all choices again: what one alternative and its borders change."""
        table, at = self._table, self._at[numbers]
        now, then = (row + table.ends)[at], self._place[numbers]
        on = row > 0
        switched = (self._to[numbers] > 0).astype(np.float64) - on[at]
        latency = table.cost[then] - table.cost[now] + (table.pairs @ on)[at] * switched
        size = (table.figures[then, 1] - table.figures[now, 1]) / (table.given[1] or 1.0)
        return np.stack([latency, size, table.hurt[then] - table.hurt[now]], axis=1)

    def group_rows(self, row: Ints) -> Rows:
        """`GROUP_COLUMNS` of every choice: what it is set to, and what that is predicted to do."""
        table, found = self._table, self._fixed.copy()
        at, on = row + table.ends, row > 0
        borders = (table.pairs @ on) * on
        found[:, 0], found[:, 3] = row, borders
        found[:, -5] = table.cost[at] + borders
        found[:, -4] = table.figures[at, 1] / (table.given[1] or 1.0)
        found[:, -3] = table.hurt[at]
        found[:, -2], found[:, -1] = table.least_cost, table.least_hurt
        return found

    def _target(self, action: Action) -> list[int]:
        choices, to = self._table.choices, int(action.get("to"))
        if action.transform == ONE:
            return [to if choice.name == action.site else _LEAVE for choice in choices]
        found = [0 if c.family == action.site else _LEAVE for c in choices]
        able = [i for i, c in enumerate(choices) if c.family == action.site and len(c) > to]
        table = self._table.table
        able.sort(key=lambda i: (table.damage[i][to], table.cost[i][to], i))
        for i in able[: round(float(action.get("share")) * len(able))]:
            found[i] = to
        return found


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
