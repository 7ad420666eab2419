"""`static`: what a competent user would try first, in a fixed order. The control of all others."""

from collections.abc import Mapping, Sequence

from edgeopt.core.candidate import Candidate
from edgeopt.core.estimates import Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space, StrategyFactory
from edgeopt.core.trial import Trial


class Static:
    """The space's standard candidates, each once.

    Attributes:
        labels: Candidate key to the name under which people know the candidate.
    """

    def __init__(self, space: Space) -> None:
        self._waiting: dict[str, Candidate] = {}
        labels: dict[str, str] = {}
        for name, candidate in space.standard():
            self._waiting.setdefault(candidate.key, candidate)
            labels.setdefault(candidate.key, name)
        self.labels: Mapping[str, str] = labels

    def ask(self, count: int) -> Sequence[Candidate]:
        """The next ones in order."""
        chosen = list(self._waiting)[:count]
        return tuple(self._waiting.pop(key) for key in chosen)

    def tell(self, trials: Sequence[Trial]) -> None:
        """What others have measured already is not asked for again."""
        for trial in trials:
            self._waiting.pop(trial.candidate.key, None)


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
