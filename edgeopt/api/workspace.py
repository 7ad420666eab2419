"""The folder in which edgeopt keeps what it knows: trials, artifacts, built models.

`.edgeopt/` stands in the working directory, as `.git/` does; `--store` or EDGEOPT_STORE name
another one. Reports go elsewhere (`reports/`): what runs write there is never read back.
"""

import os
import shutil
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edgeopt.core.closing import Closing
from edgeopt.errors import StorageError
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.store.trials import TrialStore

DEFAULT = Path(".edgeopt")


@dataclass(frozen=True, slots=True)
class Workspace(Closing):
    """An open workspace; closes its store when left."""

    folder: Path
    trials: TrialStore
    artifacts: ArtifactStore

    @staticmethod
    def open(folder: Path | None = None) -> "Workspace":
        """Open or create a workspace.

        Raises:
            StorageError: The folder cannot be written, or its store is damaged.
        """
        place = (folder or Path(os.environ.get("EDGEOPT_STORE", DEFAULT))).absolute()
        ensure_folder(place)
        return Workspace(
            folder=place,
            trials=TrialStore.open(place),
            artifacts=ArtifactStore(place / "artifacts"),
        )

    @property
    def found_by_itself(self) -> bool:
        """Whether a command that is given here finds it without being told."""
        return self.folder == Path(os.environ.get("EDGEOPT_STORE", DEFAULT)).absolute()

    def model_path(self, study: str, recipe_digest: str) -> Path:
        """Where the built model of a recipe lies while it is worth keeping."""
        folder = self.folder / "models" / study
        ensure_folder(folder)
        return folder / f"{recipe_digest.removeprefix('sha256:')[:16]}.onnx"

    def keep_models(self, study: str, paths: Iterable[Path]) -> None:
        """Delete every built model of a study but these; each can be built again.

        What begins with a dot is about to become a model, or is another thread's check.
        """
        kept = {path.name for path in paths}
        kept |= {f"{name}.data" for name in kept}
        for path in (self.folder / "models" / study).glob("*"):
            if path.name not in kept and path.name[0] != "." and path.is_file():
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the store."""
        self.trials.close()


def ensure_folder(folder: Path) -> None:
    """Create a folder and see that a file can be written in it.

    Raises:
        StorageError: It cannot.
    """
    # Threads of one process ask at the same time: each has a file of its own.
    probe = folder / f".writable-{os.getpid()}-{threading.get_ident()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"edgeopt")
        probe.unlink()
    except OSError as error:
        free = shutil.disk_usage(folder if folder.is_dir() else Path.cwd()).free
        raise StorageError(
            f"this folder cannot be written: {error.strerror or error}",
            where=str(folder),
            hint="free some space" if free < 1 << 20 else "choose another with --out or --store",
        ) from error
