"""Writing the user's devices file: comments and order stay, defaults are not written."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from edgeopt.core.device import DeviceEntry
from edgeopt.core.written import write_whole
from edgeopt.errors import ConfigError, UsageError
from edgeopt.targets.device_tables import KEYS, entry_from
from edgeopt.targets.devices import LOCAL, check_name, devices_file

_HEADER = "Devices of edgeopt, one table each: docs/devices.md names every key."


def save(entry: DeviceEntry, path: Path | None = None) -> Path:
    """Write an entry, in place of one of the same name; returns the file.

    Raises:
        UsageError: Its name cannot be one, or is `local`.
        ConfigError: It says something that cannot be, or the file is no TOML.
        StorageError: The file cannot be written.
    """
    if check_name(entry.name) == LOCAL:
        raise UsageError(
            f"{LOCAL} is always this machine as it is", hint="give the device another name"
        )
    place = path or devices_file()
    values = written(entry)
    entry_from(entry.name, values, origin=str(place), folder=place.parent, project=Path.cwd())
    document = _read(place)
    devices: Any = document.setdefault("devices", tomlkit.table(is_super_table=True))
    if entry.name not in devices:
        devices[entry.name] = tomlkit.table()
    table: Any = devices[entry.name]
    for key in KEYS:
        if key in values:
            table[key] = values[key]
        elif key in table:
            del table[key]
    _write(place, tomlkit.dumps(document))  # pyright: ignore[reportUnknownMemberType]
    return place


def remove(name: str, path: Path | None = None) -> Path:
    """Delete an entry; returns the file.

    Raises:
        UsageError: The file has no such entry.
        StorageError: The file cannot be written.
    """
    place = path or devices_file()
    document = _read(place)
    devices: Any = document.get("devices", {})
    if name not in devices:
        known = ", ".join(devices) or "none"
        raise UsageError(
            f"there is no device {name!r} to remove", where=str(place), hint=f"it has: {known}"
        )
    del devices[name]
    _write(place, tomlkit.dumps(document))  # pyright: ignore[reportUnknownMemberType]
    return place


def written(entry: DeviceEntry) -> Mapping[str, Any]:
    """What a file has to say about an entry: all that is not the default."""
    default = DeviceEntry(name=entry.name)
    values = dataclasses.asdict(entry)
    return {key: values[key] for key in KEYS if values[key] != getattr(default, key)}


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        document = tomlkit.document()
        document.add(tomlkit.comment(_HEADER))
        document.add(tomlkit.nl())
        return document
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the file cannot be read: {error}", where=str(path), hint="see docs/devices.md"
        ) from error
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise ConfigError(
            f"the file is no TOML: {error}", where=str(path), hint="mend it, then try again"
        ) from error


def _write(path: Path, text: str) -> None:
    """Aside and renamed; a link (dotfiles kept elsewhere) stays a link."""
    hint = "name another file with EDGEOPT_DEVICES"
    write_whole(path, text, what="the devices file cannot be written", hint=hint)
