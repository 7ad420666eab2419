"""The ledger adds up."""

from dataclasses import replace

import pytest
from core_trials import failed, trial
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.core.ledger import Ledger
from edgeopt.core.measurement import Overhead

names = st.sampled_from(["static", "random", "nsga2"])
rows = st.lists(st.tuples(names, st.booleans()), max_size=20)


@given(rows, st.randoms(use_true_random=False))
def test_nothing_is_lost_and_order_does_not_matter(found, random):
    """Every trial is in exactly one account, with its seconds and its failure."""
    trials = [
        failed(i, name) if bad else trial(i, strategy=name) for i, (name, bad) in enumerate(found)
    ]
    trials = [
        replace(each, overhead=Overhead(builds=i % 3, build_s=float(i % 3), upload_s=0.5))
        for i, each in enumerate(trials)
    ]
    accounts = Ledger.over(trials).accounts
    assert sum(a.trials for a in accounts) == len(trials)
    assert sum(a.failures for a in accounts) == sum(bad for _, bad in found)
    assert sum(a.device_s for a in accounts) == pytest.approx(sum(t.device_s for t in trials))
    assert sum((a.overhead for a in accounts), Overhead()) == Overhead(
        builds=sum(t.overhead.builds for t in trials),
        build_s=sum(t.overhead.build_s for t in trials),
        upload_s=sum(t.overhead.upload_s for t in trials),
    )
    assert sum(a.host_s for a in accounts) == pytest.approx(sum(t.host_s for t in trials))
    assert [a.strategy for a in accounts] == sorted({name for name, _ in found})
    random.shuffle(trials)
    again = Ledger.over(trials).accounts
    assert [(a.strategy, a.trials, a.failures) for a in again] == [
        (a.strategy, a.trials, a.failures) for a in accounts
    ]
