"""ArtifactStore: files that are sound or absent."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeopt.core import digest as digests
from edgeopt.core.protocols import Artifacts
from edgeopt.errors import StorageError
from edgeopt.store.artifacts import ArtifactStore


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_it_is_what_core_asks_for(tmp_path: Path) -> None:
    """The protocol's verbs are there."""
    assert isinstance(ArtifactStore(tmp_path), Artifacts)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300))
def test_bytes_come_back_under_their_digest(tmp_path: Path, data: bytes) -> None:
    """Whatever the content, empty included."""
    store = ArtifactStore(tmp_path)
    digest = store.store(data, ".bin")
    path = store.path(digest)
    assert digest == digests.of_bytes(data)
    assert path is not None
    assert path.read_bytes() == data
    assert store.verify(digest) == path


def test_storing_twice_keeps_one_file(tmp_path: Path) -> None:
    """The same bytes, from memory and from a file, are one artifact, written once."""
    store = ArtifactStore(tmp_path / "store")
    (tmp_path / "model.onnx").write_bytes(b"weights" * 1000)
    digest = store.store_file(tmp_path / "model.onnx", ".onnx")
    path = store.path(digest)
    assert path is not None
    written = path.stat().st_mtime_ns, path.stat().st_ino
    assert store.store(b"weights" * 1000, ".onnx") == digest
    assert ArtifactStore(tmp_path / "store").store(b"weights" * 1000, ".onnx") == digest
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == written
    assert _files(tmp_path / "store") == [path]


def test_what_is_not_stored_has_no_path(tmp_path: Path) -> None:
    """Absent is None, and verify says what to do."""
    store = ArtifactStore(tmp_path)
    absent = digests.of_bytes(b"absent")
    assert store.path(absent) is None
    with pytest.raises(StorageError, match="missing"):
        store.verify(absent)


@pytest.mark.parametrize("digest", ["sha256:../../etc/passwd", "md5:0", "", "sha256:" + "A" * 64])
def test_only_digests_are_names(tmp_path: Path, digest: str) -> None:
    """Nothing outside of the folder can be addressed."""
    with pytest.raises(ValueError, match="not a digest"):
        ArtifactStore(tmp_path).path(digest)


def test_a_damaged_file_is_noticed_and_made_again(tmp_path: Path) -> None:
    """Verify refuses it, a new store counts it as absent, storing replaces it."""
    store = ArtifactStore(tmp_path)
    digest = store.store(b"ranges" * 100, ".npz")
    path = store.path(digest)
    assert path is not None
    path.write_bytes(b"ranges" * 99 + b"spoilt")
    with pytest.raises(StorageError, match="damaged") as refused:
        store.verify(digest)
    assert refused.value.exit_code == 3
    assert ArtifactStore(tmp_path).path(digest) is None
    assert store.store(b"ranges" * 100, ".npz") == digest
    assert store.verify(digest).read_bytes() == b"ranges" * 100


def test_damage_is_replaced_without_being_read_first(tmp_path: Path) -> None:
    """Storing the same bytes over a spoilt file repairs it."""
    digest = ArtifactStore(tmp_path).store(b"weights", ".bin")
    path = ArtifactStore(tmp_path).verify(digest)
    path.write_bytes(b"")
    assert ArtifactStore(tmp_path).store(b"weights", ".bin") == digest
    assert path.read_bytes() == b"weights"


def test_leftovers_of_a_kill_are_swept_and_live_writers_are_not(tmp_path: Path) -> None:
    """A writer killed half-way leaves a file aside; the next opening removes it, not before."""
    code = (
        "import sys; from pathlib import Path; from edgeopt.store import artifacts\n"
        "def pieces():\n"
        "    yield b'half'\n"
        "    print('half', flush=True); sys.stdin.read()\n"
        "artifacts.ArtifactStore(Path(sys.argv[1]))._write(pieces(), '.bin')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        ArtifactStore(tmp_path)
        assert len(_files(tmp_path / "aside")) == 1
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
    assert len(_files(tmp_path)) == 1
    ArtifactStore(tmp_path)
    assert _files(tmp_path) == []


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    """Beyond a file size limit: a message with what to do, and no part of a file."""
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from edgeopt.store.artifacts import ArtifactStore\n"
        "from edgeopt.errors import StorageError\n"
        "store = ArtifactStore(Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "try: store.store(bytes(50_000), '.bin')\n"
        "except StorageError as error: print(error); sys.exit(error.exit_code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert "free disk space" in done.stdout
    assert _files(tmp_path) == []
