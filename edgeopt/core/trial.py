"""`Trial`: one candidate on one device under one protocol."""

from dataclasses import dataclass, field

from edgeopt.core.candidate import Candidate
from edgeopt.core.measurement import Failure, Measurement, Overhead, Value


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A candidate and what became of it.

    Args:
        number: Position in the study, from 0 (the baseline).
        candidate: What was asked for; its recipe names the artifacts that were used.
        device: Name under which the study knows the device.
        protocol: Rung of the measurement protocol: `quick`, `normal`, `publish`.
        strategy: Who asked.
        label: What a person would call it (`static:ort_static_int8`); empty for search results.
        outcome: Measurement or Failure.
        model_digest: Digest of the built file; empty where the build failed.
        device_s: Device seconds spent, builds of engines and uploads among them.
        overhead: What of them that was.
        host_s: Host seconds spent (build, accuracy).
    """

    number: int
    candidate: Candidate
    device: str
    protocol: str
    strategy: str
    outcome: Measurement | Failure
    label: str = ""
    model_digest: str = ""
    device_s: float = 0.0
    overhead: Overhead = field(default=Overhead())
    host_s: float = 0.0

    @property
    def measurement(self) -> Measurement | None:
        """The measurement, where there is one that may be used (valid or suspect)."""
        found = self.outcome
        if isinstance(found, Measurement) and found.verdict.status != "invalid":
            return found
        return None

    def value(self, metric: str) -> Value | None:
        """One metric; None where the trial failed or does not have it."""
        found = self.measurement
        return None if found is None else found.values.get(metric)
