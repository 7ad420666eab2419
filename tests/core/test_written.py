"""A file is whole or as it was."""

import os

import pytest

from edgeopt.core.written import write_whole
from edgeopt.errors import StorageError


def test_a_file_is_replaced_with_its_mode_and_through_links(tmp_path):
    """Nothing else is left in the folder."""
    held = tmp_path / "held.toml"
    held.write_text("old")
    held.chmod(0o600)
    link = tmp_path / "link.toml"
    link.symlink_to(held)
    write_whole(link, "new", what="the file", hint="")
    assert (held.read_text(), held.stat().st_mode & 0o777) == ("new", 0o600)
    assert link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["held.toml", "link.toml"]


def test_what_cannot_be_written_leaves_the_old(tmp_path):
    """The message says which file, why, and what to do."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "inside").write_text("kept")
    with pytest.raises(StorageError, match="the lock cannot be written") as caught:
        write_whole(folder, "new", what="the lock cannot be written", hint="look there")
    assert caught.value.hint == "look there"
    assert (folder / "inside").read_text() == "kept"
    assert os.listdir(tmp_path) == ["place"]
