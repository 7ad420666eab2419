"""The process behind the surrogate, its forecasts, and what is chosen by them."""

import numpy as np
import pytest

from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space
from edgeopt.plugins import STRATEGIES
from edgeopt.search import codes as coding
from edgeopt.search.archive import Archive
from edgeopt.search.calibration import calibrated
from edgeopt.search.foretold import Foretold, sentences
from edgeopt.search.process import Columns, Prior, Process
from edgeopt.search.selector import Selector
from edgeopt.search.strategies import portfolio
from edgeopt.search.surrogate import Forecast, Surrogate
from edgeopt.search.table import EstimatedTable
from edgeopt.testing import strategy_exam
from edgeopt.testing.toy_estimator import ToyEstimator
from edgeopt.testing.toy_space import OBJECTIVES, ToyDevice, ToySpace

BOUNDED = (*OBJECTIVES[:2], Objective(metric="accuracy", direction="max", bound=0.85))
PARTS = [
    strategy_exam.goes_on_after_a_kill,
    strategy_exam.survives_failures_and_strangers,
    strategy_exam.takes_partial_results,
]


def _drawn(space: Space, count: int, seed: int = 0):
    generator = np.random.default_rng(seed)
    rows = {coding.draw(space.choices, generator): None for _ in range(3 * count)}
    return list(rows)[:count]


def _told(space: ToySpace, rows, *, objectives=BOUNDED, failing: float = 0.0) -> Archive:
    archive = Archive(space)
    device = ToyDevice(space, failing=failing)
    none = (0,) * len(space.choices)
    archive.tell(device.measure(archive.new([none, *rows], 1000)))
    return archive


def test_an_additive_truth_is_found_from_few_rows():
    """With noise of one per cent, forty rows give weights that predict others to two."""
    space = ToySpace(sites=6, rewrites=2)
    columns = Columns(space.choices, ())
    rows = _drawn(space, 80)
    weights = np.random.default_rng(1).normal(0.0, 0.1, len(columns.places))
    truth = columns.of(rows)[:, : len(weights)] @ weights
    size = len(columns.places) + len(columns.kinds)
    prior = Prior(np.zeros(size), np.full(size, 0.1))
    noise = 0.01 * np.random.default_rng(2).standard_normal(80)
    made = Process(columns, prior, rows[:60], list(truth[:60] + noise[:60]), floor=0.01)
    mean, spread = made.predict(rows[60:])
    assert np.abs(mean - truth[60:]).mean() < 0.02
    inside = np.abs(mean - truth[60:]) < 2 * np.hypot(spread, 0.01)
    assert inside.mean() > 0.8


def test_without_rows_the_prior_is_what_is_predicted():
    """Nothing told: the prior's mean, and its whole spread."""
    space = ToySpace(sites=3, rewrites=0)
    columns = Columns(space.choices, ())
    size = len(columns.places) + len(columns.kinds)
    weights = np.arange(size, dtype=float)
    weights[len(columns.places) :] = 0.0
    made = Process(columns, Prior(weights, np.ones(size)), [], [], floor=0.1)
    row = (1,) + (0,) * (len(space.choices) - 1)
    mean, spread = made.predict([row])
    assert mean[0] == pytest.approx(columns.of([row])[0] @ weights)
    assert spread[0] >= 1.0


def test_drawn_weights_spread_as_the_posterior_does():
    """The mean of many draws is the mean, and their spread is what is not known."""
    space = ToySpace(sites=3, rewrites=0)
    columns = Columns(space.choices, ())
    size = len(columns.places) + len(columns.kinds)
    rows = _drawn(space, 20)
    prior = Prior(np.zeros(size), np.full(size, 0.2))
    made = Process(columns, prior, rows, [float(sum(row)) / 10 for row in rows], floor=0.05)
    generator = np.random.default_rng(0)
    drawn = np.array([made.weights(generator) for _ in range(400)])
    design = columns.of(rows[:5])
    mean, spread = made.predict(rows[:5])
    assert (drawn @ design.T).mean(axis=0) == pytest.approx(mean, abs=0.05)
    assert (drawn @ design.T).std(axis=0) == pytest.approx(spread, rel=0.4, abs=0.02)


def test_forecasts_rank_what_is_measured_afterwards():
    """Of recipes that were not told, latency and accuracy are ranked far better than by chance."""
    space = ToySpace(sites=10, rewrites=2, seed=4)
    rows = _drawn(space, 90)
    archive = _told(space, rows[:50])
    surrogate = Surrogate(space, BOUNDED, ToyEstimator(space), archive)
    surrogate.refit()
    forecast = surrogate.predict(rows[50:])
    true = [space.true_values(space.decode(row)) for row in rows[50:]]
    latency = np.corrcoef(forecast.means[:, 0], [one["latency"] for one in true])[0, 1]
    drop = np.corrcoef(forecast.means[:, 2], [-np.log(one["accuracy"]) for one in true])[0, 1]
    assert latency > 0.8
    assert drop > 0.6


def test_what_fails_is_avoided():
    """Rows near to failures are believed to work less often than rows near to none."""
    space = ToySpace(sites=6, rewrites=0)
    archive = _told(space, _drawn(space, 10), failing=1.0)
    surrogate = Surrogate(space, BOUNDED, None, archive)
    surrogate.refit()
    failed = next(row for row, trial in archive.told.items() if trial.measurement is None)
    assert surrogate.predict([failed]).works[0] < 0.7
    none = (0,) * len(space.choices)
    assert surrogate.predict([none]).works[0] > surrogate.predict([failed]).works[0]


def test_the_one_that_gains_most_is_picked_and_its_double_is_not():
    """A batch does not hold one idea twice, and what surely misses a bound gains nothing."""
    means = np.array([[-0.5, -0.5, 0.0], [-0.5, -0.5, 0.0], [-0.2, -0.6, 0.0], [-0.9, -0.9, 9.0]])
    forecast = Forecast(means=means, spreads=np.full((4, 3), 1e-3), works=np.ones(4))
    front = np.array([[0.0, 0.0, 0.0]])
    limits = np.array([np.inf, np.inf, 0.01])
    generator = np.random.default_rng(0)
    draws = generator.standard_normal((12, 1, 3))
    selector = Selector(front, limits, forecast, generator, [2], deviations=draws)
    gains = selector.gains()
    assert gains[0] == pytest.approx(gains[1])
    assert gains[3] < 1e-3 < gains[2] < gains[0]
    assert selector.pick(2, ["a"] * 4, {"a": 4}) == [0, 2]


def test_a_source_gives_no_more_than_its_quota():
    """Even where its rows gain most."""
    means = np.array([[-0.5, -0.1], [-0.4, -0.2], [-0.1, -0.1]])
    forecast = Forecast(means=means, spreads=np.full((3, 2), 1e-3), works=np.ones(3))
    generator = np.random.default_rng(0)
    draws = generator.standard_normal((12, 1, 2))
    front, limits = np.zeros((1, 2)), np.full(2, np.inf)
    selector = Selector(front, limits, forecast, generator, deviations=draws)
    best = int(np.argmax(selector.gains()[:2]))
    assert selector.pick(3, ["a", "a", "b"], {"a": 1, "b": 1}) == [best, 2]


def test_two_numbers_make_damages_of_drops():
    """A square root between damage and drop is found, and its factor with it."""
    space = ToySpace(sites=8, rewrites=0, seed=2)
    archive = _told(space, _drawn(space, 30))
    table = EstimatedTable(space, ToyEstimator(space)).now(raw=True)
    made = calibrated(table, archive, BOUNDED)
    measured = archive.costs(BOUNDED[2])
    start = measured[(0,) * len(space.choices)]
    small = [row for row, cost in measured.items() if 0.002 < cost - start < 0.08]
    said = np.array([made.damage_of(row) for row in small])
    true = np.array([measured[row] - start for row in small])
    assert len(small) >= 3
    assert np.abs(said - true).mean() < 0.04


class Hurried(ToyEstimator):
    """Has no time at all for decoding alternatives."""

    patience_s = 0.0


def test_without_patience_alternatives_change_nothing():
    """What was not decoded in time costs and gains nothing; with time the table is whole."""
    space = ToySpace(sites=8, rewrites=2, seed=2)
    whole = EstimatedTable(space, ToyEstimator(space)).now(raw=True)
    table = EstimatedTable(space, Hurried(space)).now(raw=True)
    assert whole.edges
    assert not table.edges
    for choice, known, row in zip(space.choices, whole.cost, table.cost, strict=True):
        assert len(row) == len(choice)
        if choice.family == "rewrite":
            assert row == known
        else:
            assert row == pytest.approx([row[0]] * len(row), abs=1e-5)


def test_accords_compare_what_was_said_with_what_came():
    """Only rows that were forecast count, and the first forecast of each."""
    watch = Foretold(["latency", "accuracy"])
    for n in range(10):
        watch.say((n,), np.array([float(n), 0.0]), np.array([1.0, 1.0]))
        watch.say((n,), np.array([-9.0, 0.0]), np.array([1.0, 1.0]))
        watch.meet((n,), np.array([n + 0.5, 3.0 * (n % 2)]))
    watch.meet((77,), np.array([0.0, 0.0]))
    latency, accuracy = watch.accords()
    assert (latency.count, latency.rank_correlation) == (10, pytest.approx(1.0))
    assert latency.within == 1.0
    assert accuracy.rank_correlation is None
    assert accuracy.within == pytest.approx(0.5)
    assert watch.widening()[1] > 1.5 > 1.0 > watch.widening()[0]
    said = sentences({"portfolio": watch.accords(), "static": ()})
    assert len(said) == 1
    assert "10 candidates" in said[0]
    assert "latency 1.00" in said[0]


def _guided(name: str):
    def make(space: Space, *, seed: int, objectives: tuple[Objective, ...], estimator=None):
        families = [choice.family for choice in space.choices]
        own = ToySpace(families.count("prune"), families.count("rewrite"))
        return STRATEGIES.load(name)(
            space, seed=seed, objectives=objectives, estimator=ToyEstimator(own)
        )

    return make


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_the_portfolio_keeps_the_exam_with_estimates(part):
    """With an estimator at hand it is the same strategy."""
    part(_guided("portfolio"))


@pytest.mark.parametrize("name", ["planner", "portfolio"])
def test_a_bound_is_found_sooner_than_by_drawing(name: str):
    """Thirty trials reach a lower latency within the bound than thirty random ones."""
    assert np.mean([_best(name, seed) for seed in range(2)]) < np.mean(
        [_best("random", seed) for seed in range(2)]
    )


def _best(name: str, seed: int) -> float:
    space = ToySpace(sites=8, rewrites=2, seed=seed)
    device = ToyDevice(space, seed=seed, failing=0.0)
    factory = STRATEGIES.load(name)
    strategy = factory(space, seed=seed, objectives=BOUNDED, estimator=ToyEstimator(space))
    trials = device.measure([space.standard()[0][1]])
    strategy.tell(trials)
    for batch in strategy_exam.drive(strategy, device, [6] * 5):
        trials += device.measure(batch)
    kept = [t for t in trials if BOUNDED[2].feasible(t)]
    start = space.true_values(space.empty())["latency"]
    return min(space.true_values(t.candidate.recipe)["latency"] for t in kept) / start


def test_a_policy_is_one_more_source():
    """What it proposes is predicted, and measured where that should gain."""
    space = ToySpace(sites=5, rewrites=0)
    asked: list[int] = []

    def policy(view, count):
        asked.append(count)
        return [coding.draw(view.choices, view.generator) for _ in range(count)]

    strategy = portfolio.make(space, seed=0, objectives=BOUNDED, policies={"policy": policy})
    strategy_exam.drive(strategy, ToyDevice(space), [5] * 4)
    assert asked


def test_a_source_that_gains_gets_a_larger_share():
    """Realised gains move the quotas, and nobody is left out for ever."""
    space = ToySpace(sites=5, rewrites=0)
    strategy = portfolio.make(space, seed=0, objectives=BOUNDED)
    strategy_exam.drive(strategy, ToyDevice(space, failing=0.0), [5] * 2)
    for step in range(1, 20):
        strategy._credit("random", np.array([-1 - 0.1 * step, -1 - 0.1 * step, 0.0]))
        strategy._credit("planner", np.zeros(3))
    shares = strategy._quotas(100)
    assert shares["random"] > 2 * shares["planner"]
    assert min(shares.values()) >= 1


def test_objectives_that_nothing_has_change_nothing():
    """An objective without any value (no power sensor) does not make everything infeasible."""
    space = ToySpace(sites=5, rewrites=0)
    asked = []
    for objectives in (BOUNDED, (*BOUNDED, Objective(metric="energy"))):
        strategy = portfolio.make(space, seed=0, objectives=objectives)
        asked.append(strategy_exam.drive(strategy, ToyDevice(space), [5] * 4))
    assert asked[0] == asked[1]
