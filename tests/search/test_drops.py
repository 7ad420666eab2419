"""What an accuracy loses: ruined plans say "at least so much", and damages of many cuts add up."""

import numpy as np
import pytest

from edgeopt.core.action import Action, Choice
from edgeopt.search.codes import mended
from edgeopt.search.drops import drop_process, expected
from edgeopt.search.process import Columns, Prior, Process, kind_of

WORST, ALLOWED = 0.05, 0.01


def _prune(name: str, alternatives: int = 1) -> Choice:
    some = tuple((Action.of("channels_l1", name, keep=k),) for k in range(alternatives))
    return Choice(
        name=f"prune:{name}",
        family="prune",
        labels=("off", *map(str, range(alternatives))),
        alternatives=((), *some),
    )


REPAIR = Choice(
    name="repair:least_squares",
    family="repair",
    labels=("off", "on"),
    alternatives=((), (Action.of("least_squares", "*"),)),
    mends=True,
)


def _process(choices, damage, rows, drops) -> Process:
    columns = Columns(choices, ())

    def fit(prior, values, doubt):
        entries = np.array([prior[i][k] for i, k in columns.places])
        least = np.array([doubt[i][k] for i, k in columns.places])
        kinds = np.zeros(len(columns.kinds))
        spreads = np.concatenate([0.5 * entries + least, kinds + 0.3 * entries.sum()])
        weights = np.concatenate([entries, kinds])
        return Process(columns, Prior(weights, spreads), rows, list(values), floor=0.002)

    values = np.minimum(np.array(drops), WORST)
    return drop_process(damage, rows, values, worst=WORST, fit=fit)


def _cuts(number: int, of: int = 20) -> tuple[int, ...]:
    return tuple(int(i < number) for i in range(of))


def test_plans_that_lose_everything_do_not_teach_that_half_of_them_is_harmless():
    """Rows beyond the worst that is told apart bend no forecast downwards."""
    choices = [_prune(str(i)) for i in range(20)]
    damage = tuple((0.0, 0.3) for _ in choices)
    rows = [_cuts(0), _cuts(20), _cuts(19), _cuts(17), _cuts(18)]
    made = _process(choices, damage, rows, [0.0, 0.6, 0.6, 0.5, 0.6])
    means, _ = made.predict([_cuts(5), _cuts(10), _cuts(20)])
    assert means[0] > 3 * ALLOWED
    assert means[2] > means[1] > means[0]


@pytest.mark.parametrize("cost", [0.0005, 0.004, 0.03])
def test_what_was_measured_below_the_worst_is_believed(cost: float):
    """A cut that costs more or less than its damage says is found to."""
    choices = [_prune(str(i)) for i in range(20)]
    damage = tuple((0.0, 0.05) for _ in choices)
    rows = [_cuts(n) for n in (0, 1, 2, 4, 6, 9, 12, 16, 20)]
    made = _process(choices, damage, rows, [cost * sum(row) for row in rows])
    said = float(made.predict([_cuts(3)])[0][0])
    assert said == pytest.approx(3 * cost, rel=0.4, abs=0.002)


def test_before_anything_is_measured_noise_as_loud_as_the_signal_is_ruin():
    """And a thousandth of it is not."""
    choices = [_prune(str(i)) for i in range(20)]
    loud = _process(choices, tuple((0.0, 0.3) for _ in choices), [_cuts(0)], [0.0])
    quiet = _process(choices, tuple((0.0, 1e-5) for _ in choices), [_cuts(0)], [0.0])
    assert loud.predict([_cuts(20)])[0][0] > 5 * ALLOWED
    assert quiet.predict([_cuts(20)])[0][0] < ALLOWED


def test_a_cut_that_goes_further_is_expected_to_do_no_less():
    """Damages are measured without repair, where luck decides between widths; repair helps all."""
    choices = [_prune("a", 3), REPAIR]
    alone = expected(choices[:1], ((0.0, 0.1, 0.07, 0.3),))[0]
    assert alone == pytest.approx((0.0, 0.1, 0.1, 0.3))
    repaired = expected(choices, ((0.0, 0.1, 0.07, 0.3), (0.0, 0.0)))
    assert all(r < a for r, a in zip(repaired[0][1:], alone[1:], strict=True))
    assert repaired[1] == (0.0, 0.0)


def test_what_repairs_pruning_goes_with_it_and_with_nothing_else():
    """Whatever a source proposed."""
    choices = [_prune("a", 2), REPAIR]
    assert mended(choices, (2, 0)) == (2, 1)
    assert mended(choices, (0, 1)) == (0, 0)
    assert mended(choices, (0, 0)) == (0, 0)


def test_what_alternatives_of_different_choices_have_in_common():
    """The method where it has a name, the place in the list where it is a width."""
    gate = Choice(name="g", family="prune", labels=("off", "static_gate"), alternatives=((), ()))
    made = [kind_of(_prune("a", 3), code) for code in (1, 2, 3)]
    assert made == [("prune", "1"), ("prune", "2"), ("prune", "3")]
    assert kind_of(gate, 1) == ("prune", "static_gate")
    schemes = ("off", "static_qdq,uint8,per_channel,int8", "dynamic_matmul,int8")
    some = Choice(name="q", family="quantize", labels=schemes, alternatives=((),) * 3)
    assert kind_of(some, 1) == ("quantize", "static_qdq")
    assert kind_of(some, 2) == ("quantize", "dynamic_matmul")
