"""Opening a device by name: its target, what it is, the profile that fits; and opening it again."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeopt.api.boards import BoardLock, SharedBoard, board_of, lock_folder
from edgeopt.api.providers import CPU, ProviderChoice, choose_provider
from edgeopt.core.device import DeviceEntry
from edgeopt.core.profile import DeviceProfile
from edgeopt.core.protocols import Target
from edgeopt.errors import ConnectionLostError, DeviceError, EdgeOptError
from edgeopt.targets.devices import resolve
from edgeopt.targets.open import open_target
from edgeopt.targets.profiles import (
    disagreement,
    fit_profile,
    load_profile,
    match_profile,
    search_path,
)

PROBE_S = 120.0
PROVE_S = 300.0
"""A provider that compiles may build an engine even for the small model."""
_BACK_OFF_S = (5.0, 10.0, 20.0, 40.0, 60.0)


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device that answers.

    Args:
        name: As the user gave it.
        entry: How it is reached.
        target: The live door; its jobs wait until the board is free.
        board: Held while anything runs on its board.
        facts: What the agent found out about the machine.
        fingerprint: Digest of the facts that change a measurement.
        profile: Of its kind.
        provider: What its sessions are opened with.
        remarks: What a reader of its numbers should know, one sentence each.
        twin: The twin that stands in for it; empty where it is the device itself.
    """

    name: str
    entry: DeviceEntry
    target: Target
    board: BoardLock
    facts: Mapping[str, Any]
    fingerprint: str
    profile: DeviceProfile
    provider: ProviderChoice
    remarks: tuple[str, ...] = ()
    twin: str = ""

    @property
    def here(self) -> bool:
        """Whether it runs on this very machine, whose own work disturbs it."""
        return self.entry.kind != "replay" and self.facts.get("boot_id") == _boot_id()


class Boards:
    """One lock a board, shared by the devices on it.

    Args:
        waiting: Told who holds a board, where that takes long.
    """

    def __init__(self, waiting: Callable[[str], None] | None = None) -> None:
        self._waiting = waiting
        self._locks: dict[str, BoardLock] = {}

    def lock(self, board: str) -> BoardLock:
        """The board's lock."""
        if board not in self._locks:
            self._locks[board] = BoardLock(board, lock_folder(), self._waiting)
        return self._locks[board]


@contextmanager
def open_device(
    name: str, folder: Path, boards: Boards | None = None, *, project: Path | None = None
) -> Generator[Device]:
    """Start the agent on a device and ask what the device is; ends the agent when left.

    Args:
        name: As the user gave it.
        folder: Where the agent's file is kept.
        boards: Locks of the boards; new ones when left out.
        project: Folder of the project, whose devices and profiles count; the working directory
            when left out.

    Raises:
        UsageError: No such device.
        DeviceError: It does not answer.
    """
    device = _opened(name, folder, boards or Boards(), project)
    try:
        yield device
    finally:
        device.target.close()


class Door:
    """A device that is opened again when its connection is lost.

    Args:
        name: Of the device.
        folder: Where the agent's file is kept.
        boards: Locks of the boards.
        progress: Told what is waited for.
        stopped: Asked while waiting.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        boards: Boards,
        progress: Callable[[str], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._folder, self._boards = folder, boards
        self._progress, self._stopped = progress, stopped
        self.device = _opened(name, folder, boards)

    def reopened(self, left_s: float, error: ConnectionLostError) -> Device:
        """The same device again, or its twin in its place.

        Raises:
            ConnectionLostError: Neither came back within that time.
        """
        self.device.target.close()
        names = [name for name in (self.device.name, self.device.entry.twin) if name]
        end = time.monotonic() + left_s
        for wait_s in _waits():
            for name in names:
                found = self._try(name)
                if found is not None:
                    self.device = found
                    return found
            if self._stopped() or time.monotonic() + wait_s > end:
                raise error
            self._progress(f"{self.device.name} is away ({error.what}); trying again")
            self._pause(wait_s)
        raise error

    def _try(self, name: str) -> Device | None:
        """The device of that name under this one's, where it answers and is of the same kind."""
        try:
            found = _opened(name, self._folder, self._boards)
        except DeviceError:
            return None
        except EdgeOptError as error:
            self._progress(f"{name} cannot take over: {error.what}")
            return None
        if found.fingerprint != self.device.fingerprint:
            found.target.close()
            self._progress(f"{name} is another machine, or was changed: not used in place of it")
            return None
        if name == self.device.name:
            return found
        self._progress(f"{name} takes over the jobs of {self.device.name}")
        return _renamed(found, self.device)

    def _pause(self, wait_s: float) -> None:
        end = time.monotonic() + wait_s
        while time.monotonic() < end and not self._stopped():
            time.sleep(0.2)

    def close(self) -> None:
        """End the agent."""
        self.device.target.close()


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _waits() -> Generator[float]:
    yield from _BACK_OFF_S
    while True:
        yield _BACK_OFF_S[-1]


def _renamed(twin: Device, of: Device) -> Device:
    remark = on_twin(twin.name)
    return Device(
        name=of.name,
        entry=of.entry,
        target=twin.target,
        board=twin.board,
        facts=twin.facts,
        fingerprint=twin.fingerprint,
        profile=of.profile,
        provider=of.provider,
        remarks=tuple(dict.fromkeys((*of.remarks, remark))),
        twin=twin.name,
    )


def on_twin(name: str) -> str:
    """What a reader must know where a twin measured."""
    return f"part of the measurements were taken on its twin {name}"


def _opened(name: str, folder: Path, boards: Boards, project: Path | None = None) -> Device:
    project = project or Path.cwd()
    entry = resolve(name, project=project)
    target = open_target(entry, folder=folder)
    try:
        facts = target.request("probe", deadline_s=PROBE_S)
        if not facts["ok"]:
            error = facts["error"]
            raise DeviceError(
                f"the agent cannot say what the device is: {error['text']}",
                where=name,
                hint=str(error["hint"]),
            )
        # A recorded board is not this machine, though it may have been recorded on it.
        board = boards.lock(f"replay {name}" if entry.kind == "replay" else board_of(facts, name))
        profile, remarks = _profile(entry, facts, project)
        shared = SharedBoard(target, board)
        facts = {**facts, **_proven(shared, entry, profile, facts)}
        provider = choose_provider(entry, profile, facts)
        # Which types are fast is a fact of the provider.
        profile = profile.on(provider.provider)
    except BaseException:
        target.close()
        raise
    return Device(
        name=name,
        entry=entry,
        target=shared,
        board=board,
        facts=facts,
        fingerprint=str(facts["fingerprint"]),
        profile=profile,
        provider=provider,
        remarks=remarks,
    )


def _proven(
    target: Target, entry: DeviceEntry, profile: DeviceProfile, facts: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Which providers run a small model; asked only where another than the CPU's may be used."""
    listed = set(facts.get("providers") or ())
    wanted = {entry.provider, *profile.providers} - {"", CPU}
    if not entry.provider and not wanted & listed:
        return {}
    found = target.request("prove", deadline_s=PROVE_S)
    return {"providers_proven": found["providers"]} if found["ok"] else {}


def _profile(
    entry: DeviceEntry, facts: Mapping[str, Any], project: Path
) -> tuple[DeviceProfile, tuple[str, ...]]:
    folders = search_path(project)
    if not entry.profile:
        return match_profile(facts, folders), ()
    chosen = fit_profile(load_profile(entry.profile, folders), facts)
    warning = disagreement(chosen, facts, folders)
    return chosen, (warning,) if warning else ()
