"""Reduced outputs: what a metric asks for, and that what is restored decides as the whole did."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgeopt.data.accuracy_metric import load_metric
from edgeopt.data.difference import difference
from edgeopt.data.reduction import common, decided, is_decision, reduction, restored

FLOATS = st.floats(-100, 100, width=32) | st.just(float("nan"))
OUTPUTS = hnp.arrays(
    np.float32, hnp.array_shapes(min_dims=1, max_dims=3, max_side=4), elements=FLOATS
)


@given(output=OUTPUTS, data=st.data())
def test_restored_decisions_are_the_same(output: Any, data: st.DataObject) -> None:
    """Along every axis and at every threshold, NaN included."""
    axis = data.draw(st.integers(-output.ndim, output.ndim - 1))
    what = data.draw(st.sampled_from([f"argmax:{axis}", "above:0.5", "above:-3.25"]))
    sent = decided(output, what)
    assert sent is not None
    found = restored(sent.astype(np.int16), what, output.shape)
    assert found.shape == output.shape
    again = decided(found, what)
    assert again is not None
    assert np.array_equal(again, sent)


@pytest.mark.parametrize(
    ("metric", "options", "said"),
    [
        ("top1", {}, "argmax:1"),
        ("f1", {}, "argmax:1"),
        ("top1", {"threshold": 0.5}, "above:0.5"),
        ("agreement", {}, "argmax:-1"),
        ("cer", {"charset": "abc"}, "argmax:-1"),
        ("auc", {}, "full"),
        ("cosine", {}, "full"),
    ],
)
def test_a_metric_says_what_it_reads(metric: str, options: dict[str, Any], said: str) -> None:
    """Of its own output; the other one is not sent."""
    outputs = {"y": np.zeros((1, 4), np.float32), "z": np.zeros((1, 9), np.float32)}
    target = np.asarray("a") if metric == "cer" else np.asarray(1)
    found = reduction(load_metric(metric, options), outputs, target)
    assert found == {"y": said, "z": "drop"}
    assert is_decision(said) == (said != "full")


def test_a_metric_that_does_not_say_gets_everything() -> None:
    """A user's own function sees whole outputs."""
    metric = load_metric("python:math.fsum")
    assert reduction(metric, {"y": np.zeros(3), "z": np.zeros(3)}, None) == {
        "y": "full",
        "z": "full",
    }


def test_integers_are_sent_as_they_are() -> None:
    """Classes that the model itself decides."""
    outputs = {"y": np.zeros((1, 4), np.int64)}
    assert reduction(load_metric("top1"), outputs, np.zeros(4, np.int64)) == {"y": "full"}


def test_samples_that_need_different_things_are_sent_in_full() -> None:
    """What serves both."""
    one, other = {"y": "argmax:1", "z": "drop"}, {"y": "argmax:2", "z": "drop"}
    assert common(one, other) == {"y": "full", "z": "drop"}


def test_differences_are_counted_in_value_and_in_decisions() -> None:
    """Two samples, one of which decides otherwise."""
    host = [{"y": np.array([[0.0, 1.0]], np.float32)}, {"y": np.array([[0.5, 0.4]], np.float32)}]
    board = [{"y": np.array([[0.0, 1.5]], np.float32)}, {"y": np.array([[0.5, 0.6]], np.float32)}]
    found = difference(host, board, {"y": "argmax:1"})["y"]
    assert (found.largest, found.span, found.magnitude) == (0.5, 1.0, 1.0)
    assert np.isclose(found.mean, 0.7 / 4)
    assert (found.flipped, found.decisions, found.flipped_share) == (1, 2, 0.5)
    assert found.text == "at most 0.5 (50 % of the range), mean 0.18; 1 of 2 decisions differs"


@given(output=OUTPUTS)
def test_a_machine_does_not_differ_from_itself(output: Any) -> None:
    """Also where something is not a number."""
    found = difference([{"y": output}], [{"y": output.copy()}], {"y": "above:0.0"})["y"]
    assert (found.largest, found.flipped) == (0.0, 0)


def test_what_cannot_be_compared_differs_without_end() -> None:
    """Another shape, or a number where the other has none."""
    one = [{"y": np.array([1.0, np.nan], np.float32)}]
    for other in ([1.0, 2.0], [1.0], [np.nan, 1.0]):
        found = difference(one, [{"y": np.array(other, np.float32)}], {"y": "full"})["y"]
        assert found.largest == float("inf")
        assert "shapes differ" in found.text
