"""`Roofline`: the time of an operator that was never profiled, from work and bytes.

    t = launch + max(multiply-adds / rate, bytes / bandwidth)

Rates belong to kinds of kernels (`Operator.kind`), bandwidths to operators that only move and
transform values; a kind that was not seen, or only so small that the launch hides its rate, gets
what all seen ones reach together. Everything is fitted from profiled operators by medians weighted
with time: the long ones make the sum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgeopt.estimate.operators import Operator

_LAUNCH_QUANTILE = 0.1
_LEAST_S = 1e-7
_Told = dict[str, list[tuple[float, float]]]
"""By kind: amount of work or bytes, and seconds beyond the launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """A fitted roofline of one device.

    Args:
        launch_s: What the shortest operators take.
        rates: Multiply-adds a second by kind.
        bandwidths: Bytes a second by kind, of operators without multiply-adds.
        rate: Of a kind that was not seen.
        bandwidth: Of a kind that was not seen, and of operands of those with multiply-adds.
    """

    launch_s: float
    rates: Mapping[str, float]
    bandwidths: Mapping[str, float]
    rate: float
    bandwidth: float

    def seconds(self, operator: Operator) -> float:
        """Predicted time of one run of an operator."""
        macs, moved = operator.macs, operator.moved_bytes
        if not macs:
            return self.launch_s + moved / self.bandwidths.get(operator.kind, self.bandwidth)
        rate = self.rates.get(operator.kind, self.rate)
        return self.launch_s + max(macs / rate, moved / self.bandwidth)

    @staticmethod
    def fitted(times: Sequence[tuple[Operator, float]]) -> "Roofline":
        """The roofline of profiled operators and their seconds.

        Raises:
            ValueError: There are none.
        """
        if not times:
            raise ValueError("a roofline needs profiled operators")
        seconds = [seconds for _, seconds in times]
        launch_s = float(np.quantile(seconds, _LAUNCH_QUANTILE, method="lower"))
        work: _Told = {}
        moved: _Told = {}
        for operator, taken in times:
            left = max(taken - launch_s, _LEAST_S)
            amount, held = (operator.macs, work) if operator.macs else (operator.moved_bytes, moved)
            held.setdefault(operator.kind, []).append((amount, left))
        # Where nothing only moves, what moves with the work is a bound from below, and no limit.
        bandwidth = _middle(moved) if moved else float("inf")
        rate = _middle(work) if work else float("inf")
        return Roofline(
            launch_s=launch_s,
            rates=_rates(work, rate * launch_s),
            bandwidths=_rates(moved, bandwidth * launch_s),
            rate=rate,
            bandwidth=bandwidth,
        )


def _rates(told: _Told, least: float) -> dict[str, float]:
    """Rate by kind, of the kinds that have an operator large enough to tell it."""
    large = {kind: [pair for pair in pairs if pair[0] >= least] for kind, pairs in told.items()}
    return {kind: _middle({kind: pairs}) for kind, pairs in large.items() if pairs}


def _middle(told: _Told) -> float:
    """Median of rates, each counting by its time."""
    every = sorted((amount / left, left) for pairs in told.values() for amount, left in pairs)
    rates, weights = (np.array(side) for side in zip(*every, strict=True))
    total = np.cumsum(weights)
    return max(float(rates[np.searchsorted(total, total[-1] / 2)]), 1.0)
