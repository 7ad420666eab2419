"""The interfaces that rooms meet at.

They are protocols, not base classes, since the rooms that implement them must not be imported by
the rooms that call them; `api` hands the one to the other. Each has two to six verbs. Do not add
a verb for the convenience of one caller.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from edgeopt.core.action import Action, Choice, Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.estimates import Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.trial import Trial

Arrays = Mapping[str, npt.NDArray[Any]]


@runtime_checkable
class Space(Protocol):
    """What can be done to one model: the search's whole view of graphs.

    A recipe is the state; nothing is mutated, so undo is the shorter recipe and a fork is the
    same recipe again. Implementations keep recently built graphs.
    """

    @property
    def choices(self) -> tuple[Choice, ...]:
        """All decisions, in a stable order. Codes index their alternatives."""
        ...

    @property
    def runtimes(self) -> tuple[RuntimeSettings, ...]:
        """Settings that a session may be opened with: the user's first, then alternatives to it,
        most promising first."""
        ...

    def empty(self) -> Recipe:
        """The baseline."""
        ...

    def decode(self, codes: Sequence[int]) -> Recipe:
        """The recipe of one alternative a choice.

        Alternatives that do not apply in this combination are left out, so that a recipe says
        only what was done.
        """
        ...

    def legal(self, recipe: Recipe) -> tuple[Action, ...]:
        """Every action that `then` would accept, in a stable order, without duplicates."""
        ...

    def then(self, recipe: Recipe, action: Action) -> Recipe | str:
        """The recipe with one more action, or the reason why it does not apply.

        Recipes are kept in canonical order (rewrites, prune, quantize, repair).
        """
        ...

    def standard(self) -> tuple[tuple[str, Candidate], ...]:
        """What a competent user would try first, by name; the first is the baseline."""
        ...

    def guesses(self) -> Iterator[tuple[str, Candidate]]:
        """The same one after the other, each made when it is asked for."""
        ...

    def observe(self, recipe: Recipe) -> Arrays:
        """Graph and legal actions as arrays: nodes, edges, actions. See `graph.features`.

        Shapes and dtypes are the same for every recipe (padded); values are finite. Arrays whose
        name begins with `action` have one row an action, in the order of `legal`.
        """
        ...

    def static_cost(self, recipe: Recipe) -> Mapping[str, float]:
        """Exact figures of the built graph: `macs`, `size_bytes`, `activation_bytes`, `nodes`."""
        ...


@runtime_checkable
class Strategy(Protocol):
    """A search algorithm. Every strategy is told every trial, also those of others."""

    def ask(self, count: int) -> Sequence[Candidate]:
        """Up to `count` new candidates; none means that it has nothing left to propose."""
        ...

    def tell(self, trials: Sequence[Trial]) -> None:
        """Results, in the order of asking, failures included."""
        ...


class StrategyFactory(Protocol):
    """What a file of `search/strategies` offers as its `PLUGIN`."""

    def __call__(
        self,
        space: Space,
        *,
        seed: int,
        objectives: tuple[Objective, ...],
        estimator: Estimator | None = None,
    ) -> Strategy:
        """A new strategy: what it asks depends on the seed and on what it is told, only.

        Args:
            space: What can be done.
            seed: Of everything that is drawn.
            objectives: What is optimised.
            estimator: Predictions for recipes of this space; None where there are none, and a
                strategy must do without. Most take no notice of it.

        Raises:
            UsageError: A package that it needs is not installed.
        """
        ...


@runtime_checkable
class Target(Protocol):
    """A live door to one device: what its agent answers.

    Raises `DeviceError` where the device or its agent fails; a candidate's failure is part of
    the reply (`{"ok": false, "error": {"code", "text", "hint"}}` is returned, not raised).
    """

    @property
    def name(self) -> str:
        """The name under which the study knows the device."""
        ...

    def put(self, path: Path) -> str:
        """Make a file available on the device; returns its path there."""
        ...

    def request(self, verb: str, *, deadline_s: float, **arguments: Any) -> Mapping[str, Any]:
        """One job: sent, waited for, answered. See `device_agent` for the verbs."""
        ...

    def fetch(self, place: str) -> Path:
        """A file that a reply names, made available on this host; gone when the target closes."""
        ...

    def close(self) -> None:
        """End the agent. Closing twice is allowed."""
        ...


@runtime_checkable
class Evaluator(Protocol):
    """Costs of a recipe for an environment: deterministic, or measured."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the costs, in the order of the reward vector."""
        ...

    @property
    def deterministic(self) -> bool:
        """Whether the same recipe always costs the same."""
        ...

    def costs(self, recipe: Recipe) -> npt.NDArray[np.float64]:
        """Minimised costs [metrics] of a recipe."""
        ...


@runtime_checkable
class Artifacts(Protocol):
    """Content-addressed files: models, ranges, repaired weights."""

    def path(self, digest: str) -> Path | None:
        """Where the file lies; None where it is not stored."""
        ...

    def store(self, data: bytes, suffix: str) -> str:
        """Keep bytes; returns their digest. Written aside and renamed."""
        ...


@runtime_checkable
class AccuracyMetric(Protocol):
    """How good outputs are, as evidence a row and a value over rows.

    Splitting the two is what makes paired intervals possible: rows are resampled, and the value
    is computed again, also for metrics that are no mean (F1, AUC, error rates).
    """

    @property
    def needs_target(self) -> bool:
        """Whether it judges by labels."""
        ...

    @property
    def needs_reference(self) -> bool:
        """Whether it compares with the baseline's outputs."""
        ...

    def evidence(
        self, outputs: Arrays, target: npt.NDArray[Any] | None, reference: Arrays | None
    ) -> npt.NDArray[np.float64]:
        """What one sample says: [rows, columns], usually one row."""
        ...

    def value(self, evidence: npt.NDArray[np.float64]) -> float:
        """The metric over rows [n, columns]; higher is better (an error rate is 1 minus it)."""
        ...

    def chance(self, evidence: npt.NDArray[np.float64]) -> float | None:
        """What guessing would reach; None where that means nothing."""
        ...
