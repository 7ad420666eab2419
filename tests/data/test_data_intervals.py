"""Paired intervals, the smallest decidable drop, lost and won, near chance."""

import time

import numpy as np
import pytest

from edgeopt.core.protocols import AccuracyMetric
from edgeopt.data.accuracy_metric import load_metric
from edgeopt.data.evaluate import Scored
from edgeopt.data.intervals import (
    lost_and_won,
    near_chance,
    paired_difference,
    smallest_decidable_drop,
    standard_error,
)
from edgeopt.errors import DataError

RATE = load_metric("agreement")


def _scored(
    metric: AccuracyMetric, evidence: np.ndarray, groups: np.ndarray | None = None
) -> Scored:
    rows = np.asarray(evidence, dtype=np.float64)
    return Scored(
        evidence=rows,
        groups=np.arange(len(rows)) if groups is None else groups,
        value=metric.value(rows),
        right=metric.right(rows),
    )


def _rate(right: np.ndarray, groups: np.ndarray | None = None) -> Scored:
    return _scored(RATE, np.c_[right, np.ones(len(right))], groups)


def _pair(count: int, lost: int, won: int) -> tuple[Scored, Scored]:
    base = np.r_[np.ones(count // 2), np.zeros(count - count // 2)]
    mine = base.copy()
    mine[:lost] = 0
    mine[count - won :] = 1
    return _rate(mine), _rate(base)


def test_the_interval_of_a_proportion_is_mcnemars() -> None:
    """75 lost and 25 won of 1000: -5 points, standard error sqrt((p_d - d^2) / n)."""
    mine, base = _pair(1000, 75, 25)
    found = paired_difference(RATE, mine, base)
    error = np.sqrt((0.1 - 0.05**2) / 1000)
    assert found.value == pytest.approx(-0.05)
    assert found.low == pytest.approx(-0.05 - 1.96 * error, abs=0.0015)
    assert found.high == pytest.approx(-0.05 + 1.96 * error, abs=0.0015)
    assert lost_and_won(mine, base) == (75, 25)


def test_the_interval_covers_the_truth() -> None:
    """Of 200 pairs drawn with a true drop of 2 points, about 95 % of the intervals contain it."""
    generator = np.random.default_rng(5)
    inside = 0
    for _ in range(200):
        base = (generator.random(400) < 0.9).astype(float)
        mine = np.where(generator.random(400) < 0.02 / 0.9, 0.0, base)
        inside += paired_difference(RATE, _rate(mine), _rate(base)).contains(-0.02)
    assert 0.90 <= inside / 200 <= 0.99


def test_no_difference_is_an_interval_of_zero() -> None:
    """The same evidence: nothing was seen to change."""
    base = _rate(np.r_[np.ones(90), np.zeros(10)])
    found = paired_difference(RATE, base, base)
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_groups_are_resampled_whole() -> None:
    """A hundred equal rows of ten recordings weigh as ten, not as a thousand."""
    generator = np.random.default_rng(1)
    right = generator.integers(0, 2, 10).repeat(100).astype(float)
    together, apart = (_rate(right, groups) for groups in (np.arange(10).repeat(100), None))
    ratio = standard_error(RATE, together) / standard_error(RATE, apart)
    assert ratio == pytest.approx(10, rel=0.15)


def test_one_group_decides_nothing() -> None:
    """The interval is unbounded, and so is the smallest drop."""
    one = _rate(np.array([1.0, 0.0, 1.0]), np.zeros(3, dtype=np.int64))
    found = paired_difference(RATE, one, one)
    assert (found.low, found.high) == (-np.inf, np.inf)
    assert smallest_decidable_drop(RATE, one) == np.inf


def test_different_rows_are_refused() -> None:
    """A pair is judged on the same rows."""
    with pytest.raises(DataError, match="different rows"):
        paired_difference(RATE, _rate(np.ones(4)), _rate(np.ones(5)))


def test_the_fast_ways_agree_with_the_plain_one() -> None:
    """Sums, weights and repeated rows give the same intervals up to their draws."""
    generator = np.random.default_rng(2)
    labels = (generator.random(300) < 0.4).astype(float)
    scores = labels + generator.normal(size=300)
    auc = load_metric("auc")

    class Plain:
        """The same metric without its fast way."""

        needs_target, needs_reference = True, False
        evidence, value, chance = auc.evidence, auc.value, auc.chance

    base = _scored(auc, np.c_[scores, labels])
    mine = _scored(auc, np.c_[scores + generator.normal(size=300) * 0.5, labels])
    fast, plain = (paired_difference(metric, mine, base) for metric in (auc, Plain()))
    assert fast == plain


def test_the_smallest_decidable_drop_of_a_proportion() -> None:
    """z sqrt(a (1 - a) / n) for 90 % of 1000; never below the Wilson bound, also at 100 %."""
    base = _rate(np.r_[np.ones(900), np.zeros(100)])
    expected = 1.96 * np.sqrt(0.9 * 0.1 / 1000)
    assert smallest_decidable_drop(RATE, base) == pytest.approx(expected, rel=0.06)
    perfect = smallest_decidable_drop(RATE, _rate(np.ones(1000)))
    assert perfect == pytest.approx(1.96**2 / (1000 + 1.96**2), rel=1e-3)


def test_ranks_follow_the_baseline_closely() -> None:
    """An AUC's smallest drop comes from disturbed ranks: more noise is decided, less is not."""
    generator = np.random.default_rng(6)
    auc = load_metric("auc")
    labels = (generator.random(1000) < 0.4).astype(float)
    base = _scored(auc, np.c_[labels + 0.6 * generator.normal(size=1000), labels])
    limit = smallest_decidable_drop(auc, base)
    assert 0 < limit < 1.96 * standard_error(auc, base) / 3
    drops = []
    for amount in (0.02, 0.6):
        noise = amount * generator.normal(size=1000)
        mine = _scored(auc, np.c_[base.evidence[:, 0] + noise, labels])
        drops.append(paired_difference(auc, mine, base))
    assert drops[0].contains(0)
    assert drops[1].high < 0
    assert -drops[0].value < limit < -drops[1].value


def test_a_drop_of_that_size_is_decided_and_half_of_it_is_not() -> None:
    """At the correlation that the formula assumes (0.5)."""
    count = 2000
    base = np.r_[np.ones(1800), np.zeros(200)]
    limit = smallest_decidable_drop(RATE, _rate(base))
    for factor, decided in ((1.3, True), (0.5, False)):
        drop = limit * factor
        won = round((0.09 - drop) / 2 * count)
        mine = base.copy()
        mine[: won + round(drop * count)] = 0
        mine[1800 : 1800 + won] = 1
        found = paired_difference(RATE, _rate(mine), _rate(base))
        assert (found.high < 0) is decided


def test_thousands_of_rows_take_a_moment() -> None:
    """3000 rows: rates under 0.3 s, AUC under 2 s of processor time."""
    generator = np.random.default_rng(3)
    length = generator.integers(5, 40, 3000)
    errors = [generator.poisson(rate, 3000) for rate in (0.5, 0.6)]
    cer, auc = load_metric("cer", {"charset": "ab"}), load_metric("auc")
    labels = (generator.random(3000) < 0.4).astype(float)
    pairs = [
        (cer, [np.c_[length - e, length] for e in errors], 0.3),
        (auc, [np.c_[labels + generator.normal(size=3000), labels] for _ in range(2)], 2.0),
    ]
    for metric, evidence, limit_s in pairs:
        mine, base = (_scored(metric, rows) for rows in evidence)
        began = time.process_time()
        paired_difference(metric, mine, base)
        assert time.process_time() - began < limit_s


def _top1(labels: np.ndarray, predicted: np.ndarray) -> tuple[AccuracyMetric, Scored]:
    metric = load_metric("top1")
    rows = [
        metric.evidence({"y": np.eye(10, dtype=np.float32)[[p]]}, np.array(label), None)
        for label, p in zip(labels, predicted, strict=True)
    ]
    return metric, _scored(metric, np.concatenate(rows))


def test_a_baseline_near_chance_is_noticed_with_the_usual_reasons() -> None:
    """Random predictions: the sentence names preprocessing, labels and output."""
    generator = np.random.default_rng(4)
    labels, predicted = generator.integers(0, 10, (2, 300))
    found = near_chance(*_top1(labels, predicted))
    assert found is not None
    for word in ("mean", "channel order", "labels", "output"):
        assert word in found


@pytest.mark.parametrize(("offset", "words"), [(1, "from 1"), (-1, "too low")])
def test_shifted_labels_are_named(offset: int, words: str) -> None:
    """Labels one too high or too low: the other offset was tried and is far better."""
    predicted = np.random.default_rng(4).integers(1, 9, 300)
    found = near_chance(*_top1(predicted + offset, predicted))
    assert found is not None
    assert words in found
    assert "100.0%" in found


def test_a_good_baseline_passes() -> None:
    """Nothing to say about 90 %, nor where chance means nothing."""
    labels = np.random.default_rng(4).integers(0, 10, 300)
    predicted = np.where(np.arange(300) % 10 == 0, (labels + 1) % 10, labels)
    assert near_chance(*_top1(labels, predicted)) is None
    assert near_chance(RATE, _rate(np.zeros(10))) is None
