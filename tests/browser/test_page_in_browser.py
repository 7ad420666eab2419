"""The page in Chromium with the network blocked: what a reader does with it, and what it says."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser, Tab
from large_report import large_study
from report_factory import context, study, trials

from edgeopt.report.document import document as begun
from edgeopt.report.page import page

DEVICES = ("local", "pi5")
COUNT = 24


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return large_study(DEVICES, COUNT)


@pytest.fixture(scope="module")
def file(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(document), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def opened(browser: Browser, file: Path) -> Tab:
    """The page, loaded and drawn."""
    tab = Tab.open(browser)
    tab.load(file)
    tab.until(lambda: tab.run("document.documentElement.dataset.drawn"), "nothing was drawn")
    return tab


@pytest.fixture
def tab(opened: Tab) -> Iterator[Tab]:
    """The page with nothing filtered."""
    opened.run("document.getElementById('clear').click()")
    yield opened
    opened.run("document.getElementById('clear').click()")


def shown(tab: Tab, device: int = 0) -> list[str]:
    """Ids of the rows of a table that can be seen, in their order."""
    rows = f".candidates[data-device='{device}'] tbody tr"
    return tab.run(
        f'[...document.querySelectorAll("{rows}")]'
        ".filter((r) => r.offsetParent).map((r) => r.dataset.id)"
    )


def centre(tab: Tab, selector: str) -> tuple[float, float]:
    """Where an element's middle is on the screen, after it was scrolled to."""
    x, y = tab.run(
        f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
        " e.scrollIntoView({ block: 'center', behavior: 'instant' });"
        " const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    return x, y


def test_nothing_is_asked_and_nothing_complains(tab: Tab, file: Path) -> None:
    """One request, the file itself; an empty console; no exception."""
    asked = [event["request"]["url"] for event in tab.told("Network.requestWillBeSent")]
    assert asked == [file.as_uri()]
    for kind in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
        assert tab.told(kind) == []


def test_another_axis_draws_another_figure(tab: Tab) -> None:
    """On every device; the colour tells something else too."""

    def choose(channel: str, name: str) -> None:
        tab.run(
            f"(() => {{ const s = document.getElementById('axis-{channel}'); s.value = '{name}';"
            " s.dispatchEvent(new Event('change')); })()"
        )

    def drawn() -> str:
        return tab.run("document.documentElement.dataset.drawn")

    titles = (
        "[...document.querySelectorAll('.plot .role-axis-title text')].map((t) => t.textContent)"
    )
    assert drawn() == "ratio accuracy size"
    choose("x", "peak_memory")
    choose("c", "kind")
    tab.until(lambda: drawn() == "peak_memory accuracy kind", "the figure was not drawn again")
    assert tab.run(titles).count("peak memory, MB (less is better)") == len(DEVICES)
    legends = "[...document.querySelectorAll('.plot .role-legend-label')].map((l) => l.textContent)"
    assert "".join(tab.run(legends)).count("beside the front") == len(DEVICES)
    assert tab.told("Runtime.consoleAPICalled") == []
    choose("x", "ratio")
    choose("c", "size")
    tab.until(lambda: drawn() == "ratio accuracy size", "the figure was not drawn again")


def test_the_same_axes_everywhere(tab: Tab) -> None:
    """Two devices can be compared by eye."""
    ends = "explorer.figures.map(({ view }) => view.scale('x').domain().join())"
    tab.run("document.getElementById('same').click()")
    tab.until(lambda: len(set(tab.run(ends))) == 1, "the axes differ")
    tab.run("document.getElementById('same').click()")
    tab.run("explorer.drawing")


def test_a_brush_filters_table_and_figures(tab: Tab) -> None:
    """Drawn with the pointer along an axis: what lies outside is gone from tables and figures."""
    everything = [shown(tab, device) for device in (0, 1)]
    x, y = centre(tab, "#parallel-plot .strip:nth-of-type(2)")
    rail = tab.run("[...parallel.rails.keys()]").index("size")
    x, y = tab.run(
        f"(() => {{ const b = document.querySelectorAll('#parallel-plot .strip')[{rail}]"
        ".getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    tab.drag(x, y - 70, x, y + 10)
    low, high = tab.run("filter.ranges.get('size')")
    assert low < high
    for device in (0, 1):
        left = shown(tab, device)
        assert 0 < len(left) < len(everything[device])
        inside = tab.run(
            f"report.devices[{device}].ids.filter((_, i) => {{"
            f" const v = valueOf({device}, 'size', i); return v >= {low} && v <= {high}; }})"
        )
        assert set(left) == set(inside)
        kept = tab.run(f"explorer.figures[{device}].view.signal('kept')")
        assert set(kept) == set(left)
    said = tab.run("document.getElementById('shown').textContent")
    assert said.startswith(f"{len(shown(tab, 0)) + len(shown(tab, 1))} of ")
    faint = "document.querySelectorAll('#parallel-plot .line.out').length"
    assert tab.run(faint) > 0
    tab.run("document.getElementById('clear').click()")
    assert [shown(tab, device) for device in (0, 1)] == everything
    assert tab.run(faint) == 0


def test_a_brush_is_moved_with_keys(tab: Tab) -> None:
    """The handles are sliders: arrow keys move them, Escape clears the axis."""
    before = len(shown(tab))
    tab.run("document.querySelectorAll('#parallel-plot .handle')[1].focus()")
    for _ in range(20):
        tab.key("ArrowUp")
    handle = "document.activeElement.getAttribute('aria-valuenow')"
    assert tab.run(handle) == "40"
    assert tab.run("document.activeElement.getAttribute('role')") == "slider"
    assert len(shown(tab)) < before
    tab.key("Escape")
    assert len(shown(tab)) == before


def test_words_and_the_front_alone(tab: Tab) -> None:
    """The search field and the box beside it."""
    tab.run(
        "(() => { const f = document.getElementById('find'); f.value = 'STATIC:int8';"
        " f.dispatchEvent(new Event('input')); })()"
    )
    assert shown(tab) == ["c1"]
    tab.run("document.getElementById('clear').click()")
    tab.run("document.getElementById('only-front').click()")
    classes = "[...document.querySelectorAll('.candidates tbody tr')].filter((r) => r.offsetParent)"
    assert tab.run(f"{classes}.every((r) => r.classList.contains('front'))")


def test_tables_sort_by_keyboard(tab: Tab, document: dict[str, Any]) -> None:
    """Enter on a column's head: up, then down; what is absent stays last."""
    points = {p["id"]: p for p in document["candidates"]["local"]}
    sizes = {n: p["metrics"]["size"]["value"] for n, p in points.items() if p["metrics"]}
    tab.run("document.querySelector(\".candidates th[data-key='size'] button\").focus()")
    tab.key("Enter", "\r")
    order = shown(tab)
    head = "document.querySelector(\".candidates th[data-key='size']\").getAttribute('aria-sort')"
    assert tab.run(head) == "ascending"
    held = [sizes[name] for name in order if name in sizes]
    assert held == sorted(held)
    assert [name in sizes for name in order] == sorted((n in sizes for n in order), reverse=True)
    tab.key("Enter", "\r")
    assert tab.run(head) == "descending"
    held = [sizes[name] for name in shown(tab) if name in sizes]
    assert held == sorted(held, reverse=True)


def test_what_is_shown_can_be_taken_along(tab: Tab, document: dict[str, Any]) -> None:
    """CSV and JSON hold the rows that can be seen, in their order, with numbers in SI units."""
    tab.run("document.getElementById('only-front').click()")
    rows = list(csv.DictReader(io.StringIO(tab.run("asCsv(shownRows(1))"))))
    assert [row["id"] for row in rows] == shown(tab, 1)
    points = {p["id"]: p for p in document["candidates"]["pi5"]}
    for row in rows:
        metrics = points[row["id"]]["metrics"]
        assert float(row["latency_s"]) == pytest.approx(metrics["latency"]["value"], rel=1e-6)
        assert float(row["size_bytes"]) == metrics["size"]["value"]
        assert float(row["accuracy_low"]) == pytest.approx(metrics["accuracy"]["interval"]["low"])
    told = json.loads(tab.run("asJson(1, shownRows(1))"))
    assert told["shown"]["only_front"] is True
    assert [row["id"] for row in told["candidates"]] == shown(tab, 1)
    assert tab.run("asCsv([{ what: '=1+1' }])") == "what\n'=1+1\n"


def test_a_card_tells_of_the_point_below_the_pointer(tab: Tab) -> None:
    """And of the point that arrow keys have reached; Enter takes it to the layers."""
    take = tab.run("report.take[0]")
    place = f"placeOf(explorer.figures[0], explorer.figures[0].rows.find((r) => r.id === '{take}'))"
    card = (
        "document.getElementById('card').hidden ? '' : document.getElementById('card').textContent"
    )

    def told() -> bool:
        """Where the point is now: figures that settle late move it, even out of the window."""
        centre(tab, "figure.front .plot")
        x, y = tab.run(place)
        tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
        tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return tab.run(card).startswith(f"{take} ")

    tab.until(told, "no card at the point")
    assert "accuracy" in tab.run(card)
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    tab.run("document.querySelector('figure.front .plot').focus()")
    tab.key("ArrowRight")
    first = tab.run("looking.id")
    tab.key("ArrowRight")
    second = tab.run("looking.id")
    assert first != second
    assert tab.run(card).startswith(second)
    assert tab.run(f"rowOf(0, '{second}').classList.contains('pointed')")
    tab.key("Escape")
    assert tab.run(card) == ""


def test_layers_of_two_models(tab: Tab) -> None:
    """Given against take first: what was quantized is listed with the action that did it."""
    given, take = tab.run("report.given[0]"), tab.run("report.take[0]")
    chosen = "[...document.querySelectorAll('#layer-from, #layer-to')].map((s) => s.value)"
    assert tab.run(chosen) == [given, take]
    rows = "document.querySelectorAll('#layer-found tbody tr').length"
    text = tab.run("document.getElementById('layer-found').textContent")
    differ = tab.run(rows)
    assert 0 < differ < 120
    assert "float32 → int8" in text
    assert 'static_qdq@1 "/features/' in text
    tab.run("document.getElementById('layer-all').click()")
    assert tab.run(rows) == 120
    tab.run("document.getElementById('layer-all').click()")
    tab.run(f"layers.take(0, '{given}')")
    assert tab.run(rows) == 0


def test_dark_text_is_light(tab: Tab) -> None:
    """In the page and in the figures."""
    ink = "getComputedStyle(document.querySelector('{}')).{}"
    tab.call(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert tab.run(ink.format("body", "backgroundColor")) == "rgb(20, 24, 30)"
    assert tab.run(ink.format(".plot svg text", "fill")) == "rgb(228, 232, 238)"
    tab.call("Emulation.setEmulatedMedia", features=[])
    assert tab.run(ink.format("body", "backgroundColor")) == "rgb(255, 255, 255)"


def test_paper_shows_tables_whole(tab: Tab) -> None:
    """No controls, no scroll boxes."""
    tab.call("Emulation.setEmulatedMedia", media="print")
    display = "getComputedStyle(document.querySelector('{}')).display"
    assert tab.run(display.format("#controls")) == "none"
    assert tab.run(display.format("nav")) == "none"
    assert tab.run("getComputedStyle(document.querySelector('.scroll.tall')).maxHeight") == "none"
    tab.call("Emulation.setEmulatedMedia", media="")


def test_figures_fit_onto_paper(tab: Tab) -> None:
    """A sheet is narrower than the window in which they were drawn."""
    tab.call("Emulation.setEmulatedMedia", media="print")
    tab.resize(700, 900)
    tab.until(lambda: tab.run("innerWidth") == 700, "the window keeps its width")
    figures = "[...document.querySelectorAll('#parallel-plot svg, .plot svg')]"
    seen = f"{figures}.filter((f) => f.getClientRects().length)"
    assert tab.run(f"{seen}.length") > len(DEVICES)
    assert tab.run(f"Math.max(...{seen}.map((f) => f.getBoundingClientRect().right))") <= 700
    tab.resize(1280, 900)
    tab.call("Emulation.setEmulatedMedia", media="")


def test_a_narrow_window_does_not_scroll_sideways(tab: Tab) -> None:
    """Tables and axes scroll in their own boxes."""
    tab.resize(380, 800)
    tab.until(lambda: tab.run("innerWidth") == 380, "the window keeps its width")
    assert tab.run("document.documentElement.scrollWidth") <= 380
    tab.resize(1280, 900)


def test_without_scripts_it_is_still_a_report(browser: Browser, file: Path) -> None:
    """A drawn figure a device, whole tables, and no control that would do nothing."""
    tab = Tab.open(browser, scripts=False)
    tab.load(file)
    assert tab.run("document.querySelectorAll('figure.front svg').length") == len(DEVICES)
    rows = "[...document.querySelectorAll('.candidates tbody tr')].filter((r) => r.offsetParent)"
    assert tab.run(f"{rows}.length") == COUNT * len(DEVICES)
    controls = (
        "[...document.querySelectorAll('select, input, button')].filter((e) => e.offsetParent)"
    )
    assert tab.run(f"{controls}.length") == 0
    assert "Scripts are off" in tab.run("document.body.innerText")


@pytest.mark.parametrize("count", [0, 1])
def test_a_study_that_has_hardly_begun(browser: Browser, tmp_path: Path, count: int) -> None:
    """Nothing to draw, nothing to compare: the page says so and no script trips over it."""
    path = tmp_path / "report.html"
    path.write_text(page(begun(study(), trials()[:count], context())), encoding="utf-8")
    tab = Tab.open(browser)
    tab.load(path)
    tab.until(lambda: tab.run("document.documentElement.classList.contains('live')"), "not begun")
    assert tab.run("document.getElementById('controls').hidden")
    assert "holds nothing to compare" in tab.run("document.body.innerText")
    assert tab.told("Runtime.exceptionThrown") == []
    assert tab.told("Runtime.consoleAPICalled") == []
