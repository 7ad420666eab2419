"""Pass and fail are shown by intervals; what is not known is never a pass."""

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.samples import Interval
from edgeopt.gate.budget import METRICS, Budget, Waiver
from edgeopt.gate.evidence import Absent, Evidence
from edgeopt.gate.verdict import exit_code, judge

TODAY = datetime.date(2027, 1, 31)
LATENCY, SIZE, ACCURACY = METRICS["latency.p50"], METRICS["size"], METRICS["accuracy"]


def _budget(metric=LATENCY, **more):
    return Budget(id="b", metric=metric, device="board", **more)


def _between(low, high, **more):
    middle = (low + high) / 2
    interval = Interval(value=middle, low=low, high=high)
    return Evidence(value=middle, origin="measured", interval=interval, **more)


def _changed(low, high):
    change = Interval(value=(low + high) / 2, low=low, high=high)
    return Evidence(value=1.0, origin="measured", base=1.0, change=change)


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (0.8, 1.0, "pass"),
        (1.1, 1.2, "fail"),
        (1.01, 1.2, "inconclusive"),
        (0.9, 1.1, "inconclusive"),
        (1.0, 1.0, "pass"),
        (1.01, 1.01, "fail"),
    ],
)
def test_a_limit(low, high, status):
    """Kept where the whole interval is, missed where it lies beyond, else undecided."""
    assert judge(_budget(limit=1.0), _between(low, high), today=TODAY).status == status


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [(0.9, 1.04, "pass"), (1.07, 1.1, "fail"), (1.06, 1.1, "inconclusive")],
)
def test_a_change(low, high, status):
    """Of value over base, with the tolerance on top."""
    budget = _budget(change=0.03, tolerance=0.02)
    assert judge(budget, _changed(low, high), today=TODAY).status == status


def test_more_is_better_for_accuracy():
    """A least value, and a drop in points."""
    least = _budget(ACCURACY, limit=0.9)
    assert judge(least, _between(0.91, 0.93), today=TODAY).status == "pass"
    assert judge(least, _between(0.85, 0.89), today=TODAY).status == "fail"
    drop = _budget(ACCURACY, change=0.01)
    found = Evidence(
        value=0.9, origin="scored", base=0.93, change=Interval(value=-0.03, low=-0.04, high=-0.02)
    )
    assert judge(drop, found, today=TODAY).status == "fail"


def test_the_worse_of_limit_and_change_counts():
    """Small enough, and yet grown too much."""
    found = Evidence(value=50.0, origin="exact", base=40.0)
    assert judge(_budget(SIZE, limit=60.0, change=0.1), found, today=TODAY).status == "fail"
    assert judge(_budget(SIZE, limit=60.0, change=0.3), found, today=TODAY).status == "pass"


def test_a_change_without_a_base_is_no_pass():
    """Alone or beside a limit that is kept."""
    alone = judge(_budget(SIZE, change=0.1), Evidence(value=1.0, origin="exact"), today=TODAY)
    assert alone.status == "missing"
    both = _budget(SIZE, limit=60.0, change=0.1)
    assert judge(both, Evidence(value=1.0, origin="exact"), today=TODAY).status == "missing"


def test_the_same_file_has_not_changed():
    """Whatever a device says: a change of the documentation needs no device."""
    found = Evidence(value=1.0, origin="exact", same=True)
    assert judge(_budget(change=0.0), found, today=TODAY).status == "pass"


@pytest.mark.parametrize(
    ("until", "ceiling", "value", "status"),
    [
        (TODAY, 120.0, 110.0, "waived"),
        (TODAY - datetime.timedelta(days=1), 120.0, 110.0, "fail"),
        (TODAY, 105.0, 110.0, "fail"),
        (TODAY, None, 1e9, "waived"),
        (TODAY, 120.0, 90.0, "pass"),
    ],
)
def test_waivers(until, ceiling, value, status):
    """Until their last day, up to their ceiling; what is kept needs none."""
    waiver = Waiver(budget="b", ceiling=ceiling, until=until, reason="new head", line=9)
    found = judge(
        _budget(SIZE, limit=100.0), Evidence(value=value, origin="exact"), waiver, today=TODAY
    )
    assert found.status == status
    if status == "fail":
        assert "line 9" in found.message


def test_a_waiver_accepts_no_missing_evidence():
    """It is about a value that is known."""
    waiver = Waiver(budget="b", ceiling=None, until=TODAY, reason="later")
    found = judge(_budget(limit=1.0), Absent(reason="none"), waiver, today=TODAY)
    assert found.status == "missing"


def _findings(*statuses, level="error"):
    found = {
        "pass": _between(0.5, 0.6),
        "fail": _between(2.0, 3.0),
        "inconclusive": _between(0.5, 2.0),
        "missing": Absent(reason="none"),
        "device": Absent(reason="away", kind="device"),
        "incompatible": Absent(reason="another board", kind="incompatible"),
    }
    budget = _budget(limit=1.0, level=level)
    return [judge(budget, found[status], today=TODAY) for status in statuses]


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ((), 5),
        (("pass",), 0),
        (("pass", "fail", "device"), 1),
        (("pass", "device", "missing"), 3),
        (("pass", "missing"), 4),
        (("pass", "inconclusive"), 4),
        (("pass", "incompatible"), 4),
    ],
)
def test_exit_codes(statuses, code):
    """Missed, trouble, undecided, nothing: each its own."""
    assert exit_code(_findings(*statuses)) == code


def test_undecided_may_pass_and_nothing_may_not():
    """`--inconclusive pass` is about noise, not about evidence that is not there."""
    assert exit_code(_findings("pass", "inconclusive"), undecided="pass") == 0
    assert exit_code(_findings("pass", "missing"), undecided="pass") == 4
    assert exit_code(_findings("missing"), undecided="report") == 4


def test_warnings_turn_nothing_red():
    """But warnings alone, all without evidence, are no pass either."""
    assert exit_code(_findings("fail", level="warn")) == 0
    assert exit_code(_findings("missing", level="warn")) == 4


@given(
    low=st.floats(0.1, 10), width=st.floats(0, 5), limit=st.floats(0.1, 10), more=st.floats(0, 2)
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_higher_limit_is_never_worse(low, width, limit, more):
    """And no interval is both kept and missed."""
    order = ["fail", "inconclusive", "pass"]
    found = _between(low, low + width)
    here = judge(_budget(limit=limit), found, today=TODAY).status
    there = judge(_budget(limit=limit + more), found, today=TODAY).status
    assert order.index(there) >= order.index(here)


def test_a_tolerance_under_the_noise_is_called_out():
    """With the number to use."""
    change = Interval(value=1.0, low=0.99, high=1.01)
    found = Evidence(value=1.0, origin="measured", base=1.0, change=change, floor=0.08)
    notes = judge(_budget(change=0.02), found, today=TODAY).notes
    assert any("8.0%" in note for note in notes)


def test_nothing_before_and_nothing_now_is_no_change():
    """A count of zero beside zero; one beside zero has grown without bound."""
    budget = _budget(METRICS["unsupported_ops"], change=0.0)
    same = Evidence(value=0.0, origin="exact", base=0.0)
    assert judge(budget, same, today=TODAY).status == "pass"
    grown = Evidence(value=1.0, origin="exact", base=0.0)
    assert judge(budget, grown, today=TODAY).status == "fail"


def test_what_is_no_number_is_no_evidence():
    """Neither kept nor merely noisy."""
    found = Evidence(value=float("nan"), origin="scored")
    assert judge(_budget(ACCURACY, limit=0.9), found, today=TODAY).status == "missing"


def test_another_kind_of_device_is_not_noise():
    """What may pass when noise may is undecided, nothing else."""
    assert exit_code(_findings("pass", "incompatible"), undecided="pass") == 4
    assert exit_code(_findings("inconclusive"), undecided="pass") == 0


def test_sizes_that_differ_in_the_fourth_digit():
    """Are told in full: nobody is told that 164 kB is more than 164 kB."""
    found = judge(
        _budget(SIZE, limit=163_900.0), Evidence(value=163_926.0, origin="exact"), today=TODAY
    )
    assert found.message == "163,926 B, allowed at most 163,900 B"


def test_a_device_that_is_away_stays_trouble():
    """The lock may only make it worse."""
    kept = Absent(reason="away", kind="device", instead=_between(0.5, 0.6))
    assert judge(_budget(limit=1.0), kept, today=TODAY).status == "device"
    missed = Absent(reason="away", kind="device", instead=_between(2.0, 2.1))
    found = judge(_budget(limit=1.0), missed, today=TODAY)
    assert (found.status, found.notes) == ("fail", ("away",))


@given(shares=st.lists(st.floats(-0.05, 0.05), min_size=2, max_size=8), limit=st.floats(0.9, 1.1))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_miss_takes_more_than_a_pass(shares, limit):
    """What fails lies beyond the limit with its whole 95 % interval, and then some."""
    low, high = 1 + min(shares), 1 + max(shares)
    status = judge(_budget(limit=limit), _between(low, high), today=TODAY).status
    if status == "fail":
        assert low > limit
    if high <= limit:
        assert status == "pass"
