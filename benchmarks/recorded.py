"""Simulators of real models, fitted to recorded trials (benchmarks/record_trials.py).

Everything that a simulator says is simulated. Its truth is a ridge regression on the alternatives
that are on, with boosted trees of depth 3 on what that leaves over (no strategy's own model is of
this kind), and a perturbation of each recipe as large as the error on held-out rows, so that
nothing can know it beforehand. Drops are fitted on a scale that is even about the bound and
logarithmic beyond: what ruins a model must not rule what a harmless recipe is said to lose, and
exact recipes lose nothing. Strategies meet a space with the recorded choices and guesses, and
an estimator with the recorded work and damages that learns as the real one does. What a space
leaves out because it does not apply in a combination, the simulator applies.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from boosted import Trees

from edgeopt.core.action import Action, Choice, Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.estimates import DAMAGE, DROP, LATENCY, Change, Estimates
from edgeopt.core.measurement import Measurement, Value
from edgeopt.core.objective import Objective
from edgeopt.core.trial import Trial
from edgeopt.estimate.gain import Gain
from edgeopt.estimate.regression import Fit, fit
from edgeopt.estimate.work import NAMES
from edgeopt.search.codes import EXACT

Floats = npt.NDArray[np.float64]
BASELINE = "sha256:" + "0" * 64
LATENCY_S = 0.01
FOLDS = 5
_RIDGE = 2.0
_MEASUREMENT = 0.015
"""Relative noise of a latency, as the quick rung has on a quiet machine."""
_RUINED = 0.25
"""Drops beyond it are all the same to a search."""
_EVEN = 0.01
"""Drops up to here are fitted as they are, larger ones by their logarithm."""
_FINEST = 1e-5
_MOST_GAINED = 0.02


class Truth:
    """One quantity of a simulator: ridge, then trees on the rest."""

    def __init__(self, rows: Floats, values: Floats) -> None:
        self._mean = float(values.mean())
        pull = _RIDGE * np.eye(rows.shape[1])
        self._weights = np.linalg.solve(rows.T @ rows + pull, rows.T @ (values - self._mean))
        self._trees = Trees(rows, values - self._linear(rows))

    def _linear(self, rows: Floats) -> Floats:
        return np.asarray(self._mean + rows @ self._weights, dtype=np.float64)

    def predict(self, rows: Floats) -> Floats:
        """[n] for rows [n, columns]."""
        return self._linear(rows) + self._trees.predict(rows)


def held_out(rows: Floats, values: Floats) -> Floats:
    """What models fitted to the other folds say of each row [n]."""
    said = np.zeros(len(values))
    for fold in range(FOLDS):
        out = np.arange(len(values)) % FOLDS == fold
        said[out] = Truth(rows[~out], values[~out]).predict(rows[out])
    return said


class Recording:
    """One file of recorded trials.

    Args:
        path: Written by record_trials.py.
    """

    def __init__(self, path: Path) -> None:
        found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
        self.known = found
        self.name = path.name.removesuffix(".json.gz")
        """The model, and the runtime setting where that is not the usual one."""
        self.rows = [row for row in found["rows"] if "accuracy" in row]
        self.failed = len(found["rows"]) - len(self.rows)
        self.accuracy = float(found["accuracy"])
        self.samples = int(found["samples"])

    @cached_property
    def step(self) -> float:
        """The least difference between two accuracies of the recording."""
        steps = np.diff(np.unique([row["accuracy"] for row in self.rows]))
        return float(steps[steps > _FINEST].min(initial=1.0 / self.samples))

    def kept(self) -> tuple[float, float]:
        """Share of held-out rows of which is rightly said whether they keep a point, and the
        share that a guess without looking gets right."""
        true = self.values()["drop"]
        keep = true <= np.arcsinh(1.0)
        said = true + self.errors["drop"] <= np.arcsinh(1.0)
        often = float(keep.mean())
        return float((keep == said).mean()), max(often, 1 - often)

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """The real choices with one stand-in action an alternative."""
        return tuple(
            Choice(
                name=one["name"],
                family=one["family"],
                labels=tuple(one["labels"]),
                alternatives=(
                    (),
                    *(
                        (Action.of("recorded", one["name"], code=k),)
                        for k in range(1, len(one["labels"]))
                    ),
                ),
                joint=one["joint"],
                mends=one["name"] == "repair:least_squares",
            )
            for one in self.known["choices"]
        )

    def columns(self, rows: Sequence[Sequence[int]]) -> Floats:
        """[rows, alternatives]: which are on."""
        codes = np.array(rows, dtype=np.int64).reshape(len(rows), -1)
        found = [codes[:, i] == k for i, c in enumerate(self.choices) for k in range(1, len(c))]
        return np.array(found, dtype=np.float64).T.reshape(len(rows), -1)

    def values(self) -> dict[str, Floats]:
        """What was measured: logarithms of latency and size over the given model's, drops bent."""
        drops = [self.accuracy - row["accuracy"] for row in self.rows]
        return {
            "latency": np.log([row["ratio"] for row in self.rows]),
            "size": np.log([row["size"] for row in self.rows]),
            "drop": np.arcsinh(np.minimum(drops, _RUINED) / _EVEN),
        }

    @cached_property
    def truths(self) -> dict[str, Truth]:
        """A model a quantity."""
        columns = self.columns([row["codes"] for row in self.rows])
        return {name: Truth(columns, values) for name, values in self.values().items()}

    @cached_property
    def errors(self) -> dict[str, Floats]:
        """Errors on held-out rows, by quantity."""
        columns = self.columns([row["codes"] for row in self.rows])
        return {name: held_out(columns, v) - v for name, v in self.values().items()}


class Space:
    """Implements `core.protocols.Space` as far as strategies ask.

    Args:
        recording: Of one model.
    """

    def __init__(self, recording: Recording, simulator: "Simulator") -> None:
        self._recording, self._simulator = recording, simulator
        self.choices = recording.choices
        self.runtimes = (RuntimeSettings(),)

    def empty(self) -> Recipe:
        """The baseline."""
        return Recipe(baseline=BASELINE)

    def decode(self, codes: Sequence[int]) -> Recipe:
        """Every alternative applies."""
        actions = (a for c, k in zip(self.choices, codes, strict=True) for a in c.alternatives[k])
        return Recipe(baseline=BASELINE, actions=tuple(actions))

    def guesses(self) -> Iterator[tuple[str, Candidate]]:
        """Those of the real space that codes can say."""
        seen: set[tuple[int, ...]] = set()
        for name, codes in self._recording.known["guesses"]:
            if tuple(codes) not in seen:
                seen.add(tuple(codes))
                yield name, Candidate(recipe=self.decode(codes))

    def standard(self) -> tuple[tuple[str, Candidate], ...]:
        """The same."""
        return tuple(self.guesses())

    def static_cost(self, recipe: Recipe) -> Mapping[str, float]:
        """The size is exact in a real space too."""
        return {"size_bytes": self._simulator.true(self.codes(recipe))[1]}

    def codes(self, recipe: Recipe) -> tuple[int, ...]:
        """Of a recipe that was decoded here."""
        on = {action.site: int(action.get("code")) for action in recipe.actions}
        return tuple(on.get(choice.name, 0) for choice in self.choices)


@dataclass(frozen=True)
class Simulator:
    """True and measured values of codes.

    Args:
        recording: Fitted to.
        allowed: Accuracy that may be lost.
    """

    recording: Recording
    allowed: float = 0.01
    _known: dict[tuple[int, ...], tuple[float, float, float]] = field(
        default_factory=dict[tuple[int, ...], tuple[float, float, float]]
    )

    def true(self, codes: Sequence[int]) -> tuple[float, float, float]:
        """Latency and size over the given model's, and what is lost."""
        found = self._known.get(tuple(codes))
        if found is None:
            found = self._known[tuple(codes)] = self._true(codes)
        return found

    def _true(self, codes: Sequence[int]) -> tuple[float, float, float]:
        if not any(codes):
            return 1.0, 1.0, 0.0
        columns = self.recording.columns([codes])
        said = {n: float(t.predict(columns)[0]) for n, t in self.recording.truths.items()}
        luck = np.random.default_rng(zlib.crc32(bytes(codes))).standard_normal(2)
        latency = said["latency"] + luck[0] * _typical(self.recording.errors["latency"])
        drop = 0.0
        if self._inexact(codes):
            bent = said["drop"] + luck[1] * _typical(self.recording.errors["drop"])
            drop = min(max(_EVEN * float(np.sinh(bent)), -_MOST_GAINED), _RUINED)
        return float(np.exp(latency)), float(np.exp(said["size"])), drop

    def _inexact(self, codes: Sequence[int]) -> bool:
        found = zip(self.recording.choices, codes, strict=True)
        return any(code and choice.family not in EXACT for choice, code in found)

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """As a study has them."""
        floor = self.recording.accuracy - self.allowed - 1e-9
        return (
            Objective(metric="latency"),
            Objective(metric="accuracy", direction="max", bound=floor),
            Objective(metric="size"),
        )

    def trial(self, number: int, candidate: Candidate, codes: Sequence[int], seed: int) -> Trial:
        """With the noise that a measurement has; the accuracy as samples can say it."""
        latency, size, drop = self.true(codes)
        generator = np.random.default_rng([seed, zlib.crc32(candidate.key.encode())])
        noise = float(np.exp(_MEASUREMENT * generator.standard_normal() * any(codes)))
        step = self.recording.step
        accuracy = self.recording.accuracy - round(drop / step) * step
        return Trial(
            number=number,
            candidate=candidate,
            device="simulated",
            protocol="quick",
            strategy="simulated",
            outcome=Measurement(
                values={
                    "latency": Value(value=LATENCY_S * latency * noise, unit="s"),
                    "size": Value(value=size, unit="B"),
                    "accuracy": Value(value=accuracy, unit="1"),
                }
            ),
        )


def _by_name(features: Sequence[str]) -> Callable[[Sequence[float]], Floats]:
    """Recorded work in the order of today's features; what was not counted then is 0.

    Raises:
        ValueError: Something was counted that has no price any more.
    """
    if unknown := set(features) - set(NAMES):
        raise ValueError(f"recorded work has no price: {', '.join(sorted(unknown))}")

    def now(work: Sequence[float]) -> Floats:
        found = dict(zip(features, work, strict=True))
        return np.array([found.get(name, 0.0) for name in NAMES])

    return now


def _typical(errors: Floats) -> float:
    """A spread that a few wild rows do not rule."""
    return float(np.median(np.abs(errors)) / 0.6745)


class SimulatedEstimator:
    """As `estimate.estimator`, on recorded work and damages.

    Args:
        recording: With what is known beforehand.
        space: Of the same.
    """

    def __init__(self, recording: Recording, space: Space) -> None:
        known = recording.known
        self._space = space
        now = _by_name(known["features"])
        self._start = now(known["work_start"])
        self._alone = [[now(w) - self._start for w in one] for one in known["work_alone"]]
        self._codes = tuple(known["start"])
        self._pairs = {(i, j): now(w) for i, j, w in known["pairs"]}
        self._damage = np.array(known["damage"])
        sizes = [len(choice) for choice in recording.choices]
        self._first = np.cumsum([0, *sizes])[:-1]
        self._gain = Gain(now(known["work_given"]))
        self._learned: dict[str, None] = {}
        self._drops: list[tuple[Floats, float]] = []
        self._fitted: tuple[float, Fit] | None = None
        self._accuracy = recording.accuracy

    def predict(self, recipe: Recipe) -> Estimates:
        """Relative change of the latency, damage, and the drop of what was measured so far."""
        codes = self._space.codes(recipe)
        row = self._hurt(codes)
        changes = {
            LATENCY: self._gain.predict(self._work(codes)),
            DAMAGE: Change(mean=float(row.sum()), spread=10 * float(row.sum())),
        }
        if self._drops:
            changes[DROP] = self._drop(row)
        return Estimates(changes=changes)

    def learn(self, trials: Sequence[Trial]) -> None:
        """Each candidate once."""
        for trial in trials:
            latency, accuracy = trial.value("latency"), trial.value("accuracy")
            if trial.candidate.key in self._learned or latency is None or accuracy is None:
                continue
            self._learned[trial.candidate.key] = None
            if trial.candidate.is_baseline:
                continue
            codes = self._space.codes(trial.candidate.recipe)
            self._gain.learn(self._work(codes), latency.value / LATENCY_S)
            self._drops.append((self._hurt(codes), self._accuracy - accuracy.value))
            self._fitted = None

    def coupled(self, choices: Sequence[Choice]) -> frozenset[tuple[int, int]]:
        """As recorded."""
        return frozenset(self._pairs)

    def _work(self, codes: Sequence[int]) -> Floats:
        """Work of alternatives alone, and what pairs change on top."""
        changed = self._start.copy()
        for i, code in enumerate(codes):
            changed += self._alone[i][code]
        for (i, j), both in self._pairs.items():
            if codes[i] and codes[j]:
                changed += both - self._start - self._alone[i][1] - self._alone[j][1]
        return np.maximum(changed, 0.0)

    def _hurt(self, codes: Sequence[int]) -> Floats:
        """Damages [alternatives] of those that are on, 0 for the others."""
        row = np.zeros(len(self._damage))
        at = self._first + np.array(codes, dtype=np.int64)
        row[at] = self._damage[at]
        return row

    def _drop(self, row: Floats) -> Change:
        if self._fitted is None:
            rows = np.array([each for each, _ in self._drops])
            drops = np.array([drop for _, drop in self._drops])
            totals = rows.sum(axis=1)
            power = float(totals @ totals)
            scale = max(float(totals @ drops) / power, 1e-9) if power > 0 else 1e-9
            self._fitted = scale, fit(rows * scale, drops, prior=1.0, noise=0.005)
        scale, made = self._fitted
        mean, spread = made.predict(scale * row)
        return Change(mean=mean, spread=spread)
