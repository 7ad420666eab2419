"""`Samples`: raw values by block, the baseline's blocks beside them. Statistics are computed.

Latency is measured in blocks that alternate with the baseline's in one process; several such
processes are rounds. The ratio is paired block by block, so that what slows both cancels, and
its interval comes from a bootstrap over rounds and, within them, blocks: single runs are not
independent, and two runtime sessions of the same bytes differ by 4-6 % for their whole life.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_RESAMPLES = 2000
TIE = 0.05
"""Below this relative difference, fewer than three fresh processes decide nothing."""


_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_NORMAL = 1.960


def student(freedom: int | None) -> float:
    """The 97.5 % quantile of Student's distribution; None is the normal distribution.

    A table up to 10 degrees of freedom, beyond it the expansion z + (z^3 + z) / (4 n).
    """
    if freedom is None:
        return _NORMAL
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    return _NORMAL + (_NORMAL**3 + _NORMAL) / (4 * freedom)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A point estimate with its 95 % interval."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Interval":
        """The interval of the quantity times a positive constant."""
        return Interval(value=self.value * factor, low=self.low * factor, high=self.high * factor)

    def contains(self, value: float) -> bool:
        """Whether the value cannot be told from the estimate."""
        return self.low <= value <= self.high


@dataclass(frozen=True, kw_only=True)
class Samples:
    """What one measurement of one metric brought home.

    Args:
        unit: `s`, `B`, `J`, `W`, `1`.
        blocks: The candidate's values, block by block.
        baseline: The baseline's blocks, each measured beside the candidate's of the same index.
        rounds: For each block the number of the process that it ran in.
        warmup: Runs thrown away before the first block of each round.
    """

    unit: str
    blocks: tuple[tuple[float, ...], ...]
    baseline: tuple[tuple[float, ...], ...] = ()
    rounds: tuple[int, ...] = ()
    warmup: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Number of single values of the candidate."""
        return sum(len(block) for block in self.blocks)

    @cached_property
    def median(self) -> float:
        """Median over all blocks."""
        return float(np.median(np.concatenate([np.asarray(block) for block in self.blocks])))

    @cached_property
    def baseline_median(self) -> float:
        """Median of the baseline over all blocks beside."""
        return float(np.median(np.concatenate([np.asarray(block) for block in self.baseline])))

    def quantile(self, q: float) -> float:
        """A quantile over all blocks (the value only; whether it is defensible, see `measure`)."""
        return float(np.quantile(np.concatenate([np.asarray(b) for b in self.blocks]), q))

    @cached_property
    def log_ratios(self) -> Floats:
        """One log(candidate / baseline) of medians a block pair."""
        mine = np.array([np.median(block) for block in self.blocks])
        theirs = np.array([np.median(block) for block in self.baseline])
        return np.log(mine / theirs)

    @cached_property
    def ratio(self) -> Interval:
        """Candidate over baseline: below 1 is faster. Percentile bootstrap, rounds then blocks.

        From m groups the percentile bootstrap is too narrow: with m = 3 it covers the true ratio
        in 85 % of cases instead of 95. The deviations are widened by Student's quantile for m - 1
        degrees of freedom over the normal one, which brings 95 % (simulated in tests/measure).

        Raises:
            ValueError: There is no baseline beside the blocks.
        """
        if not self.baseline:
            raise ValueError("these samples have no baseline beside them")
        values = self.log_ratios
        rounds = np.asarray(self.rounds or (0,) * len(values))
        groups = [values[rounds == number] for number in dict.fromkeys(rounds.tolist())]
        centre = float(np.median(values))
        spread = _bootstrap(groups)
        units = len(groups) if len(groups) > 1 else len(values)
        if units < 2:
            return Interval(value=float(np.exp(centre)), low=0.0, high=float("inf"))
        widen = student(units - 1) / student(None)
        low, high = (np.quantile(spread, q) - centre for q in (0.025, 0.975))
        return Interval(
            value=float(np.exp(centre)),
            low=float(np.exp(centre + min(low, 0.0) * widen)),
            high=float(np.exp(centre + max(high, 0.0) * widen)),
        )

    @property
    def fresh_rounds(self) -> int:
        """Number of processes behind the values."""
        return len(set(self.rounds)) or 1

    @property
    def faster(self) -> bool:
        """Whether it may be called faster than the baseline.

        The ratio's interval must lie below 1; under 5 % only with three fresh processes.
        """
        ratio = self.ratio
        return ratio.high < 1 and (1 - ratio.value >= TIE or self.fresh_rounds >= 3)


def _bootstrap(groups: list[Floats]) -> Floats:
    """Medians of resamples: groups with replacement and, within each drawn one, its values.

    Groups of unequal size are padded; what the padding draws is left out of the median.
    """
    generator = np.random.default_rng(0)
    sizes = np.array([len(group) for group in groups])
    width = int(sizes.max())
    padded = np.full((len(groups), width), np.nan)
    for row, group in zip(padded, groups, strict=True):
        row[: len(group)] = group
    chosen = generator.integers(len(groups), size=(_RESAMPLES, len(groups)))
    count = sizes[chosen][..., np.newaxis]
    position = (generator.random((*chosen.shape, width)) * count).astype(np.int64)
    drawn = padded[chosen[..., np.newaxis], position]
    drawn[np.arange(width) >= count] = np.nan
    return np.nanmedian(drawn.reshape(_RESAMPLES, -1), axis=1)
