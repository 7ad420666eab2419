"""Which legal actions get a slot when there are too few."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from edgeopt.envs.slots import subset

groups = st.lists(st.sampled_from(["rewrite", "prune", "quantize"]), max_size=60)


@given(groups, st.integers(1, 40))
def test_subset_is_fair_and_fits(found, size):
    """As many as fit, ascending, and no group is short while another has two more."""
    kept = subset(found, size)
    assert len(kept) == min(size, len(found))
    assert list(kept) == sorted(set(kept))
    have, shown = Counter(found), Counter(found[i] for i in kept)
    short = [shown[group] for group in have if shown[group] < have[group]]
    assert not short or max(shown.values()) - min(short) <= 1
    assert subset(found, 0) == ()


def test_both_ends_of_the_network_keep_a_slot():
    """Places of one family are spread over its whole depth."""
    assert subset(["quantize"] * 100, 5) == (0, 25, 50, 74, 99)
