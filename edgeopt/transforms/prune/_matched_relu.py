"""Which Relu comes nearest to a smooth activation, channel by channel.

    f(x)  ≈  a · max(x + s, 0) + c

Around 0 a hard swish is nearly x / 2, and a net that works there has most of what it knows below 0,
where a Relu has nothing. Moved and scaled it has: a and s go into the layer that makes x (a Relu
scales with its input), c into the bias of what reads the result. Which they are is fitted to the
values of a channel as normal ones of its mean and variance.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgeopt.transforms.activations import POINTS

Floats = npt.NDArray[np.float64]
_DRAWN = np.linspace(-3.0, 3.0, 61)
_KNOTS = np.linspace(-3.0, 3.0, 25)
_LEAST_FACTOR = 0.05
_FLAT = 1e-12


@dataclass(frozen=True, slots=True)
class Matched:
    """One Relu a channel.

    Args:
        factor: a, above 0 [channels].
        shift: s [channels].
        constant: c [channels].
    """

    factor: Floats
    shift: Floats
    constant: Floats


def matched(made: Floats, mean: Floats, deviation: Floats, *, constant: bool) -> Matched:
    """The nearest in the mean square.

    Args:
        made: The activation at `POINTS`; beyond them it is a Relu.
        mean: Of what it reads [channels].
        deviation: Standard deviation of that [channels].
        constant: Whether c may be other than 0.
    """
    weights = np.exp(-(_DRAWN**2) / 2)
    weights /= weights.sum()
    x = mean[:, None] + deviation[:, None] * _DRAWN
    inside = np.abs(x) <= POINTS[-1]
    wanted = np.where(inside, np.interp(x, POINTS, made), np.maximum(x, 0.0))[:, None, :]
    knots = mean[:, None] + deviation[:, None] * _KNOTS
    relu = np.maximum(x[:, None, :] - knots[:, :, None], 0.0)
    middle = (relu @ weights)[..., None] if constant else 0.0
    centre = (wanted @ weights)[..., None] if constant else 0.0
    varies = ((relu - middle) ** 2) @ weights
    slope = ((relu - middle) * (wanted - centre)) @ weights / np.maximum(varies, _FLAT)
    factor = np.maximum(slope, _LEAST_FACTOR)
    rest = wanted - centre - factor[..., None] * (relu - middle)
    best = (rest**2 @ weights).argmin(axis=1)
    channels = np.arange(len(mean))
    factor, knot = factor[channels, best], knots[channels, best]
    found = relu[channels, best] @ weights
    free = (wanted[:, 0] @ weights - factor * found) if constant else np.zeros_like(factor)
    return Matched(factor=factor, shift=-knot, constant=free)
