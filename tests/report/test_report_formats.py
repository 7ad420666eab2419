"""Terminal, Markdown, CSV, figures, page and files: one document, the same numbers."""

import csv
import io
import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from report_factory import context, measurement, study, trial, trials

from edgeopt.core.measurement import Failure
from edgeopt.errors import StorageError
from edgeopt.report.document import document
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
    assert len(tables) == 7
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


def test_files_are_written_whole_and_over_old_ones(found: dict[str, Any], tmp_path: Path) -> None:
    """Four formats and the figures, nothing left aside, and the JSON is the document."""
    for _ in range(2):
        paths = write_report(found, tmp_path / "deep" / "report")
    names = {path.name for path in paths.values()}
    assert {"report.html", "report.md", "report.json", "trials.csv"} <= names
    assert all(name.startswith("front-local.") for name in names if name[:5] == "front")
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
