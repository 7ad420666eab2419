"""Layer tables, measurement quality and the growth of the front in the document."""

import json
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from json_schema import breaches
from report_factory import (
    OBJECTIVES,
    context,
    layer_table,
    lowered_layers,
    measurement,
    study,
    trial,
    trials,
    with_layers,
)

from edgeopt.core.lowered import Layer, Lowered
from edgeopt.core.measurement import Failure
from edgeopt.report.document import document, tabled
from edgeopt.report.layers import matched, rows
from edgeopt.report.progress import progress

SCHEMA = json.loads(files("edgeopt.report").joinpath("schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    measured, tables = with_layers(trials())
    return document(study(), measured, context(layer_tables=tables))


def _point(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(p for p in found["candidates"]["local"] if p["id"] == name)


def test_it_meets_the_schema(found: dict[str, Any]) -> None:
    """With tables, quality and growth in it."""
    assert list(breaches(json.loads(json.dumps(found, allow_nan=False)), SCHEMA, SCHEMA)) == []


def test_equal_tables_are_told_apart_by_model_and_share_their_words(found: dict[str, Any]) -> None:
    """Front, peers and the given model have one; others say why not."""
    assert len(found["layers"]["tables"]) == 5
    assert found["layers"]["strings"].count("Conv") == 1
    assert _point(found, "c5")["layers"] is None
    assert "only the front" in _point(found, "c5")["layers_absent"]
    bare = document(study(), trials(), context())
    assert _point(bare, "c3")["layers_absent"] == "the layers of this model were not read"


def test_rows_say_what_was_asked_and_what_ran(found: dict[str, Any]) -> None:
    """A kernel that bears an activation's name ran the convolution before it."""
    made = rows(found, _point(found, "c3"))
    assert [(r["value"], r["asked"], r["ran"], r["into"]) for r in made] == [
        ("a", "float32", "float32", None),
        ("a_relu", "float32", "", 0),
        ("b", "int8", "int8", None),
        ("out", "float32", "float32", None),
    ]
    assert made[2]["ran_operator"] == "com.microsoft:QLinearConv"
    assert made[2]["time_s"] == pytest.approx(1.5e-3)
    assert made[2]["actions"] == ['static_qdq@1 "b" activation="uint8"']
    assert made[2]["snr_db"] == pytest.approx(38.2)
    assert rows(found, _point(found, "c5")) == []


def test_what_is_no_layer_of_the_model_stands_beside(found: dict[str, Any]) -> None:
    """A reordering of the runtime has its time and no row."""
    strings = found["layers"]["strings"]
    others = _point(found, "c3")["layers"]["others"]
    assert [strings[each[0]] for each in others] == ["com.microsoft.nchwc:ReorderOutput"]


def test_a_provider_that_hides_its_layers_is_said() -> None:
    """Nothing ran under a known name, so nothing is claimed to be merged either."""
    hidden = Lowered(
        layers=(Layer(name="subgraph_0", operator="X", precision="unknown", provider="T"),),
        note="T hides its layers",
    )
    first = trials()[0]
    seen = replace(measurement(1.0, 1_200_000, 0.945), lowered=hidden)
    made = document(
        study(),
        [replace(first, outcome=seen)],
        context(layer_tables={first.model_digest: layer_table()}),
    )
    mine = made["candidates"]["local"][0]["layers"]
    assert mine["absent"] == "T hides its layers"
    assert set(mine["ran"]) == set(mine["into"]) == {None}


def test_one_layer_runs_once() -> None:
    """A second kernel of the same name is no second layer."""
    twice = replace(lowered_layers(), layers=lowered_layers().layers * 2)
    where, others = matched(layer_table(), twice.layers)
    assert sorted(where) == [0, 2, 3]
    assert len(others) == len(twice.layers) - 3


def test_tables_are_wanted_of_what_a_report_shows() -> None:
    """Of each device the front, the given model and the usual ways that were measured."""
    assert [t.number for t in tabled(study(), trials(), context())] == [0, 1, 2, 3, 4]


def test_quality_tells_runs_blocks_and_drift(found: dict[str, Any]) -> None:
    """Of what is shown, in the words of the terminal."""
    told = {each["id"]: each for each in found["quality"]["local"]}
    assert set(told) == {"c0", "c1", "c2", "c3", "c4"}
    assert (told["c3"]["runs"], told["c3"]["blocks"], told["c3"]["processes"]) == (60, 12, 3)
    assert told["c3"]["shares"] == sorted(told["c3"]["shares"])
    assert "60 runs in 12 blocks of 3 fresh processes" in told["c3"]["text"]
    again = measurement(0.5, 400_000, 0.944)
    again = replace(again, environment={"repeated": "1"})
    made = document(study(), [trials()[0], trial(1, again, "a")], context())
    assert "1 disturbed round thrown away" in made["quality"]["local"][0]["text"]


def test_the_front_grows_with_what_adds_to_it() -> None:
    """Failures and broken bounds are measurements that add nothing."""
    grown = progress(trials(), OBJECTIVES)
    assert grown is not None
    points = grown["series"][0]["points"]
    shares = [share for _, share, _ in points]
    assert [number for number, _, _ in points] == list(range(1, 10))
    assert shares[2] == shares[1]
    assert shares[3] > shares[1] > shares[0] > 0
    assert shares[-1] == shares[5] <= 1
    assert {each["strategy"] for each in grown["series"][1:]} == {"static", "nsga2", "random"}


def test_rivals_are_compared_at_equal_device_time() -> None:
    """The one that stopped first decides at which time."""
    mine = trials()
    theirs = [mine[0], *(replace(t, strategy="random") for t in mine[3:5])]
    grown = progress(mine, OBJECTIVES, {"random": theirs})
    assert grown is not None
    assert grown["series"][-1]["kind"] == "rival"
    assert grown["text"].startswith("hypervolume after 36 s on the device: this run 0.")
    assert "random 0." in grown["text"]


def test_without_the_given_model_there_is_no_reference_point() -> None:
    """No curve is made up."""
    assert progress([trial(0, Failure(stage="run", reason="killed"))], OBJECTIVES) is None
