"""`Loss`: what candidates lose of the given model's accuracy, and how much of it they may."""

import math
from dataclasses import dataclass

from edgeopt.core.objective import Objective
from edgeopt.core.trial import Trial


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Against the given model, in the unit of the accuracy.

    Args:
        quality: The objective that is to be raised; None where the study has none.
        base: The given model's trial; None while it was not told.
    """

    quality: Objective | None
    base: Trial | None

    def of(self, trial: Trial) -> float:
        """What it loses; infinite where that is not known."""
        given = self._given
        found = None if self.quality is None else self.quality.cost(trial)
        return math.inf if found is None or given is None else found - given

    @property
    def allowed(self) -> float | None:
        """What may be lost; None where there is no bound, or nothing to hold it against."""
        given = self._given
        if self.quality is None or given is None or math.isinf(self.quality.limit):
            return None
        return max(self.quality.limit - given, 0.0)

    @property
    def _given(self) -> float | None:
        return None if self.quality is None or self.base is None else self.quality.cost(self.base)
