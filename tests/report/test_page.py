"""The page as text: whole without scripts, nothing to be fetched, everything escaped."""

import base64
import gzip
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from large_report import large_study
from report_factory import context, study, trial, trials

from edgeopt.core.measurement import Failure
from edgeopt.report.document import document
from edgeopt.report.page import page
from edgeopt.report.page_quality import box, sparkline
from edgeopt.report.page_vega import vega_script

LIMIT_BYTES = 2_500_000


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return document(study(), trials(), context())


@pytest.fixture(scope="module")
def both() -> dict[str, Any]:
    devices = [*trials("local"), *trials("pi5", first=20)]
    return document(study(devices=("local", "pi5")), devices, context())


@pytest.fixture(scope="module")
def text(both: dict[str, Any]) -> str:
    """The page of two devices."""
    return page(both)


def unpacked(text: str, name: str) -> str:
    """What a packed element of a page holds."""
    held = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', text)
    assert held is not None
    return gzip.decompress(base64.b64decode(held.group(1))).decode()


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


def test_the_page_asks_nothing_of_the_network(text: str) -> None:
    """No address but the inert names of XML; a policy in the page forbids the rest."""
    reader = _Outside()
    reader.feed(text)
    assert reader.fetched == []
    assert not {"link", "iframe", "img", "object", "embed"} & set(reader.tags)
    assert "@import" not in text
    assert all(inside.startswith("#") for inside in re.findall(r"url\([\"']?([^)]*)", text))
    names = ('xmlns="', 'xmlns:xlink="', 'createElementNS("')
    places = [found.start() for found in re.finditer("https?://", text)]
    assert all(text[:place].endswith(names) for place in places)
    assert "default-src 'none'" in text
    assert len(reader.ids) == len(set(reader.ids))


def test_links_inside_lead_somewhere(text: str) -> None:
    """Every anchor names an element of the page."""
    ids = set(re.findall(r' id="([^"]+)"', text))
    assert set(re.findall(r'<a [^>]*href="#([^"]+)"', text)) <= ids


def test_the_page_holds_every_candidate_without_a_script(both: dict[str, Any], text: str) -> None:
    """The table is in the markup; figures stand in it where they can be drawn."""
    pytest.importorskip("vl_convert")
    drawn = re.findall(r'<figure class="front" data-device="\d">(.*?)</figure>', text, re.DOTALL)
    assert len(drawn) == 2
    assert all(figure.count("<svg") == 1 for figure in drawn)
    for points in both["candidates"].values():
        for point in points:
            assert f'data-id="{point["id"]}"' in text
            for metric in point["metrics"].values():
                assert metric["text"] in text


def test_scripts_read_the_numbers_of_the_document(both: dict[str, Any], text: str) -> None:
    """Seven digits of each value, in the order of the table."""
    data = json.loads(unpacked(text, "data"))
    assert [device["name"] for device in data["devices"]] == ["local", "pi5"]
    mine = data["devices"][1]
    for index, name in enumerate(mine["ids"]):
        point = next(p for p in both["candidates"]["pi5"] if p["id"] == name)
        for metric, held in point["metrics"].items():
            assert mine["values"][metric][0][index] == pytest.approx(held["value"], rel=1e-6)
        assert mine["values"]["ratio"][0][index] == pytest.approx(point["ratio"]["value"], rel=1e-6)
    assert mine["bounds"] == {"accuracy": 0.93}
    assert data["given"] == ["c0", "c20"]


def test_the_page_escapes_what_it_is_given() -> None:
    """Names and reasons are text, never markup."""
    evil = "<script>alert(1)</script>"
    bad = trial(1, Failure(stage="build", reason=evil), "a", label=evil)
    asked = replace(study(), model_name=evil)
    text = page(document(asked, [*trials()[:1], bad], context(command=evil)))
    assert evil not in text
    assert "&lt;script&gt;alert(1)" in text


def test_the_page_of_one_model_says_why_there_is_no_figure() -> None:
    """The table stays, and no drawing program is put in for nothing."""
    text = page(document(study(), trials()[:1], context()))
    assert "<svg viewBox" not in text
    assert "nothing to draw" in text
    assert 'id="vega"' not in text
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
    assert '<div class="plot">' not in done.stdout
    assert 'id="vega"' not in done.stdout
    assert "pip install &#39;edgeopt[report]&#39;" in done.stdout
    assert found["fronts"]["local"][0]["metrics"]["latency"]["text"] in done.stdout


def test_vega_is_put_together_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in the cache is taken; where nothing can be kept there, it is made all the same."""
    pytest.importorskip("vl_convert")
    first = vega_script()
    assert first is not None
    assert "vegaEmbed" in first
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "edgeopt" / "vega"
    vega_script.cache_clear()
    folder.mkdir(parents=True)
    try:
        from edgeopt.report import page_vega

        page_vega.kept_script().write_text("kept", encoding="utf-8")
        assert vega_script() == "kept"
    finally:
        vega_script.cache_clear()


def test_three_devices_with_five_hundred_candidates_stay_small() -> None:
    """Under 2.5 MB, with layers of every shown model, probes and drawn figures."""
    pytest.importorskip("vl_convert")
    text = page(large_study())
    size = len(text.encode())
    print(f"{size:,} bytes")
    assert text.count("<tr data-id=") == 1500
    assert size < LIMIT_BYTES


def test_layers_of_two_models_meet_in_the_given_one() -> None:
    """Each shown model's layers point at their partners in the given model's table."""
    data = json.loads(unpacked(page(large_study(("local",), 12)), "data"))
    built = data["built"][0]
    assert data["given"][0] in built
    assert data["take"][0] in built
    for told in built.values():
        partners = data["partners"][told["table"]]
        assert partners == list(range(len(data["layers"]["tables"][told["table"]]["value"])))


def test_the_page_tells_how_well_was_measured(found: dict[str, Any]) -> None:
    """Runs, blocks, drift and what was repeated, for all that is shown of the front."""
    text = page(found)
    assert found["quality"]["local"]
    for row in found["quality"]["local"]:
        assert row["text"] in text


def test_a_sparkline_shows_noise_as_small_as_it_is() -> None:
    """The axis spans at least 2 %: a steady model is a flat line."""
    steady = sparkline([1.0, 1.0005, 0.9995, 1.0], [])
    heights = [float(pair.split(",")[1]) for pair in re.findall(r"[\d.]+,[\d.]+", steady)]
    assert max(heights) - min(heights) < 1
    assert sparkline([1.0], []) == ""
    assert "±10.0 %" in sparkline([1.0, 1.1, 1.0], [2.0, 2.0, 2.0])


def test_a_box_stands_where_the_runs_are() -> None:
    """The median in the middle of half to twice; what is far away stands at the end."""
    drawn = box([0.5, 0.9, 1.0, 1.1, 9.0])
    assert "from 0.90 to 1.10 of the median" in drawn
    assert 'points="3.0,14.0 117.0,14.0"' in drawn
    assert 'points="60.0,8.0 60.0,20.0"' in drawn
    assert box([None, 1.0, 1.0, 1.0, 1.0]) == ""
