"""Which legal actions get a slot when there are too few."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.envs.slots import Groups, subset
from edgeopt.testing.toy_space import ToySpace

groups = st.lists(st.integers(0, 2), max_size=60)


@given(groups, st.integers(1, 40))
def test_subset_is_fair_and_fits(found, size):
    """As many as fit, ascending, and no group is short while another has two more."""
    given_groups = np.array(found, dtype=np.int64)
    kept = subset(given_groups, size).tolist()
    assert len(kept) == min(size, len(found))
    assert list(kept) == sorted(set(kept))
    have, shown = Counter(found), Counter(found[i] for i in kept)
    short = [shown[group] for group in have if shown[group] < have[group]]
    assert not short or max(shown.values()) - min(short) <= 1
    assert not len(subset(given_groups, 0))


def test_both_ends_of_the_network_keep_a_slot():
    """Places of one family are spread over its whole depth."""
    assert subset(np.zeros(100, dtype=np.int64), 5).tolist() == [0, 25, 50, 74, 99]


def test_a_group_is_the_family_else_the_transform():
    """Whichever object says an action; what no choice offers goes by its transform."""
    space = ToySpace(sites=2)
    legal = space.legal(space.empty())
    found = Groups(space.choices)
    numbers = found.of(legal)
    families = {a.bare(): c.family for c in space.choices for k in c.alternatives for a in k}
    for i, one in enumerate(legal):
        for j, other in enumerate(legal):
            assert (numbers[i] == numbers[j]) == (families[one] == families[other])
    again = found.of([action.with_artifacts(ranges="sha256:1") for action in legal])
    assert (again == numbers).all()
