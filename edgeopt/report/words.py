"""Measured values as the words that every format of a report shows.

Texts are made once, here, and stand in the document: the terminal, the page and the Markdown
show the same words because none of them formats a number.
"""

import math
from typing import Literal

from edgeopt.core.measurement import Value
from edgeopt.core.samples import TIE, Interval
from edgeopt.units import format_value

Relation = Literal["faster", "slower", "no difference shown"]


def number(value: float) -> float | None:
    """The value as JSON can hold it: None where it is infinite or undefined."""
    return value if math.isfinite(value) else None


def rounded(value: float, digits: int) -> float:
    """To so many significant digits: what a report stores of values that nobody reads further."""
    return float(f"{value:.{digits}g}")


def quantity(value: float, unit: str, interval: Interval | None = None) -> str:
    """`8.12 ms [8.05, 8.2]`; the unit is not repeated in the brackets where it is the same."""
    text = format_value(value, unit)
    if interval is None:
        return text
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        return f"{text} [unknown]"
    low, high = format_value(interval.low, unit), format_value(interval.high, unit)
    last = text.rpartition(" ")[2]
    if low.endswith(f" {last}") and high.endswith(f" {last}"):
        return f"{text} [{low.removesuffix(f' {last}')}, {high.removesuffix(f' {last}')}]"
    return f"{text} [{low}, {high}]"


def value_text(value: Value) -> str:
    """A metric with its interval."""
    return quantity(value.value, value.unit, value.interval)


def count(number: int, noun: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def relation(ratio: Interval, fresh_rounds: int) -> Relation:
    """What may be said of a latency ratio; `Samples.faster`, and its mirror image.

    Under 5 % the ratio must come from three fresh processes.
    """
    told = abs(1 - ratio.value) >= TIE or fresh_rounds >= 3
    if told and ratio.high < 1:
        return "faster"
    if told and ratio.low > 1:
        return "slower"
    return "no difference shown"


def ratio_short(ratio: Interval, said: Relation) -> str:
    """`2.10× faster`, or that no difference is shown."""
    if said == "faster":
        return f"{1 / ratio.value:.2f}× faster"
    return f"{ratio.value:.2f}× slower" if said == "slower" else said


def ratio_text(ratio: Interval, said: Relation) -> str:
    """With its interval: `2.10× faster [1.95, 2.24]`, or the bare time ratio."""
    if said == "faster":
        return f"{ratio_short(ratio, said)} [{1 / ratio.high:.2f}, {_inverse(ratio.low)}]"
    if not math.isfinite(ratio.high):
        return f"{said} (one block has no interval)"
    interval = f"[{ratio.low:.2f}, {ratio.high:.2f}]"
    if said == "slower":
        return f"{ratio_short(ratio, said)} {interval}"
    return f"{said} (time ratio {ratio.value:.2f} {interval})"


def _inverse(low: float) -> str:
    return f"{1 / low:.2f}" if low > 0 else "∞"


def large(value: float) -> str:
    """A count in three digits: `16.3 M`."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.0f}"


def change_text(value: float, baseline: float, unit: str) -> str:
    """The difference to the baseline: points for shares (`−0.30 pt`), else per cent (`−71 %`)."""
    if unit == "1":
        return f"{_signed((value - baseline) * 100, 2)} pt"
    if baseline == 0:
        return "the same" if value == 0 else "from nothing"
    return f"{_signed((value / baseline - 1) * 100, 1)} %"


def _signed(value: float, digits: int) -> str:
    rounded = round(value, digits)
    sign = "−" if rounded < 0 else "+" if rounded > 0 else "±"
    return f"{sign}{abs(rounded):.{digits}f}"
