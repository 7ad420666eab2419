"""`GraphEstimator`: gains and damages of the recipes of one `GraphSpace`, for strategies.

Implements `core.estimates.Estimator`. Latency comes from the node-and-edge model of `gain`, whose
counts follow what the runtime made of the measured graphs: an alternative that asks for integers
where those ran in float is foretold to gain nothing by it (`kernels`), in graphs not yet built too.
damage is the sum of what each alternative does alone; once accuracies were measured, the drop is
that sum with a factor for each alternative, refitted as the prices are.
"""

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgeopt.core import digest as digests
from edgeopt.core.action import Action, Choice, Recipe
from edgeopt.core.estimates import DAMAGE, DROP, LATENCY, Change, Estimates
from edgeopt.core.trial import Trial
from edgeopt.estimate.borders import borders
from edgeopt.estimate.gain import Gain
from edgeopt.estimate.kernels import Kernels
from edgeopt.estimate.regression import Fit, fit
from edgeopt.estimate.sensitivity import SAMPLES, Sensitivity
from edgeopt.estimate.work import Work, counted
from edgeopt.graph.runtime import version
from edgeopt.transforms.base import EXACT
from edgeopt.transforms.replay import ActionRejected
from edgeopt.transforms.space import GraphSpace
from edgeopt.transforms.stages import transform_of

Floats = npt.NDArray[np.float64]
_ACCURACIES = ("accuracy", "agreement")
_DROP_NOISE = 0.005
_DROP_PRIOR = 1.0
_UNKNOWN = 10.0
"""Relative spread of a damage that no accuracy has been set against."""
_SPREAD = 8
"""Every eighth group is heard first, then those beside them."""
_SILENT = frozenset({"repair"})
"""Families whose alone has no meaning: there is nothing to repair in the float graph."""


class GraphEstimator:
    """Estimates for one space on one device.

    Args:
        space: Decodes and builds the recipes.
        folder: Where sensitivities are kept between runs; None keeps them in memory.
        patience_s: Seconds after which damages are not measured any more but taken from like
            alternatives, and after which a table decodes no more of them: where a search is
            short, it is not to be spent on questions. A function is asked before each question,
            since what a search can spare is known then.
        clock: Seconds.
    """

    def __init__(
        self,
        space: GraphSpace,
        *,
        folder: Path | None = None,
        patience_s: float | Callable[[], float] = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._space = space
        self._folder = folder
        self._patience_s, self._clock = patience_s, clock
        self._gain: Gain | None = None
        self._sensitivity: Sensitivity | None = None
        self._works: dict[str, Work] = {}
        self._kernels = Kernels()
        self._measured: list[Recipe] = []
        self._waiting: dict[str, Trial] = {}
        self._learned: set[str] = set()
        self._drops: list[tuple[Floats, float]] = []
        self._drop_fit: tuple[float, Fit] | None = None
        self._accuracy: float | None = None
        self._alone: Floats | None = None

    def predict(self, recipe: Recipe) -> Estimates:
        """Relative change of the latency, damage, and the drop of what was measured so far."""
        self._take_in()
        changes = {LATENCY: self.gain.predict(self._work(recipe))}
        if self._space.offer.data:
            row = self.damages[self._switched(recipe)]
            total = float(row.sum())
            changes[DAMAGE] = Change(mean=total, spread=_UNKNOWN * total)
            drop = self._drop(recipe)
            if drop is not None:
                changes[DROP] = drop
        return Estimates(changes=changes)

    def learn(self, trials: Sequence[Trial]) -> None:
        """Take in what was measured; graphs are looked at with the next prediction."""
        for trial in trials:
            if trial.measurement is not None and trial.candidate.key not in self._learned:
                self._waiting.setdefault(trial.candidate.key, trial)

    def coupled(self, choices: Sequence[Choice]) -> frozenset[tuple[int, int]]:
        """Pairs of choices between whose groups a value passes."""
        return borders(self._space.graph(self.exact()), choices)

    @property
    def patience_s(self) -> float:
        """Seconds that one part of a question may take, if it is asked now."""
        return self._patience_s() if callable(self._patience_s) else self._patience_s

    @property
    def gain(self) -> Gain:
        """The model of the latency."""
        if self._gain is None:
            self._gain = Gain(self._work(self._space.empty()))
        return self._gain

    @property
    def damages(self) -> Floats:
        """What each alternative does alone, over everything exact: [alternatives], choice by
        choice; 0 for the first of each, for exact ones and for repairs.

        The first alternatives of all choices are measured first, families in turn, so that the
        rest can be taken from like ones."""
        if self._alone is None:
            until = self._clock() + self.patience_s
            places = self._alternatives()
            families = [choice.family for choice in self._space.choices]
            turn = [families[:i].count(family) for i, family in enumerate(families)]
            found: dict[tuple[int, int], float] = {}
            for i, k in sorted(places, key=lambda place: (place[1], turn[place[0]])):
                if self._is_silent(i, k) or self._clock() < until:
                    found[i, k] = self._damage(i, k)
            self._alone = np.array([like(place, found, families) for place in places])
            self.sensitivity.save()
            self.sensitivity.forget_activations()
        return self._alone

    def noises(self, places: Sequence[tuple[int, int]]) -> tuple[float, ...]:
        """What some alternatives do alone, by choice and code: noise over signal at the outputs.

        Evenly spread ones first: those that `patience_s` does not reach are taken from them."""
        until = self._clock() + self.patience_s
        families = [choice.family for choice in self._space.choices]
        found: dict[tuple[int, int], float] = {}
        for start in range(_SPREAD):
            for place in places[start::_SPREAD]:
                if not found or self._clock() < until:
                    found[place] = self._damage(*place)
        self.sensitivity.save()
        self.sensitivity.forget_activations()
        return tuple(like(place, found, families) for place in places)

    @property
    def sensitivity(self) -> Sensitivity:
        """The damages as they were measured."""
        if self._sensitivity is None:
            workshop = self._space.workshop
            base = self.exact()
            parts = (workshop.model.digest, workshop.data_digest, base.digest, version())
            key = " ".join([*parts, str(SAMPLES)])
            self._sensitivity = Sensitivity(
                self._space.graph(base),
                workshop.evidence.feeds(SAMPLES),
                key=digests.of_text(key),
                folder=self._folder,
            )
        return self._sensitivity

    def alone(self, choice: int, alternative: int) -> Recipe:
        """One alternative of a choice, over everything exact."""
        codes = self._starting()
        codes[choice] = alternative
        return self._space.decode(codes)

    def exact(self) -> Recipe:
        """Everything exact that pays alone: what alternatives are compared with."""
        return self._space.decode(self._starting())

    def _starting(self) -> list[int]:
        return [int(c.family in EXACT and not c.joint) for c in self._space.choices]

    def _alternatives(self) -> list[tuple[int, int]]:
        return [(i, k) for i, choice in enumerate(self._space.choices) for k in range(len(choice))]

    def _is_silent(self, index: int, alternative: int) -> bool:
        return alternative == 0 or self._space.choices[index].family in EXACT | _SILENT

    def _damage(self, index: int, alternative: int) -> float:
        choice = self._space.choices[index]
        if self._is_silent(index, alternative):
            return 0.0
        decision = "\n".join(action.text for action in choice.alternatives[alternative])
        found = self.sensitivity.known(decision)
        if found is not None:
            return found
        recipe = self.alone(index, alternative)
        damage = self.sensitivity.damage(decision, self._space.graph(recipe))
        # What else is asked of every alternative, while its graph is there.
        self._work(recipe)
        self._space.static_cost(recipe)
        return damage

    def _work(self, recipe: Recipe) -> Floats:
        if recipe.digest not in self._works:
            graph = self._space.graph(recipe)
            self._works[recipe.digest] = counted(graph, self._space.shapes_of(graph))
        return self._works[recipe.digest].under(self._kernels)

    def _switched(self, recipe: Recipe) -> npt.NDArray[np.bool_]:
        """Which alternatives a recipe holds: [alternatives], at most one a choice."""
        left = {action.bare() for action in recipe.actions}
        found: list[bool] = []
        for choice in self._space.choices:
            fits = [_shared(actions, left) for actions in choice.alternatives]
            best = max(range(len(fits)), key=lambda k, f=fits: (f[k], -k))
            found += [k == best and k > 0 for k in range(len(choice))]
        return np.array(found, dtype=np.bool_)

    def _drop(self, recipe: Recipe) -> Change | None:
        if not self._drops:
            return None
        if self._drop_fit is None:
            rows = np.array([row for row, _ in self._drops])
            drops = np.array([drop for _, drop in self._drops])
            totals = rows.sum(axis=1)
            power = float(totals @ totals)
            scale = max(float(totals @ drops) / power, 1e-9) if power > 0 else 1e-9
            made = fit(rows * scale, drops, prior=_DROP_PRIOR, noise=_DROP_NOISE)
            self._drop_fit = (scale, made)
        scale, made = self._drop_fit
        mean, spread = made.predict(scale * self.damages * self._switched(recipe))
        return Change(mean=mean, spread=spread)

    def _take_in(self) -> None:
        """Learn from the trials that wait, in the order of their numbers."""
        waiting, self._waiting = self._waiting, {}
        for key, trial in sorted(waiting.items(), key=lambda item: item[1].number):
            self._learned.add(key)
            if trial.candidate.is_default:
                self._accuracy = _accuracy(trial)
        usable = [
            trial
            for trial in sorted(waiting.values(), key=lambda trial: trial.number)
            if trial.candidate.runtime == self._space.runtimes[0] and _by_parts(trial)
        ]
        self._see_kernels(usable)
        for trial in usable:
            self._learn_ratio(trial)
            accuracy = _accuracy(trial)
            if accuracy is not None and self._accuracy is not None and self._space.offer.data:
                row = self.damages * self._switched(trial.candidate.recipe)
                self._drops.append((row, self._accuracy - accuracy))
                self._drop_fit = None

    def _see_kernels(self, trials: Sequence[Trial]) -> None:
        """What of the asked operators ran in integers; earlier trials are counted again by it."""
        before = self._kernels
        for trial in trials:
            measured = trial.measurement
            if measured is not None and measured.lowered is not None:
                with contextlib.suppress(ActionRejected):  # of another version of edgeopt
                    graph = self._space.graph(trial.candidate.recipe)
                    self._kernels = self._kernels.learned(graph, measured.lowered)
        if self._kernels.says_other_than(before):
            works = [self._work(recipe) for recipe in self._measured]
            self.gain.recount(self._work(self._space.empty()), works)

    def _learn_ratio(self, trial: Trial) -> None:
        ratio = ratio_of(trial)
        if ratio is None:
            return
        with contextlib.suppress(ActionRejected):  # of another version, whose actions are not these
            self.gain.learn(self._work(trial.candidate.recipe), ratio)
            self._measured.append(trial.candidate.recipe)


def like(
    place: tuple[int, int], found: Mapping[tuple[int, int], float], families: Sequence[str]
) -> float:
    """The damage of an alternative: its own where it was measured, else from like ones.

    Those of the same choice, the worst of them; else the median of what is as far down the list
    in the same family; else of the family; else as loud as the signal.
    """
    if place in found:
        return found[place]
    index, alternative = place
    if alternative == 0:
        return 0.0
    own = [damage for (i, k), damage in found.items() if i == index and k]
    if own:
        return max(own)
    kin = {p: d for p, d in found.items() if p[1] and families[p[0]] == families[index]}
    same = [damage for (_, k), damage in kin.items() if k == alternative]
    return float(np.median(same or [*kin.values()])) if kin else 1.0


def ratio_of(trial: Trial) -> float | None:
    """Latency over the baseline's that was measured beside it; None where there is none."""
    found = trial.value("latency")
    if found is None or found.samples is None or not found.samples.baseline:
        return None
    return found.samples.ratio.value


def _by_parts(trial: Trial) -> bool:
    """Whether a recipe is made of actions whose work can be counted: whole tools leave fused
    operators behind, and would have to be run again to be looked at."""
    actions = trial.candidate.recipe.actions
    return bool(actions) and not any(transform_of(a.transform)[1].whole_model for a in actions)


def _accuracy(trial: Trial) -> float | None:
    values: Mapping[str, float] = {
        name: found.value for name in _ACCURACIES if (found := trial.value(name)) is not None
    }
    return next(iter(values.values()), None)


def _shared(actions: Sequence[Action], left: set[Action]) -> tuple[int, int]:
    held = set(actions)
    return len(held & left), -len(held - left)
