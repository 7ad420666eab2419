"""Markdown that fits a comment, pages of any width, formats one by one, the published schema."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from report_factory import (
    SPEEDS,
    context,
    measurement,
    study,
    three_devices,
    trial,
    trials,
    with_layers,
)

from edgeopt.core.measurement import Verdict
from edgeopt.errors import UsageError
from edgeopt.report.document import document
from edgeopt.report.formats import FORMATS, rendered, schema
from edgeopt.report.markdown import LIMIT, markdown
from edgeopt.report.terminal import terminal
from edgeopt.report.terminal_style import styled

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    measured, tables = with_layers(trials())
    theirs = {"random (seed 1)": tuple(replace(t, strategy="random") for t in trials()[:4])}
    return document(study(), measured, context(layer_tables=tables, rivals=theirs, store="a b"))


@pytest.fixture(scope="module")
def three() -> dict[str, Any]:
    return document(study(devices=tuple(SPEEDS)), three_devices(), context())


def test_the_published_schema_holds(found: dict[str, Any], three: dict[str, Any]) -> None:
    """It is a schema itself, and describes one device and three."""
    published = json.loads(schema())
    Draft202012Validator.check_schema(published)
    validator = Draft202012Validator(published)
    for each in (found, three):
        text = rendered(each, "json")
        assert [error.message for error in validator.iter_errors(json.loads(text))] == []


def test_the_schema_refuses_what_it_does_not_describe(found: dict[str, Any]) -> None:
    """Otherwise it would say nothing."""
    validator = Draft202012Validator(json.loads(schema()))
    bad: list[Mapping[str, Any]] = [
        {**found, "more": 1},
        {**found, "layers": {"strings": [1], "tables": {}}},
        {key: value for key, value in found.items() if key != "progress"},
    ]
    assert all(any(validator.iter_errors(each)) for each in bad)


def test_markdown_stands_open_where_a_reviewer_looks(found: dict[str, Any]) -> None:
    """Verdict and front first; the layers of the pick are folded away."""
    text = markdown(found)
    assert text.index("**take c3") < text.index("| c3 | take,") < text.index("<details>")
    assert text.count("<details>") == text.count("</details>") >= 6
    assert "float32 → int8" in text
    assert "hypervolume after" in text


def test_markdown_fits_a_comment_whatever_there_is_to_say(found: dict[str, Any]) -> None:
    """Least important parts go first, and the reader is told which."""
    assert len(markdown(found)) < LIMIT
    sizes = [4000, 2500, 1500, 700]
    for limit in sizes:
        text = markdown(found, limit)
        assert len(text) <= limit
        assert text.count("<details>") == text.count("</details>")
        assert "**take c3" in text or limit < 1000
    assert "Left out, since a comment holds no more:" in markdown(found, 4000)
    assert "recipes of local" in markdown(found, 4000)


def test_a_large_study_fits_too() -> None:
    """Sixty members of a front with long recipes."""
    sites = [f"{'site' * 8}{n}" for n in range(12)]
    many = [
        trial(n, measurement(1 - n / 80, 1_200_000 + 1000 * n, 0.945), *sites, f"s{n}")
        for n in range(1, 60)
    ]
    made = document(study(), [trials()[0], *many], context())
    assert len(made["fronts"]["local"]) > 40
    text = markdown(made)
    assert len(text) <= LIMIT
    assert "recipes of local" in text
    assert "And 5" in text


@pytest.mark.parametrize("width", [80, 100, 140])
def test_pages_keep_their_width(found: dict[str, Any], three: dict[str, Any], width: int) -> None:
    """At most 25 lines; only what is copied whole (paths, commands) may be longer."""
    for each in (found, three):
        lines = terminal(each, width).splitlines()
        assert len(lines) <= 25
        copied = ("next ", "model ", "report ", " " * 9 + "edgeopt")
        assert max(len(line) for line in lines if not line.startswith(copied)) <= width
        assert sum("TAKE" in line for line in lines) == len(each["study"]["devices"])


def test_another_search_of_the_same_question_stands_beside(found: dict[str, Any]) -> None:
    """At equal device time, in the words of the document."""
    text = terminal(found)
    assert "beside   hypervolume after" in text
    assert "random (seed 1) 0." in text


def test_the_next_command_names_a_store_that_is_elsewhere(found: dict[str, Any]) -> None:
    """Copied as it stands it works, also with a blank in the folder's name."""
    assert "-o c3 --store 'a b'" in terminal(found)


def test_styles_change_no_word(found: dict[str, Any], three: dict[str, Any]) -> None:
    """Without the escapes it is the same page; the taken row is marked."""
    for each in (found, three):
        page = terminal(each)
        dressed = styled(page)
        assert ESCAPE.sub("", dressed) == page
        taken = [line for line in dressed.splitlines() if "TAKE" in line]
        assert all(line.startswith("\x1b[1m") and line.endswith("\x1b[0m") for line in taken)


@pytest.mark.parametrize("form", ["terminal", "html", "md", "json", "csv", "schema"])
def test_every_format_is_text(found: dict[str, Any], form: str) -> None:
    """And ends with a line end."""
    text = rendered(found, form)
    assert isinstance(text, str)
    assert text.endswith("\n") or form == "html"
    assert form in FORMATS


def test_figures_are_drawn_alone(found: dict[str, Any], three: dict[str, Any]) -> None:
    """SVG as text, PNG as bytes; of several devices one has to be named."""
    pytest.importorskip("vl_convert")
    drawn, image = rendered(found, "svg"), rendered(found, "png")
    assert isinstance(drawn, str)
    assert drawn.lstrip().startswith("<svg")
    assert isinstance(image, bytes)
    assert image.startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="one device"):
        rendered(three, "svg")
    assert isinstance(rendered(three, "svg", device="jetson"), str)


@pytest.mark.parametrize(
    ("form", "device", "message"),
    [("pdf", None, "no format"), ("svg", "pi5", "not run on"), ("png", "pi5", "not run on")],
)
def test_what_cannot_be_written_is_a_sentence(
    found: dict[str, Any], form: str, device: str | None, message: str
) -> None:
    """Exit code 2, with what there is."""
    with pytest.raises(UsageError, match=message) as refused:
        rendered(found, form, device=device)
    assert refused.value.hint
    assert refused.value.exit_code == 2


def test_nothing_to_draw_is_a_sentence() -> None:
    """With the given model alone."""
    made = document(study(), trials()[:1], context())
    with pytest.raises(UsageError, match="fewer than two"):
        rendered(made, "svg")


def test_json_holds_columns_on_one_line_and_every_text_as_it_is(found: dict[str, Any]) -> None:
    """Also texts that look like JSON."""
    tricky = {**found, "created": "[\n  1,\n  2\n]", "report": ", \n [x], {y}"}
    text = rendered(tricky, "json")
    assert isinstance(text, str)
    assert json.loads(text) == tricky
    assert any(line.strip().startswith('"weight_bytes": [1728, 0,') for line in text.splitlines())


def test_a_usual_way_without_a_valid_measurement_says_why() -> None:
    """Not only that it has none."""
    bad = measurement(0.4, 300_000, 0.94, verdict=Verdict(status="invalid", reasons=("drift: x",)))
    made = document(study(), [trials()[0], trial(1, bad, "a", label="static:int8")], context())
    assert "static:int8 (c1): no valid measurement: drift: x" in made["in_vain"]["local"]
