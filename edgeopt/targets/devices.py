"""Device names: what each one means, and the files and variables that say so.

The first that knows the name wins: a variable `EDGEOPT_DEVICE_<NAME>` (CI runners), the project's
files, the user's devices file, and at last ssh itself: any other name is tried as a host, so that
`--device jetson` works wherever `ssh jetson` works. `local` is always this machine.
"""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgeopt.core.device import DeviceEntry
from edgeopt.errors import ConfigError, UsageError
from edgeopt.targets.device_tables import entry_from, entry_from_variable, read_table
from edgeopt.targets.ssh_hosts import host_aliases

LOCAL = "local"
VARIABLE = "EDGEOPT_DEVICE_"
PROJECT_FILES = ("edgeopt-devices.toml", "edgeopt.toml")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """An entry before it is read: where it stands and what it says."""

    origin: str
    value: object
    folder: Path
    project: Path

    def read(self, name: str) -> DeviceEntry:
        if isinstance(self.value, str):
            return entry_from_variable(name, self.value, origin=self.origin, folder=self.folder)
        return entry_from(
            name, self.value, origin=self.origin, folder=self.folder, project=self.project
        )


def devices_file(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's devices file: EDGEOPT_DEVICES, else `~/.config/edgeopt/devices.toml`."""
    if named := environ.get("EDGEOPT_DEVICES"):
        return Path(named).expanduser()
    base = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".config"
    return Path(base) / "edgeopt" / "devices.toml"


def check_name(name: str) -> str:
    """The name itself, where it can be one.

    Raises:
        UsageError: Spaces, slashes, or a leading dash, which ssh would take for an option.
    """
    if _NAME.fullmatch(name):
        return name
    raise UsageError(
        f"{name!r} cannot be the name of a device",
        hint="letters, digits and . _ - @ only, and no dash in front; "
        "for another host write: edgeopt device add NAME --host HOST",
    )


def resolve(
    name: str, *, project: Path | None = None, environ: Mapping[str, str] = os.environ
) -> DeviceEntry:
    """What a device name means.

    Args:
        name: As the user gave it.
        project: Folder of the project; the working directory when left out.
        environ: Environment variables.

    Raises:
        UsageError: It cannot be a name.
        ConfigError: Its entry says something that cannot be; the message names file and key.
    """
    check_name(name)
    if name == LOCAL:
        return DeviceEntry(name=LOCAL, kind="local", origin="this machine")
    found = _find(name, project, environ)
    if found is None:
        return DeviceEntry(name=name, origin=_as_host(name, project, environ))
    entry = found.read(name)
    _check_twin(entry, project, environ)
    return entry


def list_devices(
    *, project: Path | None = None, environ: Mapping[str, str] = os.environ
) -> tuple[DeviceEntry, ...]:
    """`local` and every configured device, sorted by name; ssh hosts without an entry not.

    Raises:
        ConfigError: An entry says something that cannot be.
    """
    names = sorted({name for name, _ in _all(project, environ)} - {LOCAL})
    return tuple(resolve(name, project=project, environ=environ) for name in (LOCAL, *names))


def device_names(
    *, project: Path | None = None, environ: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Every name worth offering, sorted: configured devices, ssh hosts, `local`. Never raises."""
    try:
        configured = {name for name, _ in _all(project, environ)}
    except ConfigError:
        configured = set[str]()
    return tuple(sorted({LOCAL, *configured, *host_aliases()}))


def nearest(
    name: str, *, project: Path | None = None, environ: Mapping[str, str] = os.environ
) -> str:
    """The known name most like this one; empty where none is."""
    known = [each for each in device_names(project=project, environ=environ) if each != name]
    return next(iter(difflib.get_close_matches(name, known, n=1)), "")


def _find(name: str, project: Path | None, environ: Mapping[str, str]) -> _Found | None:
    return next((found for each, found in _all(project, environ, name) if each == name), None)


def _all(
    project: Path | None, environ: Mapping[str, str], sought: str = ""
) -> Iterator[tuple[str, _Found]]:
    """Names and their entries, the ones that win first."""
    folder = project or Path.cwd()
    yield from _variables(environ, folder, sought)
    for path in (*(folder / file for file in PROJECT_FILES), devices_file(environ)):
        for name, value in read_table(path).items():
            if name == LOCAL:
                raise ConfigError(
                    f"devices.{LOCAL} cannot be changed: {LOCAL} is always this machine as it is",
                    where=str(path),
                    hint='give it another name and kind = "local"',
                )
            yield name, _Found(origin=str(path), value=value, folder=path.parent, project=folder)


def _variables(
    environ: Mapping[str, str], folder: Path, sought: str
) -> Iterator[tuple[str, _Found]]:
    """Variables hold names in capitals without punctuation: `my-orin` is `MY_ORIN`."""
    for variable, value in sorted(environ.items()):
        if not variable.startswith(VARIABLE) or variable == VARIABLE or not value:
            continue
        same = variable == variable_of(sought)
        name = sought if same else variable[len(VARIABLE) :].lower().replace("_", "-")
        yield name, _Found(origin=variable, value=value, folder=folder, project=folder)


def variable_of(name: str) -> str:
    """The environment variable that may describe a device of this name."""
    return VARIABLE + re.sub(r"[^A-Z0-9]", "_", name.upper())


def _as_host(name: str, project: Path | None, environ: Mapping[str, str]) -> str:
    if name in host_aliases():
        return "host of the ssh configuration"
    near = nearest(name, project=project, environ=environ)
    return "no entry of that name, tried as a host" + (f" (did you mean {near!r}?)" if near else "")


def _check_twin(entry: DeviceEntry, project: Path | None, environ: Mapping[str, str]) -> None:
    if not entry.twin:
        return
    if entry.twin == entry.name:
        raise ConfigError(
            f"devices.{entry.name}.twin is the device itself",
            where=entry.origin,
            hint="name another board of the same kind, or leave it out",
        )
    known = device_names(project=project, environ=environ)
    if entry.twin in known or _find(entry.twin, project, environ) is not None:
        return
    near = difflib.get_close_matches(entry.twin, known, n=1)
    raise ConfigError(
        f"devices.{entry.name}.twin names {entry.twin!r}, and there is no such device",
        where=entry.origin,
        hint=f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}",
    )
