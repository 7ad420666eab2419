"""Objectives: the only place that knows a maximum from a minimum."""

from dataclasses import replace

import pytest
from core_trials import failed, trial
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.core.measurement import Measurement, Value
from edgeopt.core.objective import DIRECTIONS, Objective
from edgeopt.core.samples import Samples


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_the_better_value_has_the_lower_cost(a: float, b: float):
    """For both directions."""
    for direction, better in (("min", a < b), ("max", a > b)):
        objective = Objective(metric="m", direction=direction)
        first, second = (objective.cost(trial(0, m=value)) for value in (a, b))
        assert first is not None
        assert second is not None
        assert (first < second) == better


@given(st.floats(-10, 10), st.floats(-10, 10))
def test_a_bound_is_the_worst_value_that_is_feasible(value: float, bound: float):
    """In the metric's unit, for both directions, the bound itself included."""
    least = Objective(metric="m", direction="max", bound=bound)
    most = Objective(metric="m", bound=bound)
    assert least.feasible(trial(0, m=value)) == (value >= bound)
    assert most.feasible(trial(0, m=value)) == (value <= bound)


@pytest.mark.parametrize("bound", [None, 1.0])
@pytest.mark.parametrize("one", [failed(0), trial(0, other=1.0), trial(0, m=float("nan"))])
def test_what_has_no_value_is_never_feasible(one, bound):
    """Failures, absent metrics and NaN."""
    objective = Objective(metric="m", bound=bound)
    assert objective.cost(one) is None
    assert not objective.feasible(one)


def test_a_quantile_is_read_from_the_samples():
    """p90 of the raw values, where there are any."""
    samples = Samples(unit="s", blocks=(tuple(float(i) for i in range(11)),))
    one = trial(0, m=5.0)
    assert isinstance(one.outcome, Measurement)
    value = Value(value=5.0, unit="s", samples=samples)
    one = replace(one, outcome=replace(one.outcome, values={"m": value}))
    assert Objective(metric="m", statistic="p90").cost(one) == pytest.approx(9.0)
    assert Objective(metric="m").cost(one) == 5.0


def test_every_known_metric_has_its_direction():
    """More accuracy, less of everything else."""
    assert {name for name, way in DIRECTIONS.items() if way == "max"} == {"accuracy", "agreement"}
