"""What each metric computes, against values worked out by hand or by definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.data.accuracy_metric import load_metric
from edgeopt.data.outputs import class_axis
from edgeopt.data.texts import decode, edit_distance
from edgeopt.errors import DataError, UsageError


def _value(name: str, options: dict, *pairs: tuple) -> float:
    metric = load_metric(name, options)
    rows = [metric.evidence({"y": np.asarray(y)}, np.asarray(t), None) for y, t in pairs]
    return metric.value(np.concatenate(rows))


@pytest.mark.parametrize(
    ("shape", "target", "axis"),
    [
        ((1, 10), (), 1),
        ((10,), (), 0),
        ((1, 4, 6, 7), (6, 7), 1),
        ((1, 6, 7, 4), (6, 7), 3),
        ((1, 12, 5), (12,), 2),
        ((1, 10), (1,), 1),
        ((1, 10), (10,), None),
    ],
)
def test_the_class_axis_follows_from_the_label(
    shape: tuple, target: tuple, axis: int | None
) -> None:
    """Classes first, classes last, sequences; none where nothing fits."""
    assert class_axis(shape, target) == axis


def test_top1_ignores_reads_names_and_takes_thresholds() -> None:
    """Options that change what is right."""
    logits = np.array([[[0.0, 2.0, 1.0], [5.0, 0.0, 0.0]]], np.float32)
    assert _value("top1", {"ignore": 9}, (logits, [1, 9])) == 1.0
    assert _value("top1", {"classes": ["ant", "bee", "cat"]}, (logits[:, 0], "bee")) == 1.0
    assert _value("top1", {"threshold": 0.5}, ([[0.7]], 1), ([[0.2]], 1)) == 0.5
    assert _value("top1", {"output": "y", "axis": -1}, (logits[:, 0], 1)) == 1.0


def test_f1_is_the_mean_over_classes() -> None:
    """Labels 0 0 0 1, said 0 0 1 1: F1 of 0 is 4/5, of 1 is 2/3."""
    pairs = [(np.int64(p), t) for p, t in ((0, 0), (0, 0), (1, 0), (1, 1))]
    assert _value("f1", {}, *pairs) == pytest.approx((4 / 5 + 2 / 3) / 2)


def _auc_by_definition(scores: list[float], labels: list[int]) -> float:
    pairs = [
        (p > n) + 0.5 * (p == n)
        for p, a in zip(scores, labels, strict=True)
        for n, b in zip(scores, labels, strict=True)
        if a and not b
    ]
    return float(np.mean(pairs))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), min_size=2, max_size=30))
def test_auc_is_the_share_of_ordered_pairs(rows: list[tuple[int, int]]) -> None:
    """Ties count half."""
    scores, labels = [float(s) for s, _ in rows], [label for _, label in rows]
    if len(set(labels)) < 2:
        return
    found = _value("auc", {}, (np.array(scores), labels))
    assert found == pytest.approx(_auc_by_definition(scores, labels))


def test_auc_takes_the_second_of_two_columns() -> None:
    """Or the one that is named."""
    two = [([[0.9, 0.1]], 0), ([[0.2, 0.8]], 1)]
    assert _value("auc", {}, *two) == 1.0
    assert _value("auc", {"column": 0}, *two) == 0.0


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_the_edit_distance_is_a_distance(left: str, right: str) -> None:
    """Symmetric, zero only for equals, within its bounds."""
    found = edit_distance(left, right)
    assert found == edit_distance(right, left)
    assert (found == 0) == (left == right)
    assert abs(len(left) - len(right)) <= found <= max(len(left), len(right))


def test_known_edit_distances() -> None:
    """The textbook's."""
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "abc") == 3


@pytest.mark.parametrize(
    ("charset", "blank", "steps", "text"),
    [
        (["a", "b"], 0, [1, 1, 0, 1, 2], "aab"),
        (["", "a", "b"], 0, [1, 1, 0, 1, 2], "aab"),
        (["a", "b"], -1, [0, 0, 2, 0, 1], "aab"),
        (["a", "b"], 2, [0, 0, 2, 0, 1], "aab"),
    ],
)
def test_ctc_is_decoded_greedily(charset: list, blank: int, steps: list, text: str) -> None:
    """Repeats collapse, blanks vanish, wherever the blank stands."""
    output = np.eye(3, dtype=np.float32)[steps]
    assert decode(output[None], charset, blank=blank) == text
    assert decode(output[:, None], charset, blank=blank) == text


def test_error_rates_count_units_and_whole_texts() -> None:
    """Characters, words, exact lines, and case."""
    pairs = [(["the cat sat"], "the cat sat"), (["a Dog"], "a dog")]
    assert _value("cer", {}, *pairs) == pytest.approx(1 - 1 / 16)
    assert _value("wer", {}, *pairs) == pytest.approx(1 - 1 / 5)
    assert _value("cer", {"exact": True}, *pairs) == 0.5
    assert _value("cer", {"exact": True, "ignore_case": True}, *pairs) == 1.0


def test_cosine_compares_with_labels_where_asked() -> None:
    """An embedding against the label's."""
    metric = load_metric("cosine", {"target": True})
    assert (metric.needs_target, metric.needs_reference) == (True, False)
    found = metric.evidence({"y": np.array([[1.0, 0.0]])}, np.array([1.0, 1.0]), None)
    assert metric.value(found) == pytest.approx(np.sqrt(0.5))


def test_agreement_looks_at_decisions() -> None:
    """The same class, the same side of the threshold, the same integers."""
    metric = load_metric("agreement")

    def share(mine: list, theirs: list) -> float:
        rows = metric.evidence({"y": np.array(mine)}, None, {"y": np.array(theirs)})
        return metric.value(rows)

    assert share([[1.0, 2.0]], [[5.0, 9.0]]) == 1.0
    assert share([[0.9], [0.4]], [[0.6], [0.6]]) == 0.5
    assert share([[1, 2, 3]], [[1, 2, 4]]) == pytest.approx(2 / 3)


def test_unknown_metrics_and_options_are_refused() -> None:
    """With the nearest name; an option of another metric is left alone."""
    with pytest.raises(UsageError, match="top2"):
        load_metric("top2")
    with pytest.raises(DataError, match="axes") as caught:
        load_metric("top1", {"axes": 1})
    assert "did you mean 'axis'" in caught.value.hint
    assert load_metric("top1", {"charset": "ab"}).needs_target


USER = """
import numpy as np

class Share:
    needs_target, needs_reference = False, False

    def __init__(self, least, output="y"):
        self.least, self.output = least, output

    def evidence(self, outputs, target, reference):
        return np.array([[float(outputs[self.output].max() > self.least), 1.0]])

    def value(self, evidence):
        return float(evidence[:, 0].mean())

def crashes(outputs, target):
    return outputs["y"] / 0

number = 3
"""


def test_a_users_metric_is_guarded(tmp_path) -> None:
    """A class gets its options; what goes wrong in it is a message, not a trace."""
    path = tmp_path / "mine.py"
    path.write_text(USER)
    metric = load_metric(f"python:{path}:Share", {"least": 2, "output": "z", "charset": "ab"})
    rows = metric.evidence({"z": np.array([3.0])}, None, None)
    assert metric.value(rows) == 1.0
    assert metric.chance(rows) is None
    with pytest.raises(DataError, match="KeyError"):
        metric.evidence({"y": np.array([3.0])}, None, None)
    for name, options in (
        ("Share", {}),
        ("nothing", {}),
        ("number", {}),
        ("crashes", {"least": 1}),
    ):
        with pytest.raises(DataError):
            load_metric(f"python:{path}:{name}", options)
    with pytest.raises(DataError, match="no such file"):
        load_metric(f"python:{tmp_path}/absent.py:Share")
    with pytest.raises(DataError, match="ModuleNotFoundError"):
        load_metric("python:no_such_package_at_all.metric")
