"""Devices of the user: which there are, adding one, removing one, and the kinds that are known."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from edgeopt.core.device import DeviceEntry
from edgeopt.core.profile import DeviceProfile
from edgeopt.targets import device_store, devices
from edgeopt.targets.profiles import list_profiles, load_profile, search_path
from edgeopt.targets.ssh_hosts import host_aliases


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What `edgeopt device list` says.

    Args:
        entries: `local` and every configured device.
        ssh_hosts: Hosts of the ssh configuration that have no entry: they can be used as they are.
        file: The user's devices file, there or not.
    """

    entries: tuple[DeviceEntry, ...]
    ssh_hosts: tuple[str, ...]
    file: Path


def listing(project: Path | None = None) -> Listing:
    """Every device that can be named.

    Raises:
        ConfigError: An entry says something that cannot be.
    """
    entries = devices.list_devices(project=project)
    named = {entry.name for entry in entries} | {entry.host for entry in entries}
    hosts = tuple(name for name in host_aliases() if name not in named)
    return Listing(entries=entries, ssh_hosts=hosts, file=devices.devices_file())


def add(entry: DeviceEntry) -> tuple[DeviceEntry, Path]:
    """Write an entry into the user's devices file; returns what the name means from now on.

    Raises:
        UsageError: Its name cannot be one.
        ConfigError: It says something that cannot be.
        StorageError: The file cannot be written.
    """
    path = device_store.save(entry)
    return devices.resolve(entry.name), path


def remove(name: str) -> Path:
    """Delete an entry of the user's devices file; returns the file.

    Raises:
        UsageError: The file has no such entry.
        StorageError: The file cannot be written.
    """
    return device_store.remove(name)


def described(entry: DeviceEntry) -> dict[str, object]:
    """An entry as a JSON document holds it: name, kind, origin and all that is not the default."""
    values = dataclasses.asdict(entry)
    default = dataclasses.asdict(DeviceEntry(name=entry.name))
    always = {key: values[key] for key in ("name", "kind", "origin")}
    return always | {key: value for key, value in values.items() if value != default[key]}


def how(entry: DeviceEntry) -> str:
    """How a device is reached, in a few words."""
    if entry.kind == "ssh":
        return f"ssh {entry.host or entry.name}"
    if entry.kind == "replay":
        return f"recording {entry.recording}"
    return entry.exec or entry.python or "this machine"


def profiles() -> tuple[DeviceProfile, ...]:
    """All hardware profiles, the project's own included.

    Raises:
        ConfigError: A profile's file is wrong.
    """
    folders = search_path(Path.cwd())
    return tuple(load_profile(name, folders) for name in list_profiles(folders))


def profile_text(name: str) -> str:
    """The file of a profile, as it is: its comments and sources belong to it.

    Raises:
        ConfigError: There is none of that name, or its file is wrong.
    """
    folders = search_path(Path.cwd())
    load_profile(name, folders)
    found = next(
        folder / f"{name}.toml" for folder in folders if (folder / f"{name}.toml").is_file()
    )
    return found.read_text(encoding="utf-8")
