"""`Modelled`: a search that proposes much, predicts all of it, and measures what should gain most.

What `planner` and `portfolio` share. They differ in where proposals come from and in how many
each source may have measured.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from edgeopt.core.candidate import Candidate
from edgeopt.core.estimates import Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space
from edgeopt.core.trial import Trial
from edgeopt.search import codes as coding
from edgeopt.search.archive import Archive
from edgeopt.search.codes import Codes
from edgeopt.search.foretold import Accord, Foretold
from edgeopt.search.proposers import Proposer, View
from edgeopt.search.selector import DRAWS, Selector
from edgeopt.search.surrogate import Forecast, Surrogate
from edgeopt.search.table import uniform

Floats = npt.NDArray[np.float64]
_AT_ONCE = 5
"""Candidates of a batch at most: what they show decides on the next."""
_EARLY_AT_ONCE = 3
"""The same while little is known, and every trial tells much. One at a time is no better, and
nothing could be built while another is measured."""
_EARLY = 60
"""Trials until then."""
_POOL = 24
"""Rows that each source is asked for, at least."""
_MOST = 700
"""Proposals that are predicted, at most."""
_PATIENCE = 200
_BEGINNING = 3
"""Trials with all values before anything is planned where there are no estimates."""


class Modelled:
    """Asks by a surrogate and a selector.

    Args:
        space, seed, objectives, estimator: As every strategy.
        sources: Where proposals come from, by name.
    """

    def __init__(
        self,
        space: Space,
        seed: int,
        objectives: tuple[Objective, ...],
        estimator: Estimator | None,
        sources: Mapping[str, Proposer],
    ) -> None:
        self._choices, self._seed = space.choices, seed
        self._objectives, self._estimator = objectives, estimator
        self._sources = sources
        self._space = space
        self._archive = Archive(space)
        self._surrogate: Surrogate | None = None
        self._foretold = Foretold(())
        self._origin: dict[Codes, str] = {}

    def ask(self, count: int) -> Sequence[Candidate]:
        """What should gain most; fewer than asked for, so that the next ones know more."""
        early = len(self._archive.told) < _EARLY
        wanted = min(count, _EARLY_AT_ONCE if early else _AT_ONCE)
        if wanted < 1:
            return ()
        found = self._archive.new(self._beginning(), wanted)
        if len(found) < wanted and self._choices and self._objectives:
            found += self._best(wanted - len(found))
        if not found:
            found = self._archive.new(self._random(), wanted)
        return tuple(found)

    def tell(self, trials: Sequence[Trial]) -> None:
        """Every trial counts, whoever asked for it."""
        self._archive.tell(trials)
        if self._estimator is not None:
            self._estimator.learn(trials)
        if self._surrogate is None:
            return
        for trial in trials:
            row = self._archive.row_of(trial.candidate)
            costs = self._surrogate.relative(trial)
            if row is not None and costs is not None:
                self._foretold.meet(row, costs)
                self._credit(self._origin.get(row, ""), costs)

    @property
    def accords(self) -> tuple[Accord, ...]:
        """How well was predicted, objective by objective."""
        return self._foretold.accords()

    def _quotas(self, wanted: int) -> Mapping[str, int]:
        """How many of each source may be measured in a batch; all may be everything."""
        return dict.fromkeys(self._sources, wanted)

    def _credit(self, source: str, costs: Floats) -> None:
        """A measured row of a source [objectives]; here nothing is made of it."""

    def _beginning(self) -> Sequence[Codes]:
        """What teaches most where nothing is known: one trial at least is needed to predict."""
        if self._estimator is None and len(self._archive.told) < _BEGINNING:
            return uniform(self._choices)
        start = tuple(coding.starting(choice) for choice in self._choices)
        return () if self._archive.told else ((0,) * len(self._choices), start)

    def _best(self, wanted: int) -> list[Candidate]:
        self._open()
        if self._surrogate is None:
            return []
        self._surrogate.refit()
        known = self._surrogate.objectives
        generator = np.random.default_rng([self._seed, len(self._archive.known)])
        view = View(self._choices, known, self._archive, self._surrogate, generator)
        pool = self._pool(view)
        if not pool:
            return []
        rows, origin = list(pool), [*pool.values()]
        forecast = self._widened(self._surrogate.predict(rows))
        losses = [n for n, each in enumerate(known) if each.direction == "max"]
        front, limits = view.measured[1], self._surrogate.limits()
        together = self._surrogate.deviations(rows, DRAWS, generator)
        selector = Selector(front, limits, forecast, generator, losses, deviations=together)
        found: list[Candidate] = []
        # Some rows mean recipes that are known: a few more are picked than are wanted.
        quota = {name: limit + 2 for name, limit in self._quotas(wanted).items()}
        for index in self._picked(selector, 3 * wanted, origin, quota):
            made = self._archive.new([rows[index]], 1)
            if made:
                self._origin[rows[index]] = origin[index]
                self._note(rows[index], forecast, index)
                found += made
            if len(found) == wanted:
                break
        return found

    def _picked(
        self, selector: Selector, count: int, origin: Sequence[str], quota: Mapping[str, int]
    ) -> Sequence[int]:
        """Proposals to measure, the best first; an ablation picks otherwise."""
        return selector.pick(count, origin, quota)

    def _modelled(self, known: tuple[Objective, ...]) -> Surrogate:
        """The surrogate of some objectives; an ablation takes another."""
        return Surrogate(self._space, known, self._estimator, self._archive)

    def _open(self) -> None:
        """A surrogate of the objectives that any trial has a value for: a device without a
        sensor must not make everything incomparable."""
        known = tuple(each for each in self._objectives if self._archive.costs(each))
        if known and (self._surrogate is None or self._surrogate.objectives != known):
            self._surrogate = self._modelled(known)
            self._foretold = Foretold([each.metric for each in known])

    def _pool(self, view: View) -> dict[Codes, str]:
        """Unknown rows with the source that had each first."""
        each = max(_POOL, _MOST // max(len(self._sources), 1))
        found: dict[Codes, str] = {}
        for name, source in self._sources.items():
            made = (coding.mended(self._choices, row) for row in source(view, _POOL))
            fresh = (row for row in made if not self._archive.knows(row))
            mine = list(dict.fromkeys(row for row in fresh if row not in found))
            found |= dict.fromkeys(mine[:each], name)
        return found

    def _widened(self, forecast: Forecast) -> Forecast:
        """Spreads with the noise of a measurement in them, as wide as the latest errors were."""
        return Forecast(
            means=forecast.means,
            spreads=forecast.spreads * self._foretold.widening(),
            works=forecast.works,
        )

    def _note(self, row: Codes, forecast: Forecast, index: int) -> None:
        assert self._surrogate is not None
        spread = np.hypot(forecast.spreads[index], self._surrogate.noise())
        means = np.minimum(forecast.means[index], self._surrogate.ceilings())
        self._foretold.say(row, means, np.maximum(spread, 1e-9))

    def _random(self) -> list[Codes]:
        """The end: whatever is left."""
        generator = np.random.default_rng([self._seed, 1, len(self._archive.known)])
        return [coding.draw(self._choices, generator) for _ in range(_PATIENCE)]
