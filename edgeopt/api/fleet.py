"""Several devices at once: a lane each, in threads of their own, and what they tell each other.

Every device has its own search. What was found on one is offered to the others, what the ranks of
two devices agree on is not measured twice, and in the end every device measures what the others
chose, so that one model for all of them can be priced.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from edgeopt.api.book import TrialBook
from edgeopt.api.search import Lane
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.transfer import spared
from edgeopt.core.trial import Trial
from edgeopt.errors import EdgeOptError

OFFERED = 3
"""Candidates of other devices that enter one batch."""
FINALISTS = 3
"""Members of each front that every other device measures in the end."""
CROSS_SHARE = 0.15
"""Share of the time that is kept for that."""
_POLL_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """What the lanes of one study know of each other.

    Args:
        book: All trials.
        runtimes: Settings of the baseline by device: under these a foreign recipe is measured.
    """

    book: TrialBook
    runtimes: Mapping[str, RuntimeSettings]

    def spared(self, device: str) -> Callable[[str, Sequence[Trial]], str]:
        """Why a recipe need not be measured on a device; see `core.transfer`."""

        def why(recipe: str, front: Sequence[Trial]) -> str:
            return spared(
                recipe,
                device=device,
                trials=self.book.trials(),
                objectives=self.book.objectives(device),
                front=front,
            )

        return why

    def offered(self, device: str) -> Callable[[Collection[str]], Sequence[Candidate]]:
        """The fastest members of other fronts that a device has neither run nor spared."""

        def candidates(skipped: Collection[str]) -> Sequence[Candidate]:
            return self._foreign(device, self._members(device), skipped)[:OFFERED]

        return candidates

    def finalists(self, device: str) -> Sequence[Candidate]:
        """What every other device would take, under this device's settings."""
        per_front = [
            [trial for trial in front if not trial.candidate.is_baseline][:FINALISTS]
            for front in self._fronts(device)
        ]
        recipes = {
            trial.candidate.recipe.digest: trial.candidate.recipe
            for front in per_front
            for trial in front
        }
        return [
            Candidate(recipe=recipe, runtime=self.runtimes[device]) for recipe in recipes.values()
        ]

    def _fronts(self, device: str) -> list[tuple[Trial, ...]]:
        return [self.book.front(other).members for other in self.runtimes if other != device]

    def _members(self, device: str) -> list[Trial]:
        return [trial for front in self._fronts(device) for trial in front]

    def _foreign(
        self, device: str, members: Sequence[Trial], skipped: Collection[str]
    ) -> list[Candidate]:
        run = {t.candidate.recipe.digest for t in self.book.trials() if t.device == device}
        run.update(skipped)
        found: dict[str, Candidate] = {}
        for trial in members:
            recipe = trial.candidate.recipe
            if recipe.digest not in run:
                candidate = Candidate(recipe=recipe, runtime=self.runtimes[device])
                found.setdefault(recipe.digest, candidate)
        return list(found.values())


@dataclass(kw_only=True)
class Meeting:
    """Where lanes wait until all others have confirmed their fronts.

    Args:
        open: Devices that have not come yet.
    """

    open: set[str]
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def arrive(self, device: str) -> None:
        """Say that a device's front is confirmed, or that it never will be."""
        with self._changed:
            self.open.discard(device)
            self._changed.notify_all()

    def wait(self, stopped: Callable[[], bool], timeout_s: float) -> None:
        """Wait for the others, at most so long."""
        rounds = max(0, int(timeout_s / _POLL_S))
        with self._changed:
            while self.open and rounds and not stopped():
                self._changed.wait(_POLL_S)
                rounds -= 1


def run_lanes(
    lanes: Sequence[Lane], work: Callable[[Lane], None], progress: Callable[[str], None]
) -> Mapping[str, EdgeOptError]:
    """Do the work of every lane at the same time; the errors of those that ended early.

    One lane runs in this thread, and its error is raised.

    Raises:
        EdgeOptError: No lane came to its end.
    """
    if len(lanes) == 1:
        work(lanes[0])
        return {}
    failed: dict[str, EdgeOptError] = {}
    defects: list[BaseException] = []

    def one(lane: Lane) -> None:
        try:
            work(lane)
        except EdgeOptError as error:
            failed[lane.device] = error
            progress(f"{lane.device} is given up: {error.what}")
        except BaseException as error:
            # Raised again where the threads meet: a thread's own trace would be lost.
            defects.append(error)

    threads = [threading.Thread(target=one, args=(lane,), daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(_POLL_S)
    if defects:
        raise defects[0]
    if len(failed) == len(lanes):
        raise next(iter(failed.values()))
    return failed
