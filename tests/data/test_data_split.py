"""Parts by content: disjoint, independent of order, groups and duplicates together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.data import DataSet, Part
from edgeopt.data.accuracy_metric import load_metric
from edgeopt.data.evaluate import Scored
from edgeopt.data.options import DataOptions
from edgeopt.data.source import Source
from edgeopt.data.split import cross_fit, split
from edgeopt.errors import DataError


def _source(values: list[int], group: list[int] | None = None) -> Source:
    arrays = [np.array([value]) for value in values]

    def feed(index: int) -> dict[str, np.ndarray]:
        return {"x": arrays[index]}

    return Source(
        count=len(values),
        stored=feed,
        feed=feed,
        target=np.array(values),
        group=None if group is None else np.array(group),
    )


def _parts(found: DataSet) -> dict[str, list[int]]:
    def values(part: Part) -> list[int]:
        return [int(feed["x"][0]) for feed in part.feeds]

    return {p.name: values(p) for p in (found.calibration, found.search, found.test)}


@given(st.permutations(list(range(40))), st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_the_order_in_the_file_does_not_matter(order: list[int], seed: int) -> None:
    """Shuffled samples land in the same parts, in the same order."""
    options = DataOptions(seed=seed)
    expected = _parts(split(_source(list(range(40))), options, where="d"))
    assert _parts(split(_source(order), options, where="d")) == expected


@given(st.lists(st.integers(0, 30), min_size=12, max_size=80))
@settings(max_examples=50, deadline=None)
def test_duplicates_fall_into_one_part_and_nothing_is_lost(values: list[int]) -> None:
    """Parts are disjoint in content and hold every sample once."""
    if len(set(values)) < 3:
        return
    parts = _parts(split(_source(values), DataOptions(), where="d"))
    assert sum(len(set(found)) for found in parts.values()) == len(set(values))
    assert sorted(value for found in parts.values() for value in found) == sorted(values)


@given(st.lists(st.integers(0, 6), min_size=12, max_size=60))
@settings(max_examples=50, deadline=None)
def test_groups_are_never_split(group: list[int]) -> None:
    """A group is in one part, contiguous, in the file's order."""
    if len(set(group)) < 3:
        return
    found = split(_source(list(range(len(group))), group), DataOptions(), where="d")
    parts = (found.calibration, found.search, found.test)
    assert sum(len(set(part.group.tolist())) for part in parts) == len(set(group))
    for part in parts:
        changes = int(np.sum(part.group[1:] != part.group[:-1]))
        assert changes == len(set(part.group.tolist())) - 1
        for number in set(part.group.tolist()):
            inside = [int(part.feeds[i]["x"][0]) for i in np.flatnonzero(part.group == number)]
            assert inside == sorted(inside)


def test_fractions_and_the_limit_of_calibration() -> None:
    """A fifth for calibration but 1,024 at most, the rest in halves; fractions as given."""
    found = split(_source(list(range(6000))), DataOptions(), where="d")
    assert [len(found.calibration), len(found.search), len(found.test)] == [1024, 2488, 2488]
    source = _source(list(range(3000)))
    found = split(source, DataOptions(), where="d")
    assert [len(found.calibration), len(found.search), len(found.test)] == [600, 1200, 1200]
    options = DataOptions(split={"calibration": 0.5, "search": 0.3, "test": 0.2})
    found = split(source, options, where="d")
    assert [len(found.calibration), len(found.search), len(found.test)] == [1500, 900, 600]
    found = split(source, DataOptions(split={"calibration": 0.0}), where="d")
    assert [len(found.calibration), len(found.search)] == [0, 1500]


def test_a_limit_takes_whole_groups() -> None:
    """The limit is kept by leaving out groups, never by cutting one."""
    group = [i // 10 for i in range(100)]
    found = split(_source(list(range(100)), group), DataOptions(limit=35), where="d")
    sizes = [len(found.calibration), len(found.search), len(found.test)]
    assert sum(sizes) == 40
    assert all(size % 10 == 0 for size in sizes)


def test_the_digest_covers_content_labels_and_split() -> None:
    """It changes with any of them, and only with them."""
    base = split(_source(list(range(20))), DataOptions(), where="d").digest
    assert split(_source(list(range(20))[::-1]), DataOptions(), where="d").digest == base
    assert split(_source([*range(19), 99]), DataOptions(), where="d").digest != base
    assert split(_source(list(range(20))), DataOptions(seed=1), where="d").digest != base
    other = _source(list(range(20)))
    relabelled = Source(
        count=20, stored=other.stored, feed=other.feed, target=np.arange(20)[::-1].copy()
    )
    assert split(relabelled, DataOptions(), where="d").digest != base


@pytest.mark.parametrize(
    "fractions",
    [{"train": 0.5}, {"search": 0.0}, {"search": 1.5}, {"calibration": 0.9, "search": 0.9}],
)
def test_invalid_fractions_are_refused(fractions: dict[str, float]) -> None:
    """Unknown names, empty parts, and sums other than 1."""
    with pytest.raises(DataError):
        split(_source(list(range(20))), DataOptions(split=fractions), where="d")


def test_too_few_groups_are_refused() -> None:
    """Two groups cannot make three parts."""
    with pytest.raises(DataError, match="too few"):
        split(_source(list(range(20)), [0, 1] * 10), DataOptions(), where="d")


def test_scarce_and_repeated_samples_are_said() -> None:
    """Notes say what a reader of results must know."""
    notes = split(_source([1, 1, *range(2, 40)]), DataOptions(), where="d").notes
    assert any("cross-fit" in note for note in notes)
    assert any("1 of 40 samples repeat" in note for note in notes)
    assert not split(_source(list(range(300))), DataOptions(), where="d").notes


def test_cross_fit_judges_each_choice_on_the_other_fold() -> None:
    """Two candidates that are each lucky on one fold are worth what the other fold says."""
    metric = load_metric("top1")

    def scored(right: float) -> Scored:
        evidence = np.array([[right, 1, 0, 0, 0, 1]] * 10, dtype=float)
        return Scored(evidence=evidence, groups=np.arange(10), value=right, right=evidence[:, 0])

    lucky = [(scored(1.0), scored(0.5)), (scored(0.5), scored(1.0))]
    assert cross_fit(lucky, metric, lambda values: int(np.argmax(values))) == 0.5
