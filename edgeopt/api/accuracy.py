"""Accuracy of built models on the parts of the data, always paired with the baseline."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy.typing as npt

from edgeopt.api.once import Once
from edgeopt.api.subject import Subject
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import DataSet, Feed, Part
from edgeopt.core.measurement import Value
from edgeopt.core.protocols import AccuracyMetric
from edgeopt.core.samples import Interval
from edgeopt.data.evaluate import Scored, score_part
from edgeopt.data.intervals import (
    lost_and_won,
    near_chance,
    paired_difference,
    smallest_decidable_drop,
)
from edgeopt.errors import DataError
from edgeopt.graph.runtime import Session

Run = Callable[[Feed], Mapping[str, npt.NDArray[Any]]]
PROBE_SAMPLES = 512
"""A probe looks for a collapse, not for tenths of a point: so many samples tell."""
GUARD_SAMPLES = (96, 320)
"""Of search samples under each shift, for what would enter the front: few tell a collapse; more,
asked only of what the few let pass, tell two or three points."""


class PairedAccuracy(ABC):
    """What a bench asks: evidence of models, and values against the given model's.

    Args:
        data: Parts and probes.
        metric: What judges outputs.
        name: Of the metric.
        probes: Shift probes, shortened.
        model: The user's file.

    Attributes:
        guards: Search samples under shifts: the first few of each shift, then more of each.
    """

    def __init__(
        self,
        data: DataSet,
        metric: AccuracyMetric,
        name: str,
        probes: tuple[Part, ...],
        model: Path,
    ) -> None:
        self.model = model
        self.data = data
        self.metric = metric
        self.name = name
        self.probes = probes
        guards = [part.take(count) for count in GUARD_SAMPLES for part in data.guards]
        self.guards = tuple({(part.name, len(part)): part for part in guards}.values())

    @abstractmethod
    def baseline(self, part: Part) -> Scored:
        """Evidence of the user's own file on a part."""

    @abstractmethod
    def evidence(
        self, model: Path, part: Part, digest: str, settings: RuntimeSettings | None = None
    ) -> Scored:
        """Evidence of a built model on a part; the same bytes are scored once.

        Args:
            model: The file.
            part: Which samples.
            digest: Of the file.
            settings: Of its session on the device; the host's outputs do not depend on them.
        """

    def agreement_with_host(self, digest: str, settings: RuntimeSettings | None = None) -> str:
        """How a scored file's outputs on the device differ from the host's, in words.

        Empty where they were not compared: on this machine they are the host's.
        """
        return ""

    def base_of(self, scored: Scored, part: Part) -> Scored:
        """The baseline's evidence on the samples that were scored: all of the part."""
        return self.baseline(part)

    def value(self, scored: Scored, part: Part) -> Value:
        """The metric with its interval: the baseline's value plus the paired difference."""
        base = self.base_of(scored, part)
        count = f"{len(part)} samples"
        if scored.samples not in (0, len(part)):
            count = f"the first {scored.samples} of {len(part)} samples"
        if scored.evidence is base.evidence:
            return Value(value=base.value, unit="1", note=f"{count}, {scored.origin}")
        difference = paired_difference(self.metric, scored, base)
        lost, won = lost_and_won(scored, base)
        return Value(
            value=scored.value,
            unit="1",
            interval=Interval(
                value=scored.value,
                low=base.value + difference.low,
                high=base.value + difference.high,
            ),
            note=f"{count}, {lost} lost, {won} won, {scored.origin}",
            flips=(lost, won),
        )

    def decidable_drop(self, part: Part) -> float:
        """The smallest drop that the samples of a part can tell from none."""
        return smallest_decidable_drop(self.metric, self.baseline(part))

    def refuse_chance(self) -> None:
        """Stop where the given model is no better than guessing on its own data.

        Raises:
            DataError: With what may be wrong.
        """
        found = near_chance(self.metric, self.baseline(self.data.search))
        if found:
            raise DataError(
                found,
                where=f"{self.model.name} on the search part",
                hint="correct the data or the metric; nothing was measured yet",
            )


class Accuracy(PairedAccuracy):
    """Scores models on one subject's data; the baseline is scored once a part.

    Outputs are computed on the host. On this machine that is the device itself; for others see
    `board_accuracy`. Threads may share it: what two ask for at once is computed once.

    Args:
        subject: With data and metric.
        settings: Of the sessions that compute the outputs.

    Attributes:
        guard: Held while outputs are computed; where a device is this machine, its board's lock.
    """

    def __init__(self, subject: Subject, settings: RuntimeSettings) -> None:
        self.guard: AbstractContextManager[Any] = nullcontext()
        if subject.data is None or subject.metric is None:
            raise ValueError("accuracy needs data")
        probes = tuple(probe.take(PROBE_SAMPLES) for probe in subject.data.probes)
        super().__init__(
            subject.data, subject.metric, subject.metric_name, probes, subject.model.path
        )
        self.settings = settings
        self.digest = subject.model.digest
        self._sessions: Once[str, Session] = Once()
        self._scores: Once[tuple[str, str, int], Scored] = Once()

    def baseline(self, part: Part) -> Scored:
        """Evidence of the user's own file on a part."""
        return self._once("", part, lambda: self.run_baseline)

    def evidence(
        self, model: Path, part: Part, digest: str, settings: RuntimeSettings | None = None
    ) -> Scored:
        """Evidence of a built model on a part; the same bytes are scored once."""
        return self._once(digest, part, lambda: Session(model, self.settings).run)

    def run_baseline(self, feed: Feed) -> Mapping[str, npt.NDArray[Any]]:
        """The given model's outputs on this machine."""
        return self._sessions.get("", lambda: Session(self.model, self.settings)).run(feed)

    def _once(self, digest: str, part: Part, runner: Callable[[], Run]) -> Scored:
        key = digest, part.name, len(part)
        return self._scores.get(key, lambda: self._scored(part, runner))

    def _scored(self, part: Part, runner: Callable[[], Run]) -> Scored:
        reference = self.run_baseline if self.metric.needs_reference else None
        with self.guard:
            return score_part(
                part, runner(), self.metric, state=self.data.state, reference=reference
            )
