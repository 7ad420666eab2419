"""The only loop of edgeopt: ask, build, measure, tell. And what comes after it: confirm.

Trials are stored as they end; a candidate that the store already holds is told from there, so the
same command goes on where it was stopped. Strategies are asked in full batches and told in the
order of asking, hence a resumed search asks the same questions again.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgeopt.api.trials import Bench
from edgeopt.core.candidate import Candidate
from edgeopt.core.front import Front, front_of
from edgeopt.core.measurement import Failure, Measurement
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Strategy
from edgeopt.core.study import Study
from edgeopt.core.trial import Trial
from edgeopt.measure.plan import NORMAL, QUICK, Protocol
from edgeopt.store.trials import TrialStore
from edgeopt.units import format_seconds

BATCH = 10
ATTEMPTS = 3
CONFIRM_SHARE = 0.4
"""Share of the time that is kept for measuring the best ones again, with fresh processes."""

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Search:
    """One search on one device.

    Args:
        study: What is asked.
        store: Where trials are kept.
        bench: Measures candidates.
        objectives: Of the front.
        budget_s: Wall time for all of it.
        trials: At most so many candidates, the baseline included.
        progress: Told one line an event.
        stopped: Asked between measurements.
    """

    study: Study
    store: TrialStore
    bench: Bench
    objectives: tuple[Objective, ...]
    budget_s: float
    trials: int | None
    progress: Progress
    stopped: Callable[[], bool]
    _start: float = field(default_factory=time.monotonic)

    def baseline(self, candidate: Candidate) -> Trial:
        """The given model against itself: stronger protocol, every part of the data.

        Everything else is compared with it, so a disturbed measurement is tried again.
        """
        trial = self._one("static", candidate, NORMAL, "baseline", complete=True)
        for _ in range(ATTEMPTS - 1):
            if trial.measurement is not None or isinstance(trial.outcome, Failure):
                break
            self.progress("the machine is too busy to measure on; trying again")
            trial = self._one("static", candidate, NORMAL, "baseline", complete=True)
        return trial

    def explore(self, strategies: Sequence[tuple[str, Strategy]]) -> None:
        """Ask the strategies in turn until trials, time or ideas run out."""
        told = 0
        for name, strategy in strategies:
            for batch in _batches(strategy):
                room = len(batch) if self.trials is None else self.trials - told
                found = list(self._measure(name, strategy, batch[:room]))
                told += len(found)
                for _, other in strategies:
                    other.tell(found)
                self._drop_models()
                if len(found) < len(batch):
                    return

    def confirm(self) -> list[Trial]:
        """Measure the front again under the stronger protocol; returns all trials of the study.

        Repeats until every member of the front was measured so, as far as the time goes: the
        best of many noisy candidates is optimistic, and what is reported is the new measurement.
        The fastest come first: slow ones take longest and are wanted least.
        """
        trials = self._all()
        while not self.stopped() and self._left() > 0:
            open_ = [t for t in self._front(trials).members if t.protocol != NORMAL.name]
            if not open_:
                break
            self._one("confirm", open_[0].candidate, NORMAL, open_[0].label, complete=True)
            trials = self._all()
        self._drop_models()
        for trial in self._front(trials).members:
            if not self.bench.file_of(trial).is_file():
                self.bench.build(trial.candidate)
        return trials

    def _all(self) -> list[Trial]:
        return list(self.store.trials(self.study.id))

    def _front(self, trials: Sequence[Trial]) -> Front:
        return front_of(trials, self.objectives, self.bench.device.name)

    def _measure(
        self, name: str, strategy: Strategy, batch: Sequence[Candidate]
    ) -> Iterator[Trial]:
        labels: Mapping[str, str] = getattr(strategy, "labels", {})
        for candidate in batch:
            protocol = NORMAL if candidate.is_default else QUICK
            known = self._stored(candidate, protocol)
            late = self._left() < CONFIRM_SHARE * self.budget_s
            if self.stopped() or (known is None and late):
                return
            label = labels.get(candidate.key, "")
            yield known or self._one(name, candidate, protocol, label, complete=False)

    def _stored(self, candidate: Candidate, protocol: Protocol) -> Trial | None:
        """What is known of a candidate; an invalid measurement is no knowledge."""
        device = self.bench.device.name
        found = self.store.find(self.study.id, candidate.key, device, protocol.name)
        if found is not None and isinstance(found.outcome, Measurement) and not found.measurement:
            return None
        return found

    def _one(
        self, name: str, candidate: Candidate, protocol: Protocol, label: str, *, complete: bool
    ) -> Trial:
        known = self._stored(candidate, protocol)
        if known is not None:
            return known
        number = self.store.next_number(self.study.id)
        trial = self.bench.trial(
            candidate, protocol, number=number, strategy=name, label=label, complete=complete
        )
        self.store.add(self.study.id, trial)
        self.progress(_line(trial, self._left()))
        return trial

    def _left(self) -> float:
        return self.budget_s - (time.monotonic() - self._start)

    def _drop_models(self) -> None:
        """Keep the files of the front; every other model can be built again from its recipe."""
        members = self._front(self._all()).members
        paths = [self.bench.file_of(trial) for trial in members if not trial.candidate.is_baseline]
        self.bench.workspace.keep_models(self.study.id, paths)


def _batches(strategy: Strategy) -> Iterator[Sequence[Candidate]]:
    """Full batches of candidates that were not asked for before, until the ideas run out."""
    seen: set[str] = set()
    while asked := strategy.ask(BATCH):
        fresh = [candidate for candidate in asked if candidate.key not in seen]
        seen.update(candidate.key for candidate in asked)
        if not fresh:
            return
        yield fresh


def with_pooled_baseline(search: Search, baseline: Trial) -> Search:
    """The search with the latency that every ratio is multiplied with."""
    latency = baseline.value("latency")
    pooled = None if latency is None else latency.value
    return replace(search, bench=replace(search.bench, baseline_latency_s=pooled))


def _line(trial: Trial, left_s: float) -> str:
    what = trial.label or f"{len(trial.candidate.recipe.actions)} actions"
    head = f"[{trial.number:>3}] {trial.strategy:<8} {what:<34.34}"
    if isinstance(trial.outcome, Failure):
        return f"{head} failed ({trial.outcome.stage}): {trial.outcome.reason[:80]}"
    values = trial.outcome.values
    words: list[str] = []
    latency = values.get("latency")
    if latency is not None and latency.samples is not None and latency.samples.baseline:
        words.append(f"{1 / latency.samples.ratio.value:.2f}x")
    for name in ("accuracy", "agreement"):
        if name in values:
            words.append(f"{100 * values[name].value:.2f} %")
    if trial.outcome.verdict.status != "valid":
        words.append(trial.outcome.verdict.status)
    return f"{head} {'  '.join(words)}  ({format_seconds(max(left_s, 0.0))} left)"
