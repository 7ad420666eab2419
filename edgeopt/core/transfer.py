"""What one device's measurements say about another: which candidates are worth measuring there.

Devices of one kind rank candidates alike, devices of different kinds do not (int8 wins on one and
loses on the next). How alike two devices are is measured on the candidates that both have run;
only where their ranks agree does a measurement on the one spare the other. A prediction never
enters a front: it decides what is measured, and it is made optimistic by two standard deviations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgeopt.core.front import dominates, strongest
from edgeopt.core.objective import Objective
from edgeopt.core.trial import Trial

FEWEST = 8
"""Candidates in common below which nothing is said about two devices."""
AGREE = 0.9
"""Rank correlation from which one device's measurements spare another's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How alike two devices rank the candidates that both have run.

    Args:
        count: Candidates in common.
        rank_correlation: Spearman's, of the latency ratios to the given model.
        slope, offset, spread: log ratio here = offset + slope * log ratio there, with the
            standard deviation of what remains.
    """

    count: int
    rank_correlation: float
    slope: float
    offset: float
    spread: float

    def fastest(self, ratio: float) -> float:
        """The smallest ratio here that fits a ratio there."""
        return float(np.exp(self.offset + self.slope * np.log(ratio) - 2 * self.spread))


def ratios(trials: Sequence[Trial], device: str) -> dict[str, float]:
    """Latency ratio to the given model by recipe, of one device's usable trials.

    Only under the settings of the baseline: what another number of threads does is another thing.
    """
    mine = strongest(trial for trial in trials if trial.device == device)
    given = [trial.candidate.runtime for trial in mine if trial.candidate.is_default]
    found: dict[str, float] = {}
    for trial in mine:
        latency = trial.value("latency")
        if latency is None or latency.samples is None or not latency.samples.baseline:
            continue
        if trial.candidate.runtime != given[0]:
            continue
        found[trial.candidate.recipe.digest] = latency.samples.ratio.value
    return found


def agreement(here: Mapping[str, float], there: Mapping[str, float]) -> Agreement | None:
    """How alike two devices are, by their ratios by recipe; None where too little is known."""
    common = sorted(here.keys() & there.keys())
    if len(common) < FEWEST:
        return None
    x = np.log([there[recipe] for recipe in common])
    y = np.log([here[recipe] for recipe in common])
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    slope, offset = np.polyfit(x, y, 1)
    rest = y - (offset + slope * x)
    return Agreement(
        count=len(common),
        rank_correlation=rank_correlation(x, y),
        slope=float(slope),
        offset=float(offset),
        spread=float(np.sqrt((rest**2).sum() / (len(common) - 2))),
    )


def rank_correlation(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float:
    """Spearman's rank correlation of two equally long series; ties get their mean rank."""
    ranks = np.corrcoef(_ranks(x), _ranks(y))
    return float(ranks[0, 1])


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    smaller = (values[None, :] < values[:, None]).sum(axis=1)
    equal = (values[None, :] == values[:, None]).sum(axis=1)
    return smaller + (equal + 1) / 2.0


def spared(
    recipe: str,
    *,
    device: str,
    trials: Sequence[Trial],
    objectives: Sequence[Objective],
    front: Sequence[Trial],
) -> str:
    """Why a recipe need not be measured on a device; empty where it is worth it.

    It is spared where another device whose ranks agree has measured it, and even the optimistic
    prediction is dominated by a member of the front here in every objective. Latency is
    predicted; size and accuracy are as found there, and what varies most (peak memory) counts in
    favour of measuring by a fifth.

    Args:
        recipe: Digest of the recipe.
        trials: Of all devices of the study.
        objectives: Of the front.
        front: This device's members.
    """
    mine = ratios(trials, device)
    for other in sorted({trial.device for trial in trials} - {device}):
        theirs = ratios(trials, other)
        if recipe not in theirs:
            continue
        alike = agreement(mine, theirs)
        if alike is None or alike.rank_correlation < AGREE:
            continue
        known = next(
            trial
            for trial in strongest(t for t in trials if t.device == other)
            if trial.candidate.recipe.digest == recipe and trial.measurement is not None
        )
        fastest = alike.fastest(theirs[recipe])
        predicted = _costs(known, objectives, fastest, favour=0.8, missing=-np.inf)
        members = [
            _costs(m, objectives, mine.get(_recipe(m), np.inf), favour=1.0, missing=np.inf)
            for m in front
        ]
        if any(dominates(member, predicted) for member in members):
            return (
                f"measured on {other}, whose ranks agree ({alike.rank_correlation:.2f} over "
                f"{alike.count} candidates): dominated here"
            )
    return ""


def _recipe(trial: Trial) -> str:
    return trial.candidate.recipe.digest


def _costs(
    trial: Trial, objectives: Sequence[Objective], ratio: float, *, favour: float, missing: float
) -> list[float]:
    """Minimised costs, latency as a ratio; `favour` scales peak memory, `missing` stands for none.

    Energy plays no part: two devices' sensors see different things, and less time is less energy
    on most of them.
    """
    found: list[float] = []
    for objective in objectives:
        if objective.metric == "latency":
            found.append(ratio)
        elif objective.metric != "energy":
            cost = objective.cost(trial)
            scale = favour if objective.metric == "peak_memory" else 1.0
            found.append(missing if cost is None else cost * scale)
    return found
