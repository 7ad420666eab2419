"""The workspace while several devices use it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from edgeopt.api.workspace import ensure_folder


def test_threads_may_check_one_folder_at_once(tmp_path: Path):
    """No check takes away what another one has just written."""
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(ensure_folder, tmp_path / "models") for _ in range(400)]:
            done.result()
    assert not list((tmp_path / "models").iterdir())
