"""What each choice does alone, ranked: for people; strategies ask the estimator themselves."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeopt.core.estimates import LATENCY
from edgeopt.estimate.estimator import GraphEstimator
from edgeopt.estimate.sensitivity import decibels
from edgeopt.transforms.base import EXACT
from edgeopt.transforms.space import GraphSpace

_NAME_WIDTH = 44


def ranked(space: GraphSpace, *, folder: Path | None) -> list[dict[str, Any]]:
    """Every alternative of every choice that changes outputs, the one that hurts most first.

    Each has `choice`, `alternative`, `damage` (noise over signal at the worst output, alone over
    everything exact), `sqnr_db` (the same in decibels; None without any noise), `gain_est` (share
    of the baseline's latency that it saves on top of everything exact, predicted) and its `spread`.
    """
    estimator = GraphEstimator(space, folder=folder)
    damages = iter(estimator.damages)
    start = estimator.predict(estimator.exact()).changes[LATENCY]
    found: list[dict[str, Any]] = []
    for index, choice in enumerate(space.choices):
        for number, label in enumerate(choice.labels):
            damage = float(next(damages))
            if number == 0 or choice.family in EXACT or choice.family == "repair":
                continue
            change = estimator.predict(estimator.alone(index, number)).changes[LATENCY]
            heard = decibels(damage)
            found.append(
                {
                    "choice": choice.name,
                    "alternative": label,
                    "damage": damage,
                    "sqnr_db": heard if math.isfinite(heard) else None,
                    "gain_est": start.mean - change.mean,
                    "spread": change.spread,
                }
            )
    return sorted(found, key=lambda each: -each["damage"])


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The ranking as lines of text."""
    lines = [
        "What each choice does alone (estimates: they order a search, and accept nothing):",
        f"  {'choice':<{_NAME_WIDTH}} {'alternative':<22} {'signal/noise':>12} {'gain_est':>9}",
    ]
    for row in rows:
        heard = "no noise" if row["sqnr_db"] is None else f"{row['sqnr_db']:.1f} dB"
        lines.append(
            f"  {row['choice']:<{_NAME_WIDTH}.{_NAME_WIDTH}} {row['alternative']:<22.22}"
            f" {heard:>12} {100 * row['gain_est']:>+8.1f}%"
        )
    return lines
