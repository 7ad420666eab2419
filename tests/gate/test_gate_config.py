"""edgeopt.toml and edgeopt.lock: what is wrong is said with file and line."""

import datetime
from pathlib import Path

import pytest

from edgeopt.errors import ConfigError
from edgeopt.gate.config import read_gate
from edgeopt.gate.lines import line_of, lines_of
from edgeopt.gate.lock import Receipt, read_lock, write_lock

HEAD = '[gate]\nmodel = "net.onnx"\n'
SIZE = '[[gate.budget]]\nmetric = "size"\nmax = "4 MB"\n'


def _read(folder: Path, text: str):
    path = folder / "edgeopt.toml"
    path.write_text(text)
    return read_gate(path)


def test_a_whole_file(tmp_path):
    """Limits in SI, changes as shares, ids by default, lines for annotations."""
    text = HEAD + SIZE
    text += '[[gate.budget]]\nmetric = "latency.p50"\ndevice = "jetson"\nmax = "12 ms"\n'
    text += 'max_regression = "3%"\ntolerance = "2%"\nlevel = "warn"\n'
    text += '[[gate.budget]]\nid = "drop"\nmetric = "accuracy"\nmax_drop = "1pt"\nmin = "90%"\n'
    text += '[[gate.budget]]\nmetric = "macs"\nmax = "1.2M"\n'
    text += '[[gate.waiver]]\nbudget = "size"\nceiling = "5 MB"\nuntil = 2027-03-01\nreason = "x"\n'
    gate = _read(tmp_path, text)
    assert [b.id for b in gate.budgets] == ["size", "latency.p50@jetson", "drop", "macs"]
    assert [b.limit for b in gate.budgets] == [4e6, 0.012, 0.9, 1.2e6]
    assert [b.change for b in gate.budgets] == [None, 0.03, 0.01, None]
    assert [b.line for b in gate.budgets] == [3, 6, 13, 18]
    assert gate.budgets[1].level == "warn"
    assert gate.budgets[1].tolerance == pytest.approx(0.02)
    waiver = gate.waiver_of(gate.budgets[0])
    assert waiver is not None
    assert (waiver.ceiling, waiver.until) == (5e6, datetime.date(2027, 3, 1))
    assert gate.model == tmp_path / "net.onnx"
    assert gate.lock == tmp_path / "edgeopt.lock"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[[gate.budget]]\nmetric = "siez"\nmax = "1 MB"\n', 4, "did you mean 'size'"),
        ('[[gate.budget]]\nmetric = "size"\nmax = "4 ms"\n', 5, "no known unit of size"),
        ('[[gate.budget]]\nmetric = "size"\nmax = 4\n', 5, "no known unit of size"),
        ('[[gate.budget]]\nmetric = "size"\nmaxx = "4 MB"\n', 5, "did you mean 'max'"),
        ('[[gate.budget]]\nmetric = "size"\n', 3, "allows nothing yet"),
        ('[[gate.budget]]\nmetric = "size"\nmin = "4 MB"\n', 5, "does not fit size"),
        ('[[gate.budget]]\nmetric = "accuracy"\nmax = "4 MB"\n', 5, "does not fit accuracy"),
        ('[[gate.budget]]\nmetric = "latency.p50"\nmax = "4 ms"\n', 3, "name a device"),
        ('[[gate.budget]]\nmetric = "size"\nmax = "4 MB"\ntolerance = 3\n', 6, "a percentage"),
        ('[[gate.budget]]\nmetric = "size"\nmax = "4 MB"\nlevel = "err"\n', 6, "there is no level"),
        (SIZE + SIZE, 3, "two budgets are called 'size'"),
        (SIZE + '[[gate.waiver]]\nbudget = "sise"\n', 7, "did you mean 'size'"),
        (SIZE + '[[gate.waiver]]\nbudget = "size"\nuntil = "soon"\n', 8, "must be a day"),
        (SIZE + '[[gate.waiver]]\nbudget = "size"\nuntil = 2027-01-01\n', 6, "needs a reason"),
        ("[gate.budget]\nmetric = 3\n", 3, "two brackets"),
        ("budget = [1]\n", 3, "two brackets"),
        (
            '[[gate.budget]]\nmetric = "load"\ndevice = "b"\nmax_regression = "3%"\n',
            6,
            "only latency.p50",
        ),
    ],
)
def test_what_is_wrong_is_said_where(tmp_path, text, line, words):
    """One message each, never a trace."""
    with pytest.raises(ConfigError) as caught:
        _read(tmp_path, HEAD + text)
    assert f"edgeopt.toml:{line}" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "[tool]\n", "[gate]\n", "[gate\n"])
def test_files_that_are_no_gate(tmp_path, text):
    """Empty, of something else, without a model, no TOML."""
    with pytest.raises(ConfigError, match=r"edgeopt\.toml"):
        _read(tmp_path, text)


def test_no_file(tmp_path):
    """The hint says where to read how to write one."""
    with pytest.raises(ConfigError, match="no such file"):
        read_gate(tmp_path / "edgeopt.toml")


def test_lines_of_tables_in_tables():
    """Arrays of tables, quoted keys, and text that looks like a header."""
    text = '[a]\nx = """\n[b]\ny = 1\n"""\n[[a.b]]\n"q r" = 1\n[[a.b]]\nz = 2\n[a.b.c]\nw = 3\n'
    lines = lines_of(text)
    assert line_of(lines, "a", "x") == 2
    assert ("b",) not in lines
    assert line_of(lines, "a", "b", 0, "q r") == 7
    assert line_of(lines, "a", "b", 1, "z") == 9
    assert line_of(lines, "a", "b", 1, "c", "w") == 11
    assert line_of(lines, "a", "b", 1, "unknown") == 8


def _receipt(**more):
    fields = {
        "metric": "latency.p50",
        "device": "jetson",
        "kind": "jetson-nano abc",
        "protocol": "normal",
        "model": "sha256:1",
        "value": 0.0123,
        "low": 0.0121,
        "high": 0.0125,
        "recorded": "2027-01-31",
    }
    return Receipt(**{**fields, **more})


def test_receipts_come_back(tmp_path):
    """A new one takes the place of the old one, comments stay, and nothing else is left."""
    path = tmp_path / "edgeopt.lock"
    write_lock(path, [_receipt(device="gone"), _receipt(), _receipt(metric="energy")])
    path.write_text("# ours\n" + path.read_text().replace('kind = "j', '# a note\nkind = "j'))
    write_lock(path, [_receipt(metric="energy"), _receipt(value=0.5)])
    assert [(r.metric, r.value) for r in read_lock(path)] == [
        ("latency.p50", 0.5),
        ("energy", 0.0123),
    ]
    assert path.read_text().startswith("# ours\n")
    assert path.read_text().count("# a note") == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [("value = 0.0123", "value = 0.0001"), ("seal = ", "sael = "), ('kind = "', 'kind = "x')],
)
def test_a_receipt_written_by_hand_is_refused(tmp_path, old, new):
    """With its line and the command that writes it."""
    path = tmp_path / "edgeopt.lock"
    write_lock(path, [_receipt()])
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=r"edgeopt\.lock:\d+") as caught:
        read_lock(path)
    assert "gate update" in caught.value.hint


def test_a_refused_lock_is_written_anew(tmp_path):
    """As the message says."""
    path = tmp_path / "edgeopt.lock"
    write_lock(path, [_receipt(), _receipt(metric="energy")])
    path.write_text(path.read_text().replace("value = 0.0123", "value = 0.0001"))
    write_lock(path, [_receipt()])
    assert [r.metric for r in read_lock(path)] == ["latency.p50"]


@pytest.mark.parametrize(
    "text",
    [
        "version = 2\n",
        "version = \n",
        "[[receipt]]\n",
        "version = 1\n[receipt]\nx = 1\n",
        "version = 1\nreceipt = 5\n",
    ],
)
def test_locks_of_another_kind(tmp_path, text):
    """Newer, damaged, without a version."""
    path = tmp_path / "edgeopt.lock"
    path.write_text(text)
    with pytest.raises(ConfigError):
        read_lock(path)
