"""`static`: what a competent user would try first, in a fixed order. The control of all others."""

from collections.abc import Sequence

from edgeopt.core.candidate import Candidate
from edgeopt.core.estimates import Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space, StrategyFactory
from edgeopt.core.trial import Trial

AT_ONCE = 3
FIRST, FEW = 5, 16
"""The first ones and those behind a few come one at a time: the best must be measured, in the
smallest budget, before others are made that take a calibration and the fit of a repair."""


class Static:
    """The space's standard candidates, each once and a few at a time.

    The first are measured before the last are made, which takes minutes on some models.

    Attributes:
        labels: Candidate key to the name under which people know the candidate, of those that
            were asked for.
    """

    def __init__(self, space: Space) -> None:
        self._guesses = space.guesses()
        self._known: set[str] = set()
        self.labels: dict[str, str] = {}

    def ask(self, count: int) -> Sequence[Candidate]:
        """The next ones in order."""
        found: list[Candidate] = []
        at_once = AT_ONCE if FIRST <= len(self.labels) < FEW else 1
        while len(found) < min(count, at_once):
            name, candidate = next(self._guesses, ("", None))
            if candidate is None:
                break
            self.labels.setdefault(candidate.key, name)
            if candidate.key not in self._known:
                self._known.add(candidate.key)
                found.append(candidate)
        return tuple(found)

    def tell(self, trials: Sequence[Trial]) -> None:
        """What others have measured already is not asked for again."""
        self._known.update(trial.candidate.key for trial in trials)


def make(
    space: Space,
    *,
    seed: int,
    objectives: tuple[Objective, ...],
    estimator: Estimator | None = None,
) -> Static:
    """The fixed list; seed and objectives change nothing."""
    return Static(space)


PLUGIN: StrategyFactory = make
