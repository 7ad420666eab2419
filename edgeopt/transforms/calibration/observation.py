"""`Observation`: what is kept of one value over all samples, in memory that samples do not grow.

Extremes are exact; so are per-channel extremes and sums. The histogram covers [-limit, limit] in
equal bins. Where a sample goes beyond, the limit doubles and bins merge in pairs, so that one
pass is enough. Of large values it counts evenly spaced elements only.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
BINS = 2048
_COUNTED = 65536
"""Elements of one sample that the histogram counts at most."""
_CHANNELS = 65536
_LEAST_LIMIT = 2.0**-20


@dataclass(slots=True, kw_only=True)
class Channels:
    """Per-channel figures over samples and all other axes.

    Args:
        low: Least value [channels].
        high: Largest value [channels].
        total: Sum [channels].
        count: Elements a channel.
    """

    low: Floats
    high: Floats
    total: Floats
    count: int

    def merged(self, other: "Channels") -> "Channels":
        """Of the samples of both."""
        return Channels(
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
            total=self.total + other.total,
            count=self.count + other.count,
        )


@dataclass(slots=True)
class Observation:
    """Running figures of one value.

    Args:
        low: Least element of all samples; NaN once an element is not finite.
        high: Largest element.
        low_sum: Sum of each sample's least element.
        high_sum: Sum of each sample's largest element.
        samples: How many were added.
        limit: The histogram covers [-limit, limit]; a power of two.
        counts: Elements a bin [BINS].
        zeros: Elements that are exactly 0, among those counted.
        channels: By axis (1, and -1 up to rank 3); an axis whose size varies is left out.
    """

    low: float = np.inf
    high: float = -np.inf
    low_sum: float = 0.0
    high_sum: float = 0.0
    samples: int = 0
    limit: float = _LEAST_LIMIT
    counts: Floats = field(default_factory=lambda: np.zeros(BINS))
    zeros: float = 0.0
    channels: dict[int, Channels | None] = field(default_factory=dict[int, "Channels | None"])

    @property
    def finite(self) -> bool:
        """Whether there is a range at all."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))

    @property
    def centres(self) -> Floats:
        """Middle of each bin."""
        width = 2 * self.limit / BINS
        return (np.arange(BINS, dtype=np.float64) + 0.5) * width - self.limit

    def add(self, array: Array) -> None:
        """Take in one sample's value; not empty."""
        low, high = self._channels(array)
        self.samples += 1
        self.low_sum += low
        self.high_sum += high
        if not (np.isfinite(low) and np.isfinite(high)):
            self.low = self.high = float("nan")
        if not self.finite and self.samples > 1:
            return
        self.low, self.high = min(self.low, low), max(self.high, high)
        if self.finite:
            self._cover(max(-low, high))
            self._count(array.reshape(-1))

    def merged(self, other: "Observation") -> "Observation":
        """Of the samples of both; neither changes."""
        made = Observation(
            low=float(np.minimum(self.low, other.low)),
            high=float(np.maximum(self.high, other.high)),
            low_sum=self.low_sum + other.low_sum,
            high_sum=self.high_sum + other.high_sum,
            samples=self.samples + other.samples,
            limit=self.limit,
            counts=self.counts.copy(),
            zeros=self.zeros + other.zeros,
        )
        made._cover(other.limit)
        made.counts += _widened(other.counts, other.limit, made.limit)
        for axis in self.channels.keys() & other.channels.keys():
            one, two = self.channels[axis], other.channels[axis]
            same = one is not None and two is not None and one.low.shape == two.low.shape
            made.channels[axis] = one.merged(two) if same and one and two else None
        return made

    def _channels(self, array: Array) -> tuple[float, float]:
        """Take in per-channel figures; returns the extremes of the sample."""
        found: Channels | None = None
        for axis in _axes(array):
            found = _channels_of(array, axis)
            held = self.channels.get(axis, found)
            if held is None or held.low.shape != found.low.shape:
                self.channels[axis] = None
            else:
                self.channels[axis] = found if held is found else held.merged(found)
        if array.ndim == 2 and 1 in self.channels:
            self.channels[-1] = self.channels[1]
        if found is None:
            return float(array.min()), float(array.max())
        return float(found.low.min()), float(found.high.max())

    def _cover(self, highest: float) -> None:
        if highest > self.limit:
            limit = 2.0 ** np.ceil(np.log2(highest))
            self.counts = _widened(self.counts, self.limit, limit)
            self.limit = float(limit)

    def _count(self, flat: Array) -> None:
        # An odd step: even ones would meet the same columns of most layouts again and again.
        step = 1 if flat.size <= _COUNTED else -(-flat.size // _COUNTED) | 1
        some = flat[::step]
        # Exact, also in single precision: limit and bins are powers of two.
        wide = np.promote_types(some.dtype, np.float32)
        places = some.astype(wide) * wide.type(BINS / (2 * self.limit))
        np.floor(places, out=places)
        places += wide.type(BINS // 2)
        np.minimum(places, wide.type(BINS - 1), out=places)
        counted = np.bincount(places.astype(np.intp), minlength=BINS)
        self.counts += counted * float(step)
        self.zeros += float((some.size - np.count_nonzero(some)) * step)


_FITS = float(np.finfo(np.float32).max) / 2


def _axes(array: Array) -> tuple[int, ...]:
    axes = {2: (1,), 3: (1, -1)}.get(array.ndim, (1,) if array.ndim > 3 else ())
    return tuple(axis for axis in axes if array.shape[axis] <= _CHANNELS)


def _channels_of(array: Array, axis: int) -> Channels:
    """Figures along the last axis first: reductions over it are many times faster than over two.

    Sums of one row are made in the array's own precision (numpy adds pairwise, so that little is
    lost), and those of rows in double precision; masks of the lowest float fit no other.
    """
    kept = array.shape[axis]
    after = int(np.prod(array.shape[axis % array.ndim + 1 :]))
    rows = array.reshape(-1, kept, after)
    low = rows.min(axis=2).min(axis=0).astype(np.float64)
    high = rows.max(axis=2).max(axis=0).astype(np.float64)
    largest = float(np.maximum(-low, high).max(initial=0.0)) * after
    wide = np.float64 if largest > _FITS else np.promote_types(array.dtype, np.float32)
    total = rows.sum(axis=2, dtype=wide).astype(np.float64).sum(axis=0)
    return Channels(
        low=low,
        high=high,
        total=total,
        count=array.size // kept,
    )


def _widened(counts: Floats, limit: float, wanted: float) -> Floats:
    """Counts over [-limit, limit] as counts over a range that is a power of two wider."""
    while limit < wanted:
        half, quarter = counts.reshape(-1, 2).sum(axis=1), BINS // 4
        counts = np.zeros(BINS)
        counts[quarter : BINS - quarter] = half
        limit *= 2
    return counts
