"""Paired ratios: what must hold for any samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.samples import Interval, Samples

times = st.floats(1e-4, 1.0)


@st.composite
def paired(draw, least: int = 2) -> Samples:
    """Blocks of a candidate beside blocks of the baseline, in one to four processes."""
    count = draw(st.integers(least, 8))
    block = st.lists(times, min_size=1, max_size=4).map(tuple)
    return Samples(
        unit="s",
        blocks=tuple(draw(block) for _ in range(count)),
        baseline=tuple(draw(block) for _ in range(count)),
        rounds=tuple(sorted(draw(st.integers(0, 3)) for _ in range(count))),
    )


def scaled(samples: Samples, mine: float, theirs: float) -> Samples:
    """The same samples, times constants."""
    return Samples(
        unit=samples.unit,
        blocks=tuple(tuple(v * mine for v in block) for block in samples.blocks),
        baseline=tuple(tuple(v * theirs for v in block) for block in samples.baseline),
        rounds=samples.rounds,
    )


SMALL = settings(max_examples=30, deadline=None)


@SMALL
@given(paired(least=1))
def test_the_interval_holds_its_estimate(samples: Samples):
    """Low below value below high, none negative."""
    ratio = samples.ratio
    assert 0 <= ratio.low <= ratio.value <= ratio.high
    assert ratio.contains(ratio.value)


@SMALL
@given(paired(), st.floats(0.5, 2))
def test_what_slows_both_cancels(samples: Samples, factor: float):
    """A throttled processor is no slower model."""
    one, two = samples.ratio, scaled(samples, factor, factor).ratio
    assert (two.value, two.low, two.high) == pytest.approx((one.value, one.low, one.high))


@SMALL
@given(paired(), st.floats(0.5, 2))
def test_a_faster_candidate_has_a_smaller_ratio(samples: Samples, factor: float):
    """The ratio is proportional to the candidate's times, its interval too."""
    one, two = samples.ratio.scaled(factor), scaled(samples, factor, 1).ratio
    assert (two.value, two.low, two.high) == pytest.approx((one.value, one.low, one.high))


@SMALL
@given(paired())
def test_swapping_the_two_inverts_the_ratio(samples: Samples):
    """Neither side is favoured."""
    swapped = Samples(
        unit="s", blocks=samples.baseline, baseline=samples.blocks, rounds=samples.rounds
    )
    assert swapped.ratio.value == pytest.approx(1 / samples.ratio.value)


@SMALL
@given(paired())
def test_the_same_samples_give_the_same_interval(samples: Samples):
    """The bootstrap is seeded: a report can be computed again."""
    again = Samples(
        unit="s", blocks=samples.blocks, baseline=samples.baseline, rounds=samples.rounds
    )
    assert again.ratio == samples.ratio


@SMALL
@given(paired())
def test_a_candidate_beside_itself_is_not_faster(samples: Samples):
    """Equal blocks: ratio exactly 1."""
    same = Samples(unit="s", blocks=samples.blocks, baseline=samples.blocks, rounds=samples.rounds)
    assert same.ratio.value == 1
    assert not same.faster


@SMALL
@given(paired(), st.floats(1e-3, 1))
def test_nothing_is_called_faster_whose_interval_holds_one(samples: Samples, factor: float):
    """The promise of every report."""
    found = scaled(samples, factor, 1)
    assert not (found.faster and found.ratio.contains(1.0))


def test_one_block_pair_decides_nothing():
    """Its interval is open to the right."""
    samples = Samples(unit="s", blocks=((0.1,),), baseline=((1.0,),))
    assert samples.ratio.high == float("inf")
    assert not samples.faster


def test_small_gains_take_three_processes():
    """3 % is within what two sessions of the same bytes differ by."""
    generator = np.random.default_rng(0)
    noise = 1 + 1e-4 * generator.standard_normal((2, 12))
    blocks = tuple((float(0.97 * v),) for v in noise[0])
    baseline = tuple((float(v),) for v in noise[1])
    few, many = (
        Samples(unit="s", blocks=blocks, baseline=baseline, rounds=tuple(i % n for i in range(12)))
        for n in (2, 4)
    )
    assert not few.faster
    assert many.faster


def test_no_baseline_no_ratio():
    """Absolute times taken minutes apart would make a front meaningless."""
    with pytest.raises(ValueError, match="no baseline"):
        _ = Samples(unit="s", blocks=((1.0,),)).ratio


@SMALL
@given(paired(), st.floats(0, 1))
def test_quantiles_lie_within_the_values(samples: Samples, q: float):
    """And the median is the 0.5 quantile; every value counts."""
    flat = [value for block in samples.blocks for value in block]
    assert min(flat) <= samples.quantile(q) <= max(flat)
    assert samples.quantile(0.5) == pytest.approx(samples.median)
    assert samples.count == len(flat)


@given(st.floats(0.1, 10), st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 10))
def test_scaling_an_interval(value: float, below: float, above: float, factor: float):
    """Order is kept."""
    found = Interval(value=value, low=value - below, high=value + above).scaled(factor)
    assert found.low <= found.value <= found.high
    assert found.value == pytest.approx(value * factor)
