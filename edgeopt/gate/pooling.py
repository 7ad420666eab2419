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

    Runs of one process share its luck and count as one.
    """
    numbers = np.asarray(samples.rounds or (0,) * len(samples.blocks))
    medians: list[float] = []
    for number in dict.fromkeys(numbers.tolist()):
        blocks = [samples.blocks[index] for index in np.flatnonzero(numbers == number)]
        medians.append(float(np.median(np.concatenate(blocks))))
    return spread(medians)


def spread(values: Sequence[float]) -> Interval:
    """The mean of repeated positive values with its 95 % interval: Student's, on logarithms.

    A single value says nothing of its own spread: 0 to infinity.
    """
    if len(values) < 2 or min(values) <= 0:
        return Interval(value=float(np.mean(values)), low=0.0, high=float("inf"))
    logs = np.log(np.array(values))
    centre = float(np.exp(np.mean(logs)))
    half = student(len(logs) - 1) * float(np.std(logs, ddof=1)) / len(logs) ** 0.5
    return Interval(
        value=centre, low=centre * float(np.exp(-half)), high=centre * float(np.exp(half))
    )
