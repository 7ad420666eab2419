"""One browser for all tests of the page, offline; skipped with the reason where there is none."""

from collections.abc import Iterator

import pytest
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
