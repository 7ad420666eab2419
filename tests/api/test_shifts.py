"""What shifted search samples say of a candidate before a front holds it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeopt.api.accuracy import Accuracy
from edgeopt.api.shifts import guarded
from edgeopt.api.subject import Subject
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import DataSet, Part
from edgeopt.core.measurement import Measurement, Value
from edgeopt.data.accuracy_metric import load_metric
from edgeopt.data.options import DataOptions
from edgeopt.data.probes import built_in_guards, built_in_probes
from edgeopt.graph.read import read_model
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.units import parse_drop

COUNT = 60
SETTINGS = RuntimeSettings(threads=1)


def classifier(folder: Path, highest: float | None) -> Path:
    """Its inputs are the logits; those above a limit are cut."""
    b = Builder()
    if highest is None:
        b.node("Identity", ["x"], "y")
    else:
        limits = [
            b.constant("low", np.array(-9e9, np.float32)),
            b.constant("high", np.array(highest, np.float32)),
        ]
        b.node("Clip", ["x", *limits], "y")
    io = [("x", "float32", ("N", 2))], [("y", "float32", ("N", 2))]
    return graphs.write(b.model(*io), folder, f"{highest}.onnx")


def part(name: str, above: float) -> Part:
    """Two classes, told apart by the larger number."""
    target = np.arange(COUNT) % 2
    feeds = [{"x": np.eye(2, dtype=np.float32)[[label]] + np.float32(above)} for label in target]
    return Part(name=name, feeds=feeds, target=target)


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    """A classifier with search samples that are plain and others that lie ten higher."""
    data = DataSet(
        digest="sha256:0",
        calibration=part("calibration", 0),
        search=part("search", 0),
        test=part("test", 0),
        guards=(part("search under level", 1), part("search under offset", 10)),
    )
    return Subject(
        name="two",
        model=read_model(classifier(tmp_path, None)),
        data=data,
        metric_name="top1",
        metric=load_metric("top1", {"output": "y"}),
    )


def measured(subject: Subject, model: Path) -> Measurement:
    """What is left of a candidate that is right on all plain samples."""
    found = Measurement(values={"accuracy": Value(value=1.0, unit="1")})
    accuracy = Accuracy(subject, SETTINGS)
    return guarded(accuracy, read_model(model), SETTINGS, found, parse_drop("1pt"))


def test_what_is_lost_under_a_shift_counts(subject: Subject, tmp_path: Path) -> None:
    """Half of the samples turn where all lie above the limit: that is the accuracy, and said."""
    found = measured(subject, classifier(tmp_path, 5.0))
    value = found.values["accuracy"]
    assert value.value == pytest.approx(0.5)
    assert value.note == "on search under offset"
    assert value.interval is not None
    assert value.interval.high < 1.0
    assert found.verdict.status == "valid"
    assert "search under offset is 50.0 points below" in found.verdict.reasons[0]


def test_what_holds_under_every_shift_stays(subject: Subject, tmp_path: Path) -> None:
    """A limit that no sample reaches."""
    found = measured(subject, classifier(tmp_path, 50.0))
    assert found.values["accuracy"].value == 1.0
    assert found.verdict.status == "valid"


def test_more_samples_are_asked_of_what_few_let_pass(subject: Subject, tmp_path: Path) -> None:
    """Forty of the samples behind the first ninety-six turn: two hundred say so, few did not."""
    target = np.arange(200) % 2
    above = [10.0 if 96 <= n < 136 else 1.0 for n in range(200)]
    eye = np.eye(2, dtype=np.float32)
    feeds = [{"x": eye[[k]] + np.float32(a)} for k, a in zip(target, above, strict=True)]
    late = Part(name="search under late", feeds=feeds, target=target)
    assert subject.data is not None
    later = replace(subject, data=replace(subject.data, guards=(late,)))
    assert [len(guard) for guard in Accuracy(later, SETTINGS).guards] == [96, 200]
    assert [len(guard) for guard in Accuracy(subject, SETTINGS).guards] == [COUNT, COUNT]
    found = measured(later, classifier(tmp_path, 5.0))
    assert found.values["accuracy"].value == pytest.approx(0.9)
    assert "search under late is 10.0 points below" in found.verdict.reasons[0]


def test_guards_are_search_samples_under_the_shifts_of_the_probes(tmp_path: Path) -> None:
    """Each probe has its guard with a name of its own, over other samples."""
    model, options = read_model(classifier(tmp_path, None)), DataOptions()
    plain = part("search", 0)
    guards = built_in_guards(plain, model, options)
    probes, _ = built_in_probes(part("test", 0), model, options)
    assert [guard.name for guard in guards] == [f"search under {probe.name}" for probe in probes]
    assert guards
    assert guards[0].target is plain.target
