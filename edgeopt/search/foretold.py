"""How well was predicted: what was said of a candidate before, beside what was then measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgeopt.core.ranks import rank_correlation
from edgeopt.search.codes import Codes

Floats = npt.NDArray[np.float64]
_FEWEST = 8
_LATEST = 60
_NARROWEST, _WIDEST = 0.5, 3.0
_WITHIN = 1.645
"""Standard deviations on either side that should hold nine of ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accord:
    """Predicted against measured, of one objective.

    Args:
        metric: Name of the objective.
        count: Candidates that were predicted before they were measured.
        rank_correlation: Spearman's; None for too few.
        error: Mean absolute difference, in units of the forecast.
        within: Share of the measurements inside the interval that should hold nine of ten.
    """

    metric: str
    count: int
    rank_correlation: float | None
    error: float
    within: float


class Foretold:
    """Forecasts by codes, and what became of them."""

    def __init__(self, metrics: Sequence[str]) -> None:
        self._metrics = tuple(metrics)
        self._said: dict[Codes, tuple[Floats, Floats]] = {}
        self._met: dict[Codes, Floats] = {}

    def say(self, row: Codes, mean: Floats, spread: Floats) -> None:
        """A forecast [objectives] of a row; the first one counts."""
        self._said.setdefault(row, (mean, spread))

    def meet(self, row: Codes, values: Floats) -> None:
        """What was measured [objectives]; nothing for a row that nothing was said of."""
        if row in self._said:
            self._met.setdefault(row, values)

    def widening(self) -> Floats:
        """Factors [objectives] that make spreads as wide as the latest errors were."""
        met = list(self._met)[-_LATEST:]
        if len(met) < _FEWEST:
            return np.ones(len(self._metrics))
        errors = self._errors(met)
        return np.clip(np.sqrt(np.mean(errors**2, axis=0)), _NARROWEST, _WIDEST)

    def accords(self) -> tuple[Accord, ...]:
        """One an objective, over all forecasts that were met."""
        met = list(self._met)
        if not met:
            return ()
        said = np.array([self._said[row][0] for row in met])
        true = np.array([self._met[row] for row in met])
        inside = np.abs(self._errors(met)) <= _WITHIN
        return tuple(
            Accord(
                metric=metric,
                count=len(met),
                rank_correlation=rank_correlation(said[:, n], true[:, n]),
                error=float(np.mean(np.abs(said[:, n] - true[:, n]))),
                within=float(inside[:, n].mean()),
            )
            for n, metric in enumerate(self._metrics)
        )

    def _errors(self, rows: Sequence[Codes]) -> Floats:
        """Standardised errors [rows, objectives]."""
        found = [(self._met[r] - self._said[r][0]) / self._said[r][1] for r in rows]
        return np.array(found)


def sentences(accords: Mapping[str, Sequence[Accord]]) -> tuple[str, ...]:
    """For a report: one sentence a strategy that predicted anything."""
    found: list[str] = []
    for strategy, some in accords.items():
        words = [
            f"{each.metric} {each.rank_correlation:.2f}"
            for each in some
            if each.rank_correlation is not None
        ]
        if words:
            found.append(
                f"{strategy} predicted {some[0].count} candidates before they were measured; rank "
                f"correlation of predicted and measured: {', '.join(words)}"
            )
    return tuple(found)
