"""Quantities as people write them, to SI and back.

Inside edgeopt every number is SI and its name says the unit (`_s`, `_bytes`, `_j`, `_w`, `_c`).
This module is the only place that reads or prints other spellings.
"""

import re
from dataclasses import dataclass
from typing import Literal

from edgeopt.errors import UsageError

_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BYTES = {
    "b": 1.0,
    "kb": 1e3,
    "mb": 1e6,
    "gb": 1e9,
    "kib": 2.0**10,
    "mib": 2.0**20,
    "gib": 2.0**30,
}
_QUANTITY = re.compile(r"^\s*([0-9]*\.?[0-9]+(?:[eE][-+]?\d+)?)\s*([a-zA-Zµ%/]*)\s*$")


@dataclass(frozen=True, slots=True)
class Drop:
    """How much accuracy may be lost: absolute points, or a share of the baseline's value."""

    amount: float
    kind: Literal["points", "share"]

    def floor(self, baseline: float) -> float:
        """The least accuracy allowed for a baseline of that accuracy (both 0..1)."""
        return baseline - (self.amount if self.kind == "points" else self.amount * baseline)

    def __str__(self) -> str:
        return f"{self.amount * 100:g}{'pt' if self.kind == 'points' else '%'}"


def _split(text: str, what: str, example: str) -> tuple[float, str]:
    found = _QUANTITY.match(text)
    if not found:
        raise UsageError(f"{text!r} is not {what}", hint=f"write it as {example}")
    return float(found.group(1)), found.group(2)


def parse_duration_s(text: str) -> float:
    """`20m`, `90s`, `8ms`, `1.5h` to seconds. A bare number is refused: it has no unit."""
    value, unit = _split(text, "a duration", "20m, 90s or 8ms")
    if unit not in _SECONDS:
        raise UsageError(f"{text!r} has no known unit of time", hint="write 20m, 90s, 8ms or 1h")
    return value * _SECONDS[unit]


def parse_bytes(text: str) -> int:
    """`4MB`, `4 MiB`, `600kB` to bytes. A bare number is refused."""
    value, unit = _split(text, "a size", "4MB or 4MiB")
    if unit.lower() not in _BYTES:
        raise UsageError(f"{text!r} has no known unit of size", hint="write 600kB, 4MB or 4MiB")
    return round(value * _BYTES[unit.lower()])


def parse_rate_hz(text: str) -> float:
    """`30/s`, `30Hz`, `30fps`, `12/min` to hertz; a bare number counts per second."""
    value, unit = _split(text, "a rate", "30/s, 30Hz or 12/min")
    per_s = {"": 1.0, "hz": 1.0, "/s": 1.0, "fps": 1.0, "khz": 1e3, "/min": 1 / 60, "/h": 1 / 3600}
    if unit.lower() not in per_s or not value > 0:
        raise UsageError(f"{text!r} is not a rate above zero", hint="write 30/s, 30Hz or 12/min")
    return value * per_s[unit.lower()]


def format_age(value_s: float) -> str:
    """How long ago, in the unit that a person would choose."""
    for limit, scale, unit in ((90, 1, "s"), (5400, 60, "min"), (129600, 3600, "h")):
        if value_s < limit:
            return f"{max(0.0, value_s) / scale:.0f} {unit}"
    return f"{value_s / 86400:.0f} days"


def parse_drop(text: str) -> Drop:
    """`1pt` is one point of 100; `1%` one hundredth of the baseline. A bare number is refused."""
    value, unit = _split(text, "an accuracy drop", "1pt or 1%")
    if unit in {"pt", "pts", "points"}:
        return Drop(value / 100, "points")
    if unit == "%":
        return Drop(value / 100, "share")
    raise UsageError(
        f"{text!r} does not say whether it is points or per cent",
        hint="write 1pt (98.0 -> 97.0) or 1% (98.0 -> 97.02)",
    )


def format_seconds(value_s: float) -> str:
    """Three significant digits in the unit that a person would choose."""
    for limit, scale, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (120.0, 1.0, "s")):
        if abs(_three(value_s)) < limit:
            return f"{_plain(value_s * scale)} {unit}"
    return f"{_plain(value_s / 60)} min"


def format_bytes(value_bytes: float) -> str:
    """Three significant digits in decimal units (1 MB = 1,000,000 bytes)."""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(_three(value_bytes)) >= limit:
            return f"{_plain(value_bytes / limit)} {unit}"
    return f"{value_bytes:.0f} B"


def _three(value: float) -> float:
    """Rounded to three significant digits, so that 999.9 kB is chosen as 1 MB."""
    return float(f"{value:.3g}")


def _plain(value: float) -> str:
    """Three significant digits; large numbers without an exponent."""
    return f"{value:.0f}" if 1000 <= abs(_three(value)) < 1e15 else f"{value:.3g}"


_MILLI_BELOW = 0.1
"""Joules and watts below it are shown in thousandths."""


def format_value(value: float, unit: str) -> str:
    """A measured value with its unit: `s`, `B`, `J`, `W`, `C`, or `1` for a share."""
    if unit == "s":
        return format_seconds(value)
    if unit == "B":
        return format_bytes(value)
    if unit == "1":
        return f"{value * 100:.2f} %"
    if unit in {"J", "W"} and 0 < abs(value) < _MILLI_BELOW:
        return f"{_plain(value * 1e3)} m{unit}"
    return f"{_plain(value)} {unit}"
