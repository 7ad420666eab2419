"""The built-in shifts: pure functions of one input's array, its statistics and a generator.

Each makes an input harder in a way that a deployed model meets, and that data held out from the
same source does not show.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Array

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Of some samples of one input, in the input's own units.

    Args:
        std: Over all values.
        low: Least value, by channel where there are channels, in a shape that broadcasts.
        high: Largest value, likewise.
        axes: Height and width axes of images; the time axis of audio.
    """

    std: float
    low: Floats
    high: Floats
    axes: tuple[int, ...]


Shift = Callable[[Floats, Statistics, np.random.Generator], Floats]


def noise(x: Floats, known: Statistics, generator: np.random.Generator) -> Floats:
    """White noise of 0.3 standard deviations of the data (about 10 dB)."""
    return x + generator.normal(0.0, 0.3 * known.std, x.shape)


def blur(x: Floats, known: Statistics, generator: np.random.Generator) -> Floats:
    """A binomial filter of five taps along height and width; edges repeat."""
    for axis in known.axes:
        for _ in range(2):
            x = _smoothed(x, axis)
    return x


def inversion(x: Floats, known: Statistics, generator: np.random.Generator) -> Floats:
    """Dark becomes light, within the range of each channel."""
    return known.low + known.high - x


def contrast(x: Floats, known: Statistics, generator: np.random.Generator) -> Floats:
    """Half the distance from the sample's mean."""
    mean = x.mean()
    return mean + 0.5 * (x - mean)


def scale(x: Floats, known: Statistics, generator: np.random.Generator) -> Floats:
    """Made smaller to two thirds and back: fine detail is gone."""
    for axis in known.axes:
        size = x.shape[axis]
        small = max(2, round(size * 2 / 3))
        x = _resampled(_resampled(x, axis, small), axis, size)
    return x


def level(x: Floats, known: Statistics, generator: np.random.Generator) -> Floats:
    """A quarter of the amplitude (-12 dB)."""
    return 0.25 * x


IMAGE: Mapping[str, Shift] = {
    "noise": noise,
    "blur": blur,
    "inversion": inversion,
    "contrast": contrast,
    "scale": scale,
}
AUDIO: Mapping[str, Shift] = {"level": level, "noise": noise}
FEATURES: Mapping[str, Shift] = {"noise": noise}


def statistics(samples: list[Array], *, channel: int | None, axes: tuple[int, ...]) -> Statistics:
    """Of some samples, whose shapes may differ outside of the channel axis."""
    rows: list[Floats] = []
    for sample in samples:
        moved = sample.astype(np.float64)
        moved = moved.reshape(1, -1) if channel is None else np.moveaxis(moved, channel, 0)
        rows.append(moved.reshape(moved.shape[0], -1))
    joined = np.concatenate(rows, axis=1)
    shape = [1] * samples[0].ndim
    if channel is not None:
        shape[channel] = joined.shape[0]
    return Statistics(
        std=float(joined.std()),
        low=joined.min(axis=1).reshape(shape),
        high=joined.max(axis=1).reshape(shape),
        axes=axes,
    )


def _smoothed(x: Floats, axis: int) -> Floats:
    last = int(x.shape[axis]) - 1
    here = np.arange(last + 1)
    before, after = np.clip(here - 1, 0, last), np.clip(here + 1, 0, last)
    return (_along(x, before, axis) + 2 * x + _along(x, after, axis)) / 4


def _along(x: Floats, at: npt.NDArray[np.int64], axis: int) -> Floats:
    found: Floats = np.take(x, at, axis=axis)
    return found


def _resampled(x: Floats, axis: int, size: int) -> Floats:
    """Linear interpolation along an axis, pixel centres aligned."""
    old = x.shape[axis]
    at = np.clip((np.arange(size) + 0.5) * old / size - 0.5, 0, old - 1)
    left = np.floor(at).astype(np.int64)
    right = np.minimum(left + 1, old - 1)
    shape = [1] * x.ndim
    shape[axis] = size
    share = (at - left).reshape(shape)
    return _along(x, left, axis) * (1 - share) + _along(x, right, axis) * share
