"""From a device's entry to its live door."""

import math
import sys
from pathlib import Path

from edgeopt.core.device import DeviceEntry
from edgeopt.core.protocols import Target
from edgeopt.errors import ConfigError, DeviceError
from edgeopt.targets.board import POWER_MODE_S, BoardTarget
from edgeopt.targets.bootstrap import DEFAULT_CACHE
from edgeopt.targets.connection import LocalConnection
from edgeopt.targets.local import LocalTarget
from edgeopt.targets.meter import metered
from edgeopt.targets.pipe import Patience
from edgeopt.targets.replay import ReplayTarget
from edgeopt.targets.ssh import SshTarget

PACE = "EDGEOPT_REPLAY_PACE"
"""In a replay device's `environment`: see `docs/devices.md`."""


def open_target(entry: DeviceEntry, *, folder: Path, patience: Patience | None = None) -> Target:
    """Open a device, with its power meter where it has one; the caller closes it.

    `local` shares this machine's files; with `exec` it may be a container or another root on this
    machine, and then files are sent as to any board.

    Args:
        entry: Which device.
        folder: For the agent's file on this host.
        patience: With a device that goes away; None is the default.

    Raises:
        ConfigError: The entry lacks what its kind needs.
        ConnectionLostError: The device cannot be reached.
        DeviceError: It is reached, but the agent cannot run there.
    """
    target = _open(entry, folder, patience)
    return metered(target, command=entry.meter, scope=entry.meter_scope)


def _open(entry: DeviceEntry, folder: Path, patience: Patience | None) -> Target:
    if entry.kind == "replay":
        if not entry.recording:
            raise ConfigError(
                "a replay device needs a recording",
                where=entry.origin or entry.name,
                hint=f'recording = "file.jsonl" for {entry.name}',
            )
        return ReplayTarget(Path(entry.recording).expanduser(), pace=_pace(entry))
    if entry.kind == "ssh":
        return SshTarget(entry, folder=folder, patience=patience)
    if entry.exec:
        connection = LocalConnection(entry.name)
        return BoardTarget(entry, connection, folder=folder, silence_s=None, patience=patience)
    python = str(Path(entry.python).expanduser()) if entry.python else sys.executable
    cache = str(Path(entry.cache_dir or DEFAULT_CACHE).expanduser())
    target = LocalTarget(
        entry.name,
        folder=folder,
        python=python,
        environment={**entry.environment, "EDGEOPT_CACHE": cache},
    )
    if entry.power_mode:
        _enter_mode(target, entry)
    return target


def _pace(entry: DeviceEntry) -> float:
    """How many times the recorded durations a recording takes; 0 where the entry says nothing.

    Raises:
        ConfigError: It is no such number.
    """
    said = entry.environment.get(PACE, "0")
    try:
        pace = float(said)
    except ValueError:
        pace = math.nan
    if not 0 <= pace < math.inf:
        raise ConfigError(
            f"{PACE} is {said!r}, and must be a number from 0 on",
            where=entry.origin or entry.name,
            hint="1 takes as long as the device did, 0.5 half of that, 0 answers at once",
        )
    return pace


def _enter_mode(target: LocalTarget, entry: DeviceEntry) -> None:
    """Bring this machine into the entry's power mode; the agent puts the old one back."""
    try:
        reply = target.request("power_mode", deadline_s=POWER_MODE_S, name=entry.power_mode)
    except DeviceError:
        target.close()
        raise
    if not reply["ok"]:
        target.close()
        error = reply["error"]
        raise DeviceError(
            f"its power mode: {error['text']}", where=entry.name, hint=str(error["hint"])
        )
