"""What a lane has under way: builds of what comes next, scoring of what came last, and lines."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from edgeopt.api.screening import AS
from edgeopt.api.shifts import UNDER
from edgeopt.api.trials import Bench, Prepared
from edgeopt.core.candidate import Candidate
from edgeopt.core.measurement import Failure
from edgeopt.core.trial import Trial
from edgeopt.errors import ConnectionLostError
from edgeopt.units import format_seconds

if TYPE_CHECKING:
    from edgeopt.api.search import Lane

AHEAD = 2
"""Candidates that are built while the device measures another."""


class Ahead:
    """Builds of a batch, a few candidates before they are wanted.

    Args:
        lane: Prepares them.
        asked: Who asked for each, and the candidates.
    """

    def __init__(self, lane: "Lane", asked: Sequence[tuple[str, Candidate]]) -> None:
        self._lane = lane
        self._asked = asked
        self._candidates = [candidate for _, candidate in asked]
        self._begun: dict[int, Future[Prepared]] = {}

    def take(self, position: int) -> Prepared:
        """The candidate at a position; begins those behind it."""
        for each in range(position, min(position + 1 + AHEAD, len(self._candidates))):
            candidate = self._candidates[each]
            if each not in self._begun and (each == position or self._lane.wants(candidate)):
                self._begun[each] = self._lane.prepare(candidate, asked_by=self._asked[each][0])
        return self._begun.pop(position).result()

    def drop(self) -> None:
        """Give up what was begun and is not wanted."""
        for position, begun in self._begun.items():
            if not begun.cancel():
                begun.result()
            self._lane.book.release(self._candidates[position].recipe.digest)
        self._begun.clear()


class Scoring:
    """A measured candidate on the host's queue.

    Scoring may need the device. Where it is away, the lane that asked waits for it and queues the
    work again.
    """

    def __init__(self, lane: "Lane", conclude: Callable[[Bench], Trial]) -> None:
        self._lane, self._conclude = lane, conclude
        self._begin()

    def _begin(self) -> None:
        self._bench = self._lane.bench
        self._future = self._lane.host.score(self._lane.device, self._conclude, self._bench)

    def done(self) -> bool:
        """Whether nothing is waited for."""
        return self._future.done()

    def result(self) -> Trial:
        """The trial.

        Raises:
            DeviceError: The device stays away.
        """
        while True:
            try:
                return self._future.result()
            except ConnectionLostError as error:
                self._lane.reopened(self._bench, error)
                self._begin()


def trial_of(found: Trial | Scoring) -> Trial:
    """The trial, waited for where it is still scored."""
    return found if isinstance(found, Trial) else found.result()


def settle(scoring: Mapping[str, Scoring]) -> None:
    """Wait for all of them."""
    for each in scoring.values():
        each.result()


def line_of(trial: Trial, left_s: float) -> str:
    """What a reader is told of a trial when it ends."""
    what = trial.label or f"{len(trial.candidate.recipe.actions)} actions"
    head = f"[{trial.number:>3}] {trial.device:<8.16} {trial.strategy:<8} {what:<34.34}"
    if isinstance(trial.outcome, Failure):
        return f"{head} failed ({trial.outcome.stage}): {trial.outcome.reason[:80]}"
    values = trial.outcome.values
    words: list[str] = []
    latency = values.get("latency")
    if latency is not None and latency.samples is not None and latency.samples.baseline:
        words.append(f"{1 / latency.samples.ratio.value:.2f}x")
    elif "latency" in trial.outcome.absent:
        words.append("not timed")
    for name in ("accuracy", "agreement"):
        if name in values:
            under = values[name].note.removeprefix(UNDER) if UNDER in values[name].note else ""
            words.append(f"{100 * values[name].value:.2f} %" + f" under {under}" * bool(under))
    words += ["(same lowered graph)"] * (AS in trial.outcome.environment)
    if trial.outcome.verdict.status != "valid":
        words.append(trial.outcome.verdict.status)
    return f"{head} {'  '.join(words)}  ({format_seconds(max(left_s, 0.0))} left)"
