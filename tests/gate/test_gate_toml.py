"""Files as editors leave them are read; what is changed in them changes nothing else."""

from pathlib import Path

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.errors import ConfigError
from edgeopt.gate.config import read_gate
from edgeopt.gate.lines import line_of, lines_of
from edgeopt.gate.lock import Receipt, read_lock, write_lock
from edgeopt.gate.toml import edit_toml, read_toml

TEXT = (
    '# first\n[gate] # ours\nmodel = "größe.onnx"\n\n'
    '[[gate.budget]]\nmetric = "size" # why\nmax = "4 MB"\n'
)
MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("mark", [b"", MARK])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_and_marks(tmp_path: Path, mark: bytes, end: str):
    """A byte order mark and Windows line ends are read, and stay; so do comments."""
    path = tmp_path / "edgeopt.toml"
    given = mark + TEXT.replace("\n", end).encode()
    path.write_bytes(given)
    gate = read_gate(path)
    assert (gate.model.name, gate.budgets[0].line) == ("größe.onnx", 5)

    def change(document: tomlkit.TOMLDocument) -> None:
        document["gate"]["budget"][0]["max"] = "5 MB"

    edit_toml(path, change)
    assert path.read_bytes() == given.replace(b"4 MB", b"5 MB")


def test_the_lock_keeps_its_line_ends(tmp_path: Path):
    """A repository that converts them gets no new ones."""
    path = tmp_path / "edgeopt.lock"
    receipt = Receipt(
        metric="load",
        device="d",
        kind="k",
        protocol="p",
        model="m",
        value=1.0,
        low=1.0,
        high=1.0,
        recorded="r",
    )
    write_lock(path, [receipt])
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    before = path.read_bytes()
    write_lock(path, read_lock(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("given", "words", "line"),
    [
        (b"[gate]\nmodel = \n", "it is no TOML: Invalid value", 2),
        (b"[gate]\nmodel = 'x", "it is no TOML", 2),
        (b"[gate]\na = 1\na = 2\n", "it is no TOML: Cannot overwrite", 3),
        (TEXT.encode("utf-16"), "no UTF-8", None),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, given: bytes, words: str, line: int | None):
    """With the line, where the parser knows it."""
    path = tmp_path / "edgeopt.toml"
    path.write_bytes(given)
    with pytest.raises(ConfigError, match=words) as caught:
        read_toml(path)
    assert caught.value.where.endswith(f"edgeopt.toml:{line}" if line else "edgeopt.toml")


def test_what_looks_like_a_header_and_is_none():
    """In strings, comments and arrays; other characters that end lines elsewhere end none here."""
    text = (
        '# a fence """ in a comment\n'
        "a = ''' \n[b]\n'''\n"
        'c = [\n  ["d"],\n  ["e"]\n]\n'
        'f = "# [g"\n'
        "# \u2028 \x0c \x85\n"
        '[h."i.j"]\n'
        "k.l = 1\n"
    )
    lines = lines_of(text)
    assert line_of(lines, "a") == 2
    assert line_of(lines, "c") == 5
    assert line_of(lines, "f") == 9
    assert line_of(lines, "h", "i.j") == 11
    assert line_of(lines, "h", "i.j", "k", "l") == 12
    assert {place[0] for place in lines} == {"a", "c", "f", "h"}


KEYS = st.from_regex(r"[a-z]{1,6}", fullmatch=True)
VALUES = st.integers() | st.text(max_size=20) | st.lists(st.text(max_size=5), max_size=3)
TABLES = st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=4), min_size=1, max_size=4)


@given(tables=TABLES)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_every_key_is_on_its_line(tables: dict[str, dict[str, object]]):
    """Whatever values stand around it."""
    text = tomlkit.dumps(tables)
    written = text.split("\n")
    lines = lines_of(text)
    for name, table in tables.items():
        for key in table:
            assert written[line_of(lines, name, key) - 1].startswith(f"{key} = ")
