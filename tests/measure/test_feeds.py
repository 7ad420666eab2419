"""Feeds on their way to the agent."""

from pathlib import Path

import numpy as np
import pytest

from edgeopt.errors import DataError, StorageError
from edgeopt.measure.feeds import write_feeds


def test_equal_feeds_give_equal_bytes(tmp_path: Path) -> None:
    """Names with slashes and colons survive; nothing else is left in the folder."""
    feeds = [{"/in:0": np.full((1, 2), n, np.float32), "n": np.array([n])} for n in range(6)]
    write_feeds(feeds, tmp_path / "a.npz")
    write_feeds(feeds, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2
    with np.load(tmp_path / "a.npz") as stored:
        assert stored["5//in:0"].tolist() == [[5, 5]]


def test_nothing_to_write(tmp_path: Path) -> None:
    """No feed, or one that only Python could read, is refused."""
    with pytest.raises(DataError, match="no sample"):
        write_feeds([], tmp_path / "a.npz")
    with pytest.raises(DataError, match="input 'x'"):
        write_feeds([{"x": np.array([{}], dtype=object)}], tmp_path / "a.npz")


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    """The place is in the message, and nothing is half written."""
    with pytest.raises(StorageError, match="none"):
        write_feeds([{"x": np.zeros(1)}], tmp_path / "none" / "a.npz")
    assert list(tmp_path.iterdir()) == []
