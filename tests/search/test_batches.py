"""What is measured together: how many, and that the candidates of a batch do not fail together."""

import numpy as np
import pytest

from edgeopt.search import codes as coding
from edgeopt.search.process import Columns, Prior, Process
from edgeopt.search.selector import Selector
from edgeopt.search.strategies import portfolio
from edgeopt.search.surrogate import Forecast
from edgeopt.testing.toy_estimator import ToyEstimator
from edgeopt.testing.toy_space import OBJECTIVES, ToyDevice, ToySpace

SITES = 6
SPACE = ToySpace(sites=SITES, rewrites=0)
COLUMNS = Columns(SPACE.choices, ())
NONE = (0,) * len(SPACE.choices)


def _on(*places: int):
    return tuple(int(n in places) for n in range(len(NONE)))


def _process(rows, values, *, floor: float = 0.01) -> Process:
    size = len(COLUMNS.places)
    spreads = np.concatenate([np.full(size, 0.1), np.zeros(len(COLUMNS.kinds))])
    return Process(COLUMNS, Prior(np.zeros(len(spreads)), spreads), rows, values, floor=floor)


def _correlations(drawn) -> np.ndarray:
    return np.corrcoef(drawn.T)


def test_rows_that_share_what_is_not_known_err_together():
    """Before anything is measured: by the share of the variance that two rows have in common."""
    made = _process([], [])
    rows = [_on(0), _on(0, 1), _on(2)]
    drawn = made.deviations(rows, 4000, np.random.default_rng(0))
    assert drawn.std(axis=0) == pytest.approx(np.ones(3), rel=0.05)
    assert np.abs(drawn.mean(axis=0)).max() < 0.06
    both = _correlations(drawn)
    assert both[0, 1] == pytest.approx(0.5**0.5, abs=0.05)
    assert abs(both[0, 2]) < 0.05


def test_what_was_measured_is_no_common_error_any_more():
    """The layer that two rows share is known from measurements: what is left is each row's own."""
    made = _process([NONE, *[_on(0)] * 20], [0.0, *[0.3] * 20])
    drawn = made.deviations([_on(0, 1), _on(0, 2)], 4000, np.random.default_rng(0))
    assert drawn.std(axis=0) == pytest.approx(np.ones(2), rel=0.05)
    assert abs(_correlations(drawn)[0, 1]) < 0.1


def test_what_is_not_additive_is_each_rows_own():
    """With a residual the draws have the whole spread, and no more is shared than the sum says."""
    generator = np.random.default_rng(3)
    rows = list(dict.fromkeys(coding.draw(SPACE.choices, generator) for _ in range(90)))[:60]
    odd = [0.2 * float(sum(row[::2]) % 2) + 0.02 * sum(row) for row in rows]
    made = _process(rows, odd)
    assert made.residual > 0
    fresh = [row for row in (_on(0, 3), _on(0, 4), _on(1, 5)) if row not in rows]
    drawn = made.deviations(fresh, 4000, np.random.default_rng(0))
    assert drawn.std(axis=0) == pytest.approx(np.ones(len(fresh)), rel=0.08)
    both = _correlations(drawn)
    assert both[np.triu_indices(len(fresh), 1)].max() < 0.9


def test_a_batch_holds_the_bold_plan_and_the_safe_one():
    """Two plans that stand or fall together are one bet: the second place is another's."""
    means = np.array([[-0.60, 0.012], [-0.59, 0.012], [-0.15, 0.0]])
    spreads = np.array([[1e-3, 0.01], [1e-3, 0.01], [1e-3, 1e-4]])
    forecast = Forecast(means=means, spreads=spreads, works=np.ones(3))
    half = np.random.default_rng(1).standard_normal((6, 3, 2))
    half[:, 1] = half[:, 0]
    together = np.concatenate([half, -half])
    selector = Selector(
        np.zeros((1, 2)),
        np.array([np.inf, 0.01]),
        forecast,
        np.random.default_rng(0),
        [1],
        deviations=together,
    )
    gains = selector.gains()
    assert gains[0] > gains[1] > gains[2]
    assert selector.pick(2, ["a"] * 3, {"a": 3}) == [0, 2]


def test_batches_are_small_while_little_is_known():
    """Three of ten early, five of ten once sixty trials were told."""
    space = ToySpace(sites=10, rewrites=2)
    objectives = tuple(OBJECTIVES)
    strategy = portfolio.make(space, seed=0, objectives=objectives, estimator=ToyEstimator(space))
    device = ToyDevice(space, failing=0.0)
    sizes: dict[int, int] = {}
    told = 0
    while told < 75:
        asked = strategy.ask(10)
        sizes[told] = len(asked)
        strategy.tell(device.measure(asked))
        told += len(asked)
    assert max(size for known, size in sizes.items() if known < 60) == 3
    assert max(size for known, size in sizes.items() if known >= 60) == 5
