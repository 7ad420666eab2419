"""What an accuracy loses, from what single alternatives do to the outputs: a prior and a fit.

A damage is noise over signal, as powers, at the outputs, and powers of independent errors add; so
the drop is taken as  sum a d^p  over what is on. The factor a and the exponent p follow the
measurements; before there are any, a says that noise a tenth as loud as the signal costs three
points. With a repair behind it pruning leaves a part of its damage only: on ppocr-cls, cuts behind
least squares cost two to six hundredths for each amount of noise that they make without it.

A drop far beyond the bound says that, and not how far: such rows count as at least so much, and
where a plan is said to lose more, as what is said (a censored regression, by imputing what was
cut off; Tobin 1958). Without it the ruined plans of a search, which lose half of everything, taught
that one cut in ten of them is harmless.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from edgeopt.core.action import Choice
from edgeopt.search.calibration import EXPONENTS, bent, sums
from edgeopt.search.codes import Codes
from edgeopt.search.process import Process

Floats = npt.NDArray[np.float64]
Entries = tuple[tuple[float, ...], ...]
Fit = Callable[[Entries, Floats, Entries], Process]
_FACTOR = 0.3
"""Drop an amount of noise, for noise of a tenth of the signal."""
_USUAL = 0.1
_REPAIRED = 0.2
"""What a repair is believed to leave of the damage of pruning."""
_DOUBT = 0.2
"""A damage d may cost an accuracy of this times d^p, whatever others of its kind have shown: before
anything was pruned, measured precisions say nothing about pruning."""
_ROUNDS = 3
_TRUST = 0.001
"""Of the factor: as a measured drop of so much. More of it, or less doubt, and plans grow timid: on
four simulators the volume after 120 trials fell from .566 to .538."""


def expected(choices: Sequence[Choice], damage: Entries) -> Entries:
    """Damages as a search meets them: a cut that goes further does no less, and is repaired."""
    mended = any(choice.mends for choice in choices)
    return tuple(
        tuple(np.maximum.accumulate(row) * (_REPAIRED if mended else 1.0))
        if choice.family == "prune"
        else row
        for choice, row in zip(choices, damage, strict=True)
    )


def drop_process(
    damage: Entries, rows: Sequence[Codes], drops: Floats, *, worst: float, fit: Fit
) -> Process:
    """The process of the exponent that the evidence is for.

    Args:
        damage: Of each alternative.
        rows: Codes that were measured.
        drops: What they lost [rows], in the unit of the accuracy.
        worst: Drops from here on are "at least so much".
        fit: Makes a process from the entries of a prior, values [rows] and least spreads.
    """
    best: Process | None = None
    cut = drops >= worst
    for exponent in reversed(EXPONENTS):  # equal evidence: powers add as they are
        said = sums(bent(damage, exponent, 1.0), rows)
        factor = _factor(said, drops, cut, worst, exponent)
        prior, doubt = bent(damage, exponent, factor), bent(damage, exponent, _DOUBT)
        made = fit(prior, np.where(cut, np.maximum(factor * said, worst), drops), doubt)
        for _ in range(_ROUNDS if cut.any() else 0):
            guessed = made.predict(rows)[0]
            made = fit(prior, np.where(cut, np.maximum(guessed, worst), drops), doubt)
        if best is None or made.evidence > best.evidence:
            best = made
    assert best is not None
    return best


def _factor(
    said: Floats, drops: Floats, cut: npt.NDArray[np.bool_], worst: float, exponent: float
) -> float:
    """By least squares, from what is believed before; rows that are cut off only push upwards."""
    believed = _FACTOR * _USUAL ** (1.0 - exponent)
    weight = (_TRUST / believed) ** 2
    factor = believed
    for _ in range(_ROUNDS):
        counted = ~cut | (factor * said < worst)
        x, y = said[counted], np.minimum(drops[counted], worst)
        factor = float((weight * believed + x @ y) / (weight + x @ x))
    return max(factor, 1e-9)
