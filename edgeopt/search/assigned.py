"""`Assigned`: the plan view of a space. A move changes codes, and nothing is built.

What a plan costs is read from tables, which makes thousands of steps a second possible; all that
it says of a plan is an estimate. Real costs come from the space that it was made of: `real` is the
recipe that a plan decodes to there, and what was measured takes the estimate's place (`PlanCosts`).
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence

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


class Assigned:
    """Implements `core.protocols.Space` over codes.

    Args:
        space: Of the model: decodes one recipe an alternative, now.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self.choices: tuple[Choice, ...] = space.choices
        self.table = PlanTable(space)
        self._codes: OrderedDict[int, tuple[Recipe, Codes]] = OrderedDict()
        self._offered = frozenset(
            action for choice in self.choices for found in choice.alternatives for action in found
        )
        start = space.decode([starting(choice) for choice in self.choices])
        seen = space.observe(start)
        self._nodes = {name: a for name, a in seen.items() if not name.startswith("action")}
        self._anchors = _anchors(self.choices, space.legal(start), seen)
        self.moves = PlanMoves(self.table, self._anchors)

    def use(self, table: Table) -> None:
        """Take another table: predictions and moves of many follow it."""
        self.table.use(table)
        self.moves.follow()

    @property
    def runtimes(self) -> tuple[RuntimeSettings, ...]:
        """As the space has them."""
        return self._space.runtimes

    def empty(self) -> Recipe:
        """The baseline."""
        return self._space.empty()

    def decode(self, codes: Sequence[int]) -> Recipe:
        """The plan of some codes: every action that they name, whether it applies or not."""
        row = tuple(map(int, codes))
        named = (c.alternatives[k] for c, k in zip(self.choices, row, strict=True))
        plan = self.empty().then(*(action for actions in named for action in actions))
        self._remember(plan, row)
        return plan

    def codes(self, recipe: Recipe) -> Codes:
        """Of a plan, or of any recipe that codes can say.

        Raises:
            UsageError: The recipe holds what no choice offers.
        """
        held = self._codes.get(id(recipe))
        if held is not None:
            return held[1]
        row = encode(self.choices, recipe)
        if row is None:
            raise UsageError(
                "the recipe holds an action that no choice of this space offers",
                hint="step through it in the environment over the real space",
            )
        self._remember(recipe, row)
        return row

    def real(self, recipe: Recipe) -> Recipe:
        """The recipe that a plan decodes to: without what does not apply. Builds the graph."""
        return self._space.decode(self.codes(recipe))

    def legal(self, recipe: Recipe) -> tuple[Action, ...]:
        """Every move to other codes."""
        numbers = self.moves.open(np.array(self.codes(recipe), dtype=np.int64))
        return tuple(self.moves.actions[int(n)] for n in numbers)

    def then(self, recipe: Recipe, action: Action) -> Recipe | str:
        """The plan behind a move; of an action of the real space the plan that holds it too."""
        number = self.moves.number.get(action)
        if number is None:
            known = action.bare() in self._offered
            return recipe.then(action) if known else "no choice of this space offers it"
        row = np.array(self.codes(recipe), dtype=np.int64)
        target = self.moves.after(row, number)
        return "it is so already" if (target == row).all() else self.decode(target.tolist())

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
        row = np.array(self.codes(recipe), dtype=np.int64)
        numbers = self.moves.open(row)
        return {
            **self._nodes,
            "group_x": self.moves.group_rows(row),
            "group_nodes": self._anchors,
            "action_x": self.moves.move_rows(row, numbers),
            "action_group": self.moves.groups[numbers],
            "action_nodes": self.moves.anchors[numbers],
        }

    def static_cost(self, recipe: Recipe) -> Mapping[str, float]:
        """Sums over alternatives alone: exact where they do not meet."""
        found = self.table.figures_of(np.array(self.codes(recipe), dtype=np.int64))
        return dict(zip(FIGURES, map(float, found), strict=True))

    def _remember(self, plan: Recipe, row: Codes) -> None:
        # By identity: hashing some hundred actions costs more than a step. The plan is held, so
        # that no other object can take its place.
        self._codes[id(plan)] = plan, row
        if len(self._codes) > _KEPT:
            self._codes.popitem(last=False)


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
        row = self._plans.codes(recipe)
        found = self.known.get(row)
        return self._plans.table.costs(np.array([row]))[0] if found is None else found


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
