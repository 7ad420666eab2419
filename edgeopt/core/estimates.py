"""`Estimates`: predicted changes that steer a search and never enter a front."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from edgeopt.core.action import Choice, Recipe
from edgeopt.core.trial import Trial

LATENCY = "latency_est"
"""Relative change of the latency: -0.3 is 30 % less than the baseline's."""
DAMAGE = "damage_est"
"""Noise over signal, as powers, at the model's outputs: 0 for the baseline. It ranks only."""
DROP = "drop_est"
"""What the accuracy loses, in its unit; there once accuracies were measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Predicted change against the baseline: mean and spread (one standard deviation)."""

    mean: float
    spread: float


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """What one recipe is predicted to change: metric (with the suffix `_est`) to change.

    What cannot be predicted is missing, never guessed.
    """

    changes: Mapping[str, Change] = field(default_factory=dict[str, Change])

    def mean(self, metric: str) -> float | None:
        """The predicted change of a metric; None where there is none."""
        found = self.changes.get(metric)
        return None if found is None else found.mean


@runtime_checkable
class Estimator(Protocol):
    """Predicts what recipes of one space do on one device, and learns from what was measured.

    Not safe to share between threads. What it predicts depends on the space and on the trials
    that it was given, in their order, only.
    """

    def predict(self, recipe: Recipe) -> Estimates:
        """The predicted changes of a recipe that the space decoded."""
        ...

    def learn(self, trials: Sequence[Trial]) -> None:
        """Take results in; trials that were taken before change nothing."""
        ...

    def coupled(self, choices: Sequence[Choice]) -> frozenset[tuple[int, int]]:
        """Pairs of choices, by index, the smaller first, whose costs depend on each other:
        there is a precision border between them where only one is on."""
        ...
