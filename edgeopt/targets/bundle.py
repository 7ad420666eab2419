"""The agent as one file: a zipapp with equal bytes for equal sources."""

import hashlib
import os
import zipfile
from pathlib import Path

import edgeopt
from edgeopt.errors import EdgeOptError, StorageError

_EPOCH = (1980, 1, 1, 0, 0, 0)


def sources() -> dict[str, bytes]:
    """The agent's files by their path in the bundle.

    Raises:
        EdgeOptError: They are not there: the installation is damaged.
    """
    folder = Path(edgeopt.__file__).parent / "device_agent"
    found = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*.py"))
        if path != folder / "__init__.py"
    }
    if "__main__.py" not in found:
        raise EdgeOptError(
            "the agent's files are missing", where=str(folder), hint="install edgeopt again"
        )
    return found


def agent_bundle(folder: Path) -> Path:
    """Write the agent into a folder, named by its digest; nothing is done where it is there.

    Raises:
        StorageError: The folder cannot be written.
    """
    files = sources()
    digest = hashlib.sha256()
    for name, data in files.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    place = folder / f"agent-{digest.hexdigest()[:12]}.pyz"
    if place.exists():
        return place
    aside = folder / f".{place.name}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                entry = zipfile.ZipInfo(name, date_time=_EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, data)
        aside.replace(place)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise StorageError(
            f"the agent cannot be written: {error.strerror or error}",
            where=str(folder),
            hint="free space there, or choose another folder",
        ) from error
    return place
