"""The exam of every accuracy metric: what scoring, intervals and reports take for granted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from edgeopt.core.protocols import AccuracyMetric, Arrays
from edgeopt.data.accuracy_metric import Judges, Suspects, Weighted
from edgeopt.data.ratio import Ratio, share
from edgeopt.errors import DataError

Floats = npt.NDArray[np.float64]
Target = npt.NDArray[Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyCase:
    """Some samples with right outputs, and worse outputs for the same samples.

    Args:
        options: Of the metric.
        targets: One a sample; None for metrics without labels.
        right: Outputs that are right everywhere.
        worse: Outputs that are wrong somewhere.
        misfits: Pairs of outputs and a target that cannot be judged.
        best: The value of the right outputs.
    """

    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    targets: Sequence[Target]
    right: Sequence[Arrays]
    worse: Sequence[Arrays]
    misfits: Sequence[tuple[Arrays, Target]]
    best: float = 1.0


def examine_accuracy(metric: AccuracyMetric, case: AccuracyCase) -> None:
    """Run all checks of the exam.

    Raises:
        AssertionError: Names the promise that was not kept.
    """
    assert isinstance(metric, AccuracyMetric), "the plug-in has the protocol's methods"
    right, worse = _evidence(metric, case.right, case), _evidence(metric, case.worse, case)
    assert np.isclose(metric.value(right), case.best), "right outputs have the best value"
    assert metric.value(worse) < metric.value(right), "worse outputs have a lower value"
    assert np.array_equal(right, _evidence(metric, case.right, case)), "evidence is reproducible"
    shuffled = np.random.default_rng(0).permutation(len(worse))
    assert np.isclose(metric.value(worse[shuffled]), metric.value(worse)), "rows have no order"
    chance = metric.chance(right)
    assert chance is None or 0 <= chance < case.best, "chance lies below the best value"
    if isinstance(metric, Judges):
        rows = metric.right(worse)
        assert rows.shape == (len(worse),), "right says one number a row"
        assert np.all(rows <= metric.right(right)), "no row of the worse outputs is better"
    if isinstance(metric, Suspects):
        assert all(0 <= v <= 1 for v in metric.if_only(worse).values()), "values of mistakes"
    _examine_resampling(metric, worse)
    _examine_broken_outputs(metric, case)
    _examine_misfits(metric, case)


def _evidence(metric: AccuracyMetric, outputs: Sequence[Arrays], case: AccuracyCase) -> Floats:
    rows = [
        metric.evidence(found, target, reference if metric.needs_reference else None)
        for found, target, reference in zip(outputs, case.targets, case.right, strict=True)
    ]
    assert all(row.ndim == 2 for row in rows), "evidence is [rows, columns]"
    assert len({row.shape[1] for row in rows}) == 1, "every sample has the same columns"
    return np.concatenate(rows)


def _examine_resampling(metric: AccuracyMetric, evidence: Floats) -> None:
    """The fast ways to compute values of resampled rows agree with the value of those rows."""
    generator = np.random.default_rng(1)
    for _ in range(20):
        times = generator.multinomial(len(evidence), np.full(len(evidence), 1 / len(evidence)))
        plain = metric.value(np.repeat(evidence, times, axis=0))
        fast = plain
        if isinstance(metric, Ratio):
            sums = times[None].astype(np.float64) @ evidence[:, :2]
            fast = float(share(sums[:, 0], sums[:, 1])[0])
        elif isinstance(metric, Weighted):
            fast = float(metric.weighted(evidence, times[None].astype(np.float64))[0])
        assert np.isclose(fast, plain, equal_nan=True), "weights mean repeated rows"


def _examine_broken_outputs(metric: AccuracyMetric, case: AccuracyCase) -> None:
    broken = [
        {
            name: np.full_like(array, np.nan) if array.dtype.kind == "f" else array
            for name, array in outputs.items()
        }
        for outputs in case.right
    ]
    if not any(array.dtype.kind == "f" for array in case.right[0].values()):
        return
    value = metric.value(_evidence(metric, broken, case))
    assert np.isfinite(value), "outputs that are not numbers have a value"
    assert value < case.best, "outputs that are not numbers are wrong"


def _examine_misfits(metric: AccuracyMetric, case: AccuracyCase) -> None:
    assert case.misfits, "the case has outputs that do not fit"
    for outputs, target in case.misfits:
        reference = case.right[0] if metric.needs_reference else None
        shapes = {name: array.shape for name, array in outputs.items()}
        refused = _refuses(metric, outputs, target, reference)
        assert refused, f"not refused: outputs {shapes} against {target!r}"


def _refuses(
    metric: AccuracyMetric, outputs: Arrays, target: Target, reference: Arrays | None
) -> bool:
    try:
        metric.evidence(outputs, target, reference)
    except DataError:
        return True
    return False
