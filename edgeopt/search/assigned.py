"""`Assigned`: the plan view of a space. A move changes codes, and nothing is built.

What a plan costs is read from tables, which makes thousands of steps a second possible; all that
it says of a plan is an estimate. Real costs come from the space that it was made of: `real` is the
recipe that a plan decodes to there, and what was measured takes the estimate's place (`PlanCosts`).
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import getitem

import numpy as np
import numpy.typing as npt

from edgeopt.core.action import Action, Choice, Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.protocols import Arrays, Space
from edgeopt.errors import UsageError
from edgeopt.search.codes import Codes, encode, starting
from edgeopt.search.plan_moves import PlanMoves
from edgeopt.search.plan_table import FIGURES, METRICS, PlanTable
from edgeopt.search.table import Table

_KEPT = 4096
_ANCHORS = 4
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """A recipe with its codes, as a row too; kept, so that no other object takes its place."""

    recipe: Recipe
    codes: Codes
    row: Ints


class Assigned:
    """Implements `core.protocols.Space` over codes.

    Args:
        space: Of the model: decodes one recipe an alternative, now.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self.choices: tuple[Choice, ...] = space.choices
        self.table = PlanTable(space)
        self._plans: OrderedDict[int, _Plan] = OrderedDict()
        self._open: tuple[_Plan, Ints] | None = None
        self._alternatives = [choice.alternatives for choice in self.choices]
        self._offered = frozenset(
            action for choice in self.choices for found in choice.alternatives for action in found
        )
        self._empty = self._kept(space.empty(), (0,) * len(self.choices))
        start = space.decode([starting(choice) for choice in self.choices])
        seen = space.observe(start)
        self._nodes = {name: a.copy() for name, a in seen.items() if not name.startswith("action")}
        self._anchors = _anchors(self.choices, space.legal(start), seen)
        for array in (*self._nodes.values(), self._anchors):
            array.flags.writeable = False  # says that no step changes it
        self.moves = PlanMoves(self.table, self._anchors)

    def use(self, table: Table) -> None:
        """Take another table: predictions and moves of many follow it."""
        self.table.use(table)
        self.moves.follow()
        self._open = None

    @property
    def runtimes(self) -> tuple[RuntimeSettings, ...]:
        """As the space has them."""
        return self._space.runtimes

    def empty(self) -> Recipe:
        """The baseline."""
        return self._empty.recipe

    def decode(self, codes: Sequence[int]) -> Recipe:
        """The plan of some codes: every action that they name, whether it applies or not."""
        row = tuple(map(int, codes))
        if len(row) != len(self.choices):
            raise ValueError(f"{len(row)} codes for {len(self.choices)} choices")
        return self._planned(row).recipe

    def codes(self, recipe: Recipe) -> Codes:
        """Of a plan, or of any recipe that codes can say.

        Raises:
            UsageError: The recipe holds what no choice offers.
        """
        return self._plan(recipe).codes

    def row(self, recipe: Recipe) -> Ints:
        """The same as an array [choices]."""
        return self._plan(recipe).row

    @property
    def sizes(self) -> tuple[tuple[float, ...], ...]:
        """What each alternative adds to the size, as a share of the baseline's, by choice."""
        parts = np.split(self.table.alone[:, 1], self.table.ends[1:])
        return tuple(tuple(map(float, part)) for part in parts)

    def real(self, recipe: Recipe) -> Recipe:
        """The recipe that a plan decodes to: without what does not apply. Builds the graph."""
        return self._space.decode(self.codes(recipe))

    def legal(self, recipe: Recipe) -> tuple[Action, ...]:
        """Every move to other codes."""
        return self.moves.listed(self._numbers(self._plan(recipe)))

    def then(self, recipe: Recipe, action: Action) -> Recipe | str:
        """The plan behind a move; of an action of the real space the plan that holds it too."""
        number = self.moves.number.get(action)
        if number is None:
            known = action.bare() in self._offered
            return recipe.then(action) if known else "no choice of this space offers it"
        row = self.row(recipe)
        target = self.moves.after(row, number)
        if (target == row).all():
            return "it is so already"
        return self._planned(tuple(target.tolist())).recipe

    def standard(self) -> tuple[tuple[str, Candidate], ...]:
        """As the space has them."""
        return self._space.standard()

    def guesses(self) -> Iterator[tuple[str, Candidate]]:
        """As the space has them."""
        return self._space.guesses()

    def observe(self, recipe: Recipe) -> Arrays:
        """Arrays of the graph with everything exact, which do not change, and of the plan:
        `group_x` [choices] in `GROUP_COLUMNS` and `group_nodes` (rows of nodes plus 1);
        `action_x` [moves] in `MOVE_COLUMNS`, `action_group` (row of a choice plus 1) and
        `action_nodes`."""
        plan = self._plan(recipe)
        numbers = self._numbers(plan)
        groups, moves = self.moves.rows(plan.row, numbers)
        return {
            **self._nodes,
            "group_x": groups,
            "group_nodes": self._anchors,
            "action_x": moves,
            "action_group": self.moves.groups[numbers],
            "action_nodes": self.moves.anchors[numbers],
        }

    def static_cost(self, recipe: Recipe) -> Mapping[str, float]:
        """Sums over alternatives alone: exact where they do not meet."""
        found = self.table.figures_of(self.row(recipe))
        return dict(zip(FIGURES, map(float, found), strict=True))

    def _numbers(self, plan: _Plan) -> Ints:
        """Moves that are open: asked for twice in a step, for the plan where it stands."""
        if self._open is None or self._open[0] is not plan:
            self._open = plan, self.moves.open(plan.row)
        return self._open[1]

    def _planned(self, row: Codes) -> _Plan:
        named = map(getitem, self._alternatives, row)
        return self._kept(self.empty().then(*chain.from_iterable(named)), row)

    def _plan(self, recipe: Recipe) -> _Plan:
        # By identity: hashing some hundred actions costs more than a step.
        held = self._empty if recipe is self._empty.recipe else self._plans.get(id(recipe))
        if held is not None:
            return held
        row = encode(self.choices, recipe)
        if row is None:
            raise UsageError(
                "the recipe holds an action that no choice of this space offers",
                hint="step through it in the environment over the real space",
            )
        return self._kept(recipe, row)

    def _kept(self, recipe: Recipe, codes: Codes) -> _Plan:
        plan = _Plan(recipe, codes, np.array(codes, dtype=np.int64))
        self._plans[id(recipe)] = plan
        if len(self._plans) > _KEPT:
            self._plans.popitem(last=False)
        return plan


class PlanCosts:
    """Implements `core.protocols.Evaluator`: `METRICS` by table, or as they were measured.

    Args:
        plans: Whose recipes are evaluated.
        metrics: What the three are called: a table that no accuracy was set against says damage.
    """

    deterministic = True

    def __init__(self, plans: Assigned, metrics: tuple[str, str, str] = METRICS) -> None:
        self._plans = plans
        self.metrics = metrics
        self.known: dict[Codes, npt.NDArray[np.float64]] = {}
        """Measured costs [metrics], by codes."""

    def costs(self, recipe: Recipe) -> npt.NDArray[np.float64]:
        """[metrics] of a plan."""
        found = self.known.get(self._plans.codes(recipe)) if self.known else None
        return self._plans.table.costs(self._plans.row(recipe)[None])[0] if found is None else found


def _anchors(
    choices: Sequence[Choice], legal: Sequence[Action], seen: Arrays
) -> npt.NDArray[np.int32]:
    """Rows of nodes around each choice, as the space shows them for its first actions there."""
    found = np.zeros((len(choices), _ANCHORS), dtype=np.int32)
    shown = seen.get("action_nodes")
    if shown is None:
        return found
    place = {action: n for n, action in enumerate(legal[: len(shown)])}
    for i, choice in enumerate(choices):
        rows = [place[a] for actions in choice.alternatives for a in actions if a in place]
        if rows:
            found[i] = shown[rows[0]]
    return found
