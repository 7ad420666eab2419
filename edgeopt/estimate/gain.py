"""`Gain`: latency as a linear function of nodes and edges, refitted from measured trials.

Sums of single-layer gains rank combinations badly (Spearman -0.4 to 0.8 measured), since what a
layer gains depends on whether its neighbours are integer too; a model with a price a node and a
price an edge reached 0.92-0.96 from 16 combinations. Everything is relative to the baseline, so
that the prior needs no speed of the device.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgeopt.core.estimates import Change
from edgeopt.core.ranks import rank_correlation
from edgeopt.estimate.regression import Fit, fit
from edgeopt.estimate.work import PRICES_US

Floats = npt.NDArray[np.float64]
_NOISE = 0.03
"""Two sessions of the same bytes differ by 4-6 % for their whole life."""
_PRIOR = 1.0
_BASELINE_WEIGHT = 4
"""The baseline's ratio is 1 without noise: it counts as so many measurements."""
_WATCHED = 24


@dataclass
class Gain:
    """The model of one device.

    Args:
        baseline: Work [features] of the baseline.
    """

    baseline: Floats
    _rows: list[Floats] = field(default_factory=list[Floats])
    _ratios: list[float] = field(default_factory=list[float])
    _watched: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    _fit: Fit | None = None

    def predict(self, work: Floats) -> Change:
        """Relative change of the latency for some work [features]."""
        mean, spread = self._fitted().predict(self._row(work))
        return Change(mean=mean - 1.0, spread=spread)

    def learn(self, work: Floats, ratio: float) -> None:
        """One measured trial: its work, and its latency over the baseline's beside it.

        What the model would have said before is kept, so that it can be watched.
        """
        self._watched.append((1.0 + self.predict(work).mean, ratio))
        self._rows.append(self._row(work))
        self._ratios.append(ratio)
        self._fit = None

    def recount(self, baseline: Floats, works: Sequence[Floats]) -> None:
        """Other counts of the same trials, in the order of learning: kernels are known better."""
        if len(works) != len(self._ratios):
            raise ValueError("every trial learned from has its work")
        self.baseline = baseline
        self._rows = [self._row(work) for work in works]
        self._fit = None

    @property
    def count(self) -> int:
        """Trials learned from."""
        return len(self._ratios)

    @property
    def rank_correlation(self) -> float | None:
        """Between what was predicted before and what was then measured, the latest ones."""
        latest = np.array(self._watched[-_WATCHED:]).reshape(-1, 2)
        return rank_correlation(latest[:, 0], latest[:, 1])

    @property
    def prices_us(self) -> dict[str, float]:
        """Fitted prices in the units of `work.PRICES_US`; right up to one common factor."""
        factors = self._fitted().factors
        return {n: p * float(u) for (n, p), u in zip(PRICES_US.items(), factors, strict=True)}

    def _row(self, work: Floats) -> Floats:
        prices = np.array([*PRICES_US.values()])
        whole = float(self.baseline @ prices)
        return work * prices / whole if whole > 0 else work * 0.0

    def _fitted(self) -> Fit:
        if self._fit is None:
            given = [self._row(self.baseline)] * _BASELINE_WEIGHT
            rows = np.array([*given, *self._rows])
            ratios = np.array([1.0] * _BASELINE_WEIGHT + self._ratios)
            self._fit = fit(rows, ratios, prior=_PRIOR, noise=_NOISE)
        return self._fit
