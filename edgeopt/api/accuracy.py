"""Accuracy of built models on the parts of the data, always paired with the baseline."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from edgeopt.api.subject import Subject
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed, Part
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


class Accuracy:
    """Scores models on one subject's data; the baseline is scored once a part.

    Outputs are computed on the host. On this machine that is the device itself.

    Args:
        subject: With data and metric.
        settings: Of the sessions that compute the outputs.
    """

    def __init__(self, subject: Subject, settings: RuntimeSettings) -> None:
        if subject.data is None or subject.metric is None:
            raise ValueError("accuracy needs data")
        self.data = subject.data
        self.metric: AccuracyMetric = subject.metric
        self.name = subject.metric_name
        self._settings = settings
        self._model = subject.model.path
        self._session: Session | None = None
        self._scores: dict[tuple[str, str], Scored] = {}
        self.probes = tuple(probe.take(PROBE_SAMPLES) for probe in self.data.probes)

    def baseline(self, part: Part) -> Scored:
        """Evidence of the user's own file on a part."""
        return self._once("", part, lambda: self._run_baseline)

    def evidence(self, model: Path, part: Part, digest: str) -> Scored:
        """Evidence of a built model on a part; the same bytes are scored once.

        Args:
            model: The file.
            part: Which samples.
            digest: Of the file.
        """
        return self._once(digest, part, lambda: Session(model, self._settings).run)

    def _once(self, digest: str, part: Part, runner: Callable[[], Run]) -> Scored:
        key = digest, part.name
        if key not in self._scores:
            self._scores[key] = self._scored(part, runner())
        return self._scores[key]

    def value(self, scored: Scored, part: Part) -> Value:
        """The metric with its interval: the baseline's value plus the paired difference."""
        base = self.baseline(part)
        if scored is base:
            return Value(value=base.value, unit="1", note=f"{len(part)} samples, host outputs")
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
            note=f"{len(part)} samples, {lost} lost, {won} won, host outputs",
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
                where=f"{self._model.name} on the search part",
                hint="correct the data or the metric; nothing was measured yet",
            )

    def _run_baseline(self, feed: Feed) -> Mapping[str, npt.NDArray[Any]]:
        if self._session is None:
            self._session = Session(self._model, self._settings)
        return self._session.run(feed)

    def _scored(self, part: Part, run: Run) -> Scored:
        reference = self._run_baseline if self.metric.needs_reference else None
        return score_part(part, run, self.metric, state=self.data.state, reference=reference)
