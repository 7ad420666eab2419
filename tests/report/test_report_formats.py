"""Terminal, Markdown, CSV, figures, page and files: one document, the same numbers."""

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from report_factory import context, measurement, study, trial, trials

from edgeopt.core.measurement import Failure
from edgeopt.errors import StorageError
from edgeopt.report.document import document
from edgeopt.report.figures import front_figure, svg
from edgeopt.report.files import write_report
from edgeopt.report.markdown import markdown
from edgeopt.report.page import page
from edgeopt.report.table import table
from edgeopt.report.terminal import terminal

NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return document(study(), trials(), context())


@pytest.fixture(scope="module")
def both() -> dict[str, Any]:
    devices = [*trials("local"), *trials("pi5", first=20)]
    return document(study(devices=("local", "pi5")), devices, context())


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    else:
        yield str(value)


def test_the_terminal_has_at_most_25_lines_of_100_columns(found: dict[str, Any]) -> None:
    """All that DESIGN.md names is on it."""
    lines = terminal(found).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    for word in ("given", "shipped today", "TAKE", "runner-up", "ran ", "in vain", "unknown"):
        assert word in text
    assert lines[-1] == f"next     edgeopt export {study().id} c3 -o c3"


def test_the_terminal_stays_short_when_there_is_much_to_say() -> None:
    """Many peers, failures and notes, long words: still one page."""
    peers = [f"static:{'very_long_name' * 4}_{n}" for n in range(9)]
    more = [
        trial(n + 20, measurement(0.5 + n / 50, 400_000 - n, 0.5), f"p{n}", label=label)
        for n, label in enumerate(peers)
    ]
    more += [
        trial(n + 40, measurement(0.4 + n / 50, 380_000 - 9000 * n, 0.935 + n / 1000), f"m{n}")
        for n in range(6)
    ]
    more += [trial(60, Failure(stage="build", reason="because " * 90), "z")]
    sentences = tuple("this is one more thing to know about the study " * 3 for _ in range(9))
    known = context(peer_labels=tuple(peers), unknown=sentences, checked=sentences)
    text = terminal(document(study(), [*trials(), *more], known))
    assert len(text.splitlines()) <= 25
    assert max(map(len, text.splitlines())) <= 100


def test_every_number_of_the_terminal_comes_from_the_document(both: dict[str, Any]) -> None:
    """Nothing is computed or rounded while printing."""
    known = {number for text in _texts(both) for number in NUMBER.findall(text)}
    assert set(NUMBER.findall(terminal(both))) <= known


def test_the_terminal_of_two_devices_tells_of_both(both: dict[str, Any]) -> None:
    """One verdict and one next step a device, and what they say together, on one page."""
    text = terminal(both)
    assert "verdict  local: take c3" in text
    assert "verdict  pi5: take c23" in text
    assert "across   one model for all: " in text
    assert "c23 -o c23" in text
    assert len(text.splitlines()) <= 25


def test_an_empty_study_still_prints() -> None:
    """Before the first trial every format says that nothing is known."""
    empty = document(study(), [], context())
    for render in (terminal, markdown, page, table):
        assert render(empty)
    assert "nothing can be compared" in terminal(empty)


def test_markdown_tables_are_whole(both: dict[str, Any]) -> None:
    """Every row has as many cells as its head, whatever the texts contain."""
    tricky = json.loads(json.dumps(both).replace("the clock moved", "a | b <i>`x`"))
    lines = markdown(tricky).splitlines()
    tables = [list(rows) for whole, rows in groupby(lines, lambda line: line[:1] == "|") if whole]
    assert len(tables) == 5
    for rows in tables:
        assert len({len(re.split(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert not re.search(r"(?<!\\)<i>", markdown(tricky))


def test_markdown_says_verdict_recipe_and_command(found: dict[str, Any]) -> None:
    """The parts that a reviewer reads."""
    text = markdown(found)
    assert "**take c3: 2.09× faster" in text
    assert '    static\\_qdq@1 "b"' not in text
    assert '    static_qdq@1 "b" activation="uint8"' in text
    assert "edgeopt run ppocr-cls --device local" in text


def test_the_table_has_a_row_a_trial_with_si_numbers(found: dict[str, Any]) -> None:
    """Units are in the names, absent values are empty, failures carry their reason."""
    rows = {row["id"]: row for row in csv.DictReader(io.StringIO(table(found)))}
    assert len(rows) == len(trials())
    value = trials()[3].value("latency")
    assert value is not None
    assert float(rows["c3"]["latency_s"]) == value.value
    assert float(rows["c3"]["size_bytes"]) == 380_000
    assert float(rows["c3"]["accuracy"]) == 0.941
    assert rows["c7"]["latency_s"] == ""
    assert (rows["c7"]["status"], rows["c7"]["reason"]) == ("failed", "output 0 differs by 3.1")


def test_the_table_holds_no_formulas() -> None:
    """A spreadsheet must not run what a model's file name says."""
    bad = trial(1, Failure(stage="build", reason='=HYPERLINK("x")'), "a")
    made = document(study(), [trials()[0], bad], context())
    rows = list(csv.DictReader(io.StringIO(table(made))))
    assert rows[1]["reason"].startswith("'=")


def test_the_figure_shows_what_is_near_and_counts_the_rest(found: dict[str, Any]) -> None:
    """Front, given model and shipped today are marked; the far infeasible one is left out."""
    spec = front_figure(found, "local")
    assert spec is not None
    kinds = {row["id"]: row["kind"] for row in spec["data"]["values"]}
    assert kinds == {
        "c3": "front",
        "c4": "front",
        "c0": "given model",
        "c1": "shipped today",
        "c5": "beside the front",
    }
    assert spec["usermeta"]["left_out"] == 1
    row = next(row for row in spec["data"]["values"] if row["id"] == "c3")
    assert row["x_low"] < row["x"] < row["x_high"]
    assert row["y_low"] < row["y"] < row["y_high"]


def test_one_point_is_no_figure() -> None:
    """With the given model alone there is nothing to compare."""
    assert front_figure(document(study(), trials()[:1], context()), "local") is None


def test_the_figure_is_drawn_with_its_marks(found: dict[str, Any]) -> None:
    """SVG with the ids of the front as text."""
    pytest.importorskip("vl_convert")
    spec = front_figure(found, "local")
    assert spec is not None
    drawn = svg(spec)
    assert drawn is not None
    for name in ("c3", "c4", "c0", "c1"):
        assert f">{name}</text>" in drawn


class _Outside(HTMLParser):
    """Collects whatever a browser would fetch, and which elements were left open."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            fetches = name in {"src", "href", "xlink:href", "srcset", "data", "action", "poster"}
            if fetches and not (value or "").startswith("#"):
                self.fetched.append(f"{name}={value}")
            if name == "id":
                self.ids.append(value or "")


def test_the_page_asks_nothing_of_the_network(both: dict[str, Any]) -> None:
    """No address but the inert names of XML; a policy in the page forbids the rest."""
    text = page(both)
    reader = _Outside()
    reader.feed(text)
    assert reader.fetched == []
    assert not {"link", "iframe", "img", "object", "embed"} & set(reader.tags)
    assert "@import" not in text
    assert all(inside.startswith("#") for inside in re.findall(r"url\([\"']?([^)]*)", text))
    assert set(re.findall(r"(\S*)https?://", text)) <= {'xmlns="', 'xmlns:xlink="'}
    assert "default-src 'none'" in text
    assert len(reader.ids) == len(set(reader.ids))


def test_the_page_holds_every_candidate_without_a_script(both: dict[str, Any]) -> None:
    """The table is in the markup; two figures stand in it where they can be drawn."""
    pytest.importorskip("vl_convert")
    text = page(both)
    assert text.count("<svg") == 2
    for points in both["candidates"].values():
        for point in points:
            assert re.search(rf"<td data-sort=\"\d+\">{point['id']}</td>", text)
            for metric in point["metrics"].values():
                assert metric["text"] in text


def test_the_page_escapes_what_it_is_given() -> None:
    """Names and reasons are text, never markup."""
    evil = "<script>alert(1)</script>"
    bad = trial(1, Failure(stage="build", reason=evil), "a", label=evil)
    asked = replace(study(), model_name=evil)
    text = page(document(asked, [*trials()[:1], bad], context(command=evil)))
    assert evil not in text
    assert "&lt;script&gt;alert(1)" in text


def test_the_page_of_one_model_says_why_there_is_no_figure() -> None:
    """The table stays."""
    text = page(document(study(), trials()[:1], context()))
    assert "<svg" not in text
    assert "nothing to draw" in text
    assert "7.9" in text


def test_without_the_extra_the_page_names_it(found: dict[str, Any], tmp_path: Path) -> None:
    """In a Python that has no vl-convert: the table is whole, the message says what to install."""
    (tmp_path / "document.json").write_text(json.dumps(found), encoding="utf-8")
    code = (
        "import json, sys; from pathlib import Path\n"
        "sys.modules['vl_convert'] = None\n"
        "from edgeopt.report.page import page\n"
        "print(page(json.loads(Path(sys.argv[1]).read_text(encoding='utf-8'))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "document.json")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "<svg" not in done.stdout
    assert "pip install &#39;edgeopt[report]&#39;" in done.stdout
    assert found["fronts"]["local"][0]["metrics"]["latency"]["text"] in done.stdout


def test_files_are_written_whole_and_over_old_ones(found: dict[str, Any], tmp_path: Path) -> None:
    """Four formats, nothing left aside, and the JSON is the document."""
    for _ in range(2):
        paths = write_report(found, tmp_path / "deep" / "report")
    assert {p.name for p in paths.values()} == {
        "report.html",
        "report.md",
        "report.json",
        "trials.csv",
    }
    assert {p.name for p in (tmp_path / "deep" / "report").iterdir()} == {
        path.name for path in paths.values()
    }
    assert json.loads(paths["json"].read_text(encoding="utf-8")) == found


def test_a_folder_that_cannot_be_written_is_reported(found: dict[str, Any], tmp_path: Path) -> None:
    """A file stands in the way: a message, exit code 3."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError) as refused:
        write_report(found, tmp_path / "file" / "report")
    assert refused.value.exit_code == 3
    assert "--out" in refused.value.hint
