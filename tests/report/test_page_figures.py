"""Figures: what is drawn, on which axes, and that the drawings hold it."""

from typing import Any

import pytest
from large_report import large_study
from report_factory import context, study, three_devices, trials

from edgeopt.report.document import document
from edgeopt.report.figures import drawings, front_figure, png, svg
from edgeopt.report.page_curves import progress_figure, rank_figure
from edgeopt.report.page_points import axes, columns, default_axes


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return document(study(), trials(), context())


@pytest.fixture(scope="module")
def fleet() -> dict[str, Any]:
    return document(
        study(devices=("local", "jetson", "lab-arm64")), three_devices(), context(flips={})
    )


def _points(spec: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    assert spec is not None
    return {row["id"]: row for row in spec["datasets"]["points"]}


def test_the_figure_says_what_each_point_is(found: dict[str, Any]) -> None:
    """Front, given model, usual ways and what would be shipped today; picks have their names."""
    points = _points(front_figure(found, "local"))
    assert {name: row["kind"] for name, row in points.items()} == {
        "c0": "given model",
        "c1": "shipped today",
        "c2": "usual way",
        "c3": "front",
        "c4": "front",
        "c5": "beside the front",
    }
    assert points["c2"]["kept"] == 0
    assert points["c0"]["label"].startswith("given")
    assert "take" in points["c3"]["label"]
    assert points["c5"]["label"] == ""
    row = points["c3"]
    assert row["x_low"] < row["x"] < row["x_high"]
    assert row["y_low"] < row["y"] < row["y_high"]


def test_values_stand_in_the_unit_of_their_axis(found: dict[str, Any]) -> None:
    """Bytes in kilobytes or megabytes, shares as they are."""
    known = axes(found)
    assert known["size"]["title"] == "size, kB"
    assert known["latency"]["title"] == "latency, ms"
    assert known["latency"]["column"] == "latency_s"
    assert default_axes(known) == ("ratio", "accuracy", "size")
    points = _points(front_figure(found, "local"))
    assert points["c3"]["c"] == pytest.approx(380)


def test_budgets_are_those_of_the_device(found: dict[str, Any]) -> None:
    """The bound on accuracy stands in the specification, in the unit of the axis."""
    spec = front_figure(found, "local")
    assert spec is not None
    params = {each["name"]: each["value"] for each in spec["params"]}
    assert params["y_bound"] == 0.93
    assert params["x_bound"] is None
    assert (params["x_sign"], params["y_sign"]) == (1, -1)


def test_without_accuracy_size_stands_beside_time() -> None:
    """A study without data has two objectives: colour tells what a point is."""
    bare = document(study(data=""), trials(), context())
    for points in bare["candidates"].values():
        for point in points:
            for name in [n for n in point["metrics"] if n.startswith("accuracy")]:
                del point["metrics"][name]
    known = axes(bare)
    assert default_axes(known) == ("ratio", "size", "kind")
    assert len(columns(bare, "local", known)["ids"]) == 6


def test_one_point_is_no_figure() -> None:
    """With the given model alone there is nothing to compare."""
    assert front_figure(document(study(), trials()[:1], context()), "local") is None


def test_the_figure_is_drawn_with_its_marks(found: dict[str, Any]) -> None:
    """SVG with the ids of the front as text; the far one is counted, not drawn."""
    pytest.importorskip("vl_convert")
    spec = front_figure(found, "local")
    assert spec is not None
    drawn = svg(spec)
    assert drawn is not None
    for name in ("c3", "c4", "c0", "c1"):
        assert f">{name} " in drawn
    assert ">1 too far away to be drawn<" in drawn
    assert ">bound<" in drawn


def test_files_for_paper_are_svg_and_png(fleet: dict[str, Any]) -> None:
    """Both for every device."""
    pytest.importorskip("vl_convert")
    made = drawings(fleet)
    assert set(made) == {
        f"front-{device}.{form}" for device in fleet["study"]["devices"] for form in ("svg", "png")
    }
    image, drawn = made["front-jetson.png"], made["front-jetson.svg"]
    assert isinstance(image, bytes)
    assert image.startswith(b"\x89PNG")
    assert isinstance(drawn, str)
    assert drawn.startswith("<svg")


def test_ranks_go_from_device_to_device(fleet: dict[str, Any]) -> None:
    """One line a model that was measured everywhere."""
    spec = rank_figure(fleet)
    assert spec is not None
    values = spec["data"]["values"]
    assert {row["device"] for row in values} == {"local", "jetson", "lab-arm64"}
    for device in fleet["study"]["devices"]:
        assert {row["rank"] for row in values if row["device"] == device} == set(range(1, 6))
    assert rank_figure(document(study(), trials(), context())) is None


def test_the_front_grows_strategy_by_strategy() -> None:
    """A line for each that ran, over its measurements; drawn where it can be."""
    made = large_study(("local",), 30)
    spec = progress_figure(made, "local")
    assert spec is not None
    strategies = {row["strategy"] for row in spec["data"]["values"]}
    assert {"nsga2", "random", "static"} <= strategies
    last = max(row["n"] for row in spec["data"]["values"])
    assert last == 30
    if (drawn := svg(spec)) is not None:
        assert ">measurements<" in drawn


def test_a_png_is_drawn_on_white(found: dict[str, Any]) -> None:
    """Transparent figures vanish in dark viewers."""
    pytest.importorskip("vl_convert")
    from io import BytesIO

    from PIL import Image

    spec = front_figure(found, "local")
    assert spec is not None
    drawn = png(spec)
    assert drawn is not None
    assert Image.open(BytesIO(drawn)).convert("RGBA").getpixel((1, 1)) == (255, 255, 255, 255)
