"""Scoring sample by sample: state within groups, references, and refusals with their place."""

from collections.abc import Mapping

import numpy as np
import pytest

from edgeopt.core.data import Feed, Part
from edgeopt.data.accuracy_metric import load_metric
from edgeopt.data.evaluate import outputs_of, score_part
from edgeopt.errors import DataError

STATE = {"total": "before"}


def _recordings() -> Part:
    """Two recordings of three frames; the second one starts from another state."""
    feeds = [
        {"x": np.array([[value]]), "before": np.array([[start]])}
        for value, start in (
            (1.0, 0.0),
            (2.0, 0.0),
            (3.0, 0.0),
            (1.0, 10.0),
            (1.0, 0.0),
            (1.0, 0.0),
        )
    ]
    wanted = np.array([1.0, 3.0, 6.0, 11.0, 12.0, 13.0])
    return Part(name="search", feeds=feeds, target=wanted, group=np.array([7, 7, 7, 3, 3, 3]))


def _running_sum(feed: Feed) -> Mapping[str, np.ndarray]:
    total = feed["x"] + feed["before"]
    return {"y": total, "total": total}


class Equal:
    """Whether the output is the target."""

    needs_target = True
    needs_reference = False

    def evidence(self, outputs, target, reference):
        """1 or 0."""
        return np.array([[float(outputs["y"].item() == target.item())]])

    def value(self, evidence):
        """The mean."""
        return float(evidence.mean())

    def chance(self, evidence):
        """None."""


def test_state_is_fed_on_within_a_group_and_reset_at_its_start() -> None:
    """The running sums of two recordings, the second from its own start."""
    scored = score_part(_recordings(), _running_sum, Equal(), state=STATE)
    assert scored.value == 1.0
    assert scored.groups.tolist() == [7, 7, 7, 3, 3, 3]


def test_without_state_every_sample_starts_anew() -> None:
    """The same data without the declaration gets other sums."""
    assert score_part(_recordings(), _running_sum, Equal()).value < 1.0


def test_the_reference_carries_its_own_state() -> None:
    """A baseline that sums agrees with itself along a recording, run beside or kept."""
    metric = load_metric("cosine", {"output": "y"})
    part = _recordings()
    beside = score_part(part, _running_sum, metric, state=STATE, reference=_running_sum)
    kept = score_part(
        part, _running_sum, metric, state=STATE, reference=outputs_of(part, _running_sum, STATE)
    )
    assert beside.value == kept.value == 1.0


def test_rows_of_a_sample_share_its_group() -> None:
    """Frames of a sequence are rows of one sample, resampled together."""
    feeds = [{"x": np.zeros((3, 1))}, {"x": np.zeros((3, 1))}]
    part = Part(name="test", feeds=feeds, target=np.array([[0, 1, 1], [1, 0, 0]]))
    scored = score_part(part, lambda _: {"p": np.array([0.1, 0.9, 0.8])}, load_metric("auc"))
    assert scored.groups.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_pixel_metric_has_one_row_an_image() -> None:
    """ArgMax outputs [1, H, W] against masks [H, W]: right and all pixels a row."""
    masks = np.array([[[0, 1], [1, 2]], [[0, 0], [0, 1]]], dtype=np.uint8)
    part = Part(name="test", feeds=[{"x": masks[0]}, {"x": masks[1]}], target=masks)
    scored = score_part(
        part,
        lambda feed: {"y": np.minimum(feed["x"], 1).astype(np.int64)[None]},
        load_metric("top1"),
    )
    assert scored.evidence[:, :2].tolist() == [[3, 4], [4, 4]]
    assert scored.value == 7 / 8


def test_a_misfit_names_part_sample_and_metric() -> None:
    """The second label is out of range."""
    part = Part(name="search", feeds=[{}, {}], target=np.array([1, 5]))
    with pytest.raises(DataError, match="out of range") as caught:
        score_part(part, lambda _: {"y": np.zeros((1, 3), np.float32)}, load_metric("top1"))
    assert caught.value.where == "search part, sample 1, metric top1"


def test_what_the_metric_needs_is_required() -> None:
    """Labels, a baseline, samples, a state output that exists."""
    labelled = Part(name="search", feeds=[{}], target=np.array([0]))
    bare = Part(name="search", feeds=[{}])
    grouped = Part(name="search", feeds=[{}], target=np.array([0]), group=np.array([0]))

    def run(_: Feed) -> Mapping[str, np.ndarray]:
        return {"y": np.zeros((1, 3), np.float32)}

    with pytest.raises(DataError, match="no"):
        score_part(Part(name="search", feeds=[]), run, load_metric("top1"))
    with pytest.raises(DataError, match="needs labels"):
        score_part(bare, run, load_metric("top1"))
    with pytest.raises(DataError, match="baseline"):
        score_part(labelled, run, load_metric("agreement"))
    with pytest.raises(DataError, match="state output 'h'"):
        score_part(grouped, run, load_metric("top1"), state={"h": "x"})
    with pytest.raises(DataError, match="no value"):
        score_part(labelled, lambda _: {"y": np.zeros(1)}, load_metric("auc"))
