"""Several measurements of one pair of models as one: all their rounds are fresh processes."""

from collections.abc import Sequence

import numpy as np

from edgeopt.core.samples import Interval, Samples, student


def pooled(parts: Sequence[Samples]) -> Samples:
    """All blocks of all parts, each part's rounds as rounds of their own."""
    rounds: list[int] = []
    for part in parts:
        numbers = part.rounds or (0,) * len(part.blocks)
        first = max(rounds, default=-1) + 1 - min(numbers)
        rounds += [first + number for number in numbers]
    return Samples(
        unit=parts[0].unit,
        blocks=tuple(block for part in parts for block in part.blocks),
        baseline=tuple(block for part in parts for block in part.baseline),
        rounds=tuple(rounds),
        warmup=tuple(count for part in parts for count in part.warmup),
    )


def absolute(samples: Samples) -> Interval:
    """The median itself, with the 95 % interval that its fresh processes give.

    Student's interval on the logarithms of the medians of rounds: runs of one process share its
    luck and count as one. From a single round nothing can be said: 0 to infinity.
    """
    numbers = np.asarray(samples.rounds or (0,) * len(samples.blocks))
    logs = np.array(
        [
            np.log(
                np.median(np.concatenate([samples.blocks[i] for i in np.flatnonzero(numbers == n)]))
            )
            for n in dict.fromkeys(numbers.tolist())
        ]
    )
    centre = float(np.exp(np.mean(logs)))
    if len(logs) < 2:
        return Interval(value=centre, low=0.0, high=float("inf"))
    half = student(len(logs) - 1) * float(np.std(logs, ddof=1)) / len(logs) ** 0.5
    return Interval(
        value=centre, low=centre * float(np.exp(-half)), high=centre * float(np.exp(half))
    )
