"""`Objective`: what is optimised, which way, within which bound.

This is the only place that knows a maximum from a minimum: everything that compares trials works
on `cost`, which is always minimised.
"""

import math
from dataclasses import dataclass
from typing import Literal

from edgeopt.core.trial import Trial

Direction = Literal["min", "max"]
DIRECTIONS: dict[str, Direction] = {
    "latency": "min",
    "energy": "min",
    "size": "min",
    "peak_memory": "min",
    "accuracy": "max",
    "agreement": "max",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One metric to optimise.

    Args:
        metric: Name in `Measurement.values`.
        statistic: `point` (median or exact value) or a quantile such as `p90`.
        direction: `min` or `max`.
        bound: The worst value that is still feasible, in the metric's unit; None is unbounded.
    """

    metric: str
    statistic: str = "point"
    direction: Direction = "min"
    bound: float | None = None

    def cost(self, trial: Trial) -> float | None:
        """The value to minimise; None where the trial does not have it (NaN is no value)."""
        found = trial.value(self.metric)
        if found is None:
            return None
        value = found.value
        if math.isnan(value):
            return None
        if self.statistic not in {"point", "p50"} and found.samples is not None:
            value = found.samples.quantile(float(self.statistic[1:]) / 100)
        return value if self.direction == "min" else -value

    @property
    def limit(self) -> float:
        """The highest cost that is still feasible; infinity without a bound."""
        if self.bound is None:
            return math.inf
        return self.bound if self.direction == "min" else -self.bound

    def feasible(self, trial: Trial) -> bool:
        """Whether the trial keeps the bound; a missing value does not."""
        cost = self.cost(trial)
        return cost is not None and cost <= self.limit
