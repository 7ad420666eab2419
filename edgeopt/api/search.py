"""`Lane`: the search on one device: ask, build, measure, tell. And what comes after: confirm.

Trials are stored as they end; a candidate that the store already holds is told from there, so the
same command goes on where it was stopped. Strategies are asked in full batches while
these fit into the time, and told in the order of asking, hence a resumed search on one device asks
the same questions again. While the device measures, the host builds what comes next and scores what
came last.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from edgeopt.api.book import TrialBook
from edgeopt.api.host import Host
from edgeopt.api.reserve import MOST, reserved_s
from edgeopt.api.trials import Bench, Prepared
from edgeopt.api.turns import turns
from edgeopt.api.under_way import Ahead, Scoring, line_of, settle, trial_of
from edgeopt.core.candidate import Candidate
from edgeopt.core.front import Front
from edgeopt.core.measurement import Failure, Measurement
from edgeopt.core.protocols import Strategy
from edgeopt.core.trial import Trial
from edgeopt.errors import ConnectionLostError, EdgeOptError
from edgeopt.measure.plan import FINAL, NORMAL, QUICK, Protocol
from edgeopt.measure.runner import Outcome
from edgeopt.search.foretold import Accord
from edgeopt.units import format_seconds

BATCH = 10
_FEWEST = 2
"""Of a batch: who trains answers with a pair."""
ATTEMPTS = 3
CONFIRM_SHARE = MOST
"""The largest share of the time that is kept for measuring the best ones again."""
_NOT_JUDGED = frozenset({"static", "transfer"})
"""Who asks for what a person would try: its accuracy is not judged before it is timed."""
EARLY = frozenset({"released"})
"""Strategies that take up at once what a first guess found."""
AT_ONCE = frozenset({"trained"})
"""Strategies whose candidates take minutes to make: the best is measured completely at once, so
that another is made while there is time where this one loses too much on the probes."""
_MOMENTARY = ("starved:", "drift:", "swap:", "throttled:")

Progress = Callable[[str], None]
Spared = Callable[[str, Sequence[Trial]], str]
Reopen = Callable[[Bench, float, ConnectionLostError], Bench]


def _all_worth(recipe: str, front: Sequence[Trial]) -> str:
    return ""


def _none(skipped: Collection[str]) -> Sequence[Candidate]:
    return ()


@dataclass(kw_only=True)
class Lane:
    """The search on one device.

    Args:
        bench: Measures candidates there; replaced where the device is opened again.
        book: The study's trials, of all devices.
        host: Builds and scores.
        budget_s: Wall time for all of it.
        trials: At most so many candidates, the baseline included.
        progress: Told one line an event.
        stopped: Asked between measurements.
        reserve_s: Kept from confirming, for what other devices chose.
        reopen: Opens the device again after the connection was lost, within seconds.
        accords: How well strategies predicted what was then measured, by name.
        spared: Why a recipe need not be measured here (of its digest and the front); else empty.
        offered: What other devices found and this one has not measured; told what it spares.
    """

    bench: Bench
    book: TrialBook
    host: Host
    budget_s: float
    trials: int | None
    progress: Progress
    stopped: Callable[[], bool]
    reopen: Reopen
    spared: Spared = _all_worth
    offered: Callable[[Collection[str]], Sequence[Candidate]] = _none
    reserve_s: float = 0.0
    start_s: float = field(default_factory=time.monotonic)
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    accords: dict[str, tuple[Accord, ...]] = field(default_factory=dict[str, tuple[Accord, ...]])
    _crowded: bool = False
    _reopening: threading.Lock = field(default_factory=threading.Lock)
    _lowered: dict[tuple[str, str], Scoring] = field(default_factory=dict[tuple[str, str], Scoring])

    @property
    def device(self) -> str:
        """The device's name."""
        return self.bench.device.name

    def baseline(self, candidate: Candidate) -> Trial:
        """The given model against itself: stronger protocol, every part of the data.

        Everything else is compared with it, so a disturbed measurement is tried again.
        """
        trial = self._one("static", candidate, NORMAL, "baseline")
        for _ in range(ATTEMPTS - 1):
            if trial.measurement is not None or isinstance(trial.outcome, Failure):
                break
            self.progress("the machine is too busy to measure on; trying again")
            trial = self._one("static", candidate, NORMAL, "baseline")
        latency = trial.value("latency")
        pooled = None if latency is None else latency.value
        self.bench = replace(self.bench, baseline_latency_s=pooled)
        if trial.measurement is not None:
            self.bench = replace(self.bench, given=trial.measurement.environment)
        return trial

    def explore(self, strategies: Sequence[tuple[str, Strategy]]) -> None:
        """Ask the strategies until trials, time or ideas run out.

        The first one for its first candidates, then all in turn.
        """
        told = 0
        offers = [(name, strategy, self._batches(strategy)) for name, strategy in strategies]
        for name, strategy, batch in turns(offers, early=EARLY):
            room = None if self.trials is None else self.trials - told
            labels: Mapping[str, str] = getattr(strategy, "labels", {})
            offered = self.offered(self.skipped)
            asked = {candidate.key: ("transfer", candidate) for candidate in offered}
            asked |= {candidate.key: (name, candidate) for candidate in batch}
            found, ended = self._measure([*asked.values()][:room], labels)
            told += len(found)
            found += self._confirmed(found if name in AT_ONCE else ())
            for _, other in strategies:
                self.host.build(other.tell, found).result()
            self.accords |= {n: tuple(getattr(s, "accords", ())) for n, s in strategies}
            self.book.drop_models()
            if ended or (self.trials is not None and told >= self.trials):
                self._say_why(ended)
                return
        if self._is_over() or self._crowded:
            self._say_why(ended=True)
        else:
            self.progress(f"{self.device}: nobody has another idea")

    def _say_why(self, ended: bool) -> None:
        """Why the search ends, so that nobody waits for the time that seems to be left."""
        if not ended:
            self.progress(f"{self.device}: those were the {self.trials} candidates asked for")
        elif not self.stopped():
            kept = format_seconds(max(self.left_s(), 0.0))
            self.progress(f"{self.device}: the last {kept} are for measuring the best ones again")

    def confirm(self) -> None:
        """Measure the front again under the stronger protocol.

        Repeats until every member of the front was measured so, as far as the time goes: the
        best of many noisy candidates is optimistic, and what is reported is the new measurement.
        The fastest come first: slow ones take longest and are wanted least.
        """
        scoring: dict[str, Scoring] = {}
        while not self.stopped() and self.left_s() > self.reserve_s:
            open_ = [t for t in self.front().members if t.protocol != NORMAL.name]
            fresh = [t for t in open_ if t.candidate.key not in scoring]
            if fresh:
                chosen = fresh[0]
                scoring[chosen.candidate.key] = self._later(
                    "confirm", chosen.candidate, FINAL, chosen.label
                )
            elif any(not each.done() for each in scoring.values()):
                settle(scoring)
            else:
                break
        settle(scoring)
        self.book.drop_models()

    def _confirmed(self, found: Sequence[Trial]) -> list[Trial]:
        """Those that are the fastest of the front so far, measured again completely."""
        fastest = [member.candidate.key for member in self.front().members[:1]]
        return [
            self._one("confirm", trial.candidate, FINAL, trial.label)
            for trial in found
            if trial.candidate.key in fastest and not self._is_over()
        ]

    def cross(self, candidates: Sequence[Candidate]) -> None:
        """Measure here, under the stronger protocol, what was chosen on other devices."""
        scoring: dict[str, Scoring] = {}
        for candidate in candidates:
            if self.stopped() or self.left_s() <= 0:
                break
            if self._stored(candidate, FINAL) is None:
                scoring[candidate.key] = self._later("transfer", candidate, FINAL, "")
        settle(scoring)
        self.book.drop_models()

    def rebuild(self) -> None:
        """See that the files of the front are there, also after a resumed run."""
        for trial in self.front().members:
            if not self.bench.file_of(trial).is_file():
                self.host.build(self.bench.build, trial.candidate).result()

    def front(self) -> Front:
        """The front of this device, of all that is stored."""
        return self.book.front(self.device)

    def _batches(self, strategy: Strategy) -> Iterator[Sequence[Candidate]]:
        """Full batches of candidates not asked for before, until the ideas or the time run out;
        empty ones of a strategy that waits for what others find (an attribute `waits`).
        """
        seen: set[str] = set()
        pace_s = 0.0
        while not self._is_over():
            count = _that_fit(self.spare_s(), pace_s)
            if not count:
                self._crowded = True
                return
            start_s = time.monotonic()
            asked = self.host.build(strategy.ask, count).result()
            if asked:
                pace_s = (time.monotonic() - start_s) / len(asked)
            fresh = [candidate for candidate in asked if candidate.key not in seen]
            seen.update(candidate.key for candidate in asked)
            if not fresh and not getattr(strategy, "waits", False):
                return
            yield fresh

    def _measure(
        self, asked: Sequence[tuple[str, Candidate]], labels: Mapping[str, str]
    ) -> tuple[list[Trial], bool]:
        """Trials in the order of asking, and whether time or trials ended the search."""
        ahead = Ahead(self, asked)
        found: list[Trial | Scoring] = []
        ended = False
        try:
            for position, (strategy, candidate) in enumerate(asked):
                protocol = self._protocol(candidate)
                known = self._stored(candidate, protocol)
                if known is not None:
                    found.append(known)
                    continue
                ended = self._is_over()
                if ended:
                    break
                if self._spare(candidate):
                    continue
                prepared = ahead.take(position)
                label = labels.get(candidate.key, "")
                found.append(self._explored(prepared, protocol, strategy, label))
        except EdgeOptError:
            # What was measured before is kept, whatever ended the lane.
            for each in found:
                with contextlib.suppress(EdgeOptError):
                    trial_of(each)
            raise
        finally:
            ahead.drop()
        return [trial_of(each) for each in found], ended

    def _protocol(self, candidate: Candidate) -> Protocol:
        """The stronger rung for the baseline itself, whatever a strategy calls it."""
        given = candidate.is_baseline and candidate.runtime == self.bench.baseline_runtime
        return NORMAL if given else QUICK

    def _spare(self, candidate: Candidate) -> bool:
        recipe = candidate.recipe.digest
        why = self.spared(recipe, self.front().members)
        if why:
            self.skipped[recipe] = why
        return bool(why)

    def _stored(self, candidate: Candidate, protocol: Protocol) -> Trial | None:
        """What is known of a candidate; an invalid measurement is no knowledge."""
        found = self.book.find(candidate.key, self.device, protocol.name)
        if found is not None and isinstance(found.outcome, Measurement) and not found.measurement:
            return None
        return found

    def _one(self, name: str, candidate: Candidate, protocol: Protocol, label: str) -> Trial:
        known = self._stored(candidate, protocol)
        return known or self._later(name, candidate, protocol, label).result()

    def _later(self, name: str, candidate: Candidate, protocol: Protocol, label: str) -> Scoring:
        """Measure now, completely; the trial comes when it is scored."""
        prepared = self.prepare(candidate).result()
        return self._scoring(prepared, protocol, name, label, complete=True)

    def _scoring(
        self, prepared: Prepared, protocol: Protocol, strategy: str, label: str, *, complete: bool
    ) -> Scoring:
        outcome = self._on_device(prepared, protocol)

        def conclude(bench: Bench) -> Trial:
            trial = bench.concluded(
                prepared,
                outcome,
                protocol,
                strategy=strategy,
                label=label,
                complete=complete,
                promising=self.book.would_enter,
            )
            return self._added(trial, prepared)

        return Scoring(self, conclude)

    def _reserved_s(self) -> float:
        """Kept for measuring the best ones again, with fresh processes."""
        open_ = [trial for trial in self.front().members if trial.protocol != NORMAL.name]
        mine = [trial for trial in self.book.trials() if trial.device == self.device]
        return reserved_s(open_, mine, self.bench.baseline_latency_s, self.budget_s)

    def _explored(
        self, prepared: Prepared, protocol: Protocol, strategy: str, label: str
    ) -> Trial | Scoring:
        """A trial at the lowest rung that decides: screened, known by its lowered graph, timed."""
        if prepared.hopeless is not None:
            trial = self.bench.ruled_out(prepared, protocol, strategy=strategy, label=label)
            return self._added(trial, prepared)
        key = (prepared.lowered, protocol.name)
        first = self._lowered.get(key)
        known = None if first is None or not prepared.lowered else trial_of(first)
        if known is not None and known.measurement is not None:
            trial = self.bench.repeated(known, prepared, strategy=strategy, label=label)
            return self._added(trial, prepared)
        self._lowered[key] = self._scoring(prepared, protocol, strategy, label, complete=False)
        return self._lowered[key]

    def _added(self, trial: Trial, prepared: Prepared) -> Trial:
        trial = self.book.add(trial)
        self.book.release(prepared.asked)
        self.progress(line_of(trial, self.left_s()))
        return trial

    def wants(self, candidate: Candidate) -> bool:
        """Whether a candidate is still to be measured, as far as is known now."""
        return self._stored(candidate, self._protocol(candidate)) is None

    def prepare(self, candidate: Candidate, asked_by: str = "") -> Future[Prepared]:
        """Have a candidate built; its file stays until it is scored or given up.

        Args:
            candidate: Which.
            asked_by: The strategy that wants it explored: then the host screens it first, but
                judges nothing that a person would try (what is slow there is slow here too).
        """
        self.book.hold(candidate.recipe.digest)
        if not asked_by:
            return self.host.build(self.bench.prepared, candidate)
        judged = asked_by not in _NOT_JUDGED
        return self.host.build(self.bench.screened, candidate, judged=judged)

    def _on_device(self, prepared: Prepared, protocol: Protocol) -> Outcome | Failure:
        """Measure, on a device that may go away meanwhile; once more where it was disturbed, and
        where a process was ended: what happens twice is the candidate's doing.

        Raises:
            DeviceError: It stays away, or cannot do what was asked.
        """
        again = True
        while True:
            bench = self.bench
            try:
                outcome = bench.measured(prepared, protocol)
            except ConnectionLostError as error:
                self.reopened(bench, error)
                continue
            ended = isinstance(outcome, Failure)
            if not (again and of_the_moment(outcome) and (ended or self.left_s() > 0)):
                return outcome
            again = False
            why = "its process was ended" if ended else "the machine was too busy"
            self.progress(f"{self.device}: {why}; measuring this one again")

    def reopened(self, lost: Bench, error: ConnectionLostError) -> None:
        """Open the device again, unless another thread of this lane already did."""
        with self._reopening:
            if self.bench is lost:
                self.bench = self.reopen(lost, self.left_s(), error)

    def _is_over(self) -> bool:
        """Whether nothing more is to be explored."""
        return self.stopped() or self.spare_s() < 0

    def spare_s(self) -> float:
        """Seconds that are left beside what is kept for measuring the best ones again."""
        return self.left_s() - self._reserved_s()

    def left_s(self) -> float:
        """Seconds of the budget that are left; negative where it is overdrawn."""
        return self.budget_s - (time.monotonic() - self.start_s)


def _that_fit(spare_s: float, pace_s: float) -> int:
    """Candidates to ask for: a full batch where there is time for it; 0 where not even one fits.

    Where pruning is mended, finding out what a candidate's recipe comes to takes a minute of least
    squares on some models, and three of them took all the time that was kept for confirming.
    """
    fitting = BATCH if pace_s * BATCH <= spare_s else int(spare_s / pace_s)
    return max(fitting, _FEWEST) if fitting else 0


def of_the_moment(outcome: Outcome | Failure) -> bool:
    """Whether a measurement is invalid, or was ended, by what else the machine did just then.

    What the runtime made of the model (all of it fell back to another provider) stays as it is.
    """
    if isinstance(outcome, Failure):
        return outcome.sudden
    if outcome.verdict.status != "invalid":
        return False
    return any(reason.startswith(_MOMENTARY) for reason in outcome.verdict.reasons)
