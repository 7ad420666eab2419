"""`Evidence`: what is known of one budget's metric, and where it comes from."""

from dataclasses import dataclass
from typing import Literal

from edgeopt.core.samples import Interval

Origin = Literal["exact", "measured", "receipt", "scored"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A value with what it is compared with.

    Args:
        value: SI.
        origin: `exact` from the file, `measured` just now, `receipt` from the lock, `scored` on
            data.
        interval: 95 % of `value`; None where it is exact.
        base: The base model's value; None without a base.
        change: Interval of value over base (of accuracy: of value minus base); None without a
            base, or where both are exact.
        floor: Differences below this share cannot be seen on the device; None is not known.
        note: How it came about, in words.
        same: The model is the base's very file, so nothing has changed, whatever is measured.
    """

    value: float
    origin: Origin
    interval: Interval | None = None
    base: float | None = None
    change: Interval | None = None
    floor: float | None = None
    note: str = ""
    same: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """Why there is no evidence.

    Args:
        reason: One sentence.
        kind: `missing`, `device` where the device is in trouble, `incompatible` where what there
            is comes from another environment.
        instead: What the lock says of this very model, where a device that was asked is away.
    """

    reason: str
    kind: Literal["missing", "device", "incompatible"] = "missing"
    instead: Evidence | None = None
