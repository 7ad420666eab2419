"""The workspace while several devices use it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from edgeopt.api.workspace import Workspace, ensure_folder


def test_threads_may_check_one_folder_at_once(tmp_path: Path):
    """No check takes away what another one has just written."""
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(ensure_folder, tmp_path / "models") for _ in range(400)]:
            done.result()
    assert not list((tmp_path / "models").iterdir())


def test_deleting_models_leaves_what_is_being_written(tmp_path: Path):
    """One device drops its models while another one's is built and its folder is checked."""
    with Workspace.open(tmp_path) as workspace, ThreadPoolExecutor(4) as pool:
        folder = workspace.model_path("s", "sha256:" + "a" * 64).parent
        aside = folder / ".0123.onnx.tmp"
        aside.write_bytes(b"half of a model")
        checks = [pool.submit(ensure_folder, folder) for _ in range(200)]
        drops = [pool.submit(workspace.keep_models, "s", ()) for _ in range(200)]
        for done in [*checks, *drops]:
            done.result()
        assert aside.exists()
        dropped = folder / "4567.onnx"
        dropped.write_bytes(b"a model")
        workspace.keep_models("s", ())
        assert not dropped.exists()
