"""Limits taken from what a model is and does: rounded so that this model keeps them."""

import math

from edgeopt.core.samples import TIE
from edgeopt.gate.budget import Budget
from edgeopt.gate.config import quantity
from edgeopt.gate.evidence import Evidence

_SCALES = {
    "s": ((1e-6, "us"), (1e-3, "ms"), (1.0, "s")),
    "B": ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")),
    "J": ((1e-3, "mJ"), (1.0, "J")),
}


def limit_of(budget: Budget, evidence: Evidence) -> float | None:
    """The limit that the evidence would set, SI; None where the budget has none.

    Of a measured value it is the far end of the interval and, on top, what the device cannot tell
    apart (its noise floor, else 5 %) as far as the budget's tolerance does not allow it already:
    nearer, the next run would be undecided.
    """
    if budget.limit is None:
        return None
    if evidence.interval is None:
        return evidence.value
    room = max(0.0, (evidence.floor or TIE) - budget.tolerance)
    if budget.metric.higher:
        return evidence.interval.low * (1 - room)
    return evidence.interval.high * (1 + room)


def limit_text(value: float, unit: str, *, higher: bool = False) -> str | int:
    """A limit as a person writes it: three digits, never on the wrong side of the value.

    Args:
        value: Finite, SI.
        unit: Of the metric.
        higher: Whether it is a least value, which is rounded down.
    """
    if not unit:
        return math.floor(value) if higher else math.ceil(value)
    if unit == "1":
        return f"{math.floor(value * 1e4) / 100:g}%"
    scale, name = next(
        (pair for pair in reversed(_SCALES[unit]) if abs(value) >= pair[0]), _SCALES[unit][0]
    )
    digits = 2 - math.floor(math.log10(value / scale)) if value > 0 else 0
    step = 10.0**-digits
    count = math.floor(value / scale / step) - 1
    while quantity(_text(count * step, digits, name), unit) < value:
        count += 1
    return _text(count * step, digits, name)


def _text(value: float, digits: int, name: str) -> str:
    return f"{max(0.0, value):.{max(0, digits)}f} {name}"
