"""`Archive`: what was asked and what was told, by codes; nothing that is in it comes back."""

from collections.abc import Iterable, Mapping, Sequence

from edgeopt.core.candidate import Candidate
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space
from edgeopt.core.trial import Trial
from edgeopt.search import codes
from edgeopt.search.codes import Codes


class Archive:
    """Candidates of one space under its standard runtime settings."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._runtime = next(space.guesses())[1].runtime
        self._keys: set[str] = set()
        self._asked: dict[str, Codes] = {}
        self._codes: dict[Codes, None] = {}
        self._told: dict[Codes, Trial] = {}

    @property
    def told(self) -> Mapping[Codes, Trial]:
        """Every trial that codes can express, in the order of telling."""
        return self._told

    @property
    def known(self) -> Sequence[Codes]:
        """All codes that were proposed or told, those that meant a known recipe too."""
        return tuple(self._codes)

    def knows(self, row: Codes) -> bool:
        """Whether codes were proposed or told."""
        return row in self._codes

    def new(self, rows: Iterable[Codes], limit: int) -> list[Candidate]:
        """Candidates of the first `limit` rows that nobody has asked for; takes no more rows."""
        found: list[Candidate] = []
        if limit < 1:
            return found
        for row in rows:
            if row in self._codes:
                continue
            self._codes[row] = None
            candidate = Candidate(recipe=self._space.decode(row), runtime=self._runtime)
            if candidate.key not in self._keys:
                self._keys.add(candidate.key)
                self._asked[candidate.key] = row
                found.append(candidate)
            if len(found) == limit:
                break
        return found

    def tell(self, trials: Sequence[Trial]) -> None:
        """Take results in, also those of other strategies; the latest of a candidate counts."""
        for trial in trials:
            self._keys.add(trial.candidate.key)
            row = self.row_of(trial.candidate)
            if row is not None:
                self._codes[row] = None
                self._told[row] = trial

    def costs(self, objective: Objective) -> dict[Codes, float]:
        """The cost of every told trial that has one."""
        found = {row: objective.cost(trial) for row, trial in self._told.items()}
        return {row: cost for row, cost in found.items() if cost is not None}

    def row_of(self, candidate: Candidate) -> Codes | None:
        """The codes that mean exactly a candidate, asked for here or elsewhere."""
        if candidate.key in self._asked:
            return self._asked[candidate.key]
        row = codes.encode(self._space.choices, candidate.recipe)
        if row is None or candidate.runtime != self._runtime:
            return None
        same = self._space.decode(row).digest == candidate.recipe.digest
        return row if same else None
