"""Models of the zoo on their data, unmodified, through the readers and metrics of the data room."""

from pathlib import Path

import pytest

from edgeopt import shipped
from edgeopt.api import zoo
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Part
from edgeopt.data.accuracy_metric import load_metric
from edgeopt.data.evaluate import score_part
from edgeopt.data.read import read_data
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import Session

FETCHED = [
    entry.name
    for entry in zoo.list_models()
    if entry.source.registry != zoo.SHIPPED and not entry.builder
]


def accuracy(model: Path, data: Path, samples: int) -> float:
    """Of the model on the first samples of the search part."""
    found = read_data(str(data), read_model(model))
    metric = load_metric(found.metric, found.metric_options)
    part: Part = found.search.take(samples)
    session = Session(model, RuntimeSettings())
    return score_part(part, session.run, metric, state=found.state).value


@pytest.mark.parametrize("name", ["digits", "segmentation"])
def test_a_committed_network_reaches_its_accuracy(name: str, tmp_path: Path) -> None:
    """Neither near chance nor saturated: a drop shows."""
    files = zoo.get(name, tmp_path)
    assert 0.8 < accuracy(files.model, files.data, 1000) < 0.98


def test_the_digits_network_of_another_seed_is_as_good(tmp_path: Path) -> None:
    """Replays onto retrained weights need a second network of the same structure."""
    other = shipped.folder("models") / "digits" / "digits-seed1.onnx"
    files = zoo.get("digits", tmp_path)
    assert other.read_bytes() != files.model.read_bytes()
    assert 0.9 < accuracy(other, files.data, 1000) < 0.98


@pytest.mark.zoo
@pytest.mark.parametrize("name", FETCHED)
def test_a_fetched_model_is_between_80_and_98_per_cent(name: str) -> None:
    """The difficulty of every data set leaves room for a drop to show."""
    files = zoo.get(name)
    assert 0.8 < accuracy(files.model, files.data, 200) < 0.985


@pytest.mark.zoo
def test_data_is_the_same_every_time(tmp_path: Path) -> None:
    """A maker depends on its seed only."""
    first = zoo.get("silero-vad-sequence")
    again = zoo.data("silero-vad-sequence", tmp_path)
    assert again.data.read_bytes() == first.data.read_bytes()
