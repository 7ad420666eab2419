"""What proves nothing is never green, whatever is missing, damaged or forged; in one process."""

import datetime
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from edgeopt.api.gate import check
from edgeopt.api.gate_case import GateRequest
from edgeopt.errors import EdgeOptError
from edgeopt.gate.lock import Receipt, read_lock, write_lock
from edgeopt.gate.verdicts import Verdicts
from edgeopt.graph.read import read_model
from tests.conftest import DIGITS

TODAY = datetime.date(2027, 1, 31)
AWAY = "no-such-board.invalid"
SIZE = '[[gate.budget]]\nmetric = "size"\nmax = "200 kB"\n'
LATENCY = f'[[gate.budget]]\nmetric = "latency.p50"\ndevice = "{AWAY}"\nmax = "10 ms"\n'
CHANGE = f'[[gate.budget]]\nmetric = "latency.p50"\ndevice = "{AWAY}"\nmax_regression = "5%"\n'
WARN = LATENCY + 'level = "warn"\n'
WAIVER = f'[[gate.waiver]]\nbudget = "latency.p50@{AWAY}"\nuntil = 2999-01-01\nreason = "later"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with one model."""
    shutil.copy(DIGITS / "digits.onnx", tmp_path / "net.onnx")
    return tmp_path


def _receipt(folder: Path, **more: object) -> Receipt:
    fields: dict[str, object] = {
        "metric": "latency.p50",
        "device": AWAY,
        "kind": "board 1",
        "protocol": "normal",
        "model": read_model(folder / "net.onnx").digest,
        "value": 0.001,
        "low": 0.0009,
        "high": 0.0011,
        "recorded": "2027-01-01",
    }
    return Receipt(**{**fields, **more})


def _check(folder: Path, text: str, **more: object) -> Verdicts:
    (folder / "edgeopt.toml").write_text('[gate]\nmodel = "net.onnx"\n' + text)
    request = GateRequest(config=folder / "edgeopt.toml", today=TODAY, **{"measure": False, **more})
    return check(request, lambda _: None)


def _code(folder: Path, text: str, **more: object) -> int:
    """What the process would end with."""
    try:
        return _check(folder, text, **more).code
    except EdgeOptError as error:
        return error.exit_code


def _forged(folder: Path) -> None:
    """Better figures typed over measured ones."""
    write_lock(folder / "edgeopt.lock", [_receipt(folder, value=9.0, low=9.0, high=9.0)])
    lock = folder / "edgeopt.lock"
    lock.write_text(lock.read_text().replace("9.0", "0.001"))


def _written(folder: Path, text: str) -> None:
    (folder / "edgeopt.lock").write_text(text)


def _held(**more: object) -> Callable[[Path], None]:
    return lambda folder: write_lock(folder / "edgeopt.lock", [_receipt(folder, **more)])


LOCKS: dict[str, Callable[[Path], object]] = {
    "deleted": lambda _: None,
    "of no bytes": lambda folder: _written(folder, ""),
    "a folder": lambda folder: (folder / "edgeopt.lock").mkdir(),
    "no TOML": lambda folder: _written(folder, "<<<<<<< HEAD\n"),
    "without receipts": lambda folder: _written(folder, "version = 1\n"),
    "newer": lambda folder: _written(folder, "version = 2\n"),
    "written by hand": lambda folder: _written(
        folder, 'version = 1\n[[receipt]]\nmetric = "latency.p50"\nvalue = 0.001\n'
    ),
    "forged": _forged,
    "of another model": _held(model="sha256:" + "0" * 64),
    "of another device": _held(device="other"),
    "of another protocol": _held(protocol="quick"),
    "of another metric": _held(metric="energy"),
    "of something infinite": _held(low=0.0, high=float("inf")),
}
BUDGETS = {
    "limit": LATENCY,
    "change": CHANGE,
    "waived": LATENCY + WAIVER,
    "with size": SIZE + LATENCY,
}


@pytest.mark.parametrize("lock", LOCKS)
def test_without_a_receipt_it_is_never_green(project: Path, lock: str):
    """Not for any budget that needs one, nor where noise may pass."""
    LOCKS[lock](project)
    for budgets, undecided in itertools.product(BUDGETS.values(), ("fail", "pass", "report")):
        if lock == "of something infinite" and undecided != "fail":
            continue  # the interval of a single look is noise, which was told to pass
        assert _code(project, budgets, undecided=undecided) in (2, 4), (lock, budgets, undecided)


def test_with_a_receipt_it_is_green(project: Path):
    """So the test above can fail; a change still wants its base."""
    _held()(project)
    assert _code(project, LATENCY) == 0
    assert _code(project, SIZE + LATENCY) == 0
    assert _code(project, CHANGE) == 4
    assert _code(project, LATENCY.replace("10 ms", "0.5 ms")) == 1


@pytest.mark.parametrize("text", ["", "budget = []\n", WARN, WARN + WAIVER])
@pytest.mark.parametrize("undecided", ["fail", "pass", "report"])
def test_no_budgets_or_only_advice(project: Path, text: str, undecided: str):
    """Emptied, or all of them warnings that have no evidence."""
    assert _code(project, text, undecided=undecided) in (4, 5)


@pytest.mark.parametrize("undecided", ["fail", "pass", "report"])
def test_an_unplugged_device_is_never_green(project: Path, undecided: str):
    """With or without a lock; the lock's word is told, and a limit that it misses counts."""
    assert _code(project, LATENCY, measure=True, undecided=undecided) == 3
    _held()(project)
    verdicts = _check(project, LATENCY, measure=True, undecided=undecided)
    assert verdicts.code == 3
    (finding,) = verdicts.findings
    assert finding.status == "device"
    assert "by the lock alone: 1 ms" in finding.message
    assert finding.evidence is not None
    assert _code(project, SIZE + LATENCY, measure=True, undecided=undecided) == 3
    assert _code(project, LATENCY.replace("10 ms", "0.5 ms"), measure=True) == 1


def test_why_there_is_no_evidence_is_said(project: Path):
    """Which of the reasons it is, and what to do where."""
    told = []
    for lock in ("deleted", "without receipts", "of another model", "of another protocol"):
        LOCKS[lock](project)
        (finding,) = _check(project, LATENCY).findings
        assert f"run `edgeopt gate update` where {AWAY} is" in finding.message
        told.append(finding.message)
    assert "there is no edgeopt.lock" in told[0]
    assert "no receipt for it" in told[1]
    assert "about another model, measured on 2027-01-01" in told[2]
    assert "protocol quick, not normal" in told[3]


@pytest.mark.parametrize("lock", ["written by hand", "forged", "no TOML", "newer"])
def test_a_lock_that_is_refused_names_its_line(project: Path, lock: str):
    """And the command that writes a new one."""
    LOCKS[lock](project)
    with pytest.raises(EdgeOptError, match=r"edgeopt\.lock:\d+: .*\n.*edgeopt gate update"):
        _check(project, LATENCY)


def test_two_receipts_after_a_merge(project: Path):
    """The one on this model counts, whichever stands first."""
    old = _receipt(project, model="sha256:" + "0" * 64)
    write_lock(project / "edgeopt.lock", [old])
    first = (project / "edgeopt.lock").read_text()
    write_lock(project / "edgeopt.lock", [_receipt(project)])
    second = (project / "edgeopt.lock").read_text().partition("[[receipt]]")[2]
    (project / "edgeopt.lock").write_text(f"{first}\n[[receipt]]{second}")
    assert len(read_lock(project / "edgeopt.lock")) == 2
    assert _code(project, LATENCY) == 0


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ('protocol = "fast"\n' + SIZE, "edgeopt.toml:3", "no protocol 'fast'"),
        ('metric = "top9"\n' + SIZE, "edgeopt.toml:3", "no accuracy metric called 'top9'"),
        (
            'data = "nowhere.npz"\n[[gate.budget]]\nmetric = "accuracy"\nmin = "9%"\n',
            ":3)",
            "no such",
        ),
        ("lock = 3\n" + SIZE, "edgeopt.toml:3", "a text in quotes"),
        (SIZE.replace("200 kB", "1e999 MB"), "edgeopt.toml:5", "allows everything"),
        (SIZE + 'tolerance = "100%"\n', "edgeopt.toml:6", "no tolerance"),
        (LATENCY.replace(AWAY, "a b"), "edgeopt.toml:3", "cannot be the name of a device"),
        (LATENCY + 'profile = "pi5"\n', "edgeopt.toml:7", "not both"),
    ],
)
def test_what_cannot_be_meant(project: Path, text: str, where: str, words: str):
    """Two for the exit code, and the line to mend."""
    with pytest.raises(EdgeOptError, match=words) as caught:
        _check(project, text, measure="a b" in text)
    assert where in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "Git LFS pointer"),
        (b"\x08\x07 no model", "edgeopt.toml:2"),
    ],
)
def test_models_that_are_none(project: Path, content: bytes | None, words: str):
    """With the line that names the file."""
    (project / "net.onnx").unlink()
    if content is not None:
        (project / "net.onnx").write_bytes(content)
    with pytest.raises(EdgeOptError, match=words) as caught:
        _check(project, SIZE)
    assert "edgeopt.toml:2" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("until", "code"), [("2027-01-31", 0), ("2027-01-30", 1)])
def test_an_expired_waiver(project: Path, until: str, code: int):
    """Its line is named; the last day still counts."""
    waiver = f'[[gate.waiver]]\nbudget = "size"\nuntil = {until}\nreason = "new head"\n'
    verdicts = _check(project, SIZE.replace("200", "100") + waiver)
    assert verdicts.code == code
    said = verdicts.findings[0].message
    assert ("line 6 ended on 2027-01-30" in said) == (code == 1)


def test_a_waiver_that_nothing_needs(project: Path):
    """It would hide the next miss."""
    waiver = '[[gate.waiver]]\nbudget = "size"\nuntil = 2027-03-01\nreason = "new head"\n'
    (finding,) = _check(project, SIZE + waiver).findings
    assert (finding.status, finding.notes) == (
        "pass",
        ("the waiver of line 6 is not needed: delete it",),
    )


def test_digests_are_of_content(project: Path):
    """A receipt follows the model, not the file's name."""
    _held()(project)
    (project / "net.onnx").rename(project / "moved.onnx")
    assert _code(project, LATENCY, model=project / "moved.onnx") == 0


def test_the_static_gate(project: Path):
    """Only what the file decides; what was left out is said, and nothing at all is no pass."""
    verdicts = _check(project, SIZE + LATENCY, static=True, measure=True)
    assert (verdicts.code, len(verdicts.findings)) == (0, 1)
    assert "1 that the file alone does not decide not asked for" in verdicts.headline
    assert _code(project, SIZE.replace("200", "100") + LATENCY, static=True) == 1
    assert _code(project, LATENCY, static=True) == 5
