"""`Foreseen`: a space of steps that also says what each legal action is predicted to change.

Predictions come from the table that a search begins with: what each alternative of each choice
changes over everything exact. A step is one action of an alternative, and is said to do an equal
share of it. An action that no alternative holds at its site (a rule has moved the site since) is
followed to where its output goes; where that leads nowhere, it is taken as the mean of its kind.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action, Parameter, Recipe
from edgeopt.core.protocols import Arrays, Space
from edgeopt.estimate.estimator import GraphEstimator
from edgeopt.search.plan_moves import FAMILIES
from edgeopt.search.plan_table import PlanTable
from edgeopt.search.remembered import Remembered
from edgeopt.search.table import EstimatedTable
from edgeopt.transforms.space import GraphSpace

CHANGE_COLUMNS = ("latency", "size", "damage", "macs", "activation", "known")
"""Shares of the given model's, but for the damage (0 without data) and for `known`: 1 where an
alternative holds the action, 0.5 where its kind does, 0 where nothing is predicted."""
GROUP_COLUMNS = (
    *("done", "alternatives", "place", *FAMILIES),
    *("latency", "size", "damage", "macs", "activation", "least_latency", "least_damage"),
)
"""Of a choice: the share of an alternative that was done, what it is, what that is predicted to
change, and the best that any alternative is predicted to do."""
_FAR = 4
"""Nodes through which a site is followed."""
_HELD, _LIKE = 1.0, 0.5
_KINDS = len(FAMILIES)
Floats = npt.NDArray[np.float64]
Row = npt.NDArray[np.float32]
_Key = tuple[str, str, tuple[tuple[str, Parameter], ...]]


@dataclass(frozen=True, slots=True)
class _Part:
    """One action of an alternative: of which choice, which row of the table, what share."""

    choice: int
    row: int
    share: float


class Foreseen(Remembered):
    """Implements `core.protocols.Space` on top of a model's space.

    Args:
        space: Of the model; builds one graph an alternative, now.
        estimator: Of the same space.
    """

    def __init__(self, space: GraphSpace, estimator: GraphEstimator) -> None:
        # Its choices are a cached property, which no protocol can say.
        steps: Any = space
        super().__init__(steps)
        self._steps: Space = steps
        remembered = Remembered(steps)
        table = PlanTable(remembered)
        table.use(EstimatedTable(remembered, estimator).now(raw=True))
        given = np.maximum(table.given[[0, 2]], 1.0)
        self._changes: Floats = np.hstack([table.alone, table.figures[:, [0, 2]] / given])
        """What each alternative changes [alternatives, 5]."""
        self._table = table
        self._next = dict(_followed(space.graph(space.empty())))
        self._parts = dict(self._held())
        self._like = self._means()
        self._fixed = self._described()

    def observe(self, recipe: Recipe) -> Arrays:
        """As the space says, and `group_x` [choices] in `GROUP_COLUMNS`, `group_nodes` (rows of
        nodes plus 1), `action_group` (row of a choice plus 1; 0 is none) and `action_change` in
        `CHANGE_COLUMNS`."""
        seen, legal = self._steps.observe(recipe), self._steps.legal(recipe)
        near = seen["action_nodes"]
        change = np.zeros((len(near), len(CHANGE_COLUMNS)), np.float32)
        of = np.zeros((len(near), 1), np.int32)
        nodes = np.zeros((len(self._fixed), near.shape[1]), np.int32)
        for row, action in enumerate(legal[: len(near)]):
            change[row], choice = self._foreseen(action)
            of[row] = choice + 1
            if choice >= 0 and not nodes[choice].any():
                nodes[choice] = near[row]
        return {
            **seen,
            "group_x": self._groups(recipe),
            "group_nodes": nodes,
            "action_group": of,
            "action_change": change,
        }

    def _foreseen(self, action: Action) -> tuple[Row, int]:
        """`CHANGE_COLUMNS` of an action, and its choice; -1 where it has none."""
        part = self._part(action)
        if part is not None:
            found = self._changes[part.row] * part.share
            return np.append(found, _HELD).astype(np.float32), part.choice
        like = self._like.get(action.transform)
        if like is None:
            return np.zeros(len(CHANGE_COLUMNS), np.float32), -1
        return np.append(like, _LIKE).astype(np.float32), -1

    def _part(self, action: Action) -> _Part | None:
        """Of its site, or of where its output goes."""
        transform, site, parameters = _key(action)
        for _ in range(_FAR + 1):
            found = self._parts.get((transform, site, parameters))
            if found is not None or site not in self._next:
                return found
            site = self._next[site]
        return None

    def _groups(self, recipe: Recipe) -> Row:
        done = np.zeros(len(self._changes))
        for action in recipe.actions:
            part = self._part(action)
            if part is not None:
                done[part.row] += part.share
        done = np.minimum(done, 1.0)
        found, table = self._fixed.copy(), self._table
        for i, (first, count) in enumerate(zip(table.ends, table.sizes, strict=True)):
            most = int(first + np.argmax(done[first : first + count]))
            found[i, 0] = done[most]
            found[i, 3 + _KINDS : 8 + _KINDS] = done[most] * self._changes[most]
        return found

    def _held(self) -> Iterator[tuple[_Key, _Part]]:
        """Every action of every alternative, the largest shares last, so that they count."""
        found: list[tuple[_Key, _Part]] = []
        for i, choice in enumerate(self.choices):
            for k, actions in enumerate(choice.alternatives):
                row, count = int(self._table.ends[i]) + k, max(len(actions), 1)
                found += [(_key(action), _Part(i, row, 1.0 / count)) for action in actions]
        yield from sorted(found, key=lambda entry: entry[1].share)

    def _means(self) -> Mapping[str, Floats]:
        """What an action of each transform changes in the mean [5]."""
        found: dict[str, list[Floats]] = {}
        for (transform, _, _), part in self._parts.items():
            found.setdefault(transform, []).append(self._changes[part.row] * part.share)
        return {name: np.mean(rows, axis=0) for name, rows in found.items()}

    def _described(self) -> Row:
        """`GROUP_COLUMNS`, but for what follows from a recipe."""
        choices = self.choices
        found = np.zeros((len(choices), len(GROUP_COLUMNS)), np.float32)
        for i, choice in enumerate(choices):
            kinds = [float(choice.family == each) for each in FAMILIES]
            found[i, 1 : 3 + _KINDS] = (len(choice), (i + 1) / len(choices), *kinds)
        found[:, -2], found[:, -1] = self._table.least_cost, self._table.least_hurt
        return found


def _key(action: Action) -> _Key:
    bare = action.bare()
    return bare.transform, bare.site, tuple(bare.parameters)


def _followed(graph: ir.Model) -> Iterator[tuple[str, str]]:
    """Each value that one node alone reads, and what that node makes."""
    nodes: Sequence[ir.Node] = list(graph.graph)
    for value in (v for node in nodes for v in node.outputs):
        readers = {user: None for user, _ in value.uses()}
        if len(readers) == 1:
            made = next(iter(readers)).outputs[0].name
            if value.name and made:
                yield value.name, made
