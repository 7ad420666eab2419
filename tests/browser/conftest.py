"""One browser for all tests of the page, offline; skipped with the reason where there is none."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Studies come from where the report's own tests make them.
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "report"))
from chromium import MISSING, Browser, find


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A running Chromium."""
    path = find()
    if path is None:
        pytest.skip(MISSING)
    pytest.importorskip("vl_convert", reason="figures need the extra: pip install edgeopt[report]")
    started = Browser.start(path, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()
