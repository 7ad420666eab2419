"""`released`: what loses a little too much, with its loudest groups back in float.

What is fastest with everything in integers often misses the bound by little: on most models the
best is everything but a handful. A search that fits all of its choices finds that out in the end;
on a model of which two candidates a minute can be measured it has not begun by then. So of the
first guesses the fastest that loses no more than a few times what is allowed is taken, each of its
groups is heard alone, and the loudest go back to float until what is left should keep the bound.
What was measured then may be released further: four such candidates at most, one at a time.
"""

import math
from collections.abc import Callable, Sequence

from edgeopt.core.candidate import Candidate
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space
from edgeopt.core.trial import Trial
from edgeopt.search.archive import Archive
from edgeopt.search.codes import Codes
from edgeopt.search.loss import Loss
from edgeopt.search.table import Pair, accuracy_of

MOST = 4
_REACH = 4.0
"""Times the allowed drop: what loses more is not mended by a handful of groups."""
_WORTH = 0.95
"""Of the time of the best that keeps the bound."""
_SHARE = 0.7
"""Of the allowed drop that is aimed at: what noise makes of an accuracy is no straight line."""
_SILENT = 1e-9

Noise = Callable[[Sequence[Pair]], Sequence[float]]
"""Noise over signal at the outputs where one alternative of one choice alone is on, for some of
both."""


class Released:
    """Releases from what was measured; a `Strategy`.

    It is on no shelf: it begins where first guesses end, and ends after a few.

    Args:
        space: Of the choices.
        objectives: The first is what becomes smaller; one to be raised is the accuracy.
        noise: Of choices and their alternatives.

    Attributes:
        labels: Candidate key to the name under which people know the candidate.
    """

    def __init__(self, space: Space, objectives: Sequence[Objective], noise: Noise) -> None:
        self._choices = space.choices
        self._objectives, self._noise = objectives, noise
        self._quality = accuracy_of(objectives)
        self._archive = Archive(space)
        self._tried: set[Codes] = set()
        self._asked = 0
        self.labels: dict[str, str] = {}

    @property
    def waits(self) -> bool:
        """Whether it may have something later where it has nothing now."""
        return self._quality is not None and self._asked < MOST

    def ask(self, count: int) -> Sequence[Candidate]:
        """One candidate, or none where nothing that was told is in reach."""
        while count > 0 and self.waits:
            row = self._next()
            if row is None:
                break
            self._tried.add(row)
            less = self._less(row)
            found = () if less is None else self._archive.new([less], 1)
            if less is not None and found:
                self._asked += 1
                gone = sum(a != b for a, b in zip(row, less, strict=True))
                self.labels[found[0].key] = f"{self._name(row)} without {gone}"
                return tuple(found)
        return ()

    def tell(self, trials: Sequence[Trial]) -> None:
        """Every trial counts, whoever asked for it."""
        self._archive.tell(trials)

    def _next(self) -> Codes | None:
        """The fastest row in reach that is faster than what keeps the bound."""
        told = self._archive.told
        loss = self._loss
        drops = {row: loss.of(trial) for row, trial in told.items()}
        # Without a bound to keep nothing is in reach.
        allowed = loss.allowed or 0.0
        kept = [self._cost(told[row]) for row, drop in drops.items() if drop <= allowed]
        limit = _WORTH * min(kept, default=math.inf)
        worth = [
            row
            for row, drop in drops.items()
            if row not in self._tried and self._cost(told[row]) < limit
            if allowed < drop <= _REACH * allowed and self._in_integers(row)
        ]
        return min(worth, key=lambda row: self._cost(told[row]), default=None)

    def _less(self, row: Codes) -> Codes | None:
        """The row without its loudest groups; None where nothing is heard of any."""
        groups = self._in_integers(row)
        noise = dict(zip(groups, self._noise([(i, row[i]) for i in groups]), strict=True))
        whole = sum(noise.values())
        if whole <= _SILENT:
            return None
        drop, allowed = self._loss.of(self._archive.told[row]), self._loss.allowed or 0.0
        left, codes = whole, list(row)
        for index in sorted(noise, key=lambda i: (-noise[i], i)):
            if left <= whole * _SHARE * allowed / drop:
                break
            codes[index] = 0
            left -= noise[index]
        return tuple(codes)

    def _in_integers(self, row: Codes) -> list[int]:
        """Choices of groups that are on."""
        return [i for i, k in enumerate(row) if k and self._choices[i].family == "quantize"]

    def _name(self, row: Codes) -> str:
        trial = self._archive.told[row]
        return trial.label or f"number {trial.number}"

    def _cost(self, trial: Trial) -> float:
        cost = self._objectives[0].cost(trial) if self._objectives else None
        return math.inf if cost is None else cost

    @property
    def _loss(self) -> Loss:
        base = next((t for row, t in self._archive.told.items() if not any(row)), None)
        return Loss(quality=self._quality, base=base)
