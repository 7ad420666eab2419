"""`Estimates`: predicted changes that steer a search and never enter a front."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Predicted change of one objective by one action: mean and spread, in the metric's unit."""

    mean: float
    spread: float


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """Action text to metric (with the suffix `_est`) to predicted change."""

    changes: Mapping[str, Mapping[str, Change]] = field(
        default_factory=dict[str, Mapping[str, Change]]
    )
