"""`Measurement` and `Failure`: the two ways in which a trial can end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from edgeopt.core.lowered import Lowered
from edgeopt.core.samples import Interval, Samples

Status = Literal["valid", "suspect", "invalid"]
_ORDER: tuple[Status, ...] = ("valid", "suspect", "invalid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a measurement can be used, and what speaks against it.

    `suspect` is kept and shown with its reasons; `invalid` never enters a front.
    """

    status: Status = "valid"
    reasons: tuple[str, ...] = ()

    def __and__(self, other: "Verdict") -> "Verdict":
        worse = self if _ORDER.index(self.status) >= _ORDER.index(other.status) else other
        return Verdict(status=worse.status, reasons=self.reasons + other.reasons)


@dataclass(frozen=True, kw_only=True)
class Value:
    """One metric of one measurement.

    Args:
        value: Point estimate, in `unit`.
        unit: `s`, `B`, `J`, `W`, or `1` for shares.
        interval: 95 %, None where the value is exact.
        samples: Raw values where there are any.
        note: How it came about, where a reader must know ("host outputs", "32 samples").
        flips: Samples lost and won against the baseline, for accuracy.
    """

    value: float
    unit: str
    interval: Interval | None = None
    samples: Samples | None = None
    note: str = ""
    flips: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What was found out about one candidate on one device.

    Args:
        values: By metric: `latency`, `size`, `peak_memory`, `load`, `first_run`, `accuracy`
            (search part), `accuracy_test`, `energy`; a probe is `accuracy@name`. Without labels
            the metric is `agreement`.
        absent: Metric to the reason why it has no value. Never padded, never guessed.
        verdict: Whether the measurement holds.
        environment: Facts of the device during it.
        lowered: What the runtime really built; None where it was not asked.
    """

    values: Mapping[str, Value]
    absent: Mapping[str, str] = field(default_factory=dict[str, str])
    verdict: Verdict = Verdict()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    lowered: Lowered | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What of a device's seconds was no measuring.

    Args:
        builds: Engines that a provider built.
        build_s: Seconds of those builds.
        upload_s: Seconds of bringing files there.
    """

    builds: int = 0
    build_s: float = 0.0
    upload_s: float = 0.0

    def __add__(self, other: "Overhead") -> "Overhead":
        return Overhead(
            builds=self.builds + other.builds,
            build_s=self.build_s + other.build_s,
            upload_s=self.upload_s + other.upload_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A candidate that cannot be used: a result like any other, told to the strategies.

    Args:
        stage: `build`, `verify`, `load`, `run`, `accuracy`, or `shift` (a shift probe lost too
            much).
        reason: One sentence a person understands.
        device_s: Seconds that a device spent until then; no part of what failed.
        overhead: What of them was no measuring.
        sudden: Whether its process ended without an answer (a signal, memory). The device may
            have done that as well: once is no verdict on the candidate.
    """

    stage: str
    reason: str
    device_s: float = field(default=0.0, compare=False)
    overhead: Overhead = field(default=Overhead(), compare=False)
    sudden: bool = False
