"""What strategies by a table share: their archive, their estimator, and the table of the moment."""

from collections.abc import Sequence

from edgeopt.core.candidate import Candidate
from edgeopt.core.estimates import Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space
from edgeopt.core.trial import Trial
from edgeopt.search.archive import Archive
from edgeopt.search.calibration import calibrated
from edgeopt.search.codes import Codes
from edgeopt.search.table import EstimatedTable, Table, fitted, uniform


class Guided:
    """A search that asks by a table of what each alternative gains and hurts.

    Args:
        space: Of the choices.
        objectives: The first is what is made small; bounds are those of all.
        estimator: Predicts before anything is measured; None: the table comes from trials alone.
    """

    def __init__(
        self, space: Space, objectives: tuple[Objective, ...], estimator: Estimator | None
    ) -> None:
        self.choices = space.choices
        self.objectives = objectives
        self.archive = Archive(space)
        self._space = space
        self._estimator = estimator
        self._source: EstimatedTable | None = None

    def begin(self, count: int) -> list[Candidate]:
        """What teaches most where nothing is known; nothing with an estimator."""
        return self.archive.new(() if self._estimator else uniform(self.choices), count)

    def tell(self, trials: Sequence[Trial]) -> None:
        """Every trial counts, whoever asked for it."""
        self.archive.tell(trials)
        if self._estimator is not None:
            self._estimator.learn(trials)

    def table(self) -> Table:
        """By what was learned so far."""
        if self._estimator is None:
            return fitted(self.choices, self.archive, self.objectives)
        if self._source is None:
            self._source = EstimatedTable(self._space, self._estimator)
        return calibrated(self._source.now(raw=True), self.archive, self.objectives)

    def keeps(self, row: Codes) -> bool | None:
        """Whether codes kept all bounds; None where that was not measured.

        A candidate that failed has missed no bound: it says nothing about where that lies. One
        that was ruled out before it was timed has missed the bound of what it has.
        """
        trial = self.archive.told.get(row)
        if trial is None:
            return None
        known = [each for each in self.objectives if each.cost(trial) is not None]
        if not all(each.feasible(trial) for each in known):
            return False
        return True if len(known) == len(self.objectives) else None
