"""Several devices in one report: every format, and what is said of them together."""

import json
import re
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from json_schema import breaches
from report_factory import (
    OBJECTIVES,
    SPEEDS,
    context,
    device_trials,
    measurement,
    study,
    three_devices,
    trial,
    trials,
)

from edgeopt.core.measurement import Failure, Overhead
from edgeopt.core.objective import Objective
from edgeopt.report.costs import ledger
from edgeopt.report.document import document
from edgeopt.report.markdown import markdown
from edgeopt.report.page import page
from edgeopt.report.table import table
from edgeopt.report.terminal import terminal

SCHEMA = json.loads(files("edgeopt.report").joinpath("schema.json").read_text(encoding="utf-8"))
NAMES = tuple(SPEEDS)
WITH_ENERGY = (OBJECTIVES[0], Objective(metric="energy"), *OBJECTIVES[1:])


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    asked = replace(study(devices=NAMES), objectives=WITH_ENERGY)
    return document(asked, three_devices(), context(profiles={"jetson": "Jetson Orin Nano"}))


def _regret(found: dict[str, Any], pick_of: str, used_on: str) -> dict[str, Any]:
    rows = found["across"]["regret"]
    return next(r for r in rows if (r["pick_of"], r["used_on"]) == (pick_of, used_on))


def test_it_meets_the_schema(found: dict[str, Any]) -> None:
    """With three devices, as with one, which has no such section."""
    assert list(breaches(json.loads(json.dumps(found, allow_nan=False)), SCHEMA, SCHEMA)) == []
    alone = document(study(), device_trials("local", 0), context())
    assert alone["across"] is None
    assert list(breaches(alone, SCHEMA, SCHEMA)) == []


def test_each_device_has_its_own_pick_and_front(found: dict[str, Any]) -> None:
    """The same recipes stand elsewhere on each device."""
    assert {d: found["verdict"][d]["take"] for d in NAMES} == {
        "local": "c2",
        "jetson": "c11",
        "lab-arm64": "c24",
    }


def test_energy_on_one_device_only_breaks_nothing(found: dict[str, Any]) -> None:
    """It is an objective where it was measured and absent with a reason elsewhere."""
    assert found["devices"]["jetson"]["energy_scopes"] == ["board"]
    assert found["fronts"]["jetson"][0]["metrics"]["energy"]["unit"] == "J"
    assert all("energy" not in p["metrics"] for p in found["fronts"]["local"])
    assert any("energy: the device has no power" in line for line in found["unknown"]["local"])
    assert {p["standing"] for p in found["candidates"]["local"]} <= {"front", "dominated", "equal"}


def test_a_pick_used_elsewhere_has_its_price(found: dict[str, Any]) -> None:
    """Both measured on the device where it is used."""
    own = _regret(found, "jetson", "jetson")
    assert (own["value"], own["text"]) == (0.0, "own pick")
    used = _regret(found, "local", "jetson")
    assert (used["pick"], used["id"]) == ("c2", "c12")
    assert used["value"] == pytest.approx(0.9 / 0.4 - 1, rel=0.05)
    assert used["low"] < used["value"] < used["high"]
    assert re.fullmatch(r"\+\d+ % \[\d+, \d+\]", used["text"])


def test_one_model_for_all_has_the_smallest_worst_price(found: dict[str, Any]) -> None:
    """Recipe a: 46 % slower than b on local, best on the Jetson, 20 % slower on the third."""
    robust = found["across"]["robust"]
    assert robust["minimax"]["ids"] == {"local": "c1", "jetson": "c11", "lab-arm64": "c21"}
    assert robust["minimax"]["worst"] == pytest.approx(0.7 / 0.48 - 1, rel=0.05)
    assert robust["considered"] == 5
    assert "one model for all: static_qdq: at worst +4" in found["across"]["text"][0]


def test_ranks_and_their_correlation_are_told(found: dict[str, Any]) -> None:
    """Over the five models that all three have run."""
    pairs = {tuple(each["devices"]): each for each in found["across"]["correlations"]}
    assert set(pairs) == {("local", "jetson"), ("local", "lab-arm64"), ("jetson", "lab-arm64")}
    assert all(each["count"] == 5 for each in pairs.values())
    ranks = {row["ids"]["local"]: row["ranks"] for row in found["across"]["ranks"]}
    assert ranks["c2"] == {"local": 1, "jetson": 3, "lab-arm64": 2}


def test_what_was_not_measured_there_is_not_told() -> None:
    """Left out, failed, or beyond a bound: a reason in place of a number."""
    broken = trial(11, measurement(0.4, 380_000, 0.5), "b", device="jetson")
    failed = trial(12, Failure(stage="load", reason="no kernel"), "b", device="jetson")
    for outcome, said in (
        (None, "not measured there"),
        (failed, "failed there in load: no kernel"),
        (broken, "breaks a bound there (accuracy)"),
    ):
        more = [] if outcome is None else [outcome]
        some = [t for t in three_devices() if t.device == "local" or t.number == 10]
        made = document(study(devices=("local", "jetson")), [*some, *more], context())
        cell = _regret(made, "local", "jetson")
        assert (cell["value"], cell["text"]) == (None, said)
        assert any(said in sentence for sentence in made["across"]["text"])
        assert list(breaches(made, SCHEMA, SCHEMA)) == []


def test_devices_without_any_trial_are_told_of() -> None:
    """A device that was never reached has no pick: no model serves all."""
    made = document(study(devices=("local", "gone")), device_trials("local", 0), context())
    assert made["across"]["robust"]["minimax"] is None
    assert _regret(made, "local", "gone")["text"] == "gone has no pick"
    assert list(breaches(made, SCHEMA, SCHEMA)) == []
    for render in (terminal, markdown, page, table):
        assert "gone" in render(made) or render is table


def test_bounds_are_each_devices_own() -> None:
    """The given model is worse on one device, and so is what is allowed there."""
    own = {"jetson": (OBJECTIVES[0], replace(OBJECTIVES[2], bound=0.95))}
    made = document(
        study(devices=("local", "jetson")),
        [*device_trials("local", 0), *device_trials("jetson", 10)],
        context(objectives_of=own, decidable_drop_of={"jetson": 0.02}),
    )
    assert made["fronts"]["local"]
    assert not made["fronts"]["jetson"]
    assert "under 2.00 pt" in made["unknown"]["jetson"][0]
    assert "under 0.81 pt" in made["unknown"]["local"][0]


@pytest.mark.parametrize("count", [2, 3, 4, 6, 12])
def test_the_terminal_keeps_to_a_page(count: int) -> None:
    """Whatever the number of devices and the length of their names, of notes and of failures."""
    names = tuple(f"{(*NAMES, 'a-board-with-a-very-long-name')[n % 4]}-{n}" for n in range(count))
    trials = [t for n, name in enumerate(names) for t in device_trials(name, 10 * n)]
    bad = [trial(990, Failure(stage="build", reason="because " * 90), "z", device=names[0])]
    notes = tuple("one more thing to know about the study " * 4 for _ in range(9))
    made = document(study(devices=names), [*trials, *bad], context(unknown=notes, checked=notes))
    lines = terminal(made).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    assert sum("TAKE" in line for line in lines) == min(count, 8)
    assert any(line.startswith("across ") for line in lines)
    assert any(line.startswith("next ") for line in lines)
    assert any("more devices: see the report" in line for line in lines) == (count > 8)


def test_every_number_of_the_terminal_comes_from_the_document(found: dict[str, Any]) -> None:
    """Nothing is computed or rounded while printing."""
    number = re.compile(r"\d+(?:\.\d+)?")
    known = set(number.findall(json.dumps(found, ensure_ascii=False)))
    assert set(number.findall(terminal(found))) <= known


def test_emulated_time_and_the_scope_of_energy_are_shown(found: dict[str, Any]) -> None:
    """In every format that a person reads."""
    assert found["devices"]["lab-arm64"]["emulated"] is True
    assert found["devices"]["jetson"]["text"].startswith("Jetson Orin Nano; CPU; energy of the")
    for render in (terminal, markdown, page):
        assert "time is emulated" in render(found)
        assert "energy (board)" in render(found) or render is terminal
    assert "lab-arm64: time is emulated, generic-arm64" in terminal(found)
    assert "verdict  lab-arm64 (time is emulated): take" in terminal(found)
    assert "time on lab-arm64 is emulated: prices" in found["across"]["text"][1]


def test_one_emulated_device_says_so_on_the_terminal() -> None:
    """Also where it is the only one."""
    made = document(study(devices=("lab-arm64",)), device_trials("lab-arm64", 0), context())
    assert "lab-arm64: (generic-arm64; CPU; time is emulated)" in terminal(made)


def test_energy_has_its_column_on_one_device() -> None:
    """In place of the latency's interval; never without what the sensor sees."""
    made = document(study(devices=("jetson",)), device_trials("jetson", 0), context())
    assert "energy (board)" in terminal(made)
    assert max(map(len, terminal(made).splitlines())) <= 100


def test_how_outputs_differ_from_the_hosts_is_reported(found: dict[str, Any]) -> None:
    """For every member of a front whose outputs were compared."""
    told = found["across"]["numerics"]
    assert {each["device"] for each in told} == {"lab-arm64"}
    assert {each["id"] for each in told} >= {p["id"] for p in found["fronts"]["lab-arm64"]}
    for render in (markdown, page):
        assert "0.4 % of the range" in render(found)


def test_markdown_and_page_hold_the_section(found: dict[str, Any]) -> None:
    """Regret as text, prices, ranks, and the ledger by device."""
    for render in (markdown, page):
        text = render(found)
        assert "Across devices" in text
        assert _regret(found, "local", "jetson")["text"] in text
        assert "can serve all devices" in text
        for each in found["ledger"]["devices"]:
            assert each["text"] in text
        for each in ("deadline misses", "build"):
            assert each in text.replace("_", " ")
    assert page(found).count('class="heat"') == 15


def test_the_csv_tells_devices_apart(found: dict[str, Any]) -> None:
    """One row a trial, with its device."""
    rows = table(found).splitlines()
    assert len(rows) == 1 + len(three_devices())
    assert sum(row.startswith("jetson,") for row in rows) == 5


def test_builds_and_uploads_are_part_of_the_price() -> None:
    """Seconds on devices that measured nothing are named; where there are none, nothing is."""
    mine = trials()[0]
    overhead = Overhead(builds=2, build_s=90.0, upload_s=5.0)
    told = ledger([replace(mine, overhead=overhead), replace(mine, overhead=overhead)], ["local"])
    assert told["overhead"] == {"builds": 4, "build_s": 180.0, "upload_s": 10.0}
    assert told["text"].endswith("on devices (of it 4 engine builds 3 min, uploads 10 s)")
    assert "(of it" not in ledger([mine], ["local"])["text"]
